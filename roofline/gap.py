"""A kernel's time over the speed of light, as a product of named factors.

The speed of light is made into the kernel's own time in steps, each of which adds one thing that
the kernel does or meets; a factor is one step over the one before, so that all of them multiply to
the gap. Steps are times from `solkit.roofline.kernel_model`'s terms, over all launches of a call:

=================  ================================================================================
extra work         its operations, each on the pipe that the bound chose
wrong pipe         the same on the pipes that it uses
extra traffic      what its own loads and stores move, from DRAM, L2, L1 and shared memory
sustained rates    what the resources keep up, as calibration measured it, in place of ceilings
tail               the fullest SM in place of the mean
latency            what does not hide behind the busiest resource: occupancy, stages, dependences
dispatch           blocks that begin one by one, where that outlasts what they do
launch             launches, and the time between kernels where that was measured
clock              the SM clock that was seen, where the kernel hangs on it
unexplained        the measured time over all that
=================  ================================================================================

Advice is given only where a factor matters and its evidence says what causes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from solkit.core import (
    Access,
    Bound,
    Demand,
    Device,
    Gap,
    GapFactor,
    KernelAnalysis,
    Measurement,
    Term,
)
from solkit.roofline.kernel_model import ahead, resident, spilled, together

__all__ = ["FACTORS", "gap", "modelled_ms"]

FACTORS = (
    *("extra work", "wrong pipe", "extra traffic", "sustained rates", "tail", "latency"),
    *("dispatch", "launch", "clock", "unexplained"),
)
"""Names of the factors, in the order in which they multiply."""

_MATTERS = 1.05
_WORK_MATTERS = 1.2  # below, partial tiles and online rescaling
_COALESCED = 0.6  # of a request's sectors asked for
_FEW_BLOCKS = 0.75  # of the SMs
_OCCUPANCY_MATTERS = 1.3  # below, a kernel at any occupancy may be as good as they come


def modelled_ms(kernels: Sequence[KernelAnalysis], bound: Bound) -> float | None:
    """What all launches together should take; never under the hard bound.

    Returns:
        Milliseconds; ``None`` where not every launch was modelled.
    """
    if not kernels or any(kernel.model is None for kernel in kernels):
        return None
    total = sum(k.model.time_ms * k.launch.count for k in kernels if k.model is not None)
    return max(total, bound.at.hard_ms)


def gap(
    bound: Bound,
    kernels: Sequence[KernelAnalysis],
    device: Device,
    measurement: Measurement | None = None,
) -> Gap | None:
    """Take the gap of a candidate apart.

    Args:
        bound: of the problem.
        kernels: the candidate's launches, with their demands and models.
        device: the target.
        measurement: of the candidate; without one the modelled time is taken apart.

    Returns:
        The factors; ``None`` where a launch could not be followed, or the bound is zero.
    """
    expected_ms = modelled_ms(kernels, bound)
    if expected_ms is None or bound.time_ms <= 0:
        return None
    followed = [_Followed(kernel, device) for kernel in kernels]
    time_ms = expected_ms if measurement is None else measurement.median_ms
    steps = _steps(bound, followed, device, measurement)
    factors, before = [], bound.time_ms
    for step in steps:
        after = max(step.time_ms, 1e-9)
        factors.append(_factor(step, after / before, followed))
        before = after
    if measurement is not None:
        factors.append(_unexplained(time_ms / before))
    elif abs(time_ms / before - 1) > 1e-9:  # the hard bound holds where the model is below it
        factors.append(GapFactor("unexplained", time_ms / before, _UNSEEN_WORK))
    return Gap(bound.time_ms, time_ms, measurement is not None, tuple(factors))


_UNSEEN_WORK = (
    "The hard bound: the launches seen should take less, as where libraries or PyTorch's operators "
    "do part of the work, or much is guessed."
)


@dataclass(frozen=True)
class _Followed:
    """A launch whose demand is known."""

    kernel: KernelAnalysis
    device: Device

    @property
    def demand(self) -> Demand:
        assert self.kernel.demand is not None
        return self.kernel.demand

    @property
    def terms(self) -> Sequence[Term]:
        assert self.kernel.model is not None
        return self.kernel.model.terms

    @property
    def count(self) -> int:
        return self.kernel.launch.count

    @property
    def blocks(self) -> int:
        return math.prod(self.kernel.launch.grid)

    @property
    def uneven(self) -> float:
        return self.demand.unevenness

    def longest(self, even: bool) -> float:
        """The longest of the resources' terms, in ms; `even`: as if SMs had the mean."""
        times = [
            term.time_ms / (self.uneven if even and term.name not in ("dram", "l2") else 1.0)
            for term in self.terms
            if term.name not in ("latency", "dispatch", "launch")
        ]
        return max(times, default=0.0)

    def term(self, name: str) -> Term:
        return next(term for term in self.terms if term.name == name)

    def running(self, *without: str) -> float:
        """All terms but the launch and those named, in ms."""
        terms = [term for term in self.terms if term.name not in ("launch", *without)]
        blocks = resident(self.kernel, self.device)
        return together(terms, blocks, ahead(self.kernel))


