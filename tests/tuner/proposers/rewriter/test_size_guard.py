"""Small inputs are left to the original launches."""

from __future__ import annotations

import pytest
from naive_kernels import SOFTMAX
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter.size_guard import with_original_below
from solkit.tuner.proposers.rewriter.whole_row import WholeRow

ROWS = {"M": 4, "N": 200}


@pytest.fixture(scope="module")
def rows():
    (source,) = variants(WholeRow(), SOFTMAX, **ROWS)
    return source


def joined(source, original=HEADER + SOFTMAX, params=None, names=("x",), least=801):
    return with_original_below(source, original, params or {}, list(names), least)


def test_a_file_does_what_the_original_did_below_a_size(rows):
    source = joined(rows)
    launcher = source[source.index("def kernel(") :].splitlines()
    assert launcher[1:3] == ["    if x.numel() < 801:", "        return kernel_before(x)"]
    original = SOFTMAX[SOFTMAX.index("def kernel(") :]
    assert original.replace("def kernel(", "def kernel_before(").strip() in source


def test_functions_that_both_share_are_not_copied(rows):
    assert joined(rows).count("@triton.jit") == rows.count("@triton.jit")


def test_functions_that_differ_get_another_name(rows):
    name = next(line for line in SOFTMAX.splitlines() if line.startswith("def softmax"))
    changed = rows.replace("tl.exp(", "tl.math.exp(")
    source = joined(changed)
    assert changed != rows
    assert name.replace("(", "_before(", 1) in source


@pytest.mark.parametrize("least", [1, 801])
@pytest.mark.slow
def test_both_ways_are_right(rows, least, is_right):
    assert is_right(joined(rows, least=least), SOFTMAX, **ROWS)


def test_launchers_that_differ_are_not_joined(rows):
    other = (HEADER + SOFTMAX).replace("def kernel(x", "def kernel(x, out=None")
    assert not joined(rows, other)
    assert not joined(rows, names=())
    assert not joined("import torch\n")
