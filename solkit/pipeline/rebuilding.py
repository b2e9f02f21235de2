"""Kernels of public timings, launched again without a GPU: what SolKit would have said of them.

A row can be rebuilt if its problem's file holds the kernel that was timed, or if the reference
itself was timed, as PyTorch runs it.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from solkit.analysis.analyser import Analysed, Analyser
from solkit.core import Configuration, Depth, Device, KernelFile, canonical, progress
from solkit.core.judging import Judgement
from solkit.datasets.formats import KERNEL, REFERENCE, RUNS
from solkit.datasets.kernels import kernel_of_file
from solkit.errors import SolkitError
from solkit.pipeline.studying import STUDY_LIMIT_S
from solkit.surrogate.candidate_forecasts import common_depth, entry_of_analysis, problem_from
from solkit.surrogate.table import Entry

_EAGER = "\n\nclass ModelNew(Model):\n    pass\n"
"""A candidate that is KernelBench's reference, to append to its file."""


@dataclass(frozen=True)
class Rebuilt:
    """A reported time with the kernel that took it, as far as that can be launched again.

    Attributes:
        judgement: of the time.
        entry: the kernel as the surrogate sees it, with the time; ``None`` if it is not rebuilt.
        is_own: whether it launches kernels of its own, not only PyTorch's operators.
        reason: why it is not rebuilt, or not bounded.
    """

    judgement: Judgement
    entry: Entry | None = None
    is_own: bool = False
    reason: str = ""


def rebuild_rows(
    judgements: Sequence[Judgement],
    folder: str | os.PathLike[str],
    depth: Depth = Depth.COMPILED,
    time_limit_s: float = STUDY_LIMIT_S,
) -> list[Rebuilt]:
    """Launch the kernels of reported times again, without a GPU.

    Args:
        judgements: of the reported rows; the files of their problems still exist.
        folder: where candidates are written that are a problem's reference.
        depth: how deeply the launches are analysed.
        time_limit_s: seconds that a kernel may take.

    Returns:
        One for each judgement, in their order.
    """
    rebuilt = [_not_rebuilt(judgement) for judgement in judgements]
    by_device: defaultdict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rebuilt):
        if not row.reason and row.judgement.problem is not None:
            by_device[row.judgement.problem.device.key].append(number)
    for places in by_device.values():
        problem = rebuilt[places[0]].judgement.problem
        assert problem is not None
        own = [rebuilt[place] for place in places]
        for place, row in zip(
            places, _rebuild_on(problem.device, own, Path(folder), depth, time_limit_s), strict=True
        ):
            rebuilt[place] = row
    return rebuilt


def count_reasons(rows: Iterable[Rebuilt], most: int = 8) -> dict[str, int]:
    """Return the commonest reasons why rows are not rebuilt, and how many have each."""
    return dict(Counter(row.reason for row in rows if row.reason).most_common(most))


def _not_rebuilt(judgement: Judgement) -> Rebuilt:
    """Return a row before its kernel is launched, with the reason if it cannot be."""
    if judgement.problem is None:
        return Rebuilt(judgement, reason=judgement.reasons[0])
    if judgement.row.extra.get(RUNS) not in (KERNEL, REFERENCE):
        return Rebuilt(judgement, reason="the file does not say what was launched")
    return Rebuilt(judgement)


def _rebuild_on(
    device: Device, rows: Sequence[Rebuilt], folder: Path, depth: Depth, time_limit_s: float
) -> list[Rebuilt]:
    try:
        with Analyser(device, limit_s=time_limit_s) as analyser:
            return _rebuild_with(_Candidates(analyser, folder), rows, depth)
    except SolkitError as error:
        return [replace(row, reason=str(error)) for row in rows]


def _rebuild_with(candidates: _Candidates, rows: Sequence[Rebuilt], depth: Depth) -> list[Rebuilt]:
    analyser = candidates.analyser
    configurations: dict[str, Configuration] = {}
    keys: list[str] = []
    for row in rows:
        configuration = candidates.configuration(row.judgement)
        keys.append(f"{configuration.path} {canonical(configuration.shape)}")
        configurations.setdefault(keys[-1], configuration)
    results: dict[str, Analysed] = {}
    for done, result in enumerate(analyser.analysed(configurations.values(), depth), 1):
        configuration = result.configuration
        results[f"{configuration.path} {canonical(configuration.shape)}"] = result
        progress.tell("kernels rebuilt", done, len(configurations))
    return [
        _with_entry(row, results[key], candidates, analyser.device)
        for row, key in zip(rows, keys, strict=True)
    ]


class _Candidates:
    """Candidates of problems' files, each described once.

    Args:
        analyser: describes files.
        folder: where those are written that are a problem's reference.
    """

    def __init__(self, analyser: Analyser, folder: Path) -> None:
        self.analyser, self._folder = analyser, folder
        self._files: dict[str, KernelFile] = {}

    def configuration(self, judgement: Judgement) -> Configuration:
        """Return the configuration that was timed."""
        problem = judgement.problem
        assert problem is not None
        path = problem.path
        if judgement.row.extra.get(RUNS) == REFERENCE:
            path = _with_candidate(Path(path), self._folder)
        entry_point = "ModelNew" if path != problem.path else "kernel"
        own = {n: v for n, v in judgement.row.shape.items() if n in problem.shape}
        shape: Mapping[str, object] = {} if judgement.row.family == "kernelbench" else own
        return Configuration(path, entry_point, shape, {}, None, "search")  # type: ignore[arg-type]

    def file(self, path: str) -> KernelFile:
        """Return the description of a file.

        Raises:
            KernelFileError: it cannot be used.
        """
        if path not in self._files:
            self._files[path] = self.analyser.describe(path, None).result()
        return self._files[path]


def _with_candidate(problem: Path, folder: Path) -> str:
    """Return a file in which the reference is the candidate; KernelBench's files have none."""
    text = problem.read_text(encoding="utf-8")
    if "class Model(" not in text or "ModelNew" in text:
        return str(problem)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    eager = folder / f"eager_{digest}" / problem.name
    eager.parent.mkdir(exist_ok=True)
    eager.write_text(text + _EAGER, encoding="utf-8")
    return str(eager)


def _with_entry(row: Rebuilt, result: Analysed, candidates: _Candidates, device: Device) -> Rebuilt:
    problem, analysis = row.judgement.problem, result.analysis
    assert problem is not None
    if analysis is None:
        return replace(row, reason=str(result.error))
    if not analysis.is_whole or not analysis.kernels:
        why = analysis.notes[0] if analysis.notes else analysis.status.value
        return replace(row, reason=f"not all of its launches are known: {why}")
    failed = next((kernel.error for kernel in analysis.kernels if kernel.error), None)
    if failed is not None:
        return replace(row, reason=f"it cannot run: {failed}")
    shape = result.configuration.shape
    entry = entry_of_analysis(
        problem_from(problem.bound, problem.work, problem.shape),
        device,
        kernel_of_file(candidates.file(result.configuration.path)),
        shape,
        {},
        analysis,
    )
    about = {
        **entry.about,
        "family": row.judgement.row.family,
        "kind": row.judgement.row.kind,
        "origin": row.judgement.row.origin,
        "implementation": row.judgement.row.implementation or "",
    }
    time_ms = math.nan if row.judgement.time_ms is None else row.judgement.time_ms
    timed = replace(entry, about=about, time_ms=time_ms)
    return replace(row, entry=timed, is_own=common_depth(analysis) is not None)
