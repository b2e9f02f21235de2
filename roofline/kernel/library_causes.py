"""Causes of large factors in PyTorch's operators, whose own code nobody can change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from solkit.core import Cause
from solkit.core.quantities import amount
from solkit.ops import Family, operator
from solkit.roofline.kernel.launch_view import LaunchView
from solkit.roofline.kernel.naming import describe_cause

CAUSES = (
    *("library copy", "library fill", "library launches", "library operator", "library product"),
    "library product in fp32",
)
"""The names of causes that are found here."""

_KINDS: Mapping[Family, str] = {
    Family.COPY: "copy",
    Family.FILL: "fill",
    Family.PRODUCT: "product",
    Family.CONVOLUTION: "product",
}
_TELLING = 0.2  # of what all operators move
_MOST_LINES = 3  # named


def in_traffic(kernels: Sequence[LaunchView], factor: float) -> Cause | None:
    """Return the operator that moves most, if operators cause at least half of what is too much.

    A product, whose bytes few can save, is named only if no other operator matters.

    Args:
        kernels: all launches.
        factor: of the extra traffic.
    """
    library = [kernel for kernel in kernels if kernel.library]
    if not library or _traffic_ms(library) < 0.5 * _traffic_ms(kernels) * (1 - 1 / factor):
        return None
    others = [kernel for kernel in library if _operator_kind(kernel.name) != "product"]
    listed = others if _traffic_ms(others) > _TELLING * _traffic_ms(library) else library
    by_name: dict[str, list[LaunchView]] = {}
    for kernel in listed:
        by_name.setdefault(kernel.name, []).append(kernel)
    name, worst = max(by_name.items(), key=lambda item: _traffic_ms(item[1]))
    calls = _launches(worst)
    return describe_cause(
        f"library {_operator_kind(name)}",
        worst[0],
        place=_calling_lines(worst),
        times=f", in {calls} calls" if calls > 1 else "",
        moved=amount(_moved_bytes(worst), "B"),
        percent=100 * _time_share(worst, kernels),
    )


def on_launches(kernels: Sequence[LaunchView]) -> Cause | None:
    """Return operators, if most launches are theirs."""
    library = [kernel for kernel in kernels if kernel.library]
    if 2 * _launches(library) <= _launches(kernels):
        return None
    most = max(library, key=lambda kernel: kernel.count)
    theirs, every = _launches(library), _launches(kernels)
    return describe_cause(
        "library launches", most, place=_calling_lines([most]), count=theirs, every=every
    )


def explain_scalar_product(kernel: LaunchView) -> Cause | None:
    """Return a product in fp32, which PyTorch leaves to the scalar pipe by default."""
    if kernel.pipe != "fp32" or _operator_kind(kernel.name) != "product":
        return None
    return describe_cause("library product in fp32", kernel, place=_calling_lines([kernel]))


def _operator_kind(name: str) -> str:
    """Return the kind of an operator, as causes call it."""
    return _KINDS.get(operator(name).family, "operator")


def _traffic_ms(kernels: Sequence[LaunchView]) -> float:
    return sum(kernel.traffic_ms * kernel.count for kernel in kernels)


def _launches(kernels: Sequence[LaunchView]) -> int:
    return sum(kernel.count for kernel in kernels)


def _moved_bytes(kernels: Sequence[LaunchView]) -> float:
    demands = ((k.demand, k.count) for k in kernels)
    return sum(n * (demand.dram_read_bytes + demand.dram_write_bytes) for demand, n in demands)


def _time_share(some: Sequence[LaunchView], kernels: Sequence[LaunchView]) -> float:
    """Return the share in the time of all."""
    part, whole = (sum(k.running() * k.count for k in ks) for ks in (some, kernels))
    return part / whole if whole else 0.0


def _calling_lines(kernels: Sequence[LaunchView]) -> str:
    """Return the lines that call them, the first three."""
    lines = list(dict.fromkeys(kernel.kernel.launch.line or kernel.name for kernel in kernels))
    more = f" and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
    return ", ".join(lines[:_MOST_LINES]) + more
