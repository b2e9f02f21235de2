"""The output of ``solkit judge``: a page, and JSON ``solkit.judge/1``.

::

    JudgeReportJson ─┬─ environment, sources, counts, faults
                     └─ judgements: JudgementJson

Fields may be added, never renamed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from solkit.core.judging import Judgement, JudgeReport, Plausibility
from solkit.report import schema, units, widgets
from solkit.report.record_forms import JsonModel, Number, Setting
from solkit.report.tables import table_without_lines

ORDER = (
    Plausibility.IMPOSSIBLE,
    Plausibility.BEATS_ALGORITHM,
    Plausibility.NEEDS_LOW_PRECISION,
    Plausibility.NEEDS_TENSOR_CORES,
    Plausibility.POSSIBLE,
    Plausibility.NOT_JUDGED,
)
"""The order of a page: the least believable first."""

_SHOWN = 40
_REASONS_SHOWN = 8


def render(report: JudgeReport, console: Console, *, explained: bool = False) -> None:
    """Print a report: counts, the rows that need a look, and with `explained` every row."""
    widgets.print_plainly(Group(*_page(report, explained)), console)


def counts(report: JudgeReport) -> dict[Plausibility, int]:
    """Return the number of rows of each verdict, the least believable first."""
    number = Counter(judgement.plausibility for judgement in report.judgements)
    return {verdict: number[verdict] for verdict in ORDER if number[verdict]}


def worst_first(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Return judgements by verdict, the nearest to the hard bound first."""
    return sorted(
        judgements, key=lambda j: (ORDER.index(j.plausibility), j.hard_slack or float("inf"))
    )


def _page(report: JudgeReport, explained: bool) -> Iterator[RenderableType]:
    total = len(report.judgements)
    words = ", ".join(f"{n} {verdict.value}" for verdict, n in counts(report).items())
    yield Text.assemble((title_of(report), "bold"), f"  {total} times: {words or 'none'}")
    gpus = {j.problem.device.name: j.problem.device for j in report.judgements if j.problem}
    for device in gpus.values():
        yield Text(f"{device.name}: {device.clock_mhz} MHz, the {device.clock_kind.value} clock")
    judged = [j for j in report.judgements if j.plausibility is not Plausibility.NOT_JUDGED]
    shown = worst_first(judged)
    if not explained:
        odd = [j for j in shown if j.suspicions or j.plausibility is not Plausibility.POSSIBLE]
        shown = odd[:_SHOWN] if len(judged) > _SHOWN else shown
    if shown:
        yield Text()
        yield _table(shown)
    if len(shown) < len(judged):
        yield Text(f"{len(judged) - len(shown)} more rows: --explain shows all.", style="dim")
    yield from _remarks(shown if explained else shown[:_REASONS_SHOWN])
    yield from _not_judged(report)
    for fault in report.faults:
        yield Text(fault, style="yellow")


def _table(judgements: Sequence[Judgement]) -> Table:
    table = table_without_lines(
        ["problem", "solution"], ["time", "SOL", "of SOL", "over hard"], ["verdict"]
    )
    for judgement in judgements:
        problem = judgement.problem
        assert problem is not None
        table.add_row(
            Text(problem_words(judgement)),
            Text(solution_words(judgement)),
            units.duration(judgement.time_ms),
            units.duration(problem.bound.time_ms),
            f"{judgement.sol_share or 0:.0%}",
            f"{judgement.hard_slack:.3g}×" if judgement.hard_slack else "-",
            Text(verdict_words(judgement)),
        )
    return table


def title_of(report: JudgeReport) -> str:
    """Return the name of the file, or the number of files."""
    first = Path(report.sources[0]).name
    return first if len(report.sources) == 1 else f"{len(report.sources)} files"


def problem_words(judgement: Judgement) -> str:
    """Return the problem, by its file if that has a telling name, and its sizes."""
    row, problem = judgement.row, judgement.problem
    name, shape = row.family, row.shape if problem is None else problem.shape or row.shape
    if row.family == "kernelbench" and problem is not None:
        path = Path(problem.path)
        name, shape = f"{path.parent.name}/{path.stem}", problem.shape
    return f"{name} {units.shape_words(shape)}".strip()


