"""What tuning runs found: read off their outcomes, never stored beside them.

A run tunes a kernel at a shape on a GPU. Its rows are ordinary `Outcome`s: everything measured, and
one *decision*: the winner against the incumbent in turns, a row with a `comparison` (`decision`).
`results` groups rows and says for each run which parameters to use.

::

    rows of one run, kernel, problem, GPU and versions
        chosen_by = "default" ................ the incumbent
        the fastest that is correct .......... the winner, unconfirmed
        the last row with a comparison ....... decides: the winner, or keep the incumbent
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from statistics import median

from solkit.core import (
    ComparedBase,
    Difference,
    Outcome,
    Params,
    Ratio,
    Value,
    Verdict,
    canonical,
)
from solkit.measure.timing.median_interval import median_interval

__all__ = ["Decided", "Key", "Timed", "Tuned", "by_key", "counts", "decision", "results", "timed"]

DECISION = "tuning"
"""The name in `Outcome.extra` under which a decision says what it rests on."""


class Decided(str, enum.Enum):
    """What a run decided. Never ``None``."""

    CHANGE = "change"
    """The winner beat the incumbent, head to head."""
    KEEP = "keep"
    """No significant win: keep the incumbent."""
    UNCONFIRMED = "unconfirmed"
    """The run was stopped before it compared them, or the rows come from elsewhere."""


@dataclass(frozen=True)
class Key:
    """What a result holds for. Results with another key are not comparable, and kept apart.

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
class Timed:
    """A configuration and its time.

    Attributes:
        params: the configuration.
        time_ms: the median of its rows' times, or of the decision's turns.
        low_ms, high_ms: its 95 % interval; of several rows the outer ends.
        row: its last row.
    """

    params: Params
    time_ms: float
    low_ms: float
    high_ms: float
    row: Outcome


@dataclass(frozen=True)
class Tuned:
    """What one run found for one key.

    Attributes:
        key: what it holds for.
        run_id: the run.
        incumbent: what was used before; ``None`` if it was not measured, or failed.
        winner: the fastest; ``None`` if nothing was correct.
        decided: what the run decided.
        ratio: the winner's time over the incumbent's; ``None`` without a decision.
        why: what the decision rests on besides the ratio.
        measured: number of configurations that were tried.
        gpu_s: seconds for which the GPU was held for them.
        begun, ended: when the first and the last were measured.
        shape: every size, with its value.
    """

    key: Key
    run_id: str
    incumbent: Timed | None
    winner: Timed | None
    decided: Decided
    ratio: Ratio | None
    why: str
    measured: int
    gpu_s: float
    begun: datetime
    ended: datetime
    shape: Mapping[str, Value]

    @property
    def chosen(self) -> Timed | None:
        """What to use: the winner only if it is confirmed, or if there is no incumbent."""
        changed = self.decided is Decided.CHANGE or self.incumbent is None
        return self.winner if changed else self.incumbent

    @property
    def row(self) -> Outcome:
        """A row of the run with a time, for what all of them share."""
        found = self.chosen or self.winner
        assert found is not None, "a result without times is not reported"
        return found.row


def counts(row: Outcome) -> bool:
    """Whether a row's time counts: it is correct, or another tool timed it unchecked."""
    right = row.verdict.is_right or row.verdict is Verdict.NOT_MEASURED
    return right and row.time_ms is not None and row.comparison is None


def decision(
    winner: Outcome,
    incumbent: Outcome,
    difference: Difference,
    ratio: Ratio | None = None,
    samples_ms: Sequence[float] = (),
    base_samples_ms: Sequence[float] = (),
    why: str = "",
) -> Outcome:
    """The row that ends a run: what the head-to-head of winner and incumbent showed.

    Append it to the run's log like any outcome. A bench that compares in turns writes such a row
    itself; a later decision of the run replaces an earlier one, so a winner that fails elsewhere is
    taken back by another decision with `Difference.NOT_SHOWN` and the reason.

    Args:
        winner: any row of the winner.
        incumbent: any row of the incumbent.
        difference: `Difference.FASTER` to change, anything else to keep.
        ratio: the winner's time over the incumbent's.
        samples_ms: the winner's times in the comparison.
        base_samples_ms: the incumbent's.
        why: what the decision rests on, a sentence.
    """
    base = ComparedBase(
        *(incumbent.kernel_id, incumbent.params, difference, incumbent.entry_point),
        *(incumbent.source_sha256, incumbent.path, ratio, tuple(base_samples_ms)),
    )
    return replace(
        winner,
        created=datetime.now(timezone.utc),
        chosen_by="tuned",
        time_ms=None,
        low_ms=None,
        high_ms=None,
        kernel_sum_ms=None,
        gpu_s=None,
        compile_s=None,
        first_call_s=None,
        reference_samples_ms=(),
        samples_ms=tuple(samples_ms),
        comparison=base,
        extra={**winner.extra, DECISION: {"why": why}} if why else winner.extra,
    )


