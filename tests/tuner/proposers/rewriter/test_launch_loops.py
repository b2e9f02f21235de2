"""A launcher's loop of launches becomes one launch."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from rewriting import variants

from solkit.tuner.proposers.rewriter.joined_launches import JoinLaunches

BATCH = """
def reference(x, scale):
    return x * scale[:, None] + torch.arange(x.shape[0], device=x.device)[:, None, None]


def inputs(B=3, C=4, T=20, device="cuda"):
    return torch.randn(B, C, T, device=device), torch.randn(C, device=device)


@triton.jit
def scaled(x_ptr, scale_ptr, y_ptr, T, number, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = row * T + cols
    x = tl.load(x_ptr + at, mask=cols < T, other=0.0)
    y = x * tl.load(scale_ptr + row) + number
    tl.store(y_ptr + at, y, mask=cols < T)


def kernel(x, scale):
    B, C, T = x.shape
    y = torch.empty_like(x)
    for b in range(B):
        part = x[b]
        scaled[(C, triton.cdiv(T, 16))](part, scale, y[b], T, b, BLOCK=16)
    return y
"""
SIZES = {"B": 3, "C": 4, "T": 20}
HEAD_OF_LOOP = "    for b in range(B):\n        part = x[b]"


def test_a_launch_for_each_matrix_of_a_batch_is_one(is_right: Callable[..., bool]) -> None:
    (variant,) = variants(JoinLaunches(), BATCH, **SIZES)
    guarded = variant[variant.index("    if 0 < B") : variant.index("    else:")]
    assert "((C - 1) * T) + (T - 1) < y.stride(0)" in guarded
    assert "for" not in guarded
    assert is_right(variant, BATCH, **SIZES)


def test_trips_that_write_into_each_other_stay_a_loop() -> None:
    """The bound is of the largest offset: here of all rows that a program has, unmasked."""
    wide = BATCH.replace("y, mask=cols < T)", "y)")
    (variant,) = variants(JoinLaunches(), wide, **SIZES)
    condition = variant[variant.index("    if 0 < B") + 7 : variant.index(":\n        scaled")]

    class Tensor:
        def stride(self, _axis: int) -> int:
            return 80

    space: dict[str, object] = {"torch": SimpleNamespace(Tensor=Tensor)}
    exec("import triton", space)
    exec(f"def holds(B, C, T, y, x):\n    return {condition}", space)
    assert not space["holds"](3, 4, 20, Tensor(), Tensor())  # its last block ends at 3 * 20 + 31
    assert space["holds"](3, 5, 16, Tensor(), Tensor())
    assert not space["holds"](3, 5, 16, Tensor(), [Tensor()])  # which has no distance of parts


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y = torch.empty_like(x)", "y = x.new_empty(x.shape)"),
        ("scale, y[b]", "y, y[b]"),  # reads other parts of what is written
        ("(part, scale", "(y[b - 1], scale"),
        ("y[b], T", "y[0], T"),  # the last trip's stays
        ("y[b], T", "y[b // 2], T"),
        ("T, b, BLOCK", "T, b // 2, BLOCK"),
        ("T, b, BLOCK", "T, next(numbers), BLOCK"),
        ("BLOCK=16)\n    return", "BLOCK=16)\n        y[b] += 1\n    return"),
        ("return y\n", "return y[b]\n"),
        ("    tl.store(y_ptr + at", "    at = at * T\n    tl.store(y_ptr + at"),
        ("tl.store(y_ptr + at,", "tl.store(y_ptr + at - 1,"),
        ("tl.store(", "tl.atomic_add("),
        ("(C, triton.cdiv", "(b + 1, triton.cdiv"),
        (HEAD_OF_LOOP, "    held = [y]\n    for b in range(B):\n        part = held[0]"),
        (HEAD_OF_LOOP, "    held = torch.Tensor(y)\n    for b in range(B):\n        part = held"),
        (HEAD_OF_LOOP, "    for b in range(B):\n        part = [y][0]"),
        ("row = tl.program_id(0)\n", "row = (tl.program_id(0) - 2) % T\n"),  # it may be negative
        (
            "    tl.store(y_ptr + at, y, mask=cols < T)",
            "    for i in range(T - 1, -1, -1):\n        tl.store(y_ptr + row * T + i, number)",
        ),
    ],
)
def test_trips_that_may_depend_on_each_other_stay_a_loop(old: str, new: str) -> None:
    assert old in BATCH
    assert not variants(JoinLaunches(), BATCH.replace(old, new), **SIZES)
