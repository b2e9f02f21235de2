"""Loads are not taken for earlier ones, nor moved, across what may write the same memory."""

from __future__ import annotations

import libcst as cst
import pytest
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter._masks import unmasked_blocks
from solkit.tuner.proposers.rewriter._memory import Pointers
from solkit.tuner.proposers.rewriter._nodes import calls_within
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter._roots import tensor_roots
from solkit.tuner.proposers.rewriter._values import reads_other_trips, without_repeats
from solkit.tuner.proposers.rewriter.loop_hoisting import Hoist
from solkit.tuner.proposers.rewriter.parallel_loops import ParallelLoops
from solkit.tuner.proposers.rewriter.vectorise import Vectorise

FILE = """
@triton.jit
def some(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    {body}


def kernel(a, b):
    some[(1,)](a, b, 3, BLOCK=16)
    return b
"""
WRITES = {
    "through another name": "tl.store(q, 1.0)",
    "as an atomic with a result": "old = tl.atomic_add(x + i, 1.0)",
    "as an exchange": "tl.atomic_xchg(x + i, 1.0)",
    "as bits": "tl.atomic_or(x + i, 1)",
    "in a sum the other way round": "tl.store(i + x, 1.0)",
    "in a function of the file": "some_helper(x, i)",
    "through a choice": "tl.store(tl.where(i < n, x + i, y + i), 1.0)",
}


def function_with(body: str):
    text = parse_kernel(HEADER + FILE.format(body=body))
    assert text is not None
    return text.functions["some"]


def loads_remaining(between: str) -> int:
    body = f"p = x + i; q = x + i + n; a = tl.load(p)\n    {between}\n    b = tl.load(p)"
    body = "\n    ".join(part.strip() for part in body.replace("\n", ";").split(";"))
    function = function_with(body)
    rewritten = without_repeats(function.body, {}, function.params)
    return sum(len(calls_within(statement, "tl.load")) for statement in rewritten)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_is_written_is_loaded_again(write):
    assert loads_remaining(write) == 2


@pytest.mark.parametrize("between", ["tl.store(y + i, 1.0)", "c = tl.exp(a)", "n = min(n, 2)"])
def test_what_is_not_written_is_loaded_once(between):
    assert loads_remaining(between) == 1


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_load_stays_in_a_loop_that_may_write_it(write):
    lines = ["q = x + i + n", "p = x + i", "for k in range(n):", "    a = tl.load(p)"]
    body = "\n    ".join([*lines, f"    {write}", "    tl.store(y + k * BLOCK + i, a)"])
    assert not any("tl.load" in text.split("for k")[0] for text in hoisted(body))


def test_a_load_leaves_a_loop_that_writes_another_tensor():
    lines = ["p = x + i", "for k in range(n):", "    a = tl.load(p)"]
    (text,) = hoisted("\n    ".join([*lines, "    tl.store(y + k * BLOCK + i, a)"]))
    assert "tl.load" in text.split("for k")[0]


def hoisted(body: str) -> list[str]:
    return variants(Hoist(), FILE.format(body=body))


@pytest.mark.parametrize(
    ("pointer", "bases"),
    [
        ("x + i * n", {"x"}),
        ("tl.multiple_of(x + i, 16)", {"x"}),
        ("(x if n > 1 else y) + i", {"x", "y"}),
        ("p", {"x", "y"}),  # it is assigned twice
        ("tl.load(x + i).to(tl.pointer_type(tl.float32))", {""}),
        ("q", {""}),  # one of two that a call gives
    ],
)
def test_parameters_that_a_pointer_may_start_from(pointer, bases):
    body = "p = x + i\n    p = y + i\n    q, r = halves(x)\n    m = n * 2"
    function = function_with(f"{body}\n    a = tl.load({pointer})")
    (call, *_) = calls_within(function.node, "tl.load")
    actual = Pointers(function.body, function.params).bases(call.args[0].value)
    assert actual == bases


