"""A referee for other people's numbers: reported times against what their problems need.

Other people's inputs and timers are unknown. So a time is impossible only if it is below the hard
bound with inputs in L2 (unless the report says that it was flushed), at a clock that no board of
the very GPU exceeds, by more than the clock's margin (`solkit.roofline.score`), the timer's
resolution and the digits that were printed; and only if no plan that was proven equal
(`solkit.pipeline.best_algorithm`) needs less.
"""

from __future__ import annotations

import ast
import json
import math
import os
import random
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from solkit.analysis.analyser import Analyser
from solkit.analysis.pool import usable_cores
from solkit.analysis.study import StudyPlan, describe, study
from solkit.core import Case, Device, Outcome, Source, Value, Verdict, progress
from solkit.core.judging import JudgedProblem, Judgement, JudgeReport, Plausibility
from solkit.core.parsing import syntax_tree
from solkit.core.quantities import duration
from solkit.datasets import formats
from solkit.datasets.formats.cuda_l1 import SPEED_UP
from solkit.datasets.formats.kernelbench_com import SHAPE_INDEX
from solkit.datasets.formats.times_table import RESOLUTION_MS
from solkit.errors import InputError, SolkitError, UnknownDeviceError
from solkit.pipeline.best_algorithm import BEST_LIMIT_S, search_plan
from solkit.pipeline.environment import environment
from solkit.pipeline.studying import STUDY_LIMIT_S
from solkit.pipeline.target import named_device, target_device
from solkit.roofline import devices, hard_bound
from solkit.roofline.cases import bound_of_case
from solkit.roofline.score import CLOCK_MARGIN

Shape = Mapping[str, Value]

EVENT_RESOLUTION_MS = 0.5e-3
"""Resolution of CUDA events: CUDA Runtime API, ``cudaEventElapsedTime``, "a resolution of around
0.5 microseconds". A timer that is not named counts as one."""

LAUNCH_MS = 1e-3
"""A time below this is suspicious: an H100 takes 1.2 µs to start and end an empty kernel in a graph
(`launch_us` of roofline/catalogue.toml)."""

_ALIKE = 0.02  # times of one solution that differ by less are equal
_ALIKE_SHARE = 0.25  # of a solution's times: fewer equal ones say nothing
_SPREAD = 2.0  # rooflines of three shapes that differ by more must show in times
_LAUNCHED, _LAUNCHED_AMONG_OTHERS = 10.0, 3.0  # times over rooflines that launches explain
_EXACT_DIGITS, _EXACT_SPREAD = 4, 4.0  # two shapes' times that agree in as many digits are equal
_LOWER_PRECISIONS = ("bf16", "fp8")


def judge(
    sources: Sequence[str | os.PathLike[str]],
    *,
    problems: str | os.PathLike[str] | None = None,
    device: str | None = None,
    baseline: str | os.PathLike[str] | None = None,
    format_name: str | None = None,
    time_limit_s: float = STUDY_LIMIT_S,
    most_rows: int = 0,
    folder: str | os.PathLike[str] | None = None,
) -> JudgeReport:
    """Judge the times of files, without a GPU.

    Args:
        sources: files of any format with rows that `solkit.datasets.formats` reads.
        problems: a folder with the problems' files; not needed for rows that bring their own.
        device: the GPU that the times are of; by default the one that the row names. Where that may
            be several (``h100``), a time is impossible if it is so on each.
        baseline: a file with times of the references, for rows that hold speed-ups alone.
        format_name: one of `solkit.datasets.formats.FORMATS`; by default the one that recognises.
        time_limit_s: seconds that tracing one problem at one shape may take.
        most_rows: rows of a file to judge; of more, as many drawn at random. 0 for all.
        folder: where the problems that rows bring with them are written; a temporary one by
            default.

    Raises:
        InputError: no file can be read, the folder is missing, or a device is unknown.
    """
    labels = formats.Labels(device=None if device is None else named_device(device).key)
    files, faults = _read_files(sources, format_name, labels)
    references_ms: dict[str, float] = {}
    if baseline is not None:
        timed = formats.read(baseline, None, labels, numbers=False)
        faults += timed.faults
        references_ms = {_problem_key(row): row.time_ms for row in timed.rows if row.time_ms}
    reports = [
        report for file in files for report in _drawn(_reports(file.rows, references_ms), most_rows)
    ]
    texts = [source for file in files for source in file.sources]
    with TemporaryDirectory() as written:
        places = _Problems(problems, texts, Path(folder or written))
        judged = _judge_reports(reports, places, device, time_limit_s)
    names = tuple(os.fspath(source) for source in sources)
    return JudgeReport(environment(), names, _with_suspicions(judged), tuple(faults))