@dataclass(frozen=True)
class _Step:
    """A time on the way from the speed of light to the kernel's own."""

    name: str
    time_ms: float
    evidence: str


def _steps(
    bound: Bound, kernels: Sequence[_Followed], device: Device, measurement: Measurement | None
) -> Iterator[_Step]:
    sol_ms = bound.time_ms
    contraction = max(
        (pipe for pipe in bound.flops_by_pipe if pipe.startswith("tensor.")),
        key=lambda pipe: bound.flops_by_pipe[pipe],
        default=None,
    )
    work_ms = max(sol_ms, _pipes_ms(kernels, device, contraction))
    yield _Step("extra work", work_ms, _operations(bound, kernels))
    pipe_ms = max(work_ms, _pipes_ms(kernels, device, None))
    yield _Step("wrong pipe", pipe_ms, _pipes_used(contraction, kernels))
    traffic_ms = max(pipe_ms, _traffic_ms(kernels, device))
    yield _Step("extra traffic", traffic_ms, _bytes_moved(bound, kernels))
    even_ms = max(_total(kernels, lambda k: k.longest(even=True)), traffic_ms)
    yield _Step("sustained rates", even_ms, "What calibration measured, in place of the ceilings.")
    full_ms = max(_total(kernels, lambda k: k.longest(even=False)), even_ms)
    yield _Step("tail", full_ms, _filling(kernels))
    begun_ms = max(_total(kernels, lambda k: k.running("dispatch")), full_ms)
    yield _Step("latency", begun_ms, _waiting(kernels))
    running_ms = max(_total(kernels, _Followed.running), begun_ms)
    yield _Step("dispatch", running_ms, _beginning(kernels))
    launch_ms = running_ms + _launches_ms(kernels, measurement)
    yield _Step("launch", launch_ms, _launches(kernels, measurement))
    if measurement is not None and measurement.sm_clock_mhz:
        slower = _clock_factor(kernels, device, measurement.sm_clock_mhz)
        seen = f"{measurement.sm_clock_mhz:.0f} MHz of {device.clock_mhz:.0f}"
        yield _Step("clock", launch_ms * slower, f"The SMs ran at {seen}.")


def _total(kernels: Sequence[_Followed], of: Callable[[_Followed], float]) -> float:
    return sum(of(kernel) * kernel.count for kernel in kernels)


# --------------------------------------------------------------------------------------- steps


def _pipes_ms(kernels: Sequence[_Followed], device: Device, contraction: str | None) -> float:
    """The busiest pipe at its ceiling; products on the bound's pipe where one is named."""

    def of(kernel: _Followed) -> float:
        times = []
        for pipe, amount in kernel.demand.operations.items():
            chosen = contraction if contraction and _is_product(pipe, kernel) else pipe
            if chosen in device.ceilings:
                times.append(1e3 * amount / device.ceilings[chosen].value)
        return max(times, default=0.0)

    return _total(kernels, of)


