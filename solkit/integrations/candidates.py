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
from solkit.measure.distrust.suspicion import suspicions
from solkit.pipeline.evaluation import Given, Text
from solkit.pipeline.preparing import Preparation

__all__ = ["Key", "Read", "Reader", "key_of", "named", "refused", "text_of"]

Params = Mapping[str, Value]

Key = tuple[str, str]
"""Tells candidates apart: the file, and the parameters as canonical text."""


def key_of(configuration: Configuration) -> Key:
    """The key of a configuration."""
    return configuration.path, canonical(configuration.params)


@dataclass(frozen=True)
class Read:
    """A candidate that can be used.

    Attributes:
        configuration: with files for texts, and all parameters.
        points: its parameters; if there are several, one is still to be chosen.
    """

    configuration: Configuration
    points: Sequence[Params]

    @property
    def key(self) -> Key:
        """See `key_of`."""
        return key_of(self.configuration)


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

    def read(self, sources: Iterable[Given]) -> list[Read | Graded]:
        """Read candidates, several at once; an unusable one is graded."""
        asked = [(each, self._described(each)) for each in sources]
        return [self._understood(each, future) for each, future in asked]

    def _described(self, source: Given) -> Future[KernelFile] | Graded:
        """What a file holds, unless its text tells that it cannot be used."""
        try:
            text = text_of(source.path if isinstance(source, Configuration) else source)
            proofs = [each for each in suspicions(text, "candidate.py") if each.is_proof]
        except SyntaxError as error:
            why = f"It is no Python: line {error.lineno}: {error.msg}."
            return refused(Verdict.DOES_NOT_COMPILE, why)
        except (InputError, ValueError, RecursionError, MemoryError) as error:
            return refused(Verdict.DOES_NOT_COMPILE, f"It cannot be read: {error}.")
        if proofs:
            return refused(Verdict.CHEATING, *(f"{each.evidence}." for each in proofs))
        path = self._path(source)
        return self.prepared.analyser.describe(path, self._reference(path))

    def _path(self, source: Given) -> str:
        return self.prepared.path(source.path if isinstance(source, Configuration) else source)

    def _reference(self, path: str) -> str | None:
        return None if path == self.problem else self.problem

    def _understood(self, source: Given, asked: Future[KernelFile] | Graded) -> Read | Graded:
        if isinstance(asked, Graded):
            return asked
        path = self._path(source)
        try:
            file = asked.result()
            if file.candidate is None:
                raise InputError("It holds no kernel.")
            return self._of_file(source, path, file)
        except NotRecordedError as error:
            return refused(NOT_RECORDED, str(error))
        except JobDiedError as error:
            verdict = Verdict.TIMED_OUT if error.timed_out else Verdict.CRASHED
            return refused(verdict, f"Reading it failed: {named(error, path)}.")
        except InputError as error:
            return refused(Verdict.DOES_NOT_COMPILE, named(error, path))

    def _of_file(self, source: Given, path: str, file: KernelFile) -> Read:
        candidate = file.candidate
        assert candidate is not None
        given = source if isinstance(source, Configuration) else None
        asked = {} if given is None else given.params
        points: list[Params] = [{**candidate.params, **asked}]
        if self.recording is not None:
            shape = {**file.problem.sizes, **self.shape}
            text, points = self.recording.found(text_of(path), file, shape, asked)
            path = path if text == text_of(path) else self.prepared.path(text)
        how = "search" if given is None else given.chosen_by
        reference = self._reference(path)
        name = candidate.name
        return Read(Configuration(path, name, self.shape, points[0], reference, how), points)


def refused(verdict: Verdict | str, *reasons: str, params: Params | None = None) -> Graded:
    """The grade of a candidate that is not measured."""
    told = verdict.value if isinstance(verdict, Verdict) else verdict
    return Graded(told, Stage.REFUSED, 0.0, params or {}, reasons=reasons)


def text_of(source: Text) -> str:
    """The text of a source: it has more than one line, or it is a path.

    Raises:
        InputError: the file cannot be read.
    """
    given = os.fspath(source)
    if "\n" in given:
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {given}: {error}") from error


def named(what: SolkitError | str, path: str) -> str:
    """A message, with ``candidate.py`` for the private path of a text."""
    return str(what).replace(path, "candidate.py")
