"""How many warps a rewritten launch starts with; the tuner then finds the best."""

from __future__ import annotations

from solkit.tuner.proposers.rewriter._base import Facts
from solkit.tuner.proposers.rewriter._edit import Parameter
from solkit.tuner.proposers.rewriter._file import KernelText, Launch
from solkit.tuner.proposers.rewriter._rows import power_of_two
from solkit.tuner.proposers.rewriter._syntax import code

__all__ = ["WARPS", "row_warps", "size_of", "warps_for", "warps_parameter"]

WARPS = (1, 2, 4, 8, 16, 32)
_VALUES = 16
"""Elements for each thread to begin with: two 16-byte accesses of bf16, or four of fp32."""

_LANES = 32
_MOST = 16


def warps_for(elements: int) -> int:
    """The warps of a block of so many elements."""
    return min(max(power_of_two(elements) // (_LANES * _VALUES), 1), _MOST)


def size_of(expression: str, facts: Facts) -> int | None:
    """The size that a launcher's expression stands for, by its name in the brief's shape."""
    sizes = facts.sizes
    if expression in sizes:
        return sizes[expression]
    if expression.isdigit():
        return int(expression)
    return max(sizes.values()) if len(sizes) == 1 else None


def row_warps(text: KernelText, launch: Launch, size: str, facts: Facts) -> Parameter:
    """The parameter for the warps of a launch whose blocks are as long as a row."""
    known = size_of(size, facts)
    return warps_parameter(text, launch, warps_for(known) if known is not None else 8)


def warps_parameter(text: KernelText, launch: Launch, default: int) -> Parameter:
    """The parameter behind a launch's warps: the launcher's own, if it has one."""
    current = launch.options.get("num_warps")
    own = {p.name.value for p in text.launcher.params.kwonly_params}
    if current is not None and code(current) in own:
        return Parameter(code(current), default, WARPS)
    if "num_warps" not in own:
        return Parameter("num_warps", default, WARPS)
    return Parameter(text.fresh("num_warps"), default, WARPS)