def _is_product(pipe: str, kernel: _Followed) -> bool:
    """Whether a pipe's operations are those of a matrix product."""
    if pipe.startswith("tensor."):
        return True
    tensor = any(name.startswith("tensor.") for name in kernel.demand.operations)
    return pipe == "fp32" and not tensor


def _traffic_ms(kernels: Sequence[_Followed], device: Device, conflicts: bool = True) -> float:
    """The busiest memory at its ceiling; or as if no words met in a bank of shared memory."""

    def of(kernel: _Followed) -> float:
        dram = kernel.demand.dram_read_bytes + kernel.demand.dram_write_bytes
        l2 = kernel.demand.l2_read_bytes + kernel.demand.l2_write_bytes
        stacks, in_l1 = spilled(kernel.kernel, device)
        lines = kernel.demand.l1_wavefronts + (stacks / 128 if in_l1 else 0.0)
        wavefronts = sum(
            each.wavefronts if conflicts else each.least_wavefronts for each in kernel.demand.shared
        )
        times = [
            dram / device.ceilings["dram"].value,
            max(lines, wavefronts) / (device.sm_count * device.clock_mhz * 1e6),
        ]
        if "l2" in device.ceilings:
            times.append((l2 + (0.0 if in_l1 else stacks)) / device.ceilings["l2"].value)
        return 1e3 * max(times)

    return _total(kernels, of)


def _launches_ms(kernels: Sequence[_Followed], measurement: Measurement | None) -> float:
    """An empty kernel each; where it was measured, the time with no kernel running as well."""
    launches = sum(
        term.time_ms * kernel.count
        for kernel in kernels
        for term in kernel.terms
        if term.name == "launch"
    )
    if measurement is None or measurement.kernel_sum_ms is None:
        return launches
    return launches + max(measurement.median_ms - measurement.kernel_sum_ms, 0.0)


def _clock_factor(kernels: Sequence[_Followed], device: Device, seen_mhz: float) -> float:
    """By how much the clock slows what hangs on it; calibrated rates have their own clock."""
    longest = [max(k.terms, key=lambda term: term.time_ms) for k in kernels]
    bound_by_clock = [t for t in longest if t.name not in ("dram", "launch")]
    if not bound_by_clock or any(t.name in device.calibrated for t in bound_by_clock):
        return 1.0
    return max(device.clock_mhz / seen_mhz, 1.0)


# ------------------------------------------------------------------------------------- evidence


def _operations(bound: Bound, kernels: Sequence[_Followed]) -> str:
    asked, needed = _by_pipe(kernels), bound.flops_by_pipe
    told = [
        f"{pipe} {amount / 1e9:.4g} G where {needed.get(pipe, 0) / 1e9:.4g} G are needed"
        for pipe, amount in asked.items()
    ]
    return ("; ".join(told) or "No floating-point operations") + "."


def _by_pipe(kernels: Sequence[_Followed]) -> dict[str, int]:
    total: dict[str, int] = {}
    for kernel in kernels:
        for pipe, amount in kernel.demand.operations.items():
            total[pipe] = total.get(pipe, 0) + amount * kernel.count
    return total


def _pipes_used(contraction: str | None, kernels: Sequence[_Followed]) -> str:
    if contraction is None:
        return "No matrix product."
    return f"The bound takes {contraction}; the kernel uses {', '.join(_by_pipe(kernels))}."


