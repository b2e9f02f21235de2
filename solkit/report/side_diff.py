"""The output of ``solkit diff``: a page, and JSON ``solkit.diff/1``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from solkit.core import CandidateDiff, Diff
from solkit.core.codec import to_json
from solkit.report import units
from solkit.report.widgets import print_plainly

SCHEMA = "solkit.diff/1"
_WORDS = {
    "does_not_run": "no longer run",
    "launches": "make other launches",
    "spills": "spill more",
    "pipeline": "lose a pipeline",
    "warp_specialisation": "lose warp roles",
    "tensor_cores": "use older products",
    "vector_width": "move fewer bytes a thread",
    "sectors": "touch more sectors",
    "traffic": "move more DRAM bytes",
    "bank_conflicts": "meet more bank conflicts",
    "waits": "wait for memory more often",
    "registers": "need more registers",
    "shared_memory": "need more shared memory",
    "occupancy": "have fewer warps at once",
    "barriers": "have more barriers",
    "instructions": "run more instructions",
    "time": "take longer by the model",
    "forecast": "take longer by the surrogate",
}


def dumps(diffs: Sequence[Diff], threshold: float) -> str:
    """Return the diffs as JSON; a factor of something over nothing is ``"Infinity"``."""
    return json.dumps(as_json(diffs, threshold), indent=2, allow_nan=False)


def as_json(diffs: Sequence[Diff], threshold: float) -> dict[str, Any]:
    """Return the diffs as ``solkit.diff/1``.

    Args:
        diffs: of pairs of sides.
        threshold: the share by which a figure must be worse to count.
    """
    return {
        "schema": SCHEMA,
        "threshold": threshold,
        "diffs": [
            {
                "before": to_json(diff.before, complete=True),
                "after": to_json(diff.after, complete=True),
                "exceeding": len(diff.exceeding(threshold)),
                "candidates": [_candidate_json(row, threshold) for row in diff.candidates],
                "failed": dict(diff.failed),
            }
            for diff in diffs
        ],
    }


def _candidate_json(row: CandidateDiff, threshold: float) -> dict[str, Any]:
    document = to_json(row, complete=True)
    changes = [
        {**change, "exceeds": one.exceeds(threshold)}
        for change, one in zip(document["changes"], row.changes, strict=True)
    ]
    return {**document, "ratio": row.ratio, "is_compared": row.is_compared, "changes": changes}


# -------------------------------------------------------------------------------------------- view


@dataclass(frozen=True)
class DiffRow:
    """A candidate in words.

    Attributes:
        kernel: its name.
        configuration: shape and parameters.
        before, after: modelled time, or why there is none.
        ratio: of the modelled times; empty if unknown.
        losses: what got worse by more than the threshold.
        gains: what got better by more than it.
        is_worse: whether there are losses.
        notes: assumptions on one side alone.
    """

    kernel: str
    configuration: str
    before: str
    after: str
    ratio: str
    losses: tuple[str, ...]
    gains: tuple[str, ...]
    is_worse: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class DiffView:
    """A diff in words, from its JSON: the same on terminal and page.

    Attributes:
        title: the sides.
        summary: how many candidates got worse, and in what; then what could not be compared.
        rows: the worst first.
        failed: files that were not compared, with reasons.
    """

    title: str
    summary: tuple[str, ...]
    rows: tuple[DiffRow, ...]
    failed: tuple[tuple[str, str], ...]

    @classmethod
    def from_json(cls, diff: Mapping[str, Any], threshold: float) -> DiffView:
        """Return the view of one entry of ``solkit.diff/1``."""
        rows = tuple(_row_view(row, threshold) for row in diff["candidates"])
        return cls(
            _title(diff["before"], diff["after"]),
            tuple(_summary(diff, threshold)),
            rows,
            tuple(diff["failed"].items()),
        )

    def shown(self, top: int) -> list[DiffRow]:
        """Return the first rows that have something to say."""
        return [row for row in self.rows if row.losses or row.gains][:top]


def _title(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    shared = before["device"] == after["device"]
    where = f" on {before['device']}" if shared else ""
    with_ = f", Triton {before['triton']}" if before["triton"] == after["triton"] else ""
    return f"{before['name']} → {after['name']}{where}{with_}"


def _summary(diff: Mapping[str, Any], threshold: float) -> Iterator[str]:
    rows = diff["candidates"]
    compared = [row for row in rows if row["is_compared"]]
    share = f"{100 * threshold:g} %"
    yield (
        f"{len(compared):,} candidates compared: {diff['exceeding']:,} are worse in a figure by "
        f"over {share}"
    )
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update({change["name"] for change in row["changes"] if change["exceeds"]})
    if counts:
        named = [f"{counts[name]:,} {words}" for name, words in _WORDS.items() if counts[name]]
        yield ", ".join(named)
    if unknown := len(rows) - len(compared):
        yield f"{unknown:,} could not be analysed on both sides, which says nothing about them"


def _row_view(row: Mapping[str, Any], threshold: float) -> DiffRow:
    losses = tuple(_change_words(change) for change in row["changes"] if change["exceeds"])
    gains = tuple(
        _change_words(change)
        for change in row["changes"]
        if not change["is_worse"] and _is_gain(change["factor"], threshold)
    )
    settings = units.format_settings(row["params"])
    shape = units.shape_words(row["shape"])
    return DiffRow(
        row["kernel"],
        f"{shape}; {settings}" if settings else shape,
        _standing_words(row["before"]),
        _standing_words(row["after"]),
        "" if row["ratio"] is None else units.format_ratio(row["ratio"]),
        losses,
        gains,
        bool(losses),
        tuple(f"assumed on one side alone: {note}" for note in row["notes"]),
    )


def _is_gain(factor: float | None, threshold: float) -> bool:
    return factor is None or factor < 1 / (1 + threshold)


def _standing_words(standing: Mapping[str, Any]) -> str:
    if standing["error"]:
        return "does not run"
    return "unknown" if standing["time_ms"] is None else units.duration(standing["time_ms"])


def _change_words(change: Mapping[str, Any]) -> str:
    about = " ".join(filter(None, [change["launch"], change["place"]]))
    return f"{about}: {change['words']}" if about else str(change["words"])


# ---------------------------------------------------------------------------------------- terminal


def render(diffs: Sequence[Diff], threshold: float, top: int, console: Console) -> None:
    """Print the diffs: the worst candidates of each."""
    document = as_json(diffs, threshold)
    views = [DiffView.from_json(diff, threshold) for diff in document["diffs"]]
    print_plainly(Group(*(part for view in views for part in _page(view, top))), console)


def _page(view: DiffView, top: int) -> Iterator[RenderableType]:
    yield Text(view.title, style="bold")
    for line in view.summary:
        yield Text(line)
    shown = view.shown(top)
    if shown:
        yield Text()
        for row in shown:
            yield Text(f"{row.ratio or '–':>6}  {row.kernel}  {row.before} → {row.after}")
            yield Text(f"        {row.configuration}", style="dim")
            said = (*(f"worse   {loss}" for loss in row.losses), *row.notes)
            for line in (*said, *(f"better  {gain}" for gain in row.gains)):
                yield Text(f"        {line}")
    hidden = sum(bool(row.losses or row.gains) for row in view.rows) - len(shown)
    if hidden:
        yield Text(f"{hidden:,} more have changes: --top, --json or --html shows them")
    for path, why in view.failed:
        yield Text(f"not compared: {path}: {why}")
    yield Text()
