"""Advice on what to look at next, only with evidence in a `Result`.

Each rule reads one result and yields a sentence if its evidence is there. Rules run from what
invalidates the numbers to what might speed up the kernel; the first three sentences count.
`solkit.roofline.kernel.causes` finds the causes of large factors of the gap; what to do about them
is here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from solkit.core import AnalysisStatus, Bound, Cause, Device, Gap, KernelAnalysis, Result, Verdict
from solkit.core.quantities import amount, binary_bytes, duration
from solkit.report.remedies import advice_on
from solkit.report.units import format_ratio
from solkit.roofline.kernel.model import LAUNCH_US

_MOST = 3
_NEAR = 1.1  # a gap not worth an engineer's day
_LOW_OCCUPANCY = 0.5
_LOW_FILL = 0.8  # of the device's slots, over all waves
_CLOCK_MATTERS = 1.05  # bound at the clock seen / bound at the maximum clock
_WHOLE = 0.9  # of an output: figures of large grids are scaled from some blocks
_SAVES = 1.02  # times as fast, from which a saving is told
_MOSTLY = 0.5  # of the modelled time
_IDLE_MATTERS = 0.1  # of a call's time with no kernel running
_PROFILERS = {"NVIDIA": "Nsight Compute", "AMD": "rocprof-compute"}


_NOT_MEASURED = (
    "Nothing was measured: on a machine with this GPU `solkit score` times the kernel too, unless "
    "--no-measure is given."
)


@dataclass(frozen=True)
class Advice:
    """Next thing to do.

    Attributes:
        text: the evidence and the remedy.
        saves_ms: what it saves of the kernel's time at the most; ``None`` if that is unknown.
        speedup: the time over what is left of it; ``None`` likewise.
    """

    text: str
    saves_ms: float | None = None
    speedup: float | None = None


Rule = Callable[["_Case"], Iterator["str | Advice"]]


def advise(result: Result, device: Device) -> tuple[str, ...]:
    """Return the texts of `advice_of_rules`."""
    return tuple(advice.text for advice in advice_of_rules(result, device))


def advice_of_rules(result: Result, device: Device) -> tuple[Advice, ...]:
    """Return the first three pieces of advice that the rules give; at least one."""
    case = _Case(result, device)
    tune = not (result.verdict.is_failure or case.near or result.verdict is Verdict.IMPOSSIBLE)
    rules = _ON_THE_NUMBERS + (_ON_THE_KERNEL if tune else ())
    pieces = itertools.chain.from_iterable(rule(case) for rule in rules)
    first = tuple(itertools.islice(pieces, _MOST)) or (_last_advice(case),)
    return tuple(Advice(piece) if isinstance(piece, str) else piece for piece in first)


def _last_advice(case: _Case) -> str:
    """Return what to do where no rule applies."""
    if case.result.verdict is Verdict.NOT_MEASURED and case.device.vendor == "NVIDIA":
        return _NOT_MEASURED
    return _advice_without_cause(case)


def _advice_without_cause(case: _Case) -> str:
    """Advice where no rule has any: the profiler of the device's vendor."""
    profiler = _PROFILERS.get(case.device.vendor)
    tool = f"a profiler ({profiler})" if profiler else "a profiler of its vendor"
    measurement = case.result.measurement
    if case.result.analysis.status is AnalysisStatus.UNSUPPORTED_DEVICE and measurement is None:
        return (
            f"Kernels are not analysed for {case.device.key}: on that GPU {tool} shows what "
            "limits them."
        )
    return f"Neither the compiled code nor the timing shows a cause: {tool} is the next step."


def kernels_seen(result: Result) -> tuple[KernelAnalysis, ...]:
    """Return the analysed launches, or those of the real run if analysis captured none."""
    live = result.measurement.launches if result.measurement else ()
    return result.analysis.kernels or live


def launch_limited(bound: Bound) -> bool:
    """Tell whether a kernel's launch is known to take longer than the problem's bound."""
    floor_ms = bound.at.launch_floor_ms
    return floor_ms is not None and bound.time_ms < floor_ms


def out_of_resources(kernel: KernelAnalysis) -> bool:
    """Tell whether a launch compiles, but needs more than a block may have (in Triton's words)."""
    return kernel.error is not None and "out of resource" in kernel.error


