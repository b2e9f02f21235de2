"""Each launch gets a function of its own."""

from __future__ import annotations

import pytest
from rewriting import HEADER, brief, variants
from test_program_fusion import PASSES, SHAPE

from solkit.tuner.proposers.rewriter import Rewriter
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.launch_copies import alike_functions
from solkit.tuner.proposers.rewriter.tile_constants import Retile


def launches(source):
    text = parse_kernel(canonical_form(HEADER + source))
    return [launch.function.name for launch in text.launches]


def test_a_loop_of_launches_is_written_out_and_each_has_its_function():
    assert launches(PASSES) == ["largest", "largest_2"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range(2)", "range(9)"),  # many
        ("range(2)", "range(N // 50)"),  # not known
        ("    return y\n", "        if p:\n            break\n    return y\n"),
        ("    return y\n", "    return y, p\n"),  # the last value
    ],
)
def test_other_loops_of_launches_stay(old, new):
    assert PASSES.count(old) >= 1
    at = PASSES.rindex(old)
    assert launches(PASSES[:at] + new + PASSES[at + len(old) :]) == ["largest"]


def test_a_branch_that_constants_decide_is_gone():
    plain = canonical_form(HEADER + PASSES)
    assert "if PASS" not in plain
    assert plain.count("tl.load(seen_ptr") == 1


@pytest.mark.parametrize("test", ["PASS > n", "BLOCK > 16", "PASS < n < 9"])
def test_a_branch_that_a_size_decides_stays(test):
    assert f"if {test}:" in canonical_form(HEADER + PASSES.replace("PASS > 0", test))


@pytest.mark.parametrize(
    ("test", "kept"),
    [("PASS == 0", 1), ("not PASS", 1), ("PASS != 0 or PASS == 0", 2), ("PASS is None", 0)],
)
def test_tests_are_decided_as_python_does(test, kept):
    plain = canonical_form(HEADER + PASSES.replace("PASS > 0", test))
    assert plain.count("tl.load(seen_ptr") == kept


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_behind_another_is_no_statement_of_its_own(flag):
    branches = "if row > 3:\n        limit = 1.0\n    elif PASS > 0:"
    source = PASSES.replace("if PASS > 0:", branches).replace("PASS=p", f"PASS={int(flag)}")
    assert branches in canonical_form(HEADER + source)


def test_what_or_gives_is_compared_by_the_compiler():
    source = PASSES.replace("if PASS > 0", "if (K or PASS) == 2")
    assert "if (K or PASS) == 2" in canonical_form(HEADER + source)


def test_a_constant_that_is_another_later_decides_nothing():
    source = PASSES.replace(
        "    if PASS > 0", "    for PASS in range(n):\n        pass\n    if PASS > 0"
    )
    assert "if PASS > 0" in canonical_form(HEADER + source)


def test_a_stride_is_no_block():
    (source,) = variants(Retile(), PASSES, **SHAPE)
    assert "K=2" in source  # as many places as the output has, whatever its name


def test_a_pointer_that_moves_on_is_a_sum():
    source = PASSES.replace(
        "    row = tl.program_id(0)\n", "    row = tl.program_id(0)\n    x_ptr += row * n\n"
    ).replace("x_ptr + row * n + cols", "x_ptr + cols")
    assert "tl.load(x_ptr + row * n + cols" in canonical_form(HEADER + source)


TWICE = """
@triton.jit
def halve(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + row * n + cols, mask=cols < n)
        tl.store(y_ptr + row * n + cols, v / 2, mask=cols < n)


def kernel(x, z):
    y, w = torch.empty_like(x), torch.empty_like(z)
    halve[(x.shape[0],)](x, y, x.shape[1], BLOCK=32)
    halve[(z.shape[0],)](z, w, z.shape[1], BLOCK=32)
    return y, w
"""


def test_what_is_done_to_one_copy_is_done_to_all():
    steps = Rewriter(depth=1, checks=False).propose(brief(TWICE, M=4, N=100))
    (rows,) = [step.source for step in steps if step.kind == "rows"]
    assert rows.count("tl.program_id(0) * ROWS") == rows.count("@triton.jit") == 2


GUARDED = """
@triton.jit
def double(x_ptr, y_ptr, rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if row >= rows:
        return
    at = row * n + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at) * 2)


def kernel(x):
    y, count = torch.empty_like(x), x.shape[0]
    rows = count
    double[(rows,)](x, y, rows, x.shape[1], BLOCK=16)
    return y
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("row >= rows", "tl.program_id(axis=0) >= rows"),
        ("row >= rows", "row == rows"),
        ("row >= rows", "row >= rows"),
        ("(rows,)](x, y, rows", "(1,)](x, y, 1"),
    ],
)
def test_a_branch_that_no_program_takes_is_gone(old: str, new: str) -> None:
    assert old in GUARDED
    assert "        return\n" not in canonical_form(HEADER + GUARDED.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(rows,)", "(rows + 1,)"),
        ("x, y, rows,", "x, y, count,"),  # another name
        ("    rows = count\n", "    rows = count\n    rows = rows // 2\n"),
        ("row >= rows", "row >= n"),
        ("row = tl.program_id(0)", "row = tl.program_id(0) + 1"),
        ("    if row >=", "    rows = rows - 1\n    if row >="),
    ],
)
def test_a_branch_that_a_program_may_take_stays(old: str, new: str) -> None:
    assert old in GUARDED
    assert "        return\n" in canonical_form(HEADER + GUARDED.replace(old, new))


PARTS = """
@triton.jit
def first(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, tl.load(x))


@triton.jit
def second(x, y, n, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    tl.store(y, tl.load(x) + n)


def kernel(x):
    y = torch.empty_like(x)
    first[(4,)](x, y, x.numel(), BLOCK=64)
    {}second[(4, 2)](x, {}, x.numel(), BLOCK=32, SPLIT=2)
    return y
"""


@pytest.mark.parametrize(
    ("place", "result", "groups"),
    [("", "y", [("first", "second")]), ("", "x", []), ("if x.numel() > 9:\n        ", "y", [])],
)
def test_launches_of_the_same_arguments_are_alike(place, result, groups):
    text = parse_kernel(HEADER + PARTS.format(place, result))
    assert alike_functions(text) == groups