def _bytes_moved(bound: Bound, kernels: Sequence[_Followed]) -> str:
    dram = sum((k.demand.dram_read_bytes + k.demand.dram_write_bytes) * k.count for k in kernels)
    l2 = sum((k.demand.l2_read_bytes + k.demand.l2_write_bytes) * k.count for k in kernels)
    needed = next((r.amount for r in bound.resources if r.name == "dram"), 0)
    shared = sum(each.wavefronts * k.count for k in kernels for each in k.demand.shared)
    least = sum(each.least_wavefronts * k.count for k in kernels for each in k.demand.shared)
    banks = f"; {shared / 1e6:.4g} M wavefronts of shared memory where {least / 1e6:.4g} M would do"
    return (
        f"{dram / 1e6:.4g} MB from and to DRAM where {needed / 1e6:.4g} MB are needed; "
        f"{l2 / 1e6:.4g} MB between L2 and the SMs{banks if shared > least else ''}."
    )


def _filling(kernels: Sequence[_Followed]) -> str:
    worst = max(kernels, key=lambda kernel: kernel.uneven)
    told = f"{worst.kernel.launch.name}: {worst.blocks} blocks on {worst.device.sm_count} SMs"
    if worst.demand.imbalance > _MATTERS:
        told += f", the longest {worst.demand.imbalance:.3g} times the mean"
    return told + "."


def _waiting(kernels: Sequence[_Followed]) -> str:
    worst = max(kernels, key=lambda k: k.running("dispatch") - k.longest(even=False))
    return (
        f"{worst.kernel.launch.name}: {resident(worst.kernel, worst.device):.3g} blocks of "
        f"{worst.kernel.launch.num_warps} warps on an SM, "
        f"{ahead(worst.kernel):.3g} steps under way; {worst.term('latency').evidence}."
    )


def _beginning(kernels: Sequence[_Followed]) -> str:
    worst = max(kernels, key=lambda kernel: kernel.running() - kernel.running("dispatch"))
    return f"{worst.kernel.launch.name}: {worst.term('dispatch').evidence}."


def _launches(kernels: Sequence[_Followed], measurement: Measurement | None) -> str:
    count = sum(kernel.count for kernel in kernels)
    told = f"{count} launch{'es' if count > 1 else ''}"
    if measurement is None or measurement.kernel_sum_ms is None:
        return told + "."
    idle_ms = max(measurement.median_ms - measurement.kernel_sum_ms, 0.0)
    return f"{told}, {1e3 * idle_ms:.3g} µs with no kernel running."


def _unexplained(factor: float) -> GapFactor:
    if factor >= 1:
        told = "The measured time over all of the above."
    else:
        told = "The kernel is faster than the model says."
    return GapFactor("unexplained", factor, told)


# --------------------------------------------------------------------------------------- advice


def _factor(step: _Step, factor: float, kernels: Sequence[_Followed]) -> GapFactor:
    advice = ""
    if factor >= _MATTERS:
        longest = sorted(kernels, key=lambda kernel: -kernel.running() * kernel.count)
        advice = next((a for k in longest for a in _ADVICE.get(step.name, _none)(k, factor)), "")
    return GapFactor(step.name, factor, step.evidence, advice)


def _none(kernel: _Followed, factor: float) -> Iterator[str]:  # noqa: ARG001
    yield from ()


def _on_pipe(kernel: _Followed, factor: float) -> Iterator[str]:  # noqa: ARG001
    name = kernel.kernel.launch.name
    used = max(kernel.demand.operations, key=lambda p: kernel.demand.operations[p], default="")
    if used == "fp32" and kernel.kernel.tensor_cores is False:
        yield (
            f"{name} multiplies on the scalar pipe: use tl.dot on tiles of at least 16 in each "
            "dimension, in the inputs' own type."
        )
    elif used.startswith("tensor."):
        yield f"{name} multiplies as {used.removeprefix('tensor.')}: keep the narrower input type."


def _on_work(kernel: _Followed, factor: float) -> Iterator[str]:
    if factor >= _WORK_MATTERS:
        yield (
            f"{kernel.kernel.launch.name} computes {factor:.3g} times what the problem needs: skip "
            "what is masked, padded or computed twice."
        )