@dataclass(frozen=True)
class _Case:
    """Result and device that the rules look at."""

    result: Result
    device: Device

    @property
    def near(self) -> bool:
        """True if the gap is too small to work on."""
        return self.result.score is not None and self.result.score.gap < _NEAR

    @property
    def tiny(self) -> bool:
        """True if the problem is too small to fill a GPU."""
        bound = self.result.bound
        return bound.time_ms < (bound.at.launch_floor_ms or LAUNCH_US / 1e3)

    @property
    def compiled(self) -> list[KernelAnalysis]:
        return [
            kernel for kernel in kernels_seen(self.result) if kernel.facts.registers is not None
        ]

    @property
    def wants_tensor_cores(self) -> bool:
        return self.result.bound.limiter.split(".")[0] == "tensor"


# ----------------------------------------------------------------------- rules on the numbers


def _advise_on_verdict(case: _Case) -> Iterator[str]:
    result = case.result
    if result.verdict is Verdict.WRONG:
        error = f" (largest error {result.measurement.max_error:.3g})" if result.measurement else ""
        yield f"The result is wrong{error}: fix it before looking at its speed."
    elif result.verdict is Verdict.IMPOSSIBLE:
        yield (
            f"No correct kernel takes less than {duration(result.bound.at.hard_ms)} here: check "
            "that this one does all of its work within the timed call. The evidence says what was "
            "measured on the timed inputs."
        )
    elif result.verdict is Verdict.BEATS_ALGORITHM:
        yield (
            "It is faster than the roofline of the reference as written: it does less work or "
            "moves less through DRAM (see `beaten by`)."
        )
    elif result.verdict is Verdict.DEGENERATE_PROBLEM:
        yield "Other inputs give the same result, so this time means nothing."
    elif result.verdict is Verdict.CHEATING:
        yield "The timed calls did not do the work, so no time counts: see the evidence."
    elif result.verdict is Verdict.UNSTABLE:
        yield "The conditions make the time unreliable (see the evidence): measure again."
    elif result.verdict in _NO_TIME:
        yield f"The candidate {_NO_TIME[result.verdict]}: see the errors."


_NO_TIME = {
    Verdict.CRASHED: "crashed",
    Verdict.TIMED_OUT: "ran out of time",
    Verdict.OUT_OF_MEMORY: "ran out of memory",
}


def _does_not_compile(case: _Case) -> Iterator[str]:
    broken = [kernel for kernel in kernels_seen(case.result) if kernel.error]
    for kernel in broken:
        name, key = kernel.launch.name, case.device.key
        if out_of_resources(kernel):
            yield f"{name} needs more than {key} has for one block: smaller tiles, or fewer stages."
        else:
            yield f"{name} does not compile for {key}: see its error."
    if case.result.verdict is Verdict.DOES_NOT_COMPILE and not broken:
        yield "The candidate does not compile: see the errors."


def _advise_on_unwritten(case: _Case) -> Iterator[str]:
    for number, output in enumerate(case.result.analysis.written):
        if output.written_bytes < _WHOLE * output.bytes:
            written, size = (amount(n, "B") for n in (output.written_bytes, output.bytes))
            yield (
                f"Output {number} is written in part, at most {written} of {size}: the rest is "
                "what was in memory before."
            )


def _accesses_outside(case: _Case) -> Iterator[str]:
    """Yield accesses that are known to leave the memory of their tensor."""
    outside_bytes: dict[tuple[str, str, str], int] = {}
    for kernel in kernels_seen(case.result):
        for access in kernel.demand.accesses if kernel.demand else ():
            if access.outside_bytes:
                place = access.line or kernel.launch.name
                outside_bytes.setdefault(
                    (place, access.kind, access.argument), access.outside_bytes
                )
    for (place, kind, argument), reached in outside_bytes.items():
        yield (
            f"{place}: this {kind} reaches {reached:,} bytes outside of the memory of {argument}: "
            "mask what lies there."
        )


def _unread_inputs(case: _Case) -> Iterator[str]:
    """Yield inputs that the problem depends on, and that nothing reads."""
    unread = set(case.result.analysis.unread)
    for need in case.result.work.needs:
        if need.position in unread:
            yield (
                f"Nothing that is launched reads {need.name}, of which the reference reads "
                f"{amount(need.bytes, 'B')}: the result cannot depend on it."
            )


