"""AMD's accesses of global memory become the common ones."""

import pytest

from solkit.adapters.triton_amd_ir import common_accesses
from solkit.adapters.triton_ir import parse_module

HEAD = (
    "#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [4], "
    "order = [0]}>\n"
    'module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, '
    '"ttg.threads-per-warp" = 64 : i32} {\n'
    "  tt.func public @k(%a: !tt.ptr<f16>, %v: tensor<128xf16, #blocked>) "
    "attributes {noinline = false} {\n"
)
TAIL = """
    tt.return loc(#loc)
  }
}
#loc = loc("k.py":3:4)
"""


def operations(line):
    function = parse_module(HEAD + f"    {line} loc(#loc)" + TAIL)
    return function, function.blocks[0].operations


def test_a_load_has_pointers_mask_and_other():
    function, (splat, added, load, _) = operations(
        "%x = amdg.buffer_load %a[%off], %m, %o cacheModifier = ca stride = %s "
        "{contiguity = 8 : i32} : tensor<128xf16, #blocked>"
    )
    assert (function.num_warps, function.warp_threads) == (4, 64)
    assert [splat.name, added.name, load.name] == ["tt.splat", "tt.addptr", "tt.load"]
    assert (splat.operands, added.operands) == (("%a",), (splat.results[0], "%off"))
    assert load.operands == (added.results[0], "%m", "%o")
    assert load.all_types[0].pointee_bits == 16
    assert load.result_type.element == "f16"
    assert str(load.places[0]) == "k.py:3"


def test_a_store_has_its_value_second():
    _, (_, added, store, _) = operations(
        "amdg.buffer_store %v, %a[%off], %m {contiguity = 4 : i32} : tensor<128xf16, #blocked>"
    )
    assert (store.name, store.operands) == ("tt.store", (added.results[0], "%v", "%m"))


@pytest.mark.parametrize(
    ("text", "name", "operands"),
    [
        ("buffer_atomic_rmw fadd, acq_rel, gpu, %v, %a[%off], %m", "tt.atomic_rmw", ("%v", "%m")),
        ("buffer_atomic_cas acq_rel, gpu, %c, %v, %a[%off]", "tt.atomic_cas", ("%c", "%v")),
    ],
)
def test_atomics_keep_their_operands(text, name, operands):
    _, (_, added, atomic, _) = operations(f"%x = amdg.{text} : tensor<128xf16, #blocked>")
    assert (atomic.name, atomic.operands) == (name, (added.results[0], *operands))
    assert atomic.result_type.element == "f16"
    assert text.split(",")[0].split()[1] in atomic.text


def test_other_text_is_left_alone():
    text = "%x = tt.load %p : tensor<128x!tt.ptr<f16>, #blocked>\n"
    assert common_accesses(text) == text
    odd = "    %x = amdg.buffer_load_to_local %a[%off] into %d : !tt.ptr<f16>[tensor<8xi32, #b>]\n"
    assert common_accesses(odd) == odd