def results(rows: Iterable[Outcome]) -> tuple[Tuned, ...]:
    """What each run found for each key, oldest first; what has no time at all is left out.

    Args:
        rows: of a database, a store or a log, in any order.
    """
    runs: dict[tuple[Key, str], list[Outcome]] = {}
    for row in sorted(rows, key=lambda row: row.created):
        runs.setdefault((_key(row), row.run_id), []).append(row)
    found = (each for (key, run), each_rows in runs.items() for each in _split(key, run, each_rows))
    return tuple(sorted(found, key=lambda each: each.ended))


def by_key(found: Iterable[Tuned]) -> dict[Key, tuple[Tuned, ...]]:
    """Results of one key together, oldest first. Their winners may differ: all are kept."""
    keys: dict[Key, list[Tuned]] = {}
    for each in found:
        keys.setdefault(each.key, []).append(each)
    return {key: tuple(each) for key, each in keys.items()}


def timed(rows: Iterable[Outcome]) -> Timed | None:
    """The time of one configuration from its rows, oldest first; ``None`` if none counts."""
    held = [row for row in rows if counts(row)]
    times_ms = [row.time_ms for row in held if row.time_ms is not None]
    if not times_ms:
        return None
    lows = [row.time_ms if row.low_ms is None else row.low_ms for row in held]
    highs = [row.time_ms if row.high_ms is None else row.high_ms for row in held]
    low_ms = min(each for each in lows if each is not None)
    high_ms = max(each for each in highs if each is not None)
    return Timed(dict(held[-1].params), median(times_ms), low_ms, high_ms, held[-1])


def _key(row: Outcome) -> Key:
    """The key without the protocol, which rows of failures do not have."""
    versions = row.triton_version, row.torch_version, row.cuda_version, row.solkit_version
    return Key(row.kernel_id, row.problem_id, row.device, None, *versions)


def _split(key: Key, run_id: str, rows: Sequence[Outcome]) -> Iterable[Tuned]:
    """One result per protocol. Failures count with the protocol that most rows have."""
    protocols = Counter(row.protocol for row in rows if row.samples_ms or row.time_ms is not None)
    if not protocols:
        return
    (usual, _), *_ = protocols.most_common(1)
    for protocol in protocols:
        same = [row for row in rows if row.protocol == protocol or _without(row, protocol, usual)]
        result = _result(replace(key, protocol=protocol), run_id, same)
        if result is not None:
            yield result


def _without(row: Outcome, protocol: str | None, usual: str | None) -> bool:
    return row.protocol is None and protocol == usual


def _result(key: Key, run_id: str, rows: Sequence[Outcome]) -> Tuned | None:
    configurations: dict[str, list[Outcome]] = {}
    for row in rows:
        if row.comparison is None:
            configurations.setdefault(canonical(row.params), []).append(row)
    times = {params: found for params, each in configurations.items() if (found := timed(each))}
    first = next((row for row in rows if row.chosen_by == "default"), None)
    last = next((row for row in reversed(rows) if row.comparison is not None), None)
    incumbent = None if first is None else times.get(canonical(first.params))
    winner = min(times.values(), key=lambda each: each.time_ms, default=None)
    decided, ratio, why = Decided.UNCONFIRMED, None, ""
    if last is not None and last.comparison is not None:
        decided, ratio, why = _decided(last)
        winner = _in_turns(last, last.samples_ms) or times.get(canonical(last.params))
        base = replace(last, params=last.comparison.params)
        known = times.get(canonical(base.params))
        row = known.row if known else base
        incumbent = _in_turns(row, last.comparison.samples_ms) or known
    if winner is None and incumbent is None:
        return None
    return Tuned(
        key,
        run_id,
        incumbent,
        winner,
        decided,
        ratio,
        why,
        measured=len(configurations),
        gpu_s=math.fsum(row.gpu_s for row in rows if row.gpu_s is not None),
        begun=rows[0].created,
        ended=rows[-1].created,
        shape=rows[0].shape,
    )


def _decided(row: Outcome) -> tuple[Decided, Ratio | None, str]:
    assert row.comparison is not None
    faster = row.comparison.difference is Difference.FASTER
    told = row.extra.get(DECISION)
    why = str(told.get("why", "")) if isinstance(told, Mapping) else ""
    return (Decided.CHANGE if faster else Decided.KEEP), row.comparison.ratio, why


def _in_turns(row: Outcome, samples_ms: Sequence[float]) -> Timed | None:
    """The time of a configuration in a comparison; ``None`` if it has no samples."""
    if not samples_ms:
        return None
    found = median_interval(samples_ms)
    return Timed(dict(row.params), found.median, found.low, found.high, row)
