"""A kernel's time over the speed of light, as a product of named factors.

Steps lead from the speed of light to the kernel's own time; each adds one thing that the kernel
does or meets. A factor is one step over the previous one, so all of them multiply to the gap. Steps
are times from `solkit.roofline.kernel.model`'s terms, over all launches of a call:

=================  ================================================================================
extra work         its operations, each on the pipe that the bound chose
wrong pipe         the same on the pipes that it uses
extra traffic      what its own loads and stores move through DRAM, L2, L1 and shared memory
sustained rates    rates that calibration measured, instead of ceilings
tail               the busiest SM instead of the mean
latency            what the busiest resource does not hide: occupancy, stages, dependences
dispatch           starting blocks one by one, if that takes longer than their work
launch             launches, and the time between kernels if measured
clock              the observed SM clock, if the kernel depends on it
unexplained        the measured time over all of the above
=================  ================================================================================

`solkit.roofline.kernel.causes` names the causes of large factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from solkit.core import Bound, Device, Gap, GapFactor, KernelAnalysis, Measurement
from solkit.core.quantities import amount, count
from solkit.roofline.kernel.causes import MATTERS, cause_of
from solkit.roofline.kernel.followed import Followed
from solkit.roofline.kernel.model import ahead, resident

__all__ = ["FACTORS", "gap", "modelled_ms"]

FACTORS = (
    *("extra work", "wrong pipe", "extra traffic", "sustained rates", "tail", "latency"),
    *("dispatch", "launch", "clock", "unexplained"),
)
"""Names of the factors, in the order in which they multiply."""


_HALVES = ("fp16", "bf16")


def modelled_ms(kernels: Sequence[KernelAnalysis], bound: Bound) -> float | None:
    """The modelled time of all launches; never below the hard bound.

    Returns: Milliseconds; ``None`` if not every launch was modelled.
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
    """Split a candidate's gap into factors.

    Args:
        bound: of the problem.
        kernels: the candidate's launches, with their demands and models.
        device: the target.
        measurement: of the candidate; without one the modelled time is split.

    Returns: The factors; ``None`` if a launch could not be analysed or the bound is zero.
    """
    expected_ms = modelled_ms(kernels, bound)
    if expected_ms is None or bound.time_ms <= 0:
        return None
    followed = [Followed(kernel, device) for kernel in kernels]
    time_ms = expected_ms if measurement is None else measurement.median_ms
    steps = _steps(bound, followed, device, measurement)
    factors, before = [], bound.time_ms
    for step in steps:
        after = max(step.time_ms, 1e-9)
        factor = after / before
        cause = cause_of(step.name, factor, followed)
        factors.append(GapFactor(step.name, factor, step.evidence, cause))
        before = after
    if measurement is not None:
        factors.append(_unexplained(time_ms / before))
    elif abs(time_ms / before - 1) > 1e-9:  # the hard bound applies if the model is below it
        factors.append(GapFactor("unexplained", time_ms / before, _UNSEEN_WORK))
    return Gap(bound.time_ms, time_ms, measurement is not None, tuple(factors))


_UNSEEN_WORK = (
    "The hard bound: the model gives the launches less time, for example because libraries or "
    "PyTorch's operators do part of the work, or much is guessed."
)


@dataclass(frozen=True)
class _Step:
    """A time between the speed of light and the kernel's own."""

    name: str
    time_ms: float
    evidence: str


def _steps(
    bound: Bound, kernels: Sequence[Followed], device: Device, measurement: Measurement | None
) -> Iterator[_Step]:
    sol_ms = bound.time_ms
    halves = [pipe for pipe in _HALVES if pipe in bound.flops_by_pipe]
    contraction = max(
        (pipe for pipe in bound.flops_by_pipe if pipe.startswith("tensor.")),
        key=lambda pipe: bound.flops_by_pipe[pipe],
        default=None,
    )
    work_ms = max(sol_ms, _pipes_ms(kernels, device, contraction, halves))
    yield _Step("extra work", work_ms, _operations(bound, kernels))
    pipe_ms = max(work_ms, _pipes_ms(kernels, device, None))
    yield _Step("wrong pipe", pipe_ms, _pipes_used(contraction, kernels))
    traffic_ms = max(pipe_ms, _total(kernels, Followed.traffic_ms))
    yield _Step("extra traffic", traffic_ms, _bytes_moved(bound, kernels))
    even_ms = max(_total(kernels, lambda k: k.longest(even=True)), traffic_ms)
    yield _Step("sustained rates", even_ms, "Calibrated rates instead of the ceilings.")
    full_ms = max(_total(kernels, lambda k: k.longest(even=False)), even_ms)
    yield _Step("tail", full_ms, _filling(kernels))
    begun_ms = max(_total(kernels, lambda k: k.running("dispatch")), full_ms)
    yield _Step("latency", begun_ms, _waiting(kernels))
    running_ms = max(_total(kernels, Followed.running), begun_ms)
    yield _Step("dispatch", running_ms, _beginning(kernels))
    launch_ms = running_ms + _launches_ms(kernels, measurement)
    yield _Step("launch", launch_ms, _launches(kernels, measurement))
    if measurement is not None and measurement.sm_clock_mhz:
        slower = _clock_factor(kernels, device, measurement.sm_clock_mhz)
        seen = f"{measurement.sm_clock_mhz:.0f} MHz of {device.clock_mhz:.0f}"
        yield _Step("clock", launch_ms * slower, f"The SMs ran at {seen}.")


