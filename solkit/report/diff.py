"""Comparing reports: the same shape in each, and what changed.

Shapes match if their sizes and their work are equal. Two runs of one kernel may differ in work,
which is listed as a change.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solkit.core import Value
from solkit.report import units
from solkit.report.launch_schema import LaunchJson
from solkit.report.overview import NamedReport, Time, launches_seen, time_of
from solkit.report.schema import ReportJson, ResultJson


@dataclass(frozen=True)
class ComparedReport:
    """One candidate of a comparison.

    Attributes:
        name: of its report.
        result: on this shape.
        time: ``None`` if it has no valid one.
        ratio: its time over the first candidate's; ``None`` if one of them is missing.
        judgement: ``"faster"``, ``"slower"``, ``"no difference shown"``, or why the two cannot be
            compared; empty for the first.
        changes: what differs from the first, each a phrase.
    """

    name: str
    result: ResultJson
    time: Time | None
    ratio: float | None
    judgement: str
    changes: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """The candidates for one shape; the others are compared with the first."""

    shape: Mapping[str, Value]
    sol_ms: float
    entries: tuple[ComparedReport, ...]


def compare_reports(reports: Sequence[NamedReport]) -> list[Group]:
    """Return every shape that at least two reports share, in the order of the first."""
    one_kernel = len(reports) == 2 and len({named.report.kernel.name for named in reports}) == 1
    members_by_key: dict[Any, list[tuple[NamedReport, ResultJson]]] = {}
    for named in reports:
        for result in named.report.results:
            key = _comparison_key(result, strict=not one_kernel)
            members_by_key.setdefault(key, []).append((named, result))
    return [_group_of_shape(members) for members in members_by_key.values() if len(members) > 1]


def source_diff(one: ReportJson, other: ReportJson) -> str:
    """Return a unified diff of the kernel's file; empty if nothing changed or a text is missing."""
    texts = [_text_of_report(report) for report in (one, other)]
    if None in texts or texts[0] == texts[1]:
        return ""
    before, after = ((text or "").splitlines() for text in texts)
    paths = (one.kernel.path, other.kernel.path)
    return "\n".join(difflib.unified_diff(before, after, *paths, lineterm=""))


def _text_of_report(report: ReportJson) -> str | None:
    return next((s.text for s in report.sources if s.path == report.kernel.path), None)


def _comparison_key(result: ResultJson, strict: bool) -> tuple[Any, ...]:
    work = result.work
    amounts = (work.flops, work.dram_read_bytes, work.dram_write_bytes) if strict else ()
    return (*sorted((name, repr(value)) for name, value in result.shape.items()), *amounts)


def _group_of_shape(members: Sequence[tuple[NamedReport, ResultJson]]) -> Group:
    first = members[0]
    return Group(
        shape=first[1].shape,
        sol_ms=first[1].bound.time_ms or 0.0,
        entries=tuple(_entry_of_member(first, member) for member in members),
    )


def _entry_of_member(
    first: tuple[NamedReport, ResultJson], member: tuple[NamedReport, ResultJson]
) -> ComparedReport:
    named, result = member
    base, time = time_of(first[1]), time_of(result)
    if member is first:
        return ComparedReport(named.name, result, time, 1.0 if time else None, "", ())
    ratio = time.median_ms / base.median_ms if base and time else None
    judgement = _judge_by_intervals(first[1], base, result, time)
    return ComparedReport(
        named.name, result, time, ratio, judgement, tuple(_changes_since_first(first, member))
    )


def _judge_by_intervals(
    one: ResultJson, base: Time | None, other: ResultJson, time: Time | None
) -> str:
    """Judge by the two intervals; no judgement if they overlap or were measured differently."""
    if base is None or time is None:
        return "no time to compare"
    if base.measured != time.measured:
        return "one is measured, the other modelled"
    if base.measured and _measured_how(one) != _measured_how(other):
        return f"timed differently: {_measured_how(one)} and {_measured_how(other)}"
    by_model = "" if base.measured else " by the model"
    if time.high_ms < base.low_ms:
        return f"faster{by_model}"
    if time.low_ms > base.high_ms:
        return f"slower{by_model}"
    return f"no difference shown{by_model}"


def _measured_how(result: ResultJson) -> str:
    protocol = result.protocol
    return f"{protocol.method} {protocol.name}" if protocol else "unknown"


# -------------------------------------------------------------------------------- changes


def _changes_since_first(
    first: tuple[NamedReport, ResultJson], member: tuple[NamedReport, ResultJson]
) -> Iterator[str]:
    (one, before), (other, after) = first, member
    pairs = {
        "verdict": (before.verdict.value, after.verdict.value),
        "GPU": (one.report.device.name, other.report.device.name),
        "SOL": tuple(_format_duration(result.bound.time_ms) for result in (before, after)),
        "work": (_work_of_result(before), _work_of_result(after)),
        "limiter": (before.bound.limiter, after.bound.limiter),
        "parameters": (units.format_settings(before.params), units.format_settings(after.params)),
        **_environment(one.report, other.report),
    }
    yield from _differing_values(pairs)
    if source_diff(one.report, other.report):
        yield "source: see the lines that changed"
    yield from _launch_changes(launches_seen(before), launches_seen(after))


def _environment(one: ReportJson, other: ReportJson) -> dict[str, tuple[str, str]]:
    names = [name for name in one.environment if name in other.environment]
    return {
        name: (one.environment[name] or "none", other.environment[name] or "none") for name in names
    }


def _launch_changes(before: Sequence[LaunchJson], after: Sequence[LaunchJson]) -> Iterator[str]:
    if [launch.name for launch in before] != [launch.name for launch in after]:
        names = (", ".join(launch.name for launch in side) or "none" for side in (before, after))
        yield "launches: {} → {}".format(*names)
        return
    for one, other in zip(before, after, strict=True):
        earlier, later = _facts_of_launch(one), _facts_of_launch(other)
        prefix = f"{one.name} " if len(before) > 1 else ""
        yield from _differing_values({prefix + k: (earlier[k], later[k]) for k in earlier})


def _facts_of_launch(launch: LaunchJson) -> dict[str, str]:
    occupancy = "none" if launch.occupancy is None else f"{100 * launch.occupancy:.0f} %"
    shared = "none" if launch.shared_bytes is None else units.binary_bytes(launch.shared_bytes)
    if launch.library:
        moved = launch.demand
        amount = units.amount(moved.dram_read_bytes + moved.dram_write_bytes, "B") if moved else ""
        return {"calls": str(launch.count), "bytes": amount}
    return {
        "grid": units.format_grid(launch.grid),
        "warps": str(launch.num_warps),
        "stages": str(launch.num_stages),
        "registers": str(launch.registers),
        "spills": str(launch.spills),
        "shared memory": shared,
        "occupancy": occupancy,
        "waves": "none" if launch.waves is None else f"{launch.waves:.3g}",
    }


def _differing_values(pairs: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for name, (before, after) in pairs.items():
        if before != after:
            yield f"{name}: {before or 'none'} → {after or 'none'}"


def _work_of_result(result: ResultJson) -> str:
    dram_bytes = units.amount(result.work.dram_bytes, "B")
    return f"{units.amount(result.work.flops, 'FLOP')}, {dram_bytes}"


def _format_duration(time_ms: float | None) -> str:
    return "none" if time_ms is None else units.duration(time_ms)
