"""Reading the candidates of a search loop: what can be used, and why the rest cannot."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from solkit.core import Configuration, KernelFile, Value, Verdict, canonical
from solkit.errors import InputError, JobDiedError, NotRecordedError, SolkitError
from solkit.integrations.grading import NOT_RECORDED, Graded, Stage
from solkit.integrations.recordings import Recording
from solkit.measure.anti_cheating.source_suspicion import suspicions
from solkit.pipeline.evaluation import Given, Text
from solkit.pipeline.preparing import Preparation

Params = Mapping[str, Value]

Key = tuple[str, str]
"""Tells candidates apart: the file, and the parameters as canonical text."""


def candidate_key(configuration: Configuration) -> Key:
    """Return the key of a configuration."""
    return configuration.path, canonical(configuration.params)


@dataclass(frozen=True)
class ReadCandidate:
    """A candidate that can be used.

    Attributes:
        configuration: with files for texts, and all parameters.
        points: its parameters; if there are several, one is still to be chosen.
    """

    configuration: Configuration
    points: Sequence[Params]

    @property
    def key(self) -> Key:
        """See `candidate_key`."""
        return candidate_key(self.configuration)


@dataclass(frozen=True)
class Reader:
    """Reads candidates for one problem at one shape.

    Attributes:
        prepared: describes files.
        problem: the file with the reference.
        shape: sizes to override.
        recording: what candidates must be part of; ``None`` for a GPU.
    """

    prepared: Preparation
    problem: str
    shape: Params
    recording: Recording | None

    def read(self, sources: Iterable[Given]) -> list[ReadCandidate | Graded]:
        """Read candidates, several at once; an unusable one is graded."""
        descriptions = [(source, self._describe_file(source)) for source in sources]
        return [self._understood(source, future) for source, future in descriptions]

    def _describe_file(self, source: Given) -> Future[KernelFile] | Graded:
        """Describe a file, unless its text tells that it cannot be used."""
        try:
            text = source_text(source.path if isinstance(source, Configuration) else source)
            proofs = [
                suspicion for suspicion in suspicions(text, "candidate.py") if suspicion.is_proof
            ]
        except SyntaxError as error:
            why = f"It is no Python: line {error.lineno}: {error.msg}."
            return refused_grade(Verdict.DOES_NOT_COMPILE, why)
        except (InputError, ValueError, RecursionError, MemoryError) as error:
            return refused_grade(Verdict.DOES_NOT_COMPILE, f"It cannot be read: {error}.")
        if proofs:
            return refused_grade(Verdict.CHEATING, *(f"{proof.evidence}." for proof in proofs))
        path = self._source_path(source)
        return self.prepared.analyser.describe(path, self._reference_path(path))

    def _source_path(self, source: Given) -> str:
        return self.prepared.path(source.path if isinstance(source, Configuration) else source)

    def _reference_path(self, path: str) -> str | None:
        return None if path == self.problem else self.problem

    def _understood(
        self, source: Given, description: Future[KernelFile] | Graded
    ) -> ReadCandidate | Graded:
        if isinstance(description, Graded):
            return description
        path = self._source_path(source)
        try:
            file = description.result()
            if file.candidate is None:
                raise InputError("It holds no kernel.")
            return self._read_file(source, path, file)
        except NotRecordedError as error:
            return refused_grade(NOT_RECORDED, str(error))
        except JobDiedError as error:
            verdict = Verdict.TIMED_OUT if error.timed_out else Verdict.CRASHED
            return refused_grade(verdict, f"Reading it failed: {hide_private_path(error, path)}.")
        except InputError as error:
            return refused_grade(Verdict.DOES_NOT_COMPILE, hide_private_path(error, path))

    def _read_file(self, source: Given, path: str, file: KernelFile) -> ReadCandidate:
        candidate = file.candidate
        assert candidate is not None
        configuration = source if isinstance(source, Configuration) else None
        overrides = {} if configuration is None else configuration.params
        points: list[Params] = [{**candidate.params, **overrides}]
        if self.recording is not None:
            shape = {**file.problem.sizes, **self.shape}
            text, points = self.recording.match_candidate(source_text(path), file, shape, overrides)
            path = path if text == source_text(path) else self.prepared.path(text)
        how = "search" if configuration is None else configuration.chosen_by
        reference = self._reference_path(path)
        name = candidate.name
        return ReadCandidate(
            Configuration(path, name, self.shape, points[0], reference, how), points
        )


def refused_grade(verdict: Verdict | str, *reasons: str, params: Params | None = None) -> Graded:
    """Return the grade of a candidate that is not measured."""
    name = verdict.value if isinstance(verdict, Verdict) else verdict
    return Graded(name, Stage.REFUSED, 0.0, params or {}, reasons=reasons)


def source_text(source: Text) -> str:
    """Return the text of a source: it has more than one line, or it is a path.

    Raises:
        InputError: the file cannot be read.
    """
    text = os.fspath(source)
    if "\n" in text:
        return text
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {text}: {error}") from error


def hide_private_path(what: SolkitError | str, path: str) -> str:
    """Return a message, with ``candidate.py`` for the private path of a text."""
    return str(what).replace(path, "candidate.py")
