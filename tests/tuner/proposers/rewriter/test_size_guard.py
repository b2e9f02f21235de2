"""Small inputs are left to the original launches."""

from __future__ import annotations

import pytest
from naive_kernels import SOFTMAX
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.size_guard import with_original_below
from solkit.tuner.proposers.rewriter.whole_row import WholeRow

ROWS = {"M": 4, "N": 200}


@pytest.fixture(scope="module")
def rows():
    (source,) = variants(WholeRow(), SOFTMAX, **ROWS)
    return source


def joined(source, original=HEADER + SOFTMAX, params=None, least=3204):
    return with_original_below(source, original, params or {}, least)


def test_a_file_does_what_the_original_did_below_a_size(rows):
    source = joined(rows)
    launcher = source[source.index("def kernel(") :].splitlines()
    total = "sum(t.nbytes for t in (x,) if isinstance(t, torch.Tensor))"
    assert launcher[1:3] == [f"    if {total} < 3204:", "        return kernel_before(x)"]
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


@pytest.mark.parametrize("least", [1, 3204])
@pytest.mark.slow
def test_both_ways_are_right(rows, least, is_right):
    assert is_right(joined(rows, least=least), SOFTMAX, **ROWS)


def test_launchers_that_differ_are_not_joined(rows):
    other = (HEADER + SOFTMAX).replace("def kernel(x", "def kernel(x, out=None")
    assert not joined(rows, other)
    assert not joined("import torch\n")


def test_a_model_in_kernelbenchs_form_is_joined_too():
    model = (HEADER + SOFTMAX).replace("def kernel(", "def launched(")
    model += "\n\nclass ModelNew(torch.nn.Module):\n"
    model += "    def forward(self, x):\n        return launched(x)\n"
    source = joined(canonical_form(model), model)
    assert "return kernel_before(x)" in source
    assert source.count("class ModelNew") == 1


def test_functions_that_a_later_statement_changes_are_not_joined(rows):
    again = "softmax_kernel = triton.jit(softmax_kernel.fn)\n\n\ndef kernel("
    original = (HEADER + SOFTMAX).replace("def kernel(", again)
    assert not joined(rows.replace("def kernel(", again), original)