def solution_words(judgement: Judgement) -> str:
    """Return the name of the solution, or of the kernel's function."""
    return judgement.row.implementation or judgement.row.entry_point or ""


def verdict_words(judgement: Judgement) -> str:
    """Return the verdict, with its resource where there is one, and a mark for suspicions."""
    words = judgement.plausibility.value.replace("_", " ")
    if judgement.plausibility is Plausibility.IMPOSSIBLE:
        words += f" ({judgement.limiter})"
    return words + (", suspicious" if judgement.suspicions else "")


def _remarks(judgements: Sequence[Judgement]) -> Iterator[RenderableType]:
    for judgement in judgements:
        for sentence in (*judgement.reasons, *judgement.suspicions):
            yield Text(f"{problem_words(judgement)}, {solution_words(judgement)}: {sentence}")


def _not_judged(report: JudgeReport) -> Iterator[RenderableType]:
    reasons = Counter(
        reason
        for judgement in report.judgements
        if judgement.plausibility is Plausibility.NOT_JUDGED
        for reason in judgement.reasons
    )
    for reason, number in reasons.most_common(_REASONS_SHOWN):
        yield Text(f"not judged ({number}): {reason}", style="yellow")
    if len(reasons) > _REASONS_SHOWN:
        rest = sum(n for _, n in reasons.most_common()[_REASONS_SHOWN:])
        yield Text(f"not judged ({rest}): for {len(reasons) - _REASONS_SHOWN} more reasons")


# --------------------------------------------------------------------------------------- JSON


class JudgementJson(JsonModel):
    """`solkit.core.judging.Judgement`."""

    problem: str
    shape: dict[str, Setting]
    solution: str
    device: str
    path: str | None
    time_ms: Number | None
    margin_ms: Number
    plausibility: str
    limiter: str
    l2: str | None
    bound_ms: Number | None
    warm_bound_ms: Number | None
    hard_bound_ms: Number | None
    proven_bound_ms: Number | None
    declared_ms: Number | None
    sol_share: Number | None
    hard_slack: Number | None
    precision: str | None
    reasons: list[str]
    suspicions: list[str]


class JudgeReportJson(JsonModel):
    """`solkit.core.judging.JudgeReport`: what ``solkit judge --json`` writes."""

    schema_: Literal["solkit.judge/1"] = Field(alias="schema")
    environment: dict[str, str | None]
    sources: list[str]
    counts: dict[str, int]
    judgements: list[JudgementJson]
    faults: list[str]


def dumps(report: JudgeReport) -> str:
    """Return a report as JSON text in ASCII."""
    model = JudgeReportJson(
        schema="solkit.judge/1",
        environment=dict(report.environment),
        sources=list(report.sources),
        counts={verdict.value: number for verdict, number in counts(report).items()},
        judgements=[_judgement_model(judgement) for judgement in report.judgements],
        faults=list(report.faults),
    )
    return schema.text_of(model)


def _judgement_model(judgement: Judgement) -> JudgementJson:
    row, problem = judgement.row, judgement.problem
    return JudgementJson(
        problem=row.family,
        shape=dict(row.shape if problem is None else problem.shape or row.shape),
        solution=solution_words(judgement),
        device=row.device if problem is None else problem.device.key,
        path=None if problem is None else problem.path,
        time_ms=judgement.time_ms,
        margin_ms=judgement.margin_ms,
        plausibility=judgement.plausibility.value,
        limiter=judgement.limiter,
        l2=None if problem is None else problem.l2,
        bound_ms=None if problem is None else problem.bound.time_ms,
        warm_bound_ms=None if problem is None else problem.warm_ms,
        hard_bound_ms=None if problem is None else problem.hard_ms,
        proven_bound_ms=None if problem is None else problem.proven_ms,
        declared_ms=None if problem is None else problem.declared_ms,
        sol_share=judgement.sol_share,
        hard_slack=judgement.hard_slack,
        precision=None if problem is None else problem.bound.precision,
        reasons=list(judgement.reasons),
        suspicions=list(judgement.suspicions),
    )
