"""Outcomes: from what is known beforehand, through what was measured, to a result.

::

    Prospect ─► draft ─► measured (or compared) ─► judged ─► the log
                                                      └────► scored: a Result
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from solkit.core import (
    Bound,
    ComparedBase,
    Conditions,
    Configuration,
    Device,
    Difference,
    Facts,
    KernelAnalysis,
    KernelFile,
    Launch,
    LiveLaunch,
    Measurement,
    Needed,
    Outcome,
    Protocol,
    Result,
    StoredFacts,
    Value,
    Verdict,
    canonical,
)
from solkit.datasets.facts import facts_key, facts_to_json, tools_made_with
from solkit.datasets.identifiers import MESSAGE_LIMIT
from solkit.datasets.kernels import Kernel
from solkit.measure.guarded.messages import JudgedTurns, Judgement, Samples
from solkit.roofline.bound import at_observed_clock
from solkit.roofline.kernel.gap import decompose_gap
from solkit.roofline.score import score, time_verdict

_VERSIONS = ("solkit", "python", "torch", "triton", "cuda", "driver")

# fields that outcomes share with `Protocol`, `Measurement`, `Conditions`, `Launch` and `Facts`
_PROTOCOL = (
    *("method", "l2", "flush", "launched", "warmup_calls", "seed", "time_limit_s", "timed_inputs"),
)
_MEASURED = ("low_ms", "high_ms", "kernel_sum_ms", "reference_ms", "max_error")
_CONDITIONS = ("memory_clock_mhz", "power_w", "power_high_w", "temperature_c")
_LAUNCH = (
    *("name", "grid", "num_warps", "num_stages", "num_ctas", "constants", "signature", "count"),
)
_COMPILED = ("registers", "spills", "shared_bytes", "tensor_cores")
_TIMED = (
    *(*_PROTOCOL, *_MEASURED, *_CONDITIONS, "time_ms", "samples_ms", "reference_samples_ms"),
    *("live_launches", "clock_mhz", "clock_low_mhz", "throttle_reasons", "condition_samples"),
    *("neighbours", "protocol", "inputs_digest"),
)
"""Fields that a timing fills in."""

_SCORED = (Verdict.CORRECT, Verdict.BEATS_ALGORITHM, Verdict.IMPOSSIBLE)


@dataclass(frozen=True)
class PreparedCandidate:
    """Knowledge about a configuration before it is measured."""

    file: KernelFile  # the kernel file, with a candidate
    result: Result  # its bound and analysis: `solkit.roofline.cases.unmeasured`

    @property
    def shape(self) -> dict[str, Value]:
        """Every size and dtype, as in the rows of all benches."""
        return {**self.file.problem.sizes, **self.result.shape}


def draft_outcome(
    configuration: Configuration,
    prospect: PreparedCandidate,
    kernel: Kernel,
    device: Device,
    software: Mapping[str, str | None],
    facts: StoredFacts | None = None,
) -> Outcome:
    """Return the outcome of a configuration that is not measured yet.

    `kernel` was read before the file runs, since a file may change itself. `software` holds
    versions by name.
    """
    file, result, shape = prospect.file, prospect.result, prospect.shape
    tolerance, work = file.problem.tolerance, result.work
    versions: dict[str, Any] = {f"{name}_version": software.get(name) for name in _VERSIONS}
    return Outcome(
        params=result.params,
        verdict=Verdict.NOT_MEASURED,
        created=datetime.now(timezone.utc),
        chosen_by=configuration.chosen_by,
        problem_path=str(Path(file.problem.path).resolve()),
        problem_format=file.problem.format,
        shape=shape,
        rtol=tolerance.rtol if tolerance else None,
        atol=tolerance.atol if tolerance else None,
        read_bytes=work.dram_read_bytes,
        write_bytes=work.dram_write_bytes,
        facts_id=facts.id if facts else None,
        **kernel_fields(kernel, shape),
        **_bound_fields(result.bound),
        **device_fields(device),
        **versions,
        platform=software.get("platform"),
    )


def stored_facts(
    prospect: PreparedCandidate, kernel: Kernel, device: Device, software: Mapping[str, str | None]
) -> StoredFacts | None:
    """Return the facts of all launches, for a log; ``None`` if any is unknown."""
    result = prospect.result
    if not (result.analysis.is_whole and result.analysis.kernels):
        return None
    what = kernel.kernel_id, result.params, prospect.shape
    tools = tools_made_with(kernel.source.text, software.get("torch"), software.get("cuda"))
    where = device.compute_capability, device.sm_count
    key = facts_key(*what, *where, software.get("triton"), tools)
    return StoredFacts(key, facts_to_json([launch.facts for launch in result.analysis.kernels]))


def complete_measured(
    outcome: Outcome, judgement: Judgement, bound: Bound, device: Device
) -> Outcome:
    """Return a draft, completed and judged; `bound` is adjusted to the observed clock."""
    completed = replace(
        outcome,
        verdict=judgement.verdict,
        created=datetime.now(timezone.utc),
        **_evidence_fields((*judgement.errors, *_need_evidence(judgement.needed))),
        **_protocol_fields(judgement.protocol),
        **_measurement_fields(judgement.measurement),
        **_sample_fields(judgement.samples),
    )
    if completed.verdict is Verdict.CORRECT and completed.clock_mhz is not None:
        seen = at_observed_clock(bound, device, completed.clock_mhz).at.observed_clock_ms
        completed = replace(completed, observed_clock_bound_ms=seen)
    return judge_time(completed, device)


def complete_compared(
    candidate: Outcome, base: Outcome, turns: JudgedTurns, place: int | None
) -> Outcome:
    """Return the outcome of a candidate that took turns with its base.

    Args:
        candidate: its outcome when measured on its own, or a draft, whose verdict the turns give.
        base: likewise.
        turns: the result of the comparison.
        place: the candidate's number in it; ``None`` if it did not take part.
    """
    times, ours, difference, ratio, errors = _compare_turns(turns, place)
    plain = {field.name: field.default for field in fields(Outcome) if field.name in _TIMED}
    plain |= {"throttle_reasons": {}}
    timing = {
        **plain,
        **_protocol_fields(turns.protocol if times else None),
        **_sample_fields(ours),
    }
    is_judged = bool(turns.turns) or (place is not None and turns.failed == place)
    is_draft = candidate.verdict is Verdict.NOT_MEASURED
    return replace(
        candidate,
        verdict=turns.verdict if is_draft and is_judged else candidate.verdict,
        created=datetime.now(timezone.utc),
        **{**timing, **_evidence_fields(errors)},
        comparison=ComparedBase(
            *(base.kernel_id, base.params, difference, base.entry_point, base.source_sha256),
            *(base.path, ratio, times),
        ),
    )


def _compare_turns(turns: JudgedTurns, place: int | None) -> tuple[Any, ...]:
    """Return the base's times, the candidate's samples, difference, ratio and evidence."""
    from solkit.measure.timing import comparison_statistics as statistics  # loads numpy

    if place is None or not turns.turns or turns.protocol is None:
        errors = turns.errors or ("The candidate failed.",)
        return (), Samples(), Difference.NOT_COMPARED, None, errors
    (turn,) = turns.turns
    ratio = statistics.compute_ratio(turn.times_ms[0], turn.times_ms[place], turns.protocol.method)
    difference = Difference.UNSTABLE if turn.unstable else statistics.difference(ratio)
    ours = Samples(candidate_ms=turn.times_ms[place], conditions=turn.conditions)
    return turn.times_ms[0], ours, difference, ratio, turn.unstable + turn.notes


def judge_time(outcome: Outcome, device: Device) -> Outcome:
    """Return the outcome; the time of a correct candidate is compared with its bounds."""
    times = outcome.time_ms, outcome.bound_ms, outcome.hard_bound_ms
    time_ms, bound_ms, hard_ms = times
    is_judged = outcome.verdict is Verdict.CORRECT and outcome.comparison is None
    if not is_judged or time_ms is None or bound_ms is None or hard_ms is None:
        return outcome
    is_measured = outcome.hard_evidence == "measured"
    verdict = time_verdict(time_ms, bound_ms, hard_ms if is_measured else 0.0, device)
    if time_ms >= hard_ms:
        return replace(outcome, verdict=verdict)
    message = f"{time_ms:.4g} ms is under the hard bound of {hard_ms:.4g} ms"
    if not is_measured:
        message += "; what the inputs need was not measured"
    return replace(outcome, verdict=verdict, message=message)


def score_result(result: Result, outcome: Outcome, device: Device) -> Result:
    """Return a result completed by a judged outcome, with score and gap."""
    timed = measurement_of(outcome)
    result = replace(
        result,
        verdict=outcome.verdict,
        protocol=protocol_of(outcome),
        measurement=timed,
        errors=outcome.evidence,
    )
    if timed is None or outcome.verdict not in _SCORED:
        return result
    at = replace(result.bound.at, observed_clock_ms=outcome.observed_clock_bound_ms)
    bound = replace(result.bound, at=at)
    if outcome.hard_evidence == "measured" and outcome.hard_bound_ms is not None:
        at = replace(at, hard_ms=outcome.hard_bound_ms)
        bound = replace(bound, at=at, hard_evidence=outcome.hard_evidence)
    return replace(
        result,
        bound=bound,
        score=score(bound, timed.median_ms, timed.reference_ms),
        gap=decompose_gap(bound, result.analysis.kernels, device, timed),
    )


def measurement_of(outcome: Outcome) -> Measurement | None:
    """Return the timing; ``None`` if there is none, or none of the reference."""
    times = outcome.time_ms, outcome.reference_ms
    time_ms, reference_ms = times
    if time_ms is None or reference_ms is None:
        return None
    return Measurement(
        median_ms=time_ms,
        low_ms=time_ms if outcome.low_ms is None else outcome.low_ms,
        high_ms=time_ms if outcome.high_ms is None else outcome.high_ms,
        kernel_sum_ms=outcome.kernel_sum_ms,
        reference_ms=reference_ms,
        method=outcome.method or "",
        max_error=outcome.max_error or 0.0,
        samples=len(outcome.samples_ms),
        sm_clock_mhz=outcome.clock_mhz,
        launches=tuple(map(_analysis_of, outcome.live_launches)),
    )


def protocol_of(outcome: Outcome) -> Protocol | None:
    """Return how the time was measured; ``None`` without a time."""
    if outcome.method is None:
        return None
    zeros: dict[str, Any] = {"warmup_calls": 0, "seed": 0, "time_limit_s": 0.0}
    zeros["timed_inputs"] = "same"
    values = {name: getattr(outcome, name) or zeros.get(name, "") for name in _PROTOCOL}
    return Protocol(samples=len(outcome.samples_ms), name=outcome.protocol or "", **values)


def _analysis_of(live: LiveLaunch) -> KernelAnalysis:
    launch = Launch(**_copy_fields(live, _LAUNCH))
    return KernelAnalysis(Facts(launch, **_copy_fields(live, _COMPILED), error=live.error))


def _copy_fields(source: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def _evidence_fields(errors: tuple[str, ...]) -> dict[str, Any]:
    return {"evidence": errors, "message": "; ".join(errors)[:MESSAGE_LIMIT] or None}


def _need_evidence(needed: Needed | None) -> tuple[str, ...]:
    """Return the evidence for a hard bound, a sentence."""
    if needed is None:
        return ()
    multiplied = sum(product.needed for product in needed.products)
    products = f" and {multiplied:,} operations on nonzeros" if needed.products else ""
    return (
        f"On the timed inputs any correct kernel needs {needed.read_bytes:,} bytes of input, "
        f"{needed.write_bytes:,} bytes of output{products}: {needed.samples:,} sectors were "
        "changed to see whether the reference's outputs change.",
    )


def _bound_fields(bound: Bound) -> dict[str, Any]:
    return {
        "bound_ms": bound.time_ms,
        "hard_bound_ms": bound.at.hard_ms,
        "hard_evidence": bound.hard_evidence,
        "calibrated_bound_ms": bound.at.calibrated_ms,
        "observed_clock_bound_ms": bound.at.observed_clock_ms,
        "limiter": bound.limiter,
        "precision": bound.precision,
        "operations": dict(bound.flops_by_pipe),
    }


def _protocol_fields(protocol: Protocol | None) -> dict[str, Any]:
    if protocol is None:
        return {}
    return {**_copy_fields(protocol, _PROTOCOL), "protocol": protocol.name}


def _measurement_fields(measurement: Measurement | None) -> dict[str, Any]:
    if measurement is None:
        return {}
    return {
        **_copy_fields(measurement, _MEASURED),
        "time_ms": measurement.median_ms,
        "clock_mhz": measurement.sm_clock_mhz,
        "live_launches": tuple(map(live_launch, measurement.launches)),
    }


def live_launch(analysis: KernelAnalysis) -> LiveLaunch:
    """Return a launch as recorded in a real run."""
    launch, compiled = (
        _copy_fields(analysis.launch, _LAUNCH),
        _copy_fields(analysis.facts, _COMPILED),
    )
    return LiveLaunch(**launch, **compiled, error=analysis.error)


def launched_as_compiled(live: Sequence[LiveLaunch], facts: Sequence[Facts]) -> bool:
    """Tell whether a real run made the launches that the facts describe, with the same binaries.

    PyTorch's operators are left out: a real run notes only Triton's launches.
    """
    compiled = [live_launch(KernelAnalysis(fact)) for fact in facts if not fact.launch.library]
    return Counter(map(_launch_key, live)) == Counter(map(_launch_key, compiled))


def _launch_key(launch: LiveLaunch) -> str:
    """Return the properties that facts and a real run both know exactly."""
    size = launch.num_warps, launch.num_ctas, launch.registers, launch.spills, launch.shared_bytes
    return canonical([launch.name, launch.grid, launch.count, dict(launch.constants), size])


def _sample_fields(samples: Samples) -> dict[str, Any]:
    values: dict[str, Any] = {
        "samples_ms": samples.candidate_ms,
        "reference_samples_ms": samples.reference_ms,
        "neighbours": samples.neighbours,
        "inputs_digest": samples.inputs_digest,
    }
    seen = samples.conditions
    return values if seen is None else {**values, **condition_fields(seen)}


def condition_fields(seen: Conditions) -> dict[str, Any]:
    """NVML's readings during the run, as fields of `Outcome`, without the clock."""
    return {
        **_copy_fields(seen, _CONDITIONS),
        "condition_samples": seen.samples,
        "clock_low_mhz": seen.sm_clock_low_mhz,
        "throttle_reasons": seen.reasons,
    }


def kernel_fields(kernel: Kernel, shape: Mapping[str, Value]) -> dict[str, Any]:
    """Return the fields of an outcome that name its kernel and its problem at a shape."""
    return {
        **_copy_fields(kernel, ("kernel_id", "family", "kind", "origin", "entry_point")),
        "problem_id": kernel.problem_id(shape),
        "implementation": kernel.name,
        "source_sha256": kernel.source.sha256,
        "problem_sha256": kernel.problem.sha256,
        "path": str(kernel.path),
    }


def device_fields(device: Device) -> dict[str, Any]:
    """Return the fields of an outcome that describe the GPU."""
    return {
        "device": device.key,
        "device_name": device.name,
        "device_uuid": device.uuid,
        "compute_capability": device.compute_capability,
        "sm_count": device.sm_count,
        "max_clock_mhz": device.clock_mhz,
        "device_notes": device.notes,
    }
