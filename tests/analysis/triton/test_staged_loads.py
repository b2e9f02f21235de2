"""Which loads of a loop wait in registers for a later step, read from the IR."""

import pytest

from solkit.adapters.triton_ir import parse_module
from solkit.analysis.triton.staged_loads import staged_loads

HEAD = """\
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 8], order = [1, 0]}>
#shared = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @k(%a: !tt.ptr<bf16> {tt.divisibility = 16 : i32}, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %p = tt.splat %a : !tt.ptr<bf16> -> tensor<32x64x!tt.ptr<bf16>, #blocked>
"""
POINTERS = "tensor<32x64x!tt.ptr<bf16>, #blocked>"
TILE = "tensor<32x64xbf16, #blocked>"
BUFFER = "!ttg.memdesc<32x64xbf16, #shared, #smem, mutable>"
ALL = "!ttg.memdesc<1x32x64xbf16, #shared, #smem, mutable>"
ALLOCATED = f"""\
    %all = ttg.local_alloc : () -> {ALL}
    %first = ttg.memdesc_index %all[%c0] : {ALL} -> {BUFFER}
"""
LOAD = f"      %x = tt.load %p : {POINTERS}\n"
STORE = f"      ttg.local_store %x, %next : {TILE} -> {BUFFER}\n"
INDEX = f"      %next = ttg.memdesc_index %all[%c0] : {ALL} -> {BUFFER}\n"
USE = f'      "test.use"(%y) : ({TILE}) -> ()\n'


def read(view):
    return f"      %y = ttg.local_load {view} : {BUFFER} -> {TILE}\n" + USE


def loop(*body):
    """A loop over steps that carries a view of the buffer."""
    carried = f"iter_args(%now = %first) -> ({BUFFER})"
    head = f"    %end = scf.for %i = %c0 to %n step %c1 {carried}  : i32 {{\n"
    return head + "".join(body) + f"      scf.yield %next : {BUFFER}\n    }}\n"


def staged(*code):
    text = HEAD + "".join(code) + "    tt.return\n  }\n}\n"
    return [operation.results for operation in staged_loads(parse_module(text))]


def test_a_load_that_the_next_step_reads_is_staged():
    # the step reads what the one before has stored, and stores what it has loaded at its end
    assert staged(ALLOCATED, loop(LOAD, read("%now"), INDEX, STORE)) == [("%x",)]


@pytest.mark.parametrize(
    "body",
    [
        (LOAD, INDEX, STORE, read("%next")),  # the same step reads it
        (LOAD, INDEX, STORE),  # no step reads it
        (read("%now"), INDEX),  # nothing is loaded
    ],
)
def test_other_loads_are_not(body):
    assert staged(ALLOCATED, loop(*body)) == []


def test_a_load_into_a_buffer_of_the_step_is_not_staged():
    own = f"      %z = ttg.local_alloc %x : ({TILE}) -> {BUFFER}\n"
    assert staged(ALLOCATED, loop(LOAD, own, read("%z"), INDEX)) == []


def test_a_value_made_of_the_load_counts_as_the_load():
    cast = f"      %w = arith.negf %x : {TILE}\n"
    store = STORE.replace("%x,", "%w,")
    assert staged(ALLOCATED, loop(LOAD, cast, read("%now"), INDEX, store)) == [("%x",)]
