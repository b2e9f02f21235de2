"""Causes of large factors of the gap, named only if the evidence shows them.

A cause is a name with figures; `solkit.report.advice` says what to do about each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from solkit.core import Access, Cause, Value
from solkit.roofline.kernel.followed import Followed
from solkit.roofline.kernel.model import ahead, resident, spilled

__all__ = ["CAUSES", "MATTERS", "cause_of"]

CAUSES = (
    *("bank conflicts", "bank conflicts of a turned operand", "bank conflicts of one's own layout"),
    *("dispatch", "few blocks", "launch", "launches", "little under way", "lost from L2"),
    *("narrow requests", "part-filled wave", "products alone", "repeated reads", "scalar product"),
    *("spills", "uncoalesced", "uneven blocks", "unneeded work", "waits for loads"),
    "wide product",
)
"""The names of causes."""

MATTERS = 1.05
"""No cause is sought for smaller factors."""

_WORK_MATTERS = 1.2  # below, partial tiles and online rescaling
_COALESCED = 0.6  # of the bytes in a request's sectors
_FEW_BLOCKS = 0.75  # of the SMs
_OCCUPANCY_MATTERS = 1.3  # below, any occupancy may be as good as possible


def cause_of(name: str, factor: float, kernels: Sequence[Followed]) -> Cause | None:
    """The cause of a large factor, in the longest kernel that shows one."""
    rule = _RULES.get(name)
    if factor < MATTERS or rule is None:
        return None
    longest = sorted(kernels, key=lambda kernel: -kernel.running() * kernel.count)
    return next((cause for kernel in longest if (cause := rule(kernel, factor))), None)


def _on_pipe(kernel: Followed, factor: float) -> Cause | None:  # noqa: ARG001
    operations = kernel.demand.operations
    used = max(operations, key=lambda pipe: operations[pipe], default="")
    if used == "fp32" and kernel.kernel.facts.tensor_cores is False:
        return _cause("scalar product", kernel)
    if used.startswith("tensor."):
        return _cause("wide product", kernel, dtype=used.removeprefix("tensor."))
    return None


def _on_work(kernel: Followed, factor: float) -> Cause | None:
    return _cause("unneeded work", kernel, times=factor) if factor >= _WORK_MATTERS else None


def _on_traffic(kernel: Followed, factor: float) -> Cause | None:  # noqa: ARG001
    accesses = kernel.demand.accesses
    if kernel.traffic_ms() >= MATTERS * kernel.traffic_ms(conflicts=False):
        return _conflicts(kernel)
    moved = sum(access.sector_bytes for access in accesses)
    if spilled(kernel.kernel, kernel.device)[0] > moved:
        return _spills(kernel)
    known = [access for access in accesses if access.argument]  # its location and so its sectors
    if not known:
        return None
    wasteful = max(known, key=lambda a: a.sector_bytes - a.requested_bytes)
    if wasteful.sector_bytes - wasteful.requested_bytes > 0.2 * moved:
        return _wasted(wasteful, kernel)
    again = max(known, key=lambda a: a.requested_bytes - a.unique_bytes)
    repeated = again.requested_bytes - again.unique_bytes
    if again.kind == "load" and again.unique_bytes and repeated > 0.2 * moved:
        times = again.requested_bytes / again.unique_bytes
        return _cause("repeated reads", kernel, again, argument=again.argument, times=times)
    if len(known) == len(accesses) and kernel.demand.dram_read_bytes > 1.5 * _read(known):
        most = max((a for a in accesses if a.kind == "load"), key=lambda a: a.unique_bytes)
        return _cause("lost from L2", kernel, most, argument=most.argument)
    return None


def _read(accesses: Sequence[Access]) -> int:
    """Bytes of all arguments, each by the access that reads most of it."""
    most: dict[str, int] = {}
    for access in accesses:
        if access.kind != "store":
            most[access.argument] = max(most.get(access.argument, 0), access.unique_bytes)
    return sum(most.values())


def _wasted(access: Access, kernel: Followed) -> Cause | None:
    """An access whose requests touch much more than they request."""
    if 32 * access.block_sectors < 0.7 * access.sector_bytes:  # L1 coalesces it
        if access.vector_bytes >= 16:  # warps request the same
            return None
        figures = {"vector_bytes": access.vector_bytes, "requests": access.requests}
        return _cause("narrow requests", kernel, access, kind=access.kind, **figures)
    if access.efficiency >= _COALESCED:
        return None
    asked = {"megabytes": access.requested_bytes / 1e6, "percent": 100 * access.efficiency}
    return _cause("uncoalesced", kernel, access, kind=access.kind, sectors=access.sectors, **asked)


def _spills(kernel: Followed) -> Cause:
    return _cause("spills", kernel, words=kernel.kernel.facts.spills)


def _conflicts(kernel: Followed) -> Cause:
    """Source for wgmma: PTX ISA, wgmma.mma_async: only f16 and bf16 may be transposed."""
    worst = max(kernel.demand.shared, key=lambda each: each.wavefronts - each.least_wavefronts)
    figures: dict[str, Value] = {
        "place": worst.line,
        "kind": worst.kind,
        "wavefronts": worst.wavefronts / worst.requests,
        "least": worst.least_wavefronts / worst.requests,
    }
    pipes = (pipe.removeprefix("tensor.") for pipe in kernel.demand.operations)
    turned = [pipe for pipe in pipes if pipe in ("tf32", "fp8", "int8")]
    if turned and worst.kind == "store" and kernel.demand.tensor_shared_bytes:
        return Cause("bank conflicts of a turned operand", {**figures, "dtype": turned[0]})
    if not kernel.kernel.launch.signature:  # CUDA C++
        return Cause("bank conflicts of one's own layout", figures)
    return Cause("bank conflicts", figures)


def _on_tail(kernel: Followed, factor: float) -> Cause | None:  # noqa: ARG001
    if _has_few_blocks(kernel):
        return _few_blocks(kernel)
    return _cause("uneven blocks" if kernel.demand.imbalance > 1.2 else "part-filled wave", kernel)


def _has_few_blocks(kernel: Followed) -> bool:
    return kernel.blocks < _FEW_BLOCKS * kernel.device.sm_count


def _few_blocks(kernel: Followed) -> Cause:
    return _cause("few blocks", kernel, blocks=kernel.blocks, sms=kernel.device.sm_count)


def _on_latency(kernel: Followed, factor: float) -> Cause | None:
    occupancy = kernel.kernel.occupancy
    assert occupancy is not None
    tensor = any(pipe.startswith("tensor.") for pipe in kernel.demand.operations)
    if kernel.count > 1:
        return _on_launch(kernel, factor)
    if _has_few_blocks(kernel):
        return _few_blocks(kernel)
    if kernel.kernel.facts.spills:
        return _spills(kernel)
    if kernel.demand.steps > 2 and ahead(kernel.kernel) == 1 and tensor:
        return _cause("waits for loads", kernel)
    if factor < _OCCUPANCY_MATTERS:
        return None
    if tensor and occupancy.blocks_per_sm >= 3:
        return None
    if tensor:
        there, limiter = occupancy.blocks_per_sm, occupancy.limiter
        return _cause("products alone", kernel, blocks=there, limiter=limiter)
    blocks = resident(kernel.kernel, kernel.device)
    limiter = occupancy.limiter if blocks == occupancy.blocks_per_sm else "the grid"
    warps = kernel.kernel.launch.num_warps
    return _cause("little under way", kernel, blocks=blocks, warps=warps, limiter=limiter)


def _on_dispatch(kernel: Followed, factor: float) -> Cause | None:  # noqa: ARG001
    if kernel.running() < MATTERS * kernel.running("dispatch"):
        return None
    return _cause("dispatch", kernel, evidence=kernel.term("dispatch").evidence)


def _on_launch(kernel: Followed, factor: float) -> Cause:  # noqa: ARG001
    if kernel.count > 1:
        return _cause("launches", kernel, count=kernel.count)
    return _cause("launch", kernel)


def _cause(
    name: str, kernel: Followed, access: Access | None = None, **figures: str | float | None
) -> Cause:
    """A cause in a kernel, at an access's line if known."""
    launch = kernel.kernel.launch.name
    place = (access.line if access is not None else "") or launch
    return Cause(name, {"kernel": launch, "place": place, **figures})


_RULES: Mapping[str, Callable[[Followed, float], Cause | None]] = {
    "extra work": _on_work,
    "wrong pipe": _on_pipe,
    "extra traffic": _on_traffic,
    "tail": _on_tail,
    "latency": _on_latency,
    "dispatch": _on_dispatch,
    "launch": _on_launch,
}