def _unmodelled(case: _Case) -> Iterator[str]:
    if case.result.work.unmodelled:
        yield (
            f"{', '.join(case.result.work.unmodelled)}: counted as zero cost, so the true speed of "
            "light may be slower than shown."
        )


def _launch_limited(case: _Case) -> Iterator[str]:
    floor_ms = case.result.bound.at.launch_floor_ms
    if floor_ms is not None and launch_limited(case.result.bound):
        yield (
            f"Launch-limited: one launch takes at least {duration(floor_ms)}, more than the bound: "
            "fuse this into another kernel."
        )


def _advise_near_bound(case: _Case) -> Iterator[str]:
    score = case.result.score
    if score and case.near and case.result.verdict is Verdict.CORRECT:
        yield (
            f"Within {_format_percent(max(0.0, score.gap - 1))} of the speed of light: nothing to "
            "gain, unless by another algorithm."
        )


# ------------------------------------------------------------------------ rules on the kernel


def _advise_on_gap(case: _Case) -> Iterator[Advice]:
    """Yield the advice of the gap's factors, each once, first what saves most.

    Causes that save nothing alone, as something else takes as long, come last and without a figure.
    No advice leads below the speed of light.
    """
    gap = case.result.gap
    if gap is None or case.tiny:
        return
    whole = max(gap.time_ms / gap.sol_ms, 1.0)
    products: dict[str, float] = {}
    for factor in gap.factors:
        if factor.cause:
            text = advice_on(factor.cause)
            alone = factor.factor if factor.speedup is None else factor.speedup
            products[text] = products.get(text, 1.0) * alone
    for text, product in sorted(products.items(), key=lambda item: -item[1]):
        speedup = min(product, whole)
        if speedup < _SAVES:
            yield Advice(text)
        else:
            yield Advice(text, gap.time_ms * (1 - 1 / speedup), speedup)


def _advise_on_operators(case: _Case) -> Iterator[str]:
    """Name PyTorch's operators if they take most time: a kernel can save only the rest."""
    kernels, times = case.result.analysis.kernels, _modelled_times(case.result.analysis.kernels)
    theirs = [(ms, kernel) for ms, kernel in zip(times, kernels) if kernel.launch.library]
    share = sum(ms for ms, _ in theirs) / (sum(times) or 1.0)
    if share < _MOSTLY or case.result.gap is None or _names_an_operator(case.result.gap):
        return
    most = max(theirs, key=lambda timed: timed[0])[1].launch
    at = f" ({most.line})" if most.line else ""
    if len(theirs) == len(kernels):
        yield f"Only PyTorch's operators run, most of the time {most.name}{at}."
    else:
        yield (
            f"PyTorch's operators take {_format_percent(share)} of the modelled time, most of it "
            f"{most.name}{at}: a better kernel of your own saves at most the rest."
        )


def _names_an_operator(gap: Gap) -> bool:
    """Tell whether a cause of the gap names one already."""
    causes = (factor.cause for factor in gap.factors)
    return any(cause.name.startswith("library") for cause in causes if cause)


def _modelled_times(kernels: tuple[KernelAnalysis, ...]) -> list[float]:
    """Return the modelled time of each launch, over all its calls, in ms; 0 if it is unknown."""
    return [k.model.time_ms * k.launch.count if k.model else 0.0 for k in kernels]


def _unless_followed(rule: Rule) -> Rule:
    """Yield a rule for launches that were not analysed: else the gap's factors are more precise."""

    def rule_if_not_followed(case: _Case) -> Iterator[str | Advice]:
        if case.result.gap is None:
            yield from rule(case)

    return rule_if_not_followed


def _no_tensor_cores(case: _Case) -> Iterator[str]:
    without = [kernel for kernel in case.compiled if kernel.facts.tensor_cores is False]
    if case.wants_tensor_cores and without and len(without) == len(case.compiled):
        yield (
            f"The bound assumes {case.result.bound.limiter}, but no launch has tensor-core "
            "instructions: the contraction runs on the scalar pipes."
        )


def _advise_on_spills(case: _Case) -> Iterator[str]:
    for kernel in case.compiled:
        if kernel.facts.spills:
            name, words = kernel.launch.name, kernel.facts.spills
            what = f"spills {words} words per thread"
            yield advice_on(Cause("spills", {"kernel": name, "words": words, "what": what}))


