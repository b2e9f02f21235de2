"""Candidates of a search loop, looked up in a recording."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from solkit.core import KernelFile, Outcome, Source, Value, canonical
from solkit.core.quantities import settings_text
from solkit.datasets.kernels import kernel_of_file
from solkit.datasets.store import Store
from solkit.datasets.tables import records_of
from solkit.errors import InputError, NotRecordedError
from solkit.measure.benches import RecordedBench
from solkit.tuner.evolution.default_params import with_params

Params = Mapping[str, Value]


@dataclass(frozen=True)
class Recording:
    """Rows and texts of a problem in a recorded bench.

    Attributes:
        bench: the recording.
        texts: source files of the recording. A candidate that differs from one of them only in the
            defaults of its kernel's parameters is that file with these parameters.
    """

    bench: RecordedBench
    texts: Sequence[str] = ()

    def match_candidate(
        self, text: str, file: KernelFile, shape: Params, overrides: Params
    ) -> tuple[str, list[Params]]:
        """Return the recorded text that a candidate is, and the parameters that it may have.

        They are those asked for; else its own; else, if its own are not recorded, all that are.

        Args:
            text: the candidate.
            file: what it describes, with a candidate.
            shape: every size.
            overrides: parameters to override.

        Raises:
            NotRecordedError: the recording has no such source at this shape, or not with these
                parameters.
        """
        assert file.candidate is not None
        own = {**file.candidate.params, **overrides}
        kernel = kernel_of_file(file)
        if points := self._recorded_points(kernel.kernel_id, shape):
            if canonical(own) in points:
                return text, [own]
            if not overrides:
                return text, list(points.values())
            raise _not_recorded_error(own)
        for recorded in self.texts:
            if _differ_in_defaults(text, recorded, file.candidate.name, file.candidate.params):
                source = replace(kernel.source, sha256=text_digest(recorded))
                points = self._recorded_points(replace(kernel, source=source).kernel_id, shape)
                if canonical(own) in points:
                    return recorded, [own]
                if points:
                    raise _not_recorded_error(own)
        raise NotRecordedError("The recording has no such source at this shape.")

    def baseline_ms(self, problem: str, shape: Params) -> float | None:
        """Return the median recorded time of a problem; ``None`` if there is none.

        Args:
            problem: the text of the file with the reference.
            shape: every size.
        """
        sha256 = text_digest(problem)
        times = [
            row.time_ms
            for row in self._rows_at_shape(shape)
            if row.problem_sha256 == sha256 and row.time_ms is not None and row.verdict.is_right
        ]
        return median(times) if times else None

    def _recorded_points(self, kernel_id: str, shape: Params) -> dict[str, Params]:
        """Return the recorded parameters of a kernel, by their canonical text."""
        rows = [row for row in self._rows_at_shape(shape) if row.kernel_id == kernel_id]
        return {canonical(row.params): row.params for row in rows}

    def _rows_at_shape(self, shape: Params) -> list[Outcome]:
        key = canonical(shape)
        return [row for row in self.bench.recording if canonical(row.shape) == key]


def recorded_problem(
    store: str | os.PathLike[str], problem: str, device: str | None = None
) -> Recording:
    """Return the rows of one problem in a store, as a bench, with the sources that they refer to.

    Args:
        store: its folder.
        problem: the text of the file with the reference.
        device: the GPU, if the store has several.

    Raises:
        InputError: it is no store, or has no rows of this problem.
    """
    opened = Store(store)
    rows = list(opened.rows(opened.where(f"problem_sha256 = '{text_digest(problem)}'")))
    if not rows:
        raise InputError(f"{store} has no rows of this problem")
    digests = {row.source_sha256 for row in rows}
    table = opened.sources().collect().to_arrow()
    texts = [source.text for source in records_of(Source, table) if source.sha256 in digests]
    return Recording(RecordedBench(rows, device), texts)


def text_digest(text: str) -> str:
    """Return the SHA-256 of a file's text, as in rows."""
    return hashlib.sha256(text.encode()).hexdigest()


def _not_recorded_error(params: Params) -> NotRecordedError:
    settings = settings_text(params, "its default")
    return NotRecordedError(f"The recording has this source, but not with {settings}.")


def _differ_in_defaults(text: str, recorded: str, entry_point: str, params: Params) -> bool:
    """Tell whether two files differ only in the defaults of their kernel's parameters."""
    try:
        return with_params(text, entry_point, params) == with_params(recorded, entry_point, params)
    except (SyntaxError, ValueError):
        return False