def _read_files(
    sources: Sequence[str | os.PathLike[str]], format_name: str | None, labels: formats.Labels
) -> tuple[list[formats.Imported], list[str]]:
    """Return the content of each file that can be read, and what could not.

    Raises:
        InputError: none can be read; the first one's error.
    """
    files: list[formats.Imported] = []
    errors: list[InputError] = []
    for source in sources:
        try:
            files.append(formats.read(source, format_name, labels, numbers=False))
        except InputError as error:
            errors.append(error)
    if errors and not files:
        raise errors[0]
    return files, [*map(str, errors), *(fault for file in files for fault in file.faults)]


def judge_time(
    problem: str | os.PathLike[str],
    time_ms: float,
    *,
    shape: Shape | None = None,
    device: str | Device | None = None,
    resolution_ms: float = 0.0,
    time_limit_s: float = STUDY_LIMIT_S,
) -> JudgeReport:
    """Judge one time of a problem, without a GPU.

    Args:
        problem: a kernel file, or a problem folder.
        time_ms: the reported time.
        shape: sizes to override; the file's first shape otherwise.
        device: the GPU; by default as for `solkit.pipeline.bounds`.
        resolution_ms: half a unit of the time's last digit.
        time_limit_s: as for `judge`.

    Raises:
        InputError: the file, the shape or the device is invalid.
    """
    path = os.fspath(problem)
    to = target_device(device)
    row = formats.imported_row(
        *("reported", formats.Labels(), Path(path).stem, shape or {}, "kernel"),
        device=to.key,
        params={},
        created=datetime.now(timezone.utc),
        verdict=Verdict.CORRECT,
        time_ms=time_ms,
    )
    need = _Need(path, _key(shape or {}), to.key, "warm")
    targets = {to.key: (to,)}
    result = _bounded([need], {need.case: shape or {}}, targets, time_limit_s)[need]
    if isinstance(result, str):
        raise InputError(result)
    referee = _Referee(targets)
    judgement = referee.judge(row, time_ms, resolution_ms + EVENT_RESOLUTION_MS, need, result)
    return JudgeReport(environment(), (path,), _with_suspicions([judgement]))


# ------------------------------------------------------------------------------- the problems


