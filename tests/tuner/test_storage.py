"""Shared studies: SQLite, and a real PostgreSQL that is killed and started again."""

from __future__ import annotations

import threading
import warnings
from collections import Counter

import pytest

optuna = pytest.importorskip("optuna", reason="Optuna is not installed: pip install solkit[optuna]")

from postgres import Server  # noqa: E402 - where Optuna is

from solkit.errors import InputError, StorageError, UnsupportedError  # noqa: E402
from solkit.tuner import storage as storages  # noqa: E402
from solkit.tuner.storage import default_url, open_storage  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture(scope="module")
def server():
    server = Server()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def running(server):
    """The server, which runs again after the test."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install solkit[postgres]")
    yield server
    if not (server.folder / "data" / "postmaster.pid").exists():
        server.start()


def study(storage, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.RandomSampler(seed=0)
        return optuna.create_study(
            storage=storage, study_name=name, load_if_exists=True, sampler=sampler
        )


def measured(trial):
    return trial.suggest_int("BLOCK", 0, 100) / 10


def numbers(result):
    return [trial.number for trial in result.trials]


def states(result):
    return Counter(trial.state.name for trial in result.trials)


# ---------------------------------------------------------------------------------------- SQLite


def test_a_file_keeps_a_study(tmp_path):
    for count in (3, 6):
        result = study(open_storage(str(tmp_path / "s.sqlite")), "softmax")
        result.optimize(measured, n_trials=3)
        assert numbers(result) == list(range(count))
    assert (
        open_storage(f"sqlite:///{tmp_path}/s.sqlite").get_all_studies()[0].study_name == "softmax"
    )


def test_by_default_studies_are_in_the_users_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(storages.VARIABLE, str(tmp_path / "new" / "folder"))
    study(open_storage(), "softmax")
    assert (tmp_path / "new" / "folder" / "studies.sqlite").exists()
    assert default_url() == f"sqlite:///{tmp_path}/new/folder/studies.sqlite"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql://host/db", r"no such kind of database: mysql://host/db; expected sqlite:///FILE"),
        ("postgresql+psycopg://host:port/x", "is not a database's URL"),
        ("postgresql://u:secret@host", r"u:\*\*\*@host names no database"),
        ("sqlite:////no/such/folder/s.sqlite", "no folder /no/such/folder"),
    ],
)
def test_a_url_of_another_form_is_refused(url, why):
    with pytest.raises(InputError, match=why) as raised:
        open_storage(url)
    assert "secret" not in str(raised.value)


def test_a_missing_driver_is_named_with_what_installs_it(monkeypatch):
    def missing(*_, **__):
        raise ImportError("No module named 'psycopg'")

    monkeypatch.setattr(storages, "PatientStorage", missing)
    with pytest.raises(UnsupportedError, match=r"needs psycopg: pip install 'solkit\[postgres\]'"):
        open_storage("postgresql://host/db")


def test_what_is_no_fault_of_the_connection_is_not_asked_again(tmp_path):
    storage = open_storage(str(tmp_path / "s.sqlite"))
    with pytest.raises(KeyError):
        storage.get_trial(99)
    study(storage, "softmax")
    with pytest.raises(optuna.exceptions.DuplicatedStudyError):
        optuna.create_study(storage=storage, study_name="softmax")


@pytest.mark.slow
def test_a_lost_answer_changes_nothing_twice(tmp_path):
    """The query is done, but its answer is lost: it is asked again."""
    lost = Lossy(f"sqlite:///{tmp_path}/s.sqlite", 5.0)
    result = study(lost, "softmax")
    result.optimize(measured, n_trials=4)
    done = [trial for trial in result.trials if trial.state.name == "COMPLETE"]
    assert len(done) == 4
    assert lost.lost == {"create_new_study": 1, "set_trial_state_values": 4}
    assert [item.study_name for item in lost.get_all_studies()] == ["softmax"]


class Lossy(storages.PatientStorage):
    """Loses the first answer to each query that changes something for good."""

    def __init__(self, *args):
        self.lost, self.seen = Counter(), set()
        super().__init__(*args)

    def _patiently(self, ask, again=None):
        def losing():
            points, name = ask(), ask.__qualname__.split(".")[1]
            if again is not None and ask not in self.seen:
                self.seen.add(ask)
                self.lost[name] += 1
                raise storages.sqlalchemy.exc.OperationalError("commit", {}, Exception("lost"))
            return points

        return super()._patiently(losing, again)


# ------------------------------------------------------------------------------------ PostgreSQL


@pytest.mark.slow
def test_a_study_goes_on_after_the_database_was_killed(running):
    result = study(open_storage(running.url(), patience_s=30.0), "killed")

    def objective(trial):
        if trial.number == 3:
            running.kill()
            threading.Timer(0.5, running.start).start()
        return measured(trial)

    result.optimize(objective, n_trials=8)
    assert numbers(result) == list(range(8))
    assert states(result) == {"COMPLETE": 8}
    again = study(open_storage(running.url()), "killed")
    assert [trial.value for trial in again.trials] == [trial.value for trial in result.trials]


@pytest.mark.slow
def test_a_database_that_stays_away_is_an_error_and_loses_nothing(running):
    result = study(open_storage(running.url(), patience_s=0.5), "gone")
    result.optimize(measured, n_trials=3)
    running.kill()
    with pytest.raises(StorageError, match=r"solkit:\*\*\*@127.* has not answered for 0\.5 s"):
        result.optimize(measured, n_trials=1)
    with pytest.raises(StorageError, match="has not answered"):
        open_storage(running.url(), patience_s=0.2)
    running.start()
    assert states(study(open_storage(running.url()), "gone")) == {"COMPLETE": 3}


@pytest.mark.slow
def test_several_processes_share_a_study(running):
    def run():
        study(open_storage(running.url()), "shared").optimize(measured, n_trials=6)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result = study(open_storage(running.url()), "shared")
    assert numbers(result) == list(range(18))
    assert states(result) == {"COMPLETE": 18}


def test_what_postgresql_refuses_is_said_at_once(running):
    with pytest.raises(InputError, match=r'refuses: .*database "nosuch" does not exist'):
        open_storage(running.url(database="nosuch"))
    with pytest.raises(InputError, match=r'refuses: .*role "nobody" does not exist'):
        open_storage(running.url(user="nobody"))
