"""The tuning database on a server that many machines share: rows as trials of Optuna studies.

A study holds the rows of a kernel on a GPU, a trial each: the time is its value, the row its user
attribute, as JSON. So Optuna's dashboard and other tools read it too. Files are user attributes of
the study. Trials are only added; a row that two machines add at once is read once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import optuna

from solkit.core import Outcome, Source, StoredFacts
from solkit.core.codec import from_json, to_json
from solkit.datasets.store import Added
from solkit.errors import InputError, StorageError
from solkit.tuner.storage import PatientStorage, open_storage

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_PREFIX = "solkit tuning"
_ROW, _FACTS, _SOURCE = "row", "facts", "source"

_Key = tuple[str, int]
_Cell = tuple[str, str]  # kernel and GPU


class SharedPlace:
    """A place for `solkit.tuner.database.Database`: see this module.

    Args:
        storage: the database, or its URL as for `open_storage`.

    Raises:
        SolkitError: as for `open_storage`.
    """

    def __init__(self, storage: PatientStorage | str) -> None:
        self._storage = open_storage(storage) if isinstance(storage, str) else storage
        self._studies: dict[_Cell, optuna.Study] = {}

    def add(
        self,
        rows: Iterable[Outcome],
        sources: Iterable[Source] = (),
        facts: Iterable[StoredFacts] = (),
    ) -> Added:
        """Add rows one by one; those that are known add nothing.

        Raises:
            InputError: a row has no run, or differs from one of the same run and place. Nothing is
                written.
            StorageError: the database does not answer. Rows before are stored: adding all of them
                again adds the rest.
        """
        cells: defaultdict[_Cell, list[Outcome]] = defaultdict(list)
        for row in rows:
            if not row.run_id:
                raise InputError("a row has no run_id: an OutcomeLog numbers rows")
            cells[row.kernel_id, row.device].append(row)
        new = {cell: self._new_rows(cell, of_cell) for cell, of_cell in cells.items()}
        files = {source.sha256: source for source in sources}
        known_facts = {fact.id: fact for fact in facts}
        counts = [self._write_rows(*cell, files, known_facts) for cell in new.items()]
        added = sum(map(len, new.values()))
        total = sum(map(len, cells.values()))
        return Added(
            added,
            total - added,
            sum(count for count, _ in counts),
            facts=sum(count for _, count in counts),
        )

    def rows_of(self, kernel_id: str | None = None, device: str | None = None) -> Iterator[Outcome]:
        """Yield the rows of a kernel and a GPU, each once, in the order added; of all by default.

        Raises:
            StorageError: the database does not answer.
        """
        for cell in self._stored_cells():
            if kernel_id in (None, cell[0]) and device in (None, cell[1]):
                yield from self._rows_of_study(cell).values()

    def _stored_cells(self) -> list[_Cell]:
        names = [study.study_name for study in self._storage.get_all_studies()]
        parts = [name.split("\t") for name in names if name.startswith(f"{_PREFIX}\t")]
        return sorted((kernel, device) for _, kernel, device in parts)

    def _open_study(self, cell: _Cell) -> optuna.Study:
        if cell not in self._studies:
            name = "\t".join((_PREFIX, *cell))
            with _quiet():
                self._studies[cell] = optuna.create_study(
                    storage=self._storage, study_name=name, load_if_exists=True
                )
        return self._studies[cell]

    def _rows_of_study(self, cell: _Cell) -> dict[_Key, Outcome]:
        """Return the rows of a study."""
        held: dict[_Key, Outcome] = {}
        for trial in self._open_study(cell).get_trials(deepcopy=False):
            if _ROW in trial.user_attrs:
                row = self._read_row(trial)
                held.setdefault((row.run_id, row.sequence), row)
        return held

    def _read_row(self, trial: FrozenTrial) -> Outcome:
        try:
            return from_json(Outcome, json.loads(trial.user_attrs[_ROW]))
        except ValueError as error:
            raise StorageError(
                f"{self._storage.place}: trial {trial.number} holds no row: {error}"
            ) from error

    def _new_rows(self, cell: _Cell, rows: list[Outcome]) -> list[Outcome]:
        """Return the rows that the study lacks.

        Raises:
            InputError: one differs from a row of the same run and place.
        """
        held = dict(self._rows_of_study(cell))
        new = []
        for row in rows:
            key = row.run_id, row.sequence
            earlier = held.setdefault(key, row)
            if earlier is row:
                new.append(row)
            elif _row_text(earlier) != _row_text(row):
                raise InputError(
                    f"the row of run {key[0]}, sequence {key[1]} differs from the one in "
                    f"{self._storage.place}: copies of one log were continued separately. Nothing "
                    "was written"
                )
        return new

    def _write_rows(
        self,
        cell: _Cell,
        rows: list[Outcome],
        files: dict[str, Source],
        facts: dict[str, StoredFacts],
    ) -> tuple[int, int]:
        """Write the rows of a study; the number of files and facts that it got."""
        study = self._open_study(cell)
        hashes = {
            sha256 for row in rows for sha256 in (row.source_sha256, row.problem_sha256) if sha256
        }
        missing = [files[sha256] for sha256 in sorted(hashes & files.keys())]
        attributes = study.user_attrs if missing else {}
        missing = [source for source in missing if f"{_SOURCE} {source.sha256}" not in attributes]
        for source in missing:
            study.set_user_attr(f"{_SOURCE} {source.sha256}", to_json(source))
        for row in rows:
            study.add_trial(_trial_of_row(row, facts.get(row.facts_id or "")))
        return len(missing), len({row.facts_id for row in rows} & facts.keys())


def _row_text(row: Outcome) -> str:
    return json.dumps(to_json(row), sort_keys=True)


def _trial_of_row(row: Outcome, facts: StoredFacts | None) -> FrozenTrial:
    """Return a finished trial: it failed if the row has no time."""
    attributes: dict[str, Any] = {_ROW: json.dumps(to_json(row)), "params": dict(row.params)}
    if facts is not None:
        attributes[_FACTS] = facts.text
    states = optuna.trial.TrialState
    state = states.FAIL if row.time_ms is None else states.COMPLETE
    return optuna.create_trial(state=state, value=row.time_ms, user_attrs=attributes)


class _quiet:  # noqa: N801 - used as a statement
    """Optuna tells of each study that it finds."""

    def __enter__(self) -> None:
        self._before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)

    def __exit__(self, *_: object) -> None:
        optuna.logging.set_verbosity(self._before)
