"""Meaning of an exception in a candidate."""

from __future__ import annotations

import traceback
from pathlib import Path

from solkit.core import Verdict

ALL_DISTRIBUTIONS = "other distributions of values"
"""As a trial to skip: all of them."""

_MAX_TEXT = 2000
_TRITON_COMPILE_ERRORS = {"CompilationError", "OutOfResources", "PTXASError"}
_BUILD_FAILED = (
    "Error building extension",  # torch/utils/cpp_extension.py, _run_ninja_build
    "PassManager::run failed",  # an MLIR pass of Triton's
)


class CandidateError(Exception):
    """A candidate that failed; carries its `Judgement`."""

    def __init__(self, verdict: Verdict, errors: tuple[str, ...], failed_on: str = "") -> None:
        self.verdict, self.errors = verdict, errors
        self.failed_on = failed_on  # the distribution on which it is wrong; empty for other inputs
        super().__init__(verdict, errors, failed_on)


class ContextLostError(Exception):
    """The reference broke its process's CUDA context, e.g. by a device assertion."""

    def __init__(self, trial: str, spent_s: float = 0.0) -> None:
        self.trial = trial  # the name of the trial that another process must skip
        self.spent_s = spent_s  # seconds of the time limit until then
        super().__init__(trial, spent_s)


def verdict_of(error: BaseException) -> Verdict:
    """Return the verdict on a candidate that raised this.

    Classes are matched by name, so neither torch nor triton is needed.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    text = str(error)
    # of torch and of triton
    said_so = "CUDA error: out of memory" in text or "[CUDA]: out of memory" in text
    if said_so or names & {"OutOfMemoryError", "MemoryError"}:
        return Verdict.OUT_OF_MEMORY
    if names & _TRITON_COMPILE_ERRORS or any(mark in text for mark in _BUILD_FAILED):
        return Verdict.DOES_NOT_COMPILE
    return Verdict.CRASHED


def explain_error(error: BaseException, doing: str, path: str) -> tuple[str, ...]:
    """Return a summary of a step's error and, if the traceback has it, the user's line."""
    text = str(error).strip()
    if len(text) > _MAX_TEXT:  # ptxas errors contain the whole program
        text = f"{text[:_MAX_TEXT]} … ({len(text)} characters)"
    summary = f"{doing}: {type(error).__name__}: {text}".rstrip(": ")
    frames = traceback.extract_tb(error.__traceback__)
    mine = [f for f in frames if Path(f.filename).resolve() == Path(path).resolve()]
    place = (mine or frames)[-1:]
    return (summary, *(f"at {f.filename}:{f.lineno} in {f.name}" for f in place))
