"""Grading for loops that start their evaluators anew: a `Session` outlives a candidate.

A session never raises while it grades. A loop would try the same candidate again, or stop. What
went wrong is in the grade's reasons.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from solkit.core import Value, Verdict, canonical
from solkit.core.quantities import settings_text
from solkit.integrations.candidates import refused_grade, source_text
from solkit.integrations.client import Client
from solkit.integrations.grading import PASSED_SCORE, Graded, Stage
from solkit.integrations.grading_process import LIMIT_S, GradingProcess, GradingTarget

METRICS = ("combined_score", "measured", "sol_score")
"""Numbers of every grade, beside those of `solkit.integrations.grading.FEATURES`."""

TOKEN = "SOLKIT_TOKEN"
"""The environment variable of the access token; a token in a configuration file would leak."""

_MARKERS = ("EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END")


class _Grader(Protocol):
    """Function that grades a text, at a stage: ``"1"``, ``"2"`` or ``"both"``."""

    def grade(self, source: str, stage: str) -> Graded: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class _Service:
    """Grades by a service."""

    where: GradingTarget

    def grade(self, source: str, stage: str) -> Graded:
        where = self.where
        assert where.url is not None
        client = Client(where.url, os.environ.get(TOKEN, ""), where.limit_s)
        problem, sizes = source_text(where.problem), where.sizes
        return client.evaluate(problem, [source], shape=sizes, stage=stage, search=where.search)[0]

    def close(self) -> None:
        """Nothing is open."""


class Session:
    """Grades candidates of one problem; threads and forked processes may share it.

    Args:
        where: what for, and where.

    Attributes:
        where: as given.
    """

    def __init__(self, where: GradingTarget) -> None:
        self.where = where
        self._grader: _Grader = _Service(where) if where.url is not None else GradingProcess(where)

    def stage1(self, path: str | os.PathLike[str]) -> Graded:
        """Grade a file without a GPU; see `Evaluator.stage1`."""
        return self._grade_file(path, "1")

    def stage2(self, path: str | os.PathLike[str]) -> Graded:
        """Check and time a file; see `Evaluator.stage2`.

        If that fails and the candidate is not to blame, it has passed stage 1 and no more.
        """
        passed = Graded(Verdict.NOT_MEASURED.value, Stage.PASSED, PASSED_SCORE)
        return self._grade_file(path, "2", passed)

    def evaluate(self, path: str | os.PathLike[str]) -> Graded:
        """Run both stages; see `Evaluator.evaluate`."""
        return self._grade_file(path, "both")

    def close(self) -> None:
        """End its processes."""
        self._grader.close()

    def _grade_file(
        self, path: str | os.PathLike[str], stage: str, otherwise: Graded | None = None
    ) -> Graded:
        """Grade a file's text: the files of loops are gone before the next candidate."""
        try:
            return self._grader.grade(
                without_markers(Path(path).read_text(encoding="utf-8")), stage
            )
        except Exception as error:  # a loop would try it again
            return _failed_grade(error, otherwise)


_SESSIONS: dict[GradingTarget, Session] = {}
_SESSIONS_LOCK = threading.Lock()


def session(
    problem: str | os.PathLike[str],
    *,
    shape: Mapping[str, Value] | None = None,
    device: str | None = None,
    recorded: str | os.PathLike[str] | None = None,
    url: str | None = None,
    search: str = "",
    budget_s: float | None = None,
    limit_s: float = LIMIT_S,
) -> Session:
    """Return the session of this process with these arguments: equal ones give the same.

    Nothing is opened before the first grade.

    Args:
        problem: the file with the reference.
        shape: sizes to override.
        device: the target; by default the GPU of this machine, else an H100.
        recorded: a store whose rows answer instead of a GPU: its folder, or a shipped set's name.
        url: a `solkit serve` that grades instead; `TOKEN` in the environment is its token.
        search: a name; the service holds candidates of one search against its best.
        budget_s: GPU seconds, at the most.
        limit_s: seconds after which a grade is given up.

    Raises:
        InputError: the problem cannot be read, or options exclude each other.
    """
    store = None if recorded is None else os.fspath(recorded)
    path, sizes = os.fspath(problem), canonical(shape or {})
    where = GradingTarget(path, sizes, device, store, url, search, budget_s, limit_s)
    with _SESSIONS_LOCK:
        if where not in _SESSIONS:
            _SESSIONS[where] = Session(where)
        return _SESSIONS[where]


def without_markers(text: str) -> str:
    """Return a candidate's text without the markers of loops, as recordings have it.

    It ends with a line break, so that it cannot be taken for a path.
    """
    lines = [line for line in text.splitlines() if not _is_marker_line(line)]
    return "\n".join(lines).strip("\n") + "\n"


def numbers_of(graded: Graded) -> dict[str, float]:
    """Return each number of a grade that a loop may use as a dimension; 0 for an unknown one."""
    return {
        "combined_score": float(graded.combined_score),
        "measured": float(graded.stage is Stage.MEASURED),
        "sol_score": float(graded.sol_score or 0.0),
        **{name: float(value) for name, value in graded.features.items()},
    }


def describe_grade(graded: Graded) -> dict[str, str]:
    """Return a grade in words; what is not known is left out."""
    facts = {
        "verdict": graded.verdict,
        "stage": graded.stage.value,
        "time": _time_interval(graded.time_ms),
        "gap": "" if graded.gap is None else f"{graded.gap:.3f} times the speed of light",
        "forecast": _time_interval(
            graded.forecast_ms, graded.forecast_low_ms, graded.forecast_high_ms
        ),
        "speed of light": _time_interval(graded.sol_ms),
        "limiter": graded.limiter,
        "parameters": settings_text(graded.params),
        "reasons": "\n".join(graded.reasons),
    }
    return {name: text for name, text in facts.items() if text}


def _time_interval(
    time_ms: float | None, low_ms: float | None = None, high_ms: float | None = None
) -> str:
    if time_ms is None:
        return ""
    if low_ms is None or high_ms is None:
        return f"{time_ms:.4g} ms"
    return f"{time_ms:.4g} ms, between {low_ms:.4g} and {high_ms:.4g}"


def _is_marker_line(line: str) -> bool:
    """Tell whether a line holds one of a loop's markers and nothing else."""
    return line.strip().lstrip("#").strip() in _MARKERS


def _failed_grade(error: Exception, graded: Graded | None = None) -> Graded:
    """Return the grade where grading failed."""
    why = f"It was not measured: {type(error).__name__}: {error}"
    if graded is None:
        return refused_grade(Verdict.NOT_MEASURED, why)
    return Graded(graded.verdict, graded.stage, graded.combined_score, reasons=(why,))