def _on_traffic(kernel: _Followed, factor: float) -> Iterator[str]:  # noqa: ARG001
    accesses = kernel.demand.accesses
    even_ms = _traffic_ms([kernel], kernel.device, conflicts=False)
    if _traffic_ms([kernel], kernel.device) >= _MATTERS * even_ms:
        yield _conflicting(kernel)
        return
    known = [access for access in accesses if access.argument]  # where it lies, and so its sectors
    if spilled(kernel.kernel, kernel.device)[0] > sum(a.sector_bytes for a in accesses):
        yield _spilling(kernel)
        return
    wasteful = max(known, key=lambda a: a.sector_bytes - a.requested_bytes, default=None)
    moved = sum(access.sector_bytes for access in accesses)
    if wasteful is None:
        return
    if wasteful.sector_bytes - wasteful.requested_bytes > 0.2 * moved:
        yield from _narrow(wasteful, kernel)
        return
    again = max(known, key=lambda a: a.requested_bytes - a.unique_bytes)
    repeated = again.requested_bytes - again.unique_bytes
    if again.kind == "load" and again.unique_bytes and repeated > 0.2 * moved:
        times = again.requested_bytes / again.unique_bytes
        yield (
            f"{_place(again, kernel)}: {again.argument or 'this'} is read {times:.3g} times over: "
            "larger tiles, or an order of blocks that reuses L2."
        )
    elif len(known) == len(accesses) and kernel.demand.dram_read_bytes > 1.5 * _read(known):
        most = max((a for a in accesses if a.kind == "load"), key=lambda a: a.unique_bytes)
        yield (
            f"{_place(most, kernel)}: {most.argument or 'this'} is read again after L2 has lost "
            "it: one pass over it, or parts that stay in registers or L2 between passes."
        )


def _read(accesses: Sequence[Access]) -> int:
    """Bytes of all arguments, each as the access that reads most of it does."""
    most: dict[str, int] = {}
    for access in accesses:
        if access.kind != "store":
            most[access.argument] = max(most.get(access.argument, 0), access.unique_bytes)
    return sum(most.values())


def _place(access: Access, kernel: _Followed) -> str:
    return access.line or kernel.kernel.launch.name


def _narrow(access: Access, kernel: _Followed) -> Iterator[str]:
    """An access whose requests touch much more than they ask for."""
    if 32 * access.block_sectors < 0.7 * access.sector_bytes:  # L1 brings it together again
        if access.vector_bytes >= 16:  # warps ask for the same
            return
        yield (
            f"{_place(access, kernel)}: this {access.kind} moves {access.vector_bytes} bytes a "
            f"lane and request, {access.requests:,} requests: sizes and strides that are multiples "
            "of 16, or masks that end at one, let it move 16."
        )
    elif access.efficiency < _COALESCED:
        yield (
            f"{_place(access, kernel)}: this {access.kind} is not coalesced, {access.sectors:,} "
            f"sectors for {access.requested_bytes / 1e6:.4g} MB ({100 * access.efficiency:.0f} % "
            "of what they hold is asked for): let neighbouring lanes access neighbouring addresses."
        )


def _spilling(kernel: _Followed) -> str:
    return (
        f"{kernel.kernel.launch.name} spills {kernel.kernel.spills} words per thread to local "
        "memory: smaller tiles, or more warps to share them."
    )


def _conflicting(kernel: _Followed) -> str:
    """Source of wgmma's need: PTX ISA, wgmma.mma_async: only f16 and bf16 may be transposed."""
    worst = max(kernel.demand.shared, key=lambda each: each.wavefronts - each.least_wavefronts)
    each, least = (n / worst.requests for n in (worst.wavefronts, worst.least_wavefronts))
    told = (
        f"{worst.line}: a {worst.kind} of shared memory takes {each:.3g} wavefronts where "
        f"{least:.3g} would do if its words lay in different banks: "
    )
    pipes = (pipe.removeprefix("tensor.") for pipe in kernel.demand.operations)
    turned = [pipe for pipe in pipes if pipe in ("tf32", "fp8", "int8")]
    if turned and worst.kind == "store" and kernel.demand.tensor_shared_bytes:
        return told + (
            f"wgmma takes {turned[0]} operands with K contiguous alone, and this one is turned for "
            "it. Keep the narrower input type where it has 16 bits, or have K contiguous in memory."
        )
    if not kernel.kernel.launch.signature:  # CUDA C++, where the layout is the user's own
        return told + "rows of the tile that are one word longer (padding), or a swizzled index."
    return told + (
        "another shape of the tile, other num_warps, or one reduction behind a loop in place of "
        "one in it."
    )


