"""The shortcut that `--explain` names for a product is one that the program has."""

from __future__ import annotations

import pytest

SHORTCUTS = {
    "a mean of all": ("R(64, 32); R(32, 48)", "return (a0 @ a1).mean()", "summed:aten.mean"),
    "a scaled sum": ("R(64, 32); R(32, 48)", "return (a0 @ a1 * 2).sum(1)", "summed:aten.sum"),
    "a pooled maximum in between": (
        "R(64, 32); R(32, 48)",
        "return F.max_pool1d(a0 @ a1, 2).sum(1)",
        "beyond:aten.max_pool2d_with_indices",
    ),
    "two products": ("R(64, 32); R(32, 48); R(48, 8)", "return a0 @ a1 @ a2", "chained:aten.mm"),
    "a triangle of the output": (
        "R(64, 32); R(32, 64)",
        "return torch.tril(a0 @ a1)",
        "selected:aten.tril",
    ),
    "a triangular operand": (
        "R(64, 64); R(64, 64)",
        "return torch.tril(a0) @ a1",
        "operand:aten.tril",
    ),
    "its own transpose": ("R(64, 32)", "return a0 @ a0.mT", ""),  # half is all that is counted
    "a plain product": ("R(64, 32); R(32, 48)", "return a0 @ a1", ""),
    "a convolution": ("R(2, 8, 16, 16); R(8, 8, 3, 3)", "return F.conv2d(a0, a1)", "transform"),
    "a convolution by points": (
        "R(2, 8, 16, 16); R(8, 8, 1, 1)",
        "return F.conv2d(a0, a1)",
        "uncounted",
    ),
    "a convolution under a mean": (
        "R(2, 8, 16, 16); R(8, 8, 3, 3)",
        "return F.conv2d(a0, a1).mean((2, 3))",
        "summed:aten.mean",
    ),
}
TABLE = {name: (*row[:2], {}, 0, 0) for name, row in SHORTCUTS.items()}


@pytest.mark.parametrize("name", SHORTCUTS)
def test_the_shortcut_is_the_programs_own(traced, name):
    work = traced(TABLE, name)
    products = [
        op for op in work.ops if any(key.startswith("contraction") for key in op.operations)
    ]
    assert products[0].shortcut == SHORTCUTS[name][2]
