"""Studies of Optuna's that several processes or machines share: a database, by its URL.

SQLite is the default, a file on one machine. PostgreSQL serves many machines::

    study = optuna.create_study(
        storage=open_storage("postgresql+psycopg://tuner@db.example/solkit"),
        study_name="softmax h100-sxm", load_if_exists=True,
    )

A lost connection is taken up again: a query is asked anew until the database answers, or
`StorageError` says that it does not. Asking anew changes nothing twice: a trial that was already
told keeps its values. At most a trial that nobody heard of stays open.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from solkit import userdata
from solkit.errors import InputError, StorageError, UnsupportedError
from solkit.extras import needed

with needed("optuna"):
    import optuna
    import sqlalchemy
    from optuna.storages import RDBStorage
    from optuna.trial import TrialState
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import URL

VARIABLE = "SOLKIT_STUDIES"
"""The environment variable that names another folder for `default_url`."""

_FORMS = "sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
_PIP = {"psycopg": "pip install 'solkit[postgres]'", "psycopg2": "pip install psycopg2-binary"}
_PATIENCE_S = 60.0
_CONNECT_S = 5.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 2.0
_REFUSALS = ("does not exist", "authentication failed", "permission denied", "no pg_hba.conf")
"""Messages of PostgreSQL when waiting does not help (errors of class 28 and 3D000)."""

_T = TypeVar("_T")
_asking = threading.local()  # whether this thread is within a patient query


def default_url() -> str:
    """Return a SQLite file in ``$SOLKIT_STUDIES``, else in the user's data folder (created)."""
    folder = userdata.folder("studies", VARIABLE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create {folder}: {error.strerror}") from error
    return f"sqlite:///{folder / 'studies.sqlite'}"


def open_storage(url: str | None = None, patience_s: float = _PATIENCE_S) -> PatientStorage:
    """Return the studies in a database; its tables are made if they are missing.

    Args:
        url: ``sqlite:///FILE`` or a file's path; ``postgresql+psycopg://...`` (``postgresql://``
            means the same); by default `default_url`.
        patience_s: seconds to wait for a database that does not answer.

    Raises:
        InputError: the URL has another form, or the database refuses it: there is no such
            database, folder or user.
        UnsupportedError: the database's driver is not installed; says how to install it.
        StorageError: the database does not answer.
    """
    place = _parse_url(default_url() if url is None else url)
    with_driver = place.render_as_string(hide_password=False)
    try:
        return PatientStorage(with_driver, patience_s)
    except ImportError as error:
        driver = place.get_driver_name()
        remedy = _PIP.get(driver, f"pip install {driver}")
        raise UnsupportedError(
            f"{_url_without_password(place)} needs {driver}: {remedy}"
        ) from error
    except RuntimeError as error:  # tables of another Optuna
        raise InputError(f"{_url_without_password(place)}: {error}") from error


def _parse_url(url: str) -> URL:
    """Return the place that a URL names.

    Raises:
        InputError: it has another form, or its folder is missing.
    """
    if "://" not in url:
        url = f"sqlite:///{url}"
    try:
        place = sqlalchemy.engine.make_url(url)
        if place.drivername in ("postgresql", "postgres"):
            place = place.set(drivername="postgresql+psycopg")
        if place.get_backend_name() not in ("sqlite", "postgresql"):
            raise InputError(
                f"no such kind of database: {_url_without_password(place)}; expected {_FORMS}"
            )
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise InputError(f"{url!r} is not a database's URL: expected {_FORMS}") from error
    file = place.database
    is_file = place.get_backend_name() == "sqlite" and file not in (None, "", ":memory:")
    if is_file and not Path(str(file)).resolve().parent.is_dir():
        raise InputError(
            f"{_url_without_password(place)}: no folder {Path(str(file)).resolve().parent}"
        )
    if not is_file and place.get_backend_name() == "postgresql" and not place.database:
        raise InputError(f"{_url_without_password(place)} names no database: expected {_FORMS}")
    return place


def _url_without_password(place: URL) -> str:
    """Return the URL without its password."""
    return place.render_as_string(hide_password=True)


class PatientStorage(RDBStorage):
    """Optuna's storage in a database, which waits for the database while it does not answer.

    Args:
        url: with the driver's name.
        patience_s: seconds to wait.

    Attributes:
        place: the URL without its password.

    Raises:
        InputError, StorageError: as for `open_storage`.
    """

    def __init__(self, url: str, patience_s: float = _PATIENCE_S) -> None:
        place = sqlalchemy.engine.make_url(url)
        self.place, self._patience_s = _url_without_password(place), patience_s
        how: dict[str, Any] = {"timeout": patience_s}  # SQLite waits for other writers by itself
        if place.get_backend_name() == "postgresql":
            how = {"connect_timeout": max(round(min(_CONNECT_S, patience_s)), 1)}
        options = {"pool_pre_ping": True, "connect_args": how}
        self._patiently(lambda: super(PatientStorage, self).__init__(url, engine_kwargs=options))

    def _patiently(self, ask: Callable[[], _T], again: Callable[[], _T] | None = None) -> _T:
        """Return what a query gives; it is asked anew as long as the connection fails.

        Args:
            ask: the query.
            again: instead of it, from the second time on.
        """
        if getattr(_asking, "is_asking", False):
            return ask()
        deadline, wait_s = time.monotonic() + self._patience_s, _FIRST_WAIT_S
        _asking.is_asking = True
        try:
            while True:
                try:
                    return ask()
                except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
                    self._require_lost(error, time.monotonic() >= deadline)
                time.sleep(min(wait_s, max(deadline - time.monotonic(), 0.0)))
                wait_s, ask = min(2 * wait_s, _LONGEST_WAIT_S), again or ask
        finally:
            _asking.is_asking = False

    def _require_lost(self, error: Exception, is_late: bool) -> None:
        """Raise what waiting does not mend."""
        fault = error if isinstance(error, SQLAlchemyError) else error.__cause__ or error
        said = " ".join(str(getattr(fault, "orig", None) or fault).split())
        if any(refusal in said for refusal in _REFUSALS):
            raise InputError(f"{self.place} refuses: {said}") from error
        faults = sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError
        is_lost = isinstance(fault, faults) or getattr(fault, "connection_invalidated", False)
        if not (is_lost or self._is_creation_race(said)):
            raise error
        if is_late:
            raise StorageError(
                f"{self.place} has not answered for {self._patience_s:g} s: {said}; what was told "
                "before is stored"
            ) from error

    def _is_creation_race(self, said: str) -> bool:
        """Tell whether another process makes the tables of a new database at this moment."""
        is_opening = not hasattr(self, "_version_manager")
        return is_opening and "already exists" in said

    # ---------------------------------------------------------------- what is not asked twice alike

    def create_new_study(self, directions: Sequence[Any], study_name: str | None = None) -> int:
        """Create a study as Optuna does; one that the lost answer told of is found again."""
        make = super().create_new_study
        name = study_name or f"no-name-{time.time_ns():x}"  # known, so that it can be found

        def again() -> int:
            try:
                return make(directions, name)
            except optuna.exceptions.DuplicatedStudyError:
                return RDBStorage.get_study_id_from_name(self, name)

        return self._patiently(lambda: make(directions, name), again)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """Set state and values as Optuna does; a lost query's values are not stored twice."""
        tell = super().set_trial_state_values

        def again() -> bool:
            try:
                return tell(trial_id, state, values)
            except optuna.exceptions.UpdateFinishedTrialError:
                trial = RDBStorage.get_trial(self, trial_id)
                expected = None if values is None else list(values)
                if (trial.state, trial.values) != (state, expected):
                    raise
                return True

        return self._patiently(lambda: tell(trial_id, state, values), again)


def _patient_method(name: str) -> Callable[..., Any]:
    """Return a method of `RDBStorage` that waits."""
    method = getattr(RDBStorage, name)

    @functools.wraps(method)
    def ask(self: PatientStorage, *args: Any, **kwargs: Any) -> Any:
        return self._patiently(lambda: method(self, *args, **kwargs))

    return ask


_QUERIES = (
    *("delete_study", "set_study_user_attr", "set_study_system_attr", "get_study_id_from_name"),
    *("get_study_name_from_id", "get_study_directions", "get_study_user_attrs"),
    *("get_study_system_attrs", "get_trial_user_attrs", "get_trial_system_attrs"),
    *("get_all_studies", "create_new_trial", "set_trial_param", "get_trial_param"),
    *("set_trial_intermediate_value", "set_trial_user_attr", "set_trial_system_attr"),
    *("get_trial_id_from_study_id_trial_number", "get_trial", "get_all_trials"),
    *("get_n_trials", "get_best_trial", "record_heartbeat"),
    # what Optuna's cache asks, which `create_study` puts before a database
    *("_create_new_trial", "_set_trial_param", "_get_trials", "_get_best_trial_id"),
    "_get_stale_trial_ids",
)
for _name in _QUERIES:
    if hasattr(RDBStorage, _name):  # some are private: other versions of Optuna may lack them
        setattr(PatientStorage, _name, _patient_method(_name))