@pytest.mark.parametrize(
    ("trip", "reads"),
    [
        ("tl.store(x + i + k, tl.load(x + i + k))", False),
        ("tl.store(y + i + k, tl.load(x + i + k + 1))", False),
        ("tl.store(x + i + k, tl.load(x + i + k + 1))", True),
        ("q = x + k; p = q + 1; tl.store(x + i + k, tl.load(p))", True),
        ("tl.store(q + k, tl.load(x + i + k))", True),
        ("a = tl.load(x + i + k); tl.store(x + i + k, a); tl.store(x + i + k + 1, a)", True),
    ],
)
def test_trips_that_read_what_others_write(trip, reads):
    lines = ["q = x + i + n", "for k in range(n):", *(f"    {part}" for part in trip.split("; "))]
    text = parse_kernel(HEADER + FILE.format(body="\n    ".join(lines)))
    assert text is not None
    (launch,) = text.single
    (loop,) = launch.function.loops
    assert reads_other_trips(launch, loop.node) is reads


@pytest.mark.parametrize("word", ["min", "and", "xchg"])
def test_an_atomic_without_a_mask_takes_whole_blocks(word):
    at = "x + tl.program_id(0) * BLOCK + i"
    for mask, blocks in (("", {"BLOCK"}), (", mask=i < n", set())):
        text = parse_kernel(HEADER + FILE.format(body=f"tl.atomic_{word}({at}, i{mask})"))
        assert text is not None
        assert unmasked_blocks(text.single[0]) == blocks


IN_PLACE = """
@triton.jit
def add(x, y, z, n):
    row = tl.program_id(0)
    for i in range(0, n):
        start = tl.load(z + row * n)
        value = tl.load(x + row * n + i)
        tl.store(y + row * n + i, value + start)


def kernel(a, b):
    c = torch.empty_like(b)
    add[(4,)](a, c, b, a.shape[1])
    return b
"""


@pytest.mark.parametrize(
    ("view", "is_apart"),
    [
        *(("b.view(-1)", False), ("b.detach()[1:]", False), ("b.contiguous()", False)),
        *(("torch.empty_like(b) if a.dim() else b", False), ("[a, b][-1]", False)),
        *(("torch.empty_like(b)", True), ("b.clone()", True), ("b.new_empty(b.shape)", True)),
    ],
)
def test_views_are_the_memory_of_their_tensor(view, is_apart):
    source = IN_PLACE.replace("torch.empty_like(b)", view)
    assert bool(variants(Hoist(), source)) == is_apart
    assert bool(variants(Vectorise(), source)) == is_apart
    assert bool(variants(ParallelLoops(), source)) == is_apart


@pytest.mark.parametrize(
    ("lines", "roots"),
    [
        ("y = flat(3, x)", "x"),
        ("y = torch.Tensor.view(x, -1)", "x"),
        ("y = None or x", "x"),
        ("y = x if n else z", "x z"),
        ("y = x if n else torch.empty_like(x)", "x y"),
        ("y = torch.empty_like(x)\n    if n:\n        y = x", "x y"),
        ("parts = {'first': [x]}\n    y = parts['first'][0]", "x"),
        ("for y in (x,):\n        pass", "x"),
        ("for i, y in enumerate([z, x]):\n        pass", "x z"),
        ("(y := x)", "x"),
        ("y = torch.empty_like(x)", "y"),
        ("y = empty_for(3)", "empty_for"),
        ("y = workspace(x.device)", "workspace"),
        ("y = chosen(z, x)", "x z"),
        ("y = n(x)", "n x"),
        ("y, w = torch.empty_like(x), torch.empty_like(x)\n    y, w = w, y", "w y"),
        ("y = []\n    y.append(x)", "x y"),
        ("y = [z] + [v for v in [x]]", "x z"),
        ("y = {}\n    y['first'] = x", "x y"),
        ("y = torch.empty_like(x)\n    y.copy_(x)", "y"),
        ("y = torch.empty_like(x)\n    y.set_(x)", "x y"),
        ("y = torch.mm(x, x, out=z)", "z"),
        ("y, w = x.shape[0], x", ""),
    ],
)
def test_a_name_has_the_roots_of_all_that_it_may_be_a_view_of(lines, roots):
    launcher = cst.parse_statement(f"def kernel(x, z, n):\n    {lines}\n")
    roots_of_y = tensor_roots(cst.Name("y"), cst.ensure_type(launcher, cst.FunctionDef))
    assert roots_of_y == set(roots.split())
