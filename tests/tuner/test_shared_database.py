"""The tuning database on a server: the same rows as in a folder, added by several at once."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

optuna = pytest.importorskip("optuna", reason="Optuna is not installed: pip install solkit[optuna]")

from postgres import Server  # noqa: E402 - where Optuna is
from tuning_rows import row  # noqa: E402

from solkit.core import Source, StoredFacts  # noqa: E402
from solkit.errors import InputError, StorageError  # noqa: E402
from solkit.tuner.database import Database  # noqa: E402
from solkit.tuner.shared_database import SharedPlace  # noqa: E402
from solkit.tuner.storage import open_storage  # noqa: E402


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install solkit[postgres]")
    server = Server()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def place(tmp_path):
    return SharedPlace(str(tmp_path / "shared.sqlite"))


def rows(run="run", count=4, **fields):
    return [row({"BLOCK": 2**n}, 1.0 + n, n, run=run, **fields) for n in range(count)]


def test_rows_come_back_equal_and_are_added_once(place):
    inputs = [*rows(), row({"BLOCK": 999}, None, 9)]
    added = place.add(inputs)
    assert (added.rows, added.known) == (5, 0)
    assert list(place.rows_of()) == inputs
    again = place.add([*inputs, *rows("other", 2)])
    assert (again.rows, again.known) == (2, 5)
    assert len(list(place.rows_of())) == 7


@pytest.mark.slow
def test_kernels_and_gpus_are_apart(place):
    place.add([*rows(kernel="a"), *rows(kernel="b"), *rows(kernel="a", run="r", device="h200")])
    assert [row.kernel_id for row in place.rows_of("b")] == ["b"] * 4
    assert [row.device for row in place.rows_of("a", "h200")] == ["h200"] * 4
    assert [row.run_id for row in place.rows_of(device="h200")] == ["r"] * 4
    assert list(place.rows_of("c")) == []


def test_a_row_that_differs_from_its_namesake_is_refused_and_nothing_is_written(place):
    place.add(rows())
    other = replace(rows()[2], time_ms=9.0)
    with pytest.raises(InputError, match="run run, sequence 2 differs"):
        place.add([*rows("new"), other])
    assert len(list(place.rows_of())) == 4
    with pytest.raises(InputError, match="no run_id"):
        place.add([replace(other, run_id="")])


def test_files_and_facts_are_kept_with_the_rows(place):
    inputs = [replace(row, source_sha256="s", facts_id="f") for row in rows()]
    added = place.add(inputs, [Source("s", "k.py", "x = 1")], [StoredFacts("f", "[]")])
    assert (added.sources, added.facts) == (1, 1)
    again = place.add(rows("other"), [Source("s", "k.py", "x = 1")])
    assert (again.rows, again.sources) == (4, 0)


def test_the_database_finds_the_same_in_a_folder_and_on_a_server(place, tmp_path):
    pytest.importorskip("polars", reason="polars is not installed: pip install solkit[data]")
    input_rows = [*rows(), *rows("late", 3, shape={"M": 64, "N": 64})]
    folder, shared = Database(tmp_path / "folder"), Database(place)
    for item in (folder, shared):
        item.add(input_rows)
    assert shared.findings() == folder.findings()
    assert sorted(shared.measured("k", {"M": 64}, "h100-sxm"), key=str) == sorted(
        folder.measured("k", {"M": 64}, "h100-sxm"), key=str
    )


@pytest.mark.slow
def test_many_machines_add_to_one_server(server):
    def run(name):
        Database(SharedPlace(server.url())).add(rows(name))

    threads = [threading.Thread(target=run, args=[f"run {n}"]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run("run 0")  # again
    pairs = [(row.run_id, row.sequence) for row in SharedPlace(server.url()).rows_of()]
    assert sorted(pairs) == [(f"run {n}", place) for n in range(4) for place in range(4)]


@pytest.mark.slow
def test_a_server_that_stops_midway_gets_the_rest_when_all_is_added_again(server):
    place = SharedPlace(open_storage(server.url(), patience_s=0.3))
    input_rows = rows("halted", 6, kernel="halted")

    def halting():
        yield from input_rows[:3]

    place.add(halting())
    server.kill()
    with pytest.raises(StorageError, match="has not answered"):
        place.add(input_rows)
    server.start()
    added = SharedPlace(server.url()).add(input_rows)
    assert (added.rows, added.known) == (3, 3)
    assert list(SharedPlace(server.url()).rows_of("halted")) == input_rows
