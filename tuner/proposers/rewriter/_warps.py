"""Number of warps that a rewritten launch starts with; the tuner then finds the best."""

from __future__ import annotations

from solkit.tuner.proposers.rewriter._base import Facts
from solkit.tuner.proposers.rewriter._edit import Parameter
from solkit.tuner.proposers.rewriter._file import KernelText
from solkit.tuner.proposers.rewriter._rows import power_of_two

__all__ = ["WARPS", "row_warps", "size_of", "warps_for"]

WARPS = (1, 2, 4, 8, 16, 32)
_VALUES = 16
"""Elements for each thread to begin with: two 16-byte accesses of bf16, or four of fp32."""

_ROW_VALUES = (4, 8, 16, 32, 64, 128)
_LANES = 32
_MOST = 16


def warps_for(elements: int) -> int:
    """Return the warps of a block of so many elements."""
    return min(max(power_of_two(elements) // (_LANES * _VALUES), 1), _MOST)


def size_of(expression: str, facts: Facts) -> int | None:
    """Return the size that a launcher's expression stands for, by its name in the brief's shape."""
    sizes = facts.sizes
    if expression in sizes:
        return sizes[expression]
    if expression.isdigit():
        return int(expression)
    return max(sizes.values()) if len(sizes) == 1 else None


def row_warps(text: KernelText, size: str, facts: Facts) -> tuple[Parameter, str]:
    """Return a parameter and warps, an expression, for a launch whose blocks are as long as a row.

    The parameter is how many values of a row a thread holds. So rows of other lengths than the
    tuned one get warps in proportion.
    """
    columns = size_of(size, facts)
    row = power_of_two(columns) if columns is not None else _LANES * _VALUES * 8
    default = max(row // (_LANES * warps_for(row)), _ROW_VALUES[0])
    values = Parameter(text.fresh("VALUES"), default, _ROW_VALUES)
    whole = f"triton.next_power_of_2({size}) // ({_LANES} * {values.name})"
    return values, f"min(max({whole}, 1), {WARPS[-1]})"