def _advise_on_clock(case: _Case) -> Iterator[str]:
    measurement, seen_ms = case.result.measurement, case.result.bound.at.observed_clock_ms
    if not (measurement and measurement.sm_clock_mhz and seen_ms):
        return
    if seen_ms > _CLOCK_MATTERS * case.result.bound.time_ms:
        yield (
            f"The SM clock was {measurement.sm_clock_mhz:.0f} MHz, not "
            f"{case.device.clock_mhz:.0f}: at that clock the speed of light is "
            f"{duration(seen_ms)} and the gap {format_ratio(measurement.median_ms / seen_ms)}."
        )


def _advise_on_idle_sms(case: _Case) -> Iterator[Advice]:
    measurement = case.result.measurement
    if not measurement or measurement.kernel_sum_ms is None:
        return
    idle_ms = measurement.median_ms - measurement.kernel_sum_ms
    if idle_ms > _IDLE_MATTERS * measurement.median_ms:
        yield Advice(
            f"No kernel runs for {duration(idle_ms)} of the {duration(measurement.median_ms)}: "
            "fewer launches or a CUDA graph would save that time.",
            idle_ms,
            measurement.median_ms / max(measurement.median_ms - idle_ms, 1e-9),
        )


def _advise_on_tail(case: _Case) -> Iterator[str]:
    if case.tiny:
        return
    for kernel in case.compiled:
        occupancy = kernel.occupancy
        if not occupancy or occupancy.tail_efficiency >= _LOW_FILL:
            continue
        fill, name = _format_percent(occupancy.tail_efficiency), kernel.launch.name
        if occupancy.waves < 1:
            yield f"{name}'s grid fills {fill} of the device: split the work into more blocks."
        else:
            yield (
                f"{name} runs in {occupancy.waves:.3g} waves, the last partly empty: its blocks "
                f"fill {fill} of the device's slots."
            )


def _advise_on_occupancy(case: _Case) -> Iterator[str]:
    if case.wants_tensor_cores or case.tiny:
        return  # a kernel on tensor cores runs well at low occupancy
    for kernel in case.compiled:
        occupancy = kernel.occupancy
        if occupancy and occupancy.fraction < _LOW_OCCUPANCY:
            yield (
                f"{kernel.launch.name} fills at most {_format_percent(occupancy.fraction)} of an "
                f"SM's warps, {_reason_of_limiter(kernel, occupancy.limiter)}."
            )


def _reason_of_limiter(kernel: KernelAnalysis, limiter: str) -> str:
    if limiter == "registers":
        return f"limited by its {kernel.facts.registers} registers per thread"
    if limiter == "shared" and kernel.facts.shared_bytes is not None:
        return (
            f"limited by its {binary_bytes(kernel.facts.shared_bytes)} of shared memory per block"
        )
    return f"limited by {limiter}, at {kernel.launch.num_warps} warps per block"


def _calibrated(case: _Case) -> Iterator[str]:
    score = case.result.score
    if score and score.gap_calibrated is not None:
        yield (
            f"At the rates calibrated on this GPU, the gap is {format_ratio(score.gap_calibrated)}."
        )


def _only_a_reference(case: _Case) -> Iterator[str]:
    if case.result.analysis.status is AnalysisStatus.NO_KERNEL:
        yield "The file holds only a reference: add a kernel to see how close it gets."


_ON_THE_NUMBERS: tuple[Rule, ...] = (
    _advise_on_verdict,
    _does_not_compile,
    _advise_on_unwritten,
    _accesses_outside,
    _unread_inputs,
    _unmodelled,
    _launch_limited,
    _advise_near_bound,
)
_ON_THE_KERNEL: tuple[Rule, ...] = (
    _advise_on_gap,
    _advise_on_operators,
    _unless_followed(_no_tensor_cores),
    _unless_followed(_advise_on_spills),
    _advise_on_clock,
    _unless_followed(_advise_on_idle_sms),
    _unless_followed(_advise_on_tail),
    _unless_followed(_advise_on_occupancy),
    _calibrated,
    _only_a_reference,
)


def _format_percent(fraction: float) -> str:
    return "under 1 %" if 0 < fraction < 0.01 else f"{100 * fraction:.0f} %"
