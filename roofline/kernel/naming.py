"""Records of the causes of a gap's factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from solkit.core import Access, Cause, Value
from solkit.roofline.kernel.launch_view import LaunchView


@dataclass(frozen=True)
class ProblemNeeds:
    """Operations and bytes that the problem needs at the least.

    Attributes:
        operations: by pipe, as in `solkit.core.Bound.flops_by_pipe`.
        dram_bytes: that must cross DRAM.
        precision: Triton's fastest precision of products of fp32 that the referee accepts; empty if
            none but the exact one is known to do.
    """

    operations: Mapping[str, float] = field(default_factory=dict)
    dram_bytes: float = 0.0
    precision: str = ""


def describe_cause(
    name: str, kernel: LaunchView, access: Access | None = None, **figures: Value
) -> Cause:
    """Return a cause in a kernel, at an access's line if known, with the kernel's language."""
    place = (access.line if access is not None else "") or kernel.name
    language = "CUDA C++" if kernel.is_cuda else "Triton"
    described = {"kernel": kernel.name, "place": place, "language": language}
    return Cause(name, {**described, **figures})


def format_count(number: int, noun: str) -> str:
    """``"1 block"``, ``"2 blocks"``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