def _splitting(kernel: _Followed) -> str:
    return (
        f"{kernel.kernel.launch.name} has {kernel.blocks} blocks for {kernel.device.sm_count} SMs: "
        "split the work into more (smaller tiles, or split along the reduction)."
    )


def _on_tail(kernel: _Followed, factor: float) -> Iterator[str]:  # noqa: ARG001
    name = kernel.kernel.launch.name
    if kernel.blocks < _FEW_BLOCKS * kernel.device.sm_count:
        yield _splitting(kernel)
    elif kernel.demand.imbalance > 1.2:
        yield f"{name}'s blocks differ in length: start the longest first, or even them out."
    else:
        yield (
            f"{name} ends in a part-filled wave: other tiles, or a persistent kernel that splits "
            "the last ones."
        )


def _on_latency(kernel: _Followed, factor: float) -> Iterator[str]:
    launch, occupancy = kernel.kernel.launch, kernel.kernel.occupancy
    assert occupancy is not None
    tensor = any(pipe.startswith("tensor.") for pipe in kernel.demand.operations)
    if kernel.count > 1:
        yield from _on_launch(kernel, factor)
    elif kernel.blocks < _FEW_BLOCKS * kernel.device.sm_count:
        yield _splitting(kernel)
    elif kernel.kernel.spills:
        yield _spilling(kernel)
    elif kernel.demand.steps > 2 and ahead(kernel.kernel) == 1 and tensor:
        yield (
            f"{launch.name} waits for each step's loads: more pipeline stages (num_stages), and "
            "loads that can be copied asynchronously."
        )
    elif factor >= _OCCUPANCY_MATTERS and tensor and occupancy.blocks_per_sm < 3:
        yield (
            f"{launch.name}'s tensor cores wait for what comes between two products, and few other "
            f"blocks are there ({occupancy.blocks_per_sm} on an SM, limited by "
            f"{occupancy.limiter}): smaller tiles, or warps that take turns."
        )
    elif factor >= _OCCUPANCY_MATTERS and not tensor:
        there = resident(kernel.kernel, kernel.device)
        limit = occupancy.limiter if there == occupancy.blocks_per_sm else "the grid"
        yield (
            f"{launch.name} keeps too little under way: {there:.3g} blocks of {launch.num_warps} "
            f"warps on an SM, limited by {limit}: more warps, or more elements a step."
        )


def _on_dispatch(kernel: _Followed, factor: float) -> Iterator[str]:  # noqa: ARG001
    if kernel.running() >= _MATTERS * kernel.running("dispatch"):
        yield (
            f"{kernel.kernel.launch.name} has {kernel.term('dispatch').evidence} however little it "
            "does: larger blocks, or fewer that loop."
        )


def _on_launch(kernel: _Followed, factor: float) -> Iterator[str]:  # noqa: ARG001
    if kernel.count > 1:
        yield f"{kernel.kernel.launch.name} is launched {kernel.count} times: one launch for all."
    else:
        yield "Launching takes a good part of the time: a CUDA graph, or fusing with a neighbour."


_ADVICE: Mapping[str, Callable[[_Followed, float], Iterator[str]]] = {
    "extra work": _on_work,
    "wrong pipe": _on_pipe,
    "extra traffic": _on_traffic,
    "tail": _on_tail,
    "latency": _on_latency,
    "dispatch": _on_dispatch,
    "launch": _on_launch,
}