def _total(kernels: Sequence[Followed], of: Callable[[Followed], float]) -> float:
    return sum(of(kernel) * kernel.count for kernel in kernels)


# --------------------------------------------------------------------------------------- steps


def _pipes_ms(
    kernels: Sequence[Followed],
    device: Device,
    contraction: str | None,
    halves: Sequence[str] = (),
) -> float:
    """The busiest pipe at its ceiling; on the bound's pipes if they are named."""

    def of(kernel: Followed) -> float:
        times = []
        for pipe, done in kernel.demand.operations.items():
            chosen = contraction if contraction and _is_product(pipe, kernel) else pipe
            if chosen == "fp32" and halves:
                chosen = halves[0]
            if chosen in device.ceilings:
                times.append(1e3 * done / device.ceilings[chosen].value)
        return max(times, default=0.0)

    return _total(kernels, of)


def _is_product(pipe: str, kernel: Followed) -> bool:
    """Whether a pipe's operations are those of a matrix product."""
    if pipe.startswith("tensor."):
        return True
    tensor = any(name.startswith("tensor.") for name in kernel.demand.operations)
    return pipe == "fp32" and not tensor


def _launches_ms(kernels: Sequence[Followed], measurement: Measurement | None) -> float:
    """An empty kernel each, plus the time with no kernel running if measured."""
    launches = sum(
        term.time_ms * kernel.count
        for kernel in kernels
        for term in kernel.terms
        if term.name == "launch"
    )
    if measurement is None or measurement.kernel_sum_ms is None:
        return launches
    return launches + max(measurement.median_ms - measurement.kernel_sum_ms, 0.0)


def _clock_factor(kernels: Sequence[Followed], device: Device, seen_mhz: float) -> float:
    """The slowdown by the clock of what depends on it; calibrated rates have their own clock."""
    longest = [max(k.terms, key=lambda term: term.time_ms) for k in kernels]
    bound_by_clock = [t for t in longest if t.name not in ("dram", "launch")]
    if not bound_by_clock or any(t.name in device.calibrated for t in bound_by_clock):
        return 1.0
    return max(device.clock_mhz / seen_mhz, 1.0)


# ------------------------------------------------------------------------------------- evidence


def _operations(bound: Bound, kernels: Sequence[Followed]) -> str:
    asked, needed = _by_pipe(kernels), dict(bound.flops_by_pipe)
    for half in (pipe for pipe in _HALVES if pipe not in asked):  # computed in fp32 instead
        needed["fp32"] = needed.get("fp32", 0) + needed.pop(half, 0)
    told = [
        f"{pipe}: {count(done, 'operations')}, {count(needed.get(pipe, 0))} needed"
        for pipe, done in asked.items()
    ]
    return ("; ".join(told) or "No floating-point operations") + "."


def _by_pipe(kernels: Sequence[Followed]) -> dict[str, int]:
    total: dict[str, int] = {}
    for kernel in kernels:
        for pipe, done in kernel.demand.operations.items():
            total[pipe] = total.get(pipe, 0) + done * kernel.count
    return total


def _pipes_used(contraction: str | None, kernels: Sequence[Followed]) -> str:
    if contraction is None:
        return "No matrix product."
    return f"The bound uses {contraction}; the kernel uses {', '.join(_by_pipe(kernels))}."


def _bytes_moved(bound: Bound, kernels: Sequence[Followed]) -> str:
    dram = sum((k.demand.dram_read_bytes + k.demand.dram_write_bytes) * k.count for k in kernels)
    l2 = sum((k.demand.l2_read_bytes + k.demand.l2_write_bytes) * k.count for k in kernels)
    needed = next((r.amount for r in bound.resources if r.name == "dram"), 0)
    shared = sum(each.wavefronts * k.count for k in kernels for each in k.demand.shared)
    least = sum(each.least_wavefronts * k.count for k in kernels for each in k.demand.shared)
    banks = (
        f"; {count(shared, 'wavefronts')} of shared memory, {count(least)} without bank conflicts"
    )
    return (
        f"{amount(dram, 'B')} from and to DRAM, {amount(needed, 'B')} needed; {amount(l2, 'B')} "
        f"between L2 and the SMs{banks if shared > least else ''}."
    )


def _filling(kernels: Sequence[Followed]) -> str:
    worst = max(kernels, key=lambda kernel: kernel.uneven)
    told = f"{worst.kernel.launch.name}: {worst.blocks} blocks on {worst.device.sm_count} SMs"
    if worst.demand.imbalance > MATTERS:
        told += f", the longest takes {worst.demand.imbalance:.3g} times the mean"
    return told + "."


def _waiting(kernels: Sequence[Followed]) -> str:
    worst = max(kernels, key=lambda k: k.running("dispatch") - k.longest(even=False))
    blocks = resident(worst.kernel, worst.device)
    return (
        f"{worst.kernel.launch.name}: {blocks:.3g} block{'s' * (blocks != 1)} of "
        f"{worst.kernel.launch.num_warps} warps per SM, "
        f"steps in flight: {ahead(worst.kernel):.3g}; {worst.term('latency').evidence}."
    )


def _beginning(kernels: Sequence[Followed]) -> str:
    worst = max(kernels, key=lambda kernel: kernel.running() - kernel.running("dispatch"))
    return f"{worst.kernel.launch.name}: {worst.term('dispatch').evidence}."


def _launches(kernels: Sequence[Followed], measurement: Measurement | None) -> str:
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
        told = "The kernel is faster than modelled."
    return GapFactor("unexplained", factor, told)
