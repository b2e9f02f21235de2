from __future__ import annotations

import multiprocessing
from dataclasses import replace

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

from tuning_rows import SHAPE, row

from solkit.datasets.identifiers import source_of
from solkit.datasets.outcomelog import OutcomeLog
from solkit.datasets.store import Store
from solkit.errors import InputError
from solkit.tuner import database
from solkit.tuner.database import Database

SOURCE = source_of(b"def kernel(): ...", "kernel.py")


def test_what_is_added_is_found_by_kernel_shape_and_gpu(tmp_path):
    database = Database(tmp_path / "new" / "tuning")
    assert database.findings() == ()
    small = {"M": 8, "N": 1024}
    database.add([row({"B": 1}, 1.0, 0), row({"B": 1}, 2.0, 1, shape=small)])
    database.add([row({"B": 2}, 0.5, 2, run="two", kernel="other", device="h200")])
    assert [finding.winner.time_ms for finding in database.findings()] == [1.0, 2.0, 0.5]
    assert [finding.winner.time_ms for finding in database.findings("k", small)] == [2.0]
    assert [
        finding.winner.time_ms for finding in database.findings(shape={"N": 1024}, device="h200")
    ] == [0.5]
    assert database.findings("k", device="h200") == ()
    assert list(database.measured("k", SHAPE, "h100-sxm")) == [({"B": 1}, 1.0)]


def test_it_is_a_store_and_adding_again_adds_nothing(tmp_path):
    rows = [row({"B": 1}, 1.0, 0), row({"B": 2}, 0.5, 1)]
    database = Database(tmp_path / "tuning")
    assert database.add(rows[:1], [SOURCE]).rows == 1
    again = database.add(rows, [SOURCE])
    assert (again.rows, again.known, again.sources) == (1, 1, 0)
    store = Store(tmp_path / "tuning")
    assert sorted(finding.time_ms for finding in store.rows()) == [0.5, 1.0]


def test_a_row_that_differs_from_a_known_one_is_refused_and_nothing_lost(tmp_path):
    database = Database(tmp_path / "tuning")
    database.add([row({"B": 1}, 1.0)])
    with pytest.raises(InputError, match="differ from rows of the same run"):
        database.add([row({"B": 1}, 0.1)])
    assert database.findings()[0].winner.time_ms == 1.0


def test_a_log_is_merged_once(tmp_path):
    with OutcomeLog(tmp_path / "run.jsonl") as log:
        log.append([row({"B": 1}, 1.0), row({"B": 2}, None)], [SOURCE])
        database = Database(tmp_path / "tuning")
        assert database.merge(log.path).rows == 2
        log.append([row({"B": 4}, 0.5)])
        assert (database.merge(log.path).rows, database.merge(log.path).rows) == (1, 0)
    (result,) = database.findings()
    assert result.run_id == log.run_id
    assert result.measured == 3


def _writer(folder, name, rows):
    for place in range(rows):
        Database(folder).add([row({"B": place}, 1.0 + place, place, run=name)])


@pytest.mark.slow
def test_runs_that_write_at_once_lose_nothing(tmp_path):
    folder = tmp_path / "tuning"
    context = multiprocessing.get_context("spawn")  # polars does not survive a fork
    writers = [context.Process(target=_writer, args=(folder, f"run{i}", 5)) for i in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    findings = Database(folder).findings()
    assert {finding.run_id: finding.measured for finding in findings} == {
        "run0": 5,
        "run1": 5,
        "run2": 5,
    }


def test_what_another_shape_and_gpu_took_warms_a_search(tmp_path):
    database = Database(tmp_path / "tuning")
    there = {"shape": {"M": 8192, "N": 1024}, "device": "h200", "run": "there"}
    database.add([row({"B": b}, 10.0 / b, b, **there) for b in (16, 32, 64)])
    database.add([row({"B": 16}, 1.0, run="here")])
    prior = database.known("k", SHAPE, "h100-sxm")
    assert prior.seeds(1) == [{"B": 64}]
    assert prior.measured == (({"B": 16}, 1.0),)
    assert database.known("unheard of", SHAPE, "h100-sxm").seeds(1) == []


def test_another_place_takes_its_part():
    class Place:
        def __init__(self):
            self.held = []

        def add(self, rows, *_):
            self.held += rows

        def rows_of(self, kernel_id, _):
            return (outcome for outcome in self.held if kernel_id in (None, outcome.kernel_id))

    database = Database(Place())
    database.add([row({"B": 1}, 1.0)])
    assert database.findings("k")[0].winner.time_ms == 1.0
    assert database.findings("other") == ()


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("hello")
    with pytest.raises(InputError, match="is not a store"):
        Database(tmp_path)


def test_the_default_place_can_be_moved(tmp_path, monkeypatch):
    monkeypatch.setenv(database.VARIABLE, str(tmp_path / "mine"))
    Database().add([row({"B": 1}, 1.0)])
    assert Store(tmp_path / "mine").parts
    monkeypatch.delenv(database.VARIABLE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert database.default_folder() == tmp_path / "solkit" / "tuning"


def test_a_row_without_a_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="no run_id"):
        Database(tmp_path / "tuning").add([replace(row({"B": 1}, 1.0), run_id="")])


@pytest.mark.slow
def test_a_url_is_a_server_and_results_can_be_emitted_from_it(tmp_path):
    pytest.importorskip("optuna")
    from solkit.tuner.emitters import logged_results

    url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    rows = [row({"B": 1}, 1.0, 0), row({"B": 2}, 0.5, 1), row({"B": 2}, 0.4, 2, device="h200")]
    assert Database(url).add(rows).rows == 3
    assert [finding.winner.time_ms for finding in Database(url).findings()] == [0.5, 0.4]
    assert Database(url).known("k", SHAPE, "h200").seeds(1) == [{"B": 2}]
    (result,) = logged_results.read_results(url, device="h200")
    assert result.chosen.time_ms == 0.4
