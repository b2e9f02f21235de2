"""Results of tuning runs: read off their outcomes, never stored beside them.

A run tunes a kernel at a shape on a GPU. Its rows are ordinary `Outcome`s: everything measured, and
one *decision*: the best against the one in use, a row with a `comparison` (`decision_row`).
`results_of_runs` groups rows and says for each run which parameters to use.

::

    rows of one run, kernel, problem, GPU and versions
        chosen_by = "default" ................ the incumbent: what was in use
        the fastest that is correct .......... the winner, unconfirmed
        the last row with a comparison ....... decides: the winner, or keep the incumbent
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from statistics import median

from solkit.core import (
    ComparedBase,
    Difference,
    Final,
    Outcome,
    Ratio,
    TimedParams,
    Tuned,
    TuneVerdict,
    Value,
    Verdict,
    canonical,
)
from solkit.measure.timing.median_interval import median_interval

DECISION = "tuning"
"""The name in `Outcome.extra` under which a decision says what it rests on."""


@dataclass(frozen=True)
class Key:
    """Validity of a finding. Findings with another key are not comparable, and kept apart.

    Attributes:
        kernel_id: the hash of the kernel's files and entry point.
        problem_id: family and shape.
        device: the GPU.
        protocol: how times were taken; ``None`` (and so for all below) where it is not known.
        triton_version, torch_version, cuda_version, solkit_version: of the software used.
    """

    kernel_id: str
    problem_id: str
    device: str
    protocol: str | None = None
    triton_version: str | None = None
    torch_version: str | None = None
    cuda_version: str | None = None
    solkit_version: str | None = None


@dataclass(frozen=True)
class TuningResult:
    """Result of one run for one key.

    Attributes:
        key: what it holds for.
        kernel: the kernel's name.
        shape: every size, with its value.
        run_id: the run.
        incumbent: what was in use; ``None`` if it was not measured. Its times, and the winner's,
            are those of the decision's turns if there were any.
        winner: the fastest; ``None`` if nothing was correct. A file of another tool that tells its
            choice alone has no time.
        verdict: `TuneVerdict.FASTER` if the winner was shown to be faster, head to head.
        confirmed: whether they were compared at all: not if the run was stopped before, or the
            rows come from elsewhere.
        ratio: the winner's time over the incumbent's; ``None`` if they were not compared.
        why: what the decision rests on besides the ratio.
        times: every configuration that has a time, by its canonical text.
        measured: number of configurations that were tried.
        gpu_s: seconds for which the GPU was held for them; ``None`` if no row tells.
        begun, ended: when the first and the last were measured.
        row: a row of the run with a time, for what all of them share (the driver, the GPU's name);
            ``None`` if the run has no rows at hand.
    """

    key: Key
    kernel: str
    shape: Mapping[str, Value]
    run_id: str
    incumbent: TimedParams | None
    winner: TimedParams | None
    verdict: TuneVerdict
    confirmed: bool
    ratio: Ratio | None
    why: str
    times: Mapping[str, TimedParams]
    measured: int
    gpu_s: float | None
    begun: datetime
    ended: datetime
    row: Outcome | None = None

    @property
    def chosen(self) -> TimedParams | None:
        """Parameters to use: the winner's if shown to be faster, or if there is no incumbent."""
        changed = self.verdict is TuneVerdict.FASTER or self.incumbent is None
        return self.winner if changed else self.incumbent


def time_counts(row: Outcome) -> bool:
    """Tell whether a row's time counts: it is correct, or another tool timed it unchecked."""
    right = row.verdict.is_right or row.verdict is Verdict.NOT_MEASURED
    return right and row.time_ms is not None and row.comparison is None


def time_configuration(rows: Iterable[Outcome]) -> TimedParams | None:
    """Return the time of one configuration: its rows' median, in the outer ends of their intervals.

    Args:
        rows: of one configuration; ``None`` is returned if no time of theirs counts.
    """
    held = [row for row in rows if time_counts(row)]
    times_ms = [row.time_ms for row in held if row.time_ms is not None]
    if not times_ms:
        return None
    lows = [row.low_ms for row in held if row.low_ms is not None] + times_ms
    highs = [row.high_ms for row in held if row.high_ms is not None] + times_ms
    return TimedParams(dict(held[-1].params), median(times_ms), min(lows), max(highs))


# -------------------------------------------------------------------------------- writing them


def decision_row(
    winner: Outcome,
    incumbent: Outcome,
    final: Final,
    samples_ms: Sequence[float] = (),
    base_samples_ms: Sequence[float] = (),
) -> Outcome:
    """Return the row that ends a run: what the head-to-head of winner and incumbent showed.

    Append it to the run's log like any outcome. A later decision of the run replaces an earlier
    one: a winner that fails elsewhere is taken back by another decision, whose `Final.difference`
    is `Difference.NOT_SHOWN` and whose evidence says why.

    Args:
        winner: any row of the winner.
        incumbent: any row of the incumbent.
        final: what was shown; `Difference.FASTER` alone means to change.
        samples_ms: the winner's times in the comparison.
        base_samples_ms: the incumbent's.
    """
    base = ComparedBase(
        *(incumbent.kernel_id, incumbent.params, final.difference, incumbent.entry_point),
        *(incumbent.source_sha256, incumbent.path, final.ratio, tuple(base_samples_ms)),
    )
    basis = {"how": final.how, "evidence": list(final.evidence)}
    return replace(
        winner,
        **dict.fromkeys(_OF_A_TIMING),  # type: ignore[arg-type]  # all of them may be None
        created=datetime.now(timezone.utc),
        chosen_by="tuned",
        reference_samples_ms=(),
        samples_ms=tuple(samples_ms),
        comparison=base,
        extra={**winner.extra, DECISION: basis},
    )


_OF_A_TIMING = (
    *("time_ms", "low_ms", "high_ms", "kernel_sum_ms", "reference_ms", "gpu_s", "compile_s"),
    "first_call_s",
)


# -------------------------------------------------------------------------------- reading them


def results_of_runs(rows: Iterable[Outcome]) -> tuple[TuningResult, ...]:
    """Return what each run found for each key, oldest first; where nothing worked there is none.

    Args:
        rows: of a database, a store or a log, in any order.
    """
    runs: dict[tuple[Key, str], list[Outcome]] = {}
    for row in sorted(rows, key=lambda row: row.created):
        runs.setdefault((_result_key(row), row.run_id), []).append(row)
    results = (
        finding
        for (key, run), held in runs.items()
        for finding in _split_by_protocol(key, run, held)
    )
    return tuple(sorted(results, key=lambda finding: finding.ended))


def results_by_key(findings: Iterable[TuningResult]) -> dict[Key, tuple[TuningResult, ...]]:
    """Group findings by key, oldest first. Their winners may differ: all are kept."""
    keys: dict[Key, list[TuningResult]] = {}
    for finding in findings:
        keys.setdefault(finding.key, []).append(finding)
    return {key: tuple(group) for key, group in keys.items()}


def agreed_results(
    findings: Iterable[TuningResult],
) -> tuple[tuple[TuningResult, ...], tuple[str, ...]]:
    """Return one finding per kernel, shape and GPU; a sentence where confirmed ones disagree.

    The newest versions count: those of the last run there. Of several runs with them a confirmed
    one goes before an unconfirmed one, and among these the fastest choice is taken.
    """
    places: dict[tuple[str, str, str], list[TuningResult]] = {}
    for finding in sorted(findings, key=lambda finding: finding.ended):
        if finding.chosen is not None:
            key = finding.key
            places.setdefault((key.kernel_id, key.problem_id, key.device), []).append(finding)
    taken, notes = [], []
    for held in places.values():
        newest = [finding for finding in held if finding.key == held[-1].key]
        best = min(newest, key=lambda finding: (not finding.confirmed, _best_time_ms(finding)))
        taken.append(best)
        confirmed = [finding for finding in newest if finding.confirmed]
        if len({_describe_result(finding) for finding in confirmed}) > 1:
            notes.append(_disagreement(confirmed, best))
    return tuple(taken), tuple(notes)


def finding_of(tuned: Tuned, rows: Iterable[Outcome] = ()) -> TuningResult:
    """Return the result of a tuning as a finding.

    Args:
        tuned: the result.
        rows: of its log, if at hand: they say what else was timed, and the GPU's own name.
    """
    mine = [r for r in rows if (r.kernel_id, r.problem_id) == (tuned.kernel_id, tuned.problem_id)]
    times = _median_times(mine)
    row = next((row for row in reversed(mine) if time_counts(row)), None)
    now = datetime.now(timezone.utc)
    versions = {f"{name}_version": tuned.environment.get(name) for name in _VERSIONS}
    protocol = None if row is None else row.protocol
    measured = {
        canonical(choice.params): choice for choice in (tuned.default, tuned.best) if choice
    }
    return TuningResult(
        Key(tuned.kernel_id, tuned.problem_id, tuned.device, protocol, **versions),
        tuned.kernel,
        tuned.shape,
        run_id=mine[-1].run_id if mine else "",
        incumbent=None if tuned.default.time_ms is None else tuned.default,
        winner=tuned.best,
        verdict=tuned.verdict,
        confirmed=tuned.final is not None and tuned.final.difference is not Difference.NOT_COMPARED,
        ratio=None if tuned.final is None else tuned.final.ratio,
        why=" ".join(tuned.final.evidence) if tuned.final else "",
        times={
            **times,
            **{text: choice for text, choice in measured.items() if choice.time_ms is not None},
        },
        measured=tuned.measured,
        gpu_s=tuned.gpu_s,
        begun=mine[0].created if mine else now,
        ended=mine[-1].created if mine else now,
        row=row,
    )


_VERSIONS = ("triton", "torch", "cuda", "solkit")


def _result_key(row: Outcome) -> Key:
    """Return the key without the protocol, which rows of failures do not have."""
    versions = (getattr(row, f"{name}_version") for name in _VERSIONS)
    return Key(row.kernel_id, row.problem_id, row.device, None, *versions)


def _split_by_protocol(key: Key, run_id: str, rows: Sequence[Outcome]) -> Iterator[TuningResult]:
    """Yield one finding per protocol. Failures count with the protocol that most rows have."""
    protocols = Counter(
        row.protocol
        for row in rows
        if row.samples_ms or row.time_ms is not None or _is_untimed_choice(row)
    )
    usual = max(protocols, key=protocols.__getitem__, default=None)
    for protocol in protocols:
        also = {None} if protocol == usual else set()
        same = [row for row in rows if row.protocol in {protocol} | also]
        finding = _result_of_run(replace(key, protocol=protocol), run_id, same)
        if finding is not None:
            yield finding


def _median_times(rows: Iterable[Outcome]) -> dict[str, TimedParams]:
    configurations: dict[str, list[Outcome]] = {}
    for row in rows:
        configurations.setdefault(canonical(row.params), []).append(row)
    return {
        text: timing
        for text, held in configurations.items()
        if (timing := time_configuration(held))
    }


def _result_of_run(key: Key, run_id: str, rows: Sequence[Outcome]) -> TuningResult | None:
    times = _median_times(rows)
    first = next((row for row in rows if row.chosen_by == "default" and not row.comparison), None)
    last = next((row for row in reversed(rows) if row.comparison is not None), None)
    incumbent = None if first is None else times.get(canonical(first.params))
    reported = next(
        (TimedParams(dict(row.params)) for row in reversed(rows) if _is_untimed_choice(row)), None
    )
    winner = min(times.values(), key=_choice_ms, default=reported)
    verdict, ratio = TuneVerdict.KEEP, None
    if last is not None and last.comparison is not None:
        base = last.comparison
        is_faster = base.difference is Difference.FASTER
        verdict, ratio = TuneVerdict.FASTER if is_faster else TuneVerdict.KEEP, base.ratio
        winner = _compared_params(last.params, last.samples_ms, times)
        incumbent = _compared_params(base.params, base.samples_ms, times)
    if winner is None and incumbent is None:
        return None
    told_s = [row.gpu_s for row in rows if row.gpu_s is not None]
    tried = {canonical(row.params) for row in rows if row.comparison is None}
    return TuningResult(
        key,
        rows[0].implementation or rows[0].entry_point or rows[0].family,
        rows[0].shape,
        run_id,
        incumbent,
        winner,
        verdict,
        confirmed=last is not None,
        ratio=ratio,
        why="" if last is None else _failure_reason(last),
        times=times,
        measured=len(tried),
        gpu_s=math.fsum(told_s) if told_s else None,
        begun=rows[0].created,
        ended=rows[-1].created,
        row=next((row for row in reversed(rows) if time_counts(row)), rows[-1]),
    )


def _is_untimed_choice(row: Outcome) -> bool:
    """Tell whether another tool chose this configuration and its file has no times."""
    is_bare = row.verdict is Verdict.NOT_MEASURED and row.time_ms is None
    return is_bare and row.chosen_by == "tuned" and row.comparison is None


def _compared_params(
    params: Mapping[str, Value], samples_ms: Sequence[float], times: Mapping[str, TimedParams]
) -> TimedParams | None:
    """Return a configuration with its time in the turns, else as measured before."""
    if not samples_ms:
        return times.get(canonical(params))
    interval = median_interval(samples_ms)
    return TimedParams(dict(params), interval.median, interval.low, interval.high)


def _failure_reason(row: Outcome) -> str:
    basis = row.extra.get(DECISION)
    evidence = basis.get("evidence", ()) if isinstance(basis, Mapping) else row.evidence
    return " ".join(map(str, evidence))


def _choice_ms(choice: TimedParams) -> float:
    return math.inf if choice.time_ms is None else choice.time_ms


def _best_time_ms(finding: TuningResult) -> float:
    return math.inf if finding.chosen is None else _choice_ms(finding.chosen)


def _describe_result(finding: TuningResult) -> str:
    return "" if finding.chosen is None else canonical(finding.chosen.params)


def _disagreement(findings: Sequence[TuningResult], taken: TuningResult) -> str:
    listed = "; ".join(
        f"run {finding.run_id} of {finding.ended:%Y-%m-%d} {_describe_result(finding)} at "
        f"{_best_time_ms(finding):.6g} ms"
        for finding in findings
    )
    where = f"{taken.kernel}, {taken.key.problem_id} on {taken.key.device}"
    return f"{where}: runs chose different parameters: {listed}. That of {taken.run_id} is taken."