class _Problems:
    """The files of problems by what reports call them.

    Args:
        folder: searched for KernelBench files (``level1/19_ReLU.py``), definitions of
            SOL-ExecBench and FlashInfer-Bench, ``NAME/reference.py`` and ``NAME.py``.
        sources: texts that rows bring with them.
        written: a folder that they are written to.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None, sources: Iterable[Source], written: Path
    ) -> None:
        self._folder, self._written = folder, written
        self._sources = {source.sha256: source for source in sources}
        self._paths: dict[str, set[Path]] = defaultdict(set)
        self._workloads: dict[Path, str] = {}
        if folder is not None:
            if not Path(folder).exists():
                raise InputError(f"--problems {folder}: no such file or folder")
            for path in _problem_files(Path(folder)):
                for name in _names_of(path):
                    self._paths[name].add(path)

    def find(self, row: Outcome) -> str:
        """Return the path of a row's problem.

        Raises:
            InputError: it has none, or several; says what was looked for.
        """
        source = self._sources.get(row.problem_sha256 or "")
        if source is not None:
            path = self._written / source.sha256[:16] / Path(source.name).name
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                path.write_text(source.text, encoding="utf-8")
            return str(path)
        name = _problem_key(row)
        paths = sorted(self._paths.get(name, ()))
        if len(paths) > 1:  # copies, or the text of a definition's reference beside it
            paths = [p for p in paths if not _repeats(p, paths)]
            paths = [p for p in paths if self._lists_workload_of(row, p)] or paths
        if len(paths) == 1 or len({path.read_bytes() for path in paths}) == 1:
            return str(paths[0])
        if paths:
            raise InputError(f"several files are called {name}: {', '.join(map(str, paths[:3]))}")
        where = "give --problems FOLDER" if self._folder is None else f"not below {self._folder}"
        raise InputError(f"no problem is called {name}: {where}")

    def shape_of(self, row: Outcome, path: str) -> Shape:
        """Return the sizes of a row in the problem's own names.

        Raises:
            InputError: the row tells its shape by a number that the problem does not have.
        """
        shape = {name: value for name, value in row.shape.items() if name != SHAPE_INDEX}
        if row.family == "kernelbench":
            return {}
        if SHAPE_INDEX in row.shape:
            return {**shape, **_listed_shape(Path(path).with_name("shapes.py"), row)}
        if self._lists_workload_of(row, Path(path)):
            return {**shape, "uuid": row.extra["workload"]}
        return shape

    def _lists_workload_of(self, row: Outcome, definition: Path) -> bool:
        """Tell whether a definition's workloads include a row's; else its sizes alone are known."""
        uuid = row.extra.get("workload")
        if not isinstance(uuid, str):
            return False
        if definition not in self._workloads:
            self._workloads[definition] = _workloads(definition)
        return uuid in self._workloads[definition]


def _problem_files(folder: Path) -> Iterator[Path]:
    if folder.is_file():
        yield folder
        return
    for suffix in ("*.py", "*.json"):
        for path in sorted(folder.rglob(suffix)):
            if not any(part.startswith(".") for part in path.relative_to(folder).parts):
                yield path


def _names_of(path: Path) -> Iterator[str]:
    """Yield what reports may call a file's problem; nothing if it is none."""
    folder = path.absolute().parent
    if path.suffix == ".json":
        if path.name == "definition.json" or "definitions" in folder.parts:
            yield folder.name if path.name == "definition.json" else path.stem
            yield from _named_in(path)
        return
    level, number = re.search(r"level[_-]?(\d+)$", folder.name), re.match(r"(\d+)_", path.stem)
    if level and number:
        yield f"level{level[1]}/{number[1]}"
    yield folder.name if path.stem == "reference" else path.stem


