"""The tuning database: every outcome of every tuning run, kept for the next one.

It is a `Store` of `Outcome`s, so results merge and nothing is overwritten: rows are only added, a
row that is there already is not added twice, and runs that write at once wait for each other. What
is best is computed on reading (`solkit.tuner.tuning_results`); runs that disagree stay side by
side, with their dates. What is measured for one shape or GPU is a belief about others
(`Database.known`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from solkit import userdata
from solkit.core import Outcome, Params, Source, StoredFacts, Value
from solkit.errors import InputError
from solkit.tuner.transfer_prior import TransferPrior
from solkit.tuner.tuning_results import TuningResult, results_of_runs, time_counts

if TYPE_CHECKING:
    from solkit.datasets.store import Added, Store

VARIABLE = "SOLKIT_TUNING"
"""The environment variable that names another place than `default_folder`."""


class DatabaseLocation(Protocol):
    """Place of rows: a folder (`Store`), or a server that many machines share."""

    def add(
        self,
        rows: Iterable[Outcome],
        sources: Iterable[Source] = (),
        facts: Iterable[StoredFacts] = (),
    ) -> Added:
        """Add rows, each with its run and place there; those that are known add nothing."""

    def rows_of(self, kernel_id: str | None = None, device: str | None = None) -> Iterator[Outcome]:
        """Return the rows of a kernel and a GPU; of all by default."""


def default_folder() -> Path:
    """Return ``$SOLKIT_TUNING``, else ``tuning`` in the user's data folder."""
    return userdata.folder("tuning", VARIABLE)


class Database:
    """Results of tuning, in one place.

    Args:
        place: a folder, made on the first `add`; a server that several machines share, as in
            ``"postgresql://host/name"`` (`solkit.tuner.shared_database`); another
            `DatabaseLocation`; by default `default_folder`.

    Raises:
        InputError: the folder holds something else.
        StorageError: the server cannot be reached.
    """

    def __init__(self, place: str | os.PathLike[str] | DatabaseLocation | None = None) -> None:
        self.place = _location_of(default_folder() if place is None else place)

    def add(
        self,
        rows: Iterable[Outcome],
        sources: Iterable[Source] = (),
        facts: Iterable[StoredFacts] = (),
    ) -> Added:
        """Add the rows of a run as its log has them, and the files and facts they refer to.

        Rows of this run that are there already add nothing, so a run may add what it has as it
        goes, and an interrupted one be added again.

        Raises:
            InputError: a row has no run, or differs from one of the same run and place.
            TraceError: they could not be written; the database is unchanged.
        """
        return self.place.add(rows, sources, facts)

    def merge(self, log: str | os.PathLike[str]) -> Added:
        """Add all that the log of a run holds.

        Raises:
            InputError: the file is not a log; or as for `add`.
            TraceError: as for `add`.
        """
        from solkit.datasets import outcomelog

        held = outcomelog.read(log, whole=True)
        return self.add(held.rows, held.sources, held.facts)

    def findings(
        self,
        kernel_id: str | None = None,
        shape: Mapping[str, Value] | None = None,
        device: str | None = None,
    ) -> tuple[TuningResult, ...]:
        """Return what each run found, oldest first.

        Args:
            kernel_id: of this kernel; of all by default.
            shape: at shapes with these sizes.
            device: on this GPU.
        """
        rows = self.place.rows_of(kernel_id, device)
        return results_of_runs(row for row in rows if shape is None or has_shape(row, shape))

    def known(
        self, kernel_id: str, shape: Mapping[str, Value], device: str, bound_ms: float | None = None
    ) -> TransferPrior:
        """Return what was measured of a kernel, at any shape and on any GPU, as a belief about one.

        Args:
            kernel_id: the kernel.
            shape: the sizes that are asked about.
            device: the GPU that is asked about.
            bound_ms: the roofline there, if known: times of other shapes and GPUs are carried over
                by their gap to it.
        """
        return TransferPrior(self.place.rows_of(kernel_id), shape, device, bound_ms)

    def measured(
        self, kernel_id: str, shape: Mapping[str, Value], device: str
    ) -> Iterator[tuple[Params, float]]:
        """Yield every time of a kernel at one shape on one GPU, oldest first."""
        rows = sorted(self.place.rows_of(kernel_id, device), key=lambda row: row.created)
        for row in rows:
            if time_counts(row) and row.time_ms is not None and has_shape(row, shape):
                yield row.params, row.time_ms


def has_shape(row: Outcome, shape: Mapping[str, Value]) -> bool:
    """Tell whether a row's shape has these sizes; it may have others besides."""
    return all(name in row.shape and row.shape[name] == value for name, value in shape.items())


def _location_of(place: str | os.PathLike[str] | DatabaseLocation) -> DatabaseLocation:
    if isinstance(place, str) and "://" in place:
        from solkit.tuner.shared_database import SharedPlace

        return SharedPlace(place)
    return _Folder(Path(place)) if isinstance(place, (str, os.PathLike)) else place


class _Folder:
    """A store, which may not exist yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if folder.exists():
            self._open_store()

    def add(
        self,
        rows: Iterable[Outcome],
        sources: Iterable[Source] = (),
        facts: Iterable[StoredFacts] = (),
    ) -> Added:
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot create {self._folder}: {error.strerror}") from error
        return self._open_store().add(rows, sources, facts)

    def rows_of(self, kernel_id: str | None = None, device: str | None = None) -> Iterator[Outcome]:
        if not self._folder.exists():
            return
        from solkit.datasets.tables import polars_module

        pl, store = polars_module(), self._open_store()
        frame = store.scan()
        for name, value in (("kernel_id", kernel_id), ("device", device)):
            if value is not None:
                frame = frame.filter(pl.col(name) == value)
        yield from store.rows(frame)

    def _open_store(self) -> Store:
        from solkit.datasets import store  # which polars comes with

        return store.Store(self._folder, create=True)