def _named_in(definition: Path) -> Iterator[str]:
    """Yield the name that a definition gives itself, which traces use."""
    try:
        record = json.loads(definition.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # whoever asks for it by its path hears why
    if isinstance(record, dict) and isinstance(record.get("name"), str):
        yield record["name"]


def _repeats(path: Path, others: Sequence[Path]) -> bool:
    """Tell whether a file is only the text of a definition's reference beside it."""
    return path.name == "reference.py" and path.with_name("definition.json") in others


def _workloads(definition: Path) -> str:
    """Return the text of a definition's workloads: of SOL-ExecBench, or of FlashInfer-Bench."""
    files = [definition.with_name("workload.jsonl")]
    parts = definition.parts
    if "definitions" in parts:
        root = Path(*parts[: parts.index("definitions")])
        files = sorted((root / "workloads").rglob(f"{definition.stem}.jsonl"))
    return "".join(file.read_text(encoding="utf-8") for file in files if file.is_file())


def _problem_key(row: Outcome) -> str:
    if row.family == "kernelbench" and "problem" in row.shape:
        level = row.shape.get("level")
        return f"level{level}/{row.shape['problem']}" if level else str(row.shape["problem"])
    return Path(row.family).stem if row.family.endswith(".py") else row.family


def _listed_shape(file: Path, row: Outcome) -> dict[str, Value]:
    """Return an entry of a file's ``SHAPES``, read without running it."""
    index = row.shape[SHAPE_INDEX]
    assert isinstance(index, int)
    try:
        tree = syntax_tree(file.read_text(encoding="utf-8"))
        shapes = next(
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == "SHAPES" for t in node.targets)
        )
        return dict(shapes[index])
    except (OSError, SyntaxError, StopIteration, ValueError, IndexError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise InputError(f"{file} has no SHAPES[{index}]: {why}") from error


# -------------------------------------------------------------------------------- the bounds


class _Need(NamedTuple):
    """Key of the needs of a problem: its file, a shape, a GPU, and the state of L2."""

    path: str
    shape: str
    device: str
    l2: str

    @property
    def case(self) -> tuple[str, str]:
        """The key of the traced problem."""
        return self.path, self.shape


class _Traced(NamedTuple):
    """A traced problem and its needs."""

    case: Case
    problem: JudgedProblem


def _judge_reports(
    reports: Sequence[_Report], places: _Problems, device: str | None, time_limit_s: float
) -> list[Judgement]:
    located: list[_Need | str] = []
    shapes: dict[tuple[str, str], Shape] = {}
    targets = _Targets(device)
    for row in (report.row for report in reports):
        try:
            if not row.time_ms and (row.verdict.is_failure or not row.extra.get(SPEED_UP)):
                raise InputError(_why_no_time(row))
            path = places.find(row)
            shape = places.shape_of(row, path)
            gpu = targets.find(row.device_name or row.device)
            need = _Need(path, _key(shape), gpu, "cold" if row.l2 == "cold" else "warm")
            located.append(need)
            shapes.setdefault(need.case, shape)
        except InputError as error:
            located.append(str(error))
    keys = [need for need in located if isinstance(need, _Need)]
    needs = _bounded(list(dict.fromkeys(keys)), shapes, targets.by_name, time_limit_s)
    referee, judgements = _Referee(targets.by_name), []
    for report, place in zip(reports, located, strict=True):
        row, traced = report.row, place if isinstance(place, str) else needs[place]
        if isinstance(place, str) or isinstance(traced, str):
            judgements.append(_not_judged(row, str(traced)))
        elif row.time_ms is None:
            judgements.append(_speed_up_alone(row, traced.problem))
        else:
            judgements.append(referee.judge(row, row.time_ms, report.margin_ms, place, traced))
    return judgements


class _Targets:
    """The GPUs of reports, each looked up once.

    Args:
        device: the GPU of all reports; ``None`` if each row names its own.
    """

    def __init__(self, device: str | None) -> None:
        self._all = None if device is None else named_device(device)
        self._unknown: dict[str, InputError] = {}
        self.by_name: dict[str, tuple[Device, ...]] = {}
        """The GPUs that a name may mean; the likeliest first."""

    def find(self, name: str) -> str:
        """Return the key in `by_name` of the GPU that a row names.

        Raises:
            InputError: the catalogue lacks it.
        """
        if self._all is not None:
            self.by_name[self._all.key] = (self._all,)
            return self._all.key
        if name not in self.by_name and name not in self._unknown:
            try:
                self.by_name[name] = devices.namesakes(name)
            except UnknownDeviceError as error:
                self._unknown[name] = InputError(f"{error}; --device names the GPU")
        if name in self._unknown:
            raise self._unknown[name]
        return name


def _bounded(
    needs: Sequence[_Need],
    shapes: Mapping[tuple[str, str], Shape],
    targets: Mapping[str, tuple[Device, ...]],
    time_limit_s: float,
) -> dict[_Need, _Traced | str]:
    """Return the needs of each problem and shape on each device, or why there are none."""
    bounded: dict[_Need, _Traced | str] = {}
    if not needs:
        return bounded
    by_case: dict[tuple[str, str], list[_Need]] = defaultdict(list)
    for need in needs:
        by_case[need.case].append(need)
    with (
        Analyser(targets[needs[0].device][0], limit_s=time_limit_s) as analyser,
        ThreadPoolExecutor(usable_cores()) as pool,  # each waits for a child process
    ):
        traced = pool.map(lambda case: _traced(analyser, case[0], shapes[case]), by_case)
        for done, (key, case) in enumerate(zip(by_case, traced, strict=True), 1):
            progress.tell("problems traced", done, len(by_case))
            for need in by_case[key]:
                bounded[need] = (
                    case
                    if isinstance(case, str)
                    else _Traced(case, _needs_of(need, case, targets[need.device]))
                )
    return bounded


def _traced(analyser: Analyser, path: str, shape: Shape) -> Case | str:
    """Return the traced problem, or why it cannot be traced."""
    try:
        own = _in_own_names(shape, describe(analyser, path, None).problem.sizes)
        result = study(analyser, StudyPlan(path, None, [own] if own else None, {}, False, None))
    except SolkitError as error:
        return str(error)
    return result.cases[0] if result.cases else result.failed[0].error


def _in_own_names(shape: Shape, sizes: Iterable[str]) -> Shape:
    """Return a shape with names as the problem spells them: reports differ in upper case alone."""
    folded: dict[str, list[str]] = defaultdict(list)
    for name in sizes:
        folded[name.lower()].append(name)
    own = set(sizes)
    return {
        folded[name.lower()][0] if name not in own and len(folded[name.lower()]) == 1 else name: v
        for name, v in shape.items()
    }


def _needs_of(need: _Need, case: Case, targets: Sequence[Device]) -> JudgedProblem:
    device, l2 = targets[0], need.l2
    roofline = bound_of_case(case, device, "tolerance", l2)
    times_ms = {"": roofline.time_ms}
    times_ms |= {p: bound_of_case(case, device, p, l2).time_ms for p in _LOWER_PRECISIONS}
    least = min(times_ms, key=lambda precision: times_ms[precision])
    sure = (devices.at_any_clock(device), *targets[1:])
    proven = [_hard_part(case, target, l2) for target in sure]
    limiter, proven_ms = min(proven, key=lambda part: part[1])
    doubts = []
    if proven[0][1] < roofline.at.hard_ms:
        doubts.append(f"The highest clock of {device.name} is not known.")
    if proven_ms < proven[0][1]:
        doubts.append(f"{need.device!r} may also be: {', '.join(t.name for t in targets[1:])}.")
    if case.work.guesses:
        doubts.append(f"Values were guessed: {case.work.guesses[0]}")
    if case.work.unmodelled:
        doubts.append(f"Not modelled: {', '.join(case.work.unmodelled)}.")
    return JudgedProblem(
        path=need.path,
        shape=case.shape,
        device=device,
        work=case.work,
        bound=bound_of_case(case, device, "tolerance", "cold"),
        l2=l2,
        warm_ms=roofline.time_ms,
        hard_ms=roofline.at.hard_ms,
        proven_ms=0.0 if case.work.guesses else proven_ms,
        hard_limiter=limiter,
        declared_ms=bound_of_case(case, device, "declared", l2).time_ms,
        least_ms=times_ms[least],
        least_precision=least,
        doubts=tuple(doubts),
    )


def _hard_part(case: Case, device: Device, l2: str) -> tuple[str, float]:
    """Return what the hard bound rests on, and the bound."""
    times_ms = hard_bound.hard_times_ms(case.work, device, case.tolerance, l2)
    return max(times_ms.items(), key=lambda part: part[1])


# ------------------------------------------------------------------------------ the judgement


class _Referee:
    """Judges times; before one is called impossible, a plan may lower what the problem needs.

    Args:
        targets: the GPUs that each name of a device may mean.
    """

    def __init__(self, targets: Mapping[str, tuple[Device, ...]]) -> None:
        self._targets = targets
        self._reviewed: dict[_Need, JudgedProblem] = {}

    def judge(
        self, row: Outcome, time_ms: float, margin_ms: float, need: _Need, traced: _Traced
    ) -> Judgement:
        """Return the judgement of a time."""
        judgement = _judged(row, time_ms, margin_ms, traced.problem)
        if judgement.plausibility is not Plausibility.IMPOSSIBLE:
            return judgement
        if need not in self._reviewed:
            self._reviewed[need] = self._review(need, traced)
        return _judged(row, time_ms, margin_ms, self._reviewed[need])

    def _review(self, need: _Need, traced: _Traced) -> JudgedProblem:
        """Return the needs with those of a plan that ran equal, where it needs less."""
        case, problem = traced
        with Analyser(problem.device) as analyser:
            plan = search_plan(analyser, (need.path, None), case.shape, BEST_LIMIT_S)
        if plan.work is None:
            return problem
        planned = _needs_of(need, replace(case, work=plan.work), self._targets[need.device])
        if planned.proven_ms >= problem.proven_ms:
            return problem
        return replace(
            problem,
            hard_ms=min(planned.hard_ms, problem.hard_ms),
            proven_ms=planned.proven_ms,
            hard_limiter=planned.hard_limiter,
            plan=f"{'; '.join(plan.steps)}: {duration(planned.bound.time_ms)}",
        )


def _judged(row: Outcome, time_ms: float, margin_ms: float, problem: JudgedProblem) -> Judgement:
    longest_ms = time_ms + margin_ms
    name = duration(time_ms)
    judgement = Judgement(
        row, Plausibility.POSSIBLE, time_ms, margin_ms, problem, problem.bound.limiter
    )
    if longest_ms < CLOCK_MARGIN * problem.proven_ms:
        return replace(
            judgement,
            plausibility=Plausibility.IMPOSSIBLE,
            limiter=problem.hard_limiter,
            reasons=(
                f"{name} is {problem.hard_ms / longest_ms:.3g} times under the hard bound, "
                f"{duration(problem.hard_ms)}: no correct kernel does this on "
                f"{problem.device.name}.",
                *(d for d in problem.doubts if problem.proven_ms < problem.hard_ms),
            ),
        )
    doubts = problem.doubts if longest_ms < problem.hard_ms else ()
    if longest_ms < problem.least_ms:
        return replace(
            judgement,
            plausibility=Plausibility.BEATS_ALGORITHM,
            reasons=(
                f"{name} is under the roofline of the traced algorithm, "
                f"{duration(problem.least_ms)}{_even_in(problem.least_precision)}: it takes "
                "another algorithm, finds data in L2, or leaves out what its inputs do not need.",
                *([f"An algorithm that was proven equal: {problem.plan}."] if problem.plan else []),
                *doubts,
            ),
        )
    if longest_ms < problem.warm_ms:
        return replace(
            judgement,
            plausibility=Plausibility.NEEDS_LOW_PRECISION,
            reasons=(
                f"{name} takes less precision than SolKit's referee accepts: "
                f"{problem.bound.precision} needs {duration(problem.warm_ms)}, "
                f"{problem.least_precision} {duration(problem.least_ms)}.",
                *doubts,
            ),
        )
    if longest_ms < problem.declared_ms:
        return replace(
            judgement,
            plausibility=Plausibility.NEEDS_TENSOR_CORES,
            reasons=(
                f"{name} takes tensor cores: without them the declared dtypes need "
                f"{duration(problem.declared_ms)}.",
            ),
        )
    return judgement


def _even_in(precision: str) -> str:
    return f" even in {precision}" if precision else ""


def _not_judged(row: Outcome, reason: str) -> Judgement:
    return Judgement(row, Plausibility.NOT_JUDGED, row.time_ms, reasons=(reason,))


def _speed_up_alone(row: Outcome, problem: JudgedProblem) -> Judgement:
    """Return what a speed-up without a time says: how slow its reference must be."""
    speed_up = float(row.extra[SPEED_UP])
    reason = (
        f"it is a speed-up of {speed_up:g}, not a time: true only if the reference takes at least "
        f"{duration(speed_up * problem.proven_ms)}; --baseline FILE gives the references' times"
    )
    return replace(_not_judged(row, reason), problem=problem)


def _why_no_time(row: Outcome) -> str:
    return f"it has no time: {row.verdict.value}" if row.verdict.is_failure else "it has no time"


@dataclass(frozen=True)
class _Digits:
    """Rounding of a file's numbers, as far as they show it.

    Attributes:
        decimals: the most digits after the point of any number.
        significant: the most significant digits of any number.
    """

    decimals: int = 0
    significant: int = 0

    def half_unit(self, value: float) -> float:
        """Return half a unit of the last digit that a number of the file may have."""
        leading = math.floor(math.log10(value))
        return 0.5 * 10.0 ** max(-self.decimals, leading - self.significant + 1)


def _digits_of(values: Iterable[float]) -> _Digits:
    numbers = [Decimal(repr(value)).normalize().as_tuple() for value in values]
    return _Digits(
        max((-int(number.exponent) for number in numbers), default=0),
        max((len(number.digits) for number in numbers), default=0),
    )


@dataclass(frozen=True)
class _Report:
    """A row of a file, and how much longer its true time may have been."""

    row: Outcome
    margin_ms: float


def _reports(rows: Sequence[Outcome], references_ms: Mapping[str, float]) -> list[_Report]:
    """Return the rows of a file; a speed-up over a known time becomes a time."""
    digits = _digits_of(row.time_ms for row in rows if row.time_ms)
    return [_report(row, digits, references_ms.get(_problem_key(row))) for row in rows]


def _drawn(reports: Sequence[_Report], most: int) -> Sequence[_Report]:
    """Return at most so many reports, in their order; 0 for all."""
    if not most or len(reports) <= most:
        return reports
    places = sorted(random.Random(0).sample(range(len(reports)), most))
    return [reports[place] for place in places]


def _report(row: Outcome, digits: _Digits, reference_ms: float | None) -> _Report:
    speed_up = row.extra.get(SPEED_UP)
    if row.time_ms and RESOLUTION_MS in row.extra:
        rounded_ms = float(row.extra[RESOLUTION_MS])
    elif row.time_ms:
        rounded_ms = digits.half_unit(row.time_ms)
    elif speed_up and reference_ms:
        row = replace(row, time_ms=reference_ms / speed_up, reference_ms=reference_ms)
        shares = (_digits_of([n]).half_unit(n) / n for n in (reference_ms, float(speed_up)))
        rounded_ms = reference_ms / speed_up * sum(shares)
    else:
        rounded_ms = 0.0
    return _Report(row, rounded_ms + EVENT_RESOLUTION_MS)


def _with_suspicions(judgements: Sequence[Judgement]) -> tuple[Judgement, ...]:
    groups: dict[Any, list[int]] = defaultdict(list)
    for number, judgement in enumerate(judgements):
        problem, row = judgement.problem, judgement.row
        if problem is not None and judgement.time_ms is not None:
            options = {name: v for name, v in problem.shape.items() if isinstance(v, str)}
            solution = row.implementation or row.kernel_id
            groups[solution, problem.path, problem.device.key, _key(options)].append(number)
    equal = {
        number: sentence
        for group in groups.values()
        for alike in _alike(group, judgements)
        if len(alike) >= _ALIKE_SHARE * len(group)  # by chance some are, among many
        if (sentence := _equal_times([judgements[n] for n in alike], len(alike) < len(group)))
        for number in alike
    }
    return tuple(
        replace(j, suspicions=tuple(filter(None, (_under_a_launch(j), equal.get(number, "")))))
        for number, j in enumerate(judgements)
    )


def _alike(group: Sequence[int], judgements: Sequence[Judgement]) -> list[list[int]]:
    """Return a group's members in classes of equal times."""
    classes: list[list[int]] = []
    first_ms = 0.0
    for number in sorted(group, key=lambda n: judgements[n].time_ms or 0.0):
        time_ms = judgements[number].time_ms or 0.0
        if not classes or time_ms > (1 + _ALIKE) * first_ms:
            classes.append([])
            first_ms = time_ms
        classes[-1].append(number)
    return classes


def _under_a_launch(judgement: Judgement) -> str:
    if judgement.time_ms is None or judgement.problem is None:
        return ""
    if judgement.time_ms + judgement.margin_ms >= LAUNCH_MS:
        return ""
    return f"{duration(judgement.time_ms)} is less than a launch takes: maybe nothing was timed."


def _equal_times(group: Sequence[Judgement], among_others: bool) -> str:
    """Say that times do not follow the sizes, of one solution's that are alike.

    Times of two shapes must agree in all their digits. Launches explain equal times that are far
    from all rooflines, the more so among others that do follow the sizes.
    """
    needs_ms = {j.problem.warm_ms for j in group if j.problem is not None}
    times_ms = [j.time_ms for j in group if j.time_ms is not None]
    if len(needs_ms) == 2:
        exact = len(set(times_ms)) == 1 and _digits_of(times_ms).significant >= _EXACT_DIGITS
        spread = _EXACT_SPREAD if exact else math.inf
    else:
        spread = _SPREAD
    if max(needs_ms) < spread * min(needs_ms) or len(needs_ms) < 2:
        return ""
    launched = _LAUNCHED_AMONG_OTHERS if among_others else _LAUNCHED
    if statistics.median(times_ms) > launched * max(needs_ms):
        return ""
    return (
        f"Its times at {len(times_ms)} shapes are equal within {_ALIKE:.0%}, though their "
        f"rooflines go from {duration(min(needs_ms))} to {duration(max(needs_ms))}."
    )


def _key(shape: Shape) -> str:
    return repr(sorted(shape.items(), key=lambda item: item[0]))
