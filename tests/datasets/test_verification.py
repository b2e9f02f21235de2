from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

from datetime import datetime, timezone

from solkit.core import Outcome, Source, Verdict
from solkit.datasets import parts, tables
from solkit.datasets.identifiers import source_of
from solkit.datasets.store import Store
from solkit.datasets.verification import verify_store

SOURCE = source_of(b"def kernel(): ...", "kernel.py")
ROW = Outcome(
    "k", "softmax", "softmax", "zoo", "softmax/M=4", "h100-sxm", {}, Verdict.CORRECT,
    datetime(2026, 1, 1, tzinfo=timezone.utc), "random", 0.5, 0.25, run_id="run",
    source_sha256=SOURCE.sha256, hard_bound_ms=0.1,
)  # fmt: skip


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store", create=True)
    store.add([ROW, replace(ROW, sequence=1, verdict=Verdict.WRONG, time_ms=None)], [SOURCE])
    return store


def test_a_whole_store_is_said_to_be(store):
    result = verify_store(store)
    assert result.is_whole
    assert (result.rows, result.sources, result.notes) == (2, 1, ())


@pytest.mark.quick("change0-1 rows", "change2-1 times are not positive numbers")
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"sequence": 0}, "1 rows are there twice (same run_id and sequence)"),
        ({"time_ms": 0.0, "hard_bound_ms": None}, "1 times are not positive numbers"),
        ({"time_ms": float("nan")}, "1 times are not positive numbers"),
        ({"time_ms": 0.05}, "1 times are below their hard bound, e.g. of softmax/M=4"),
    ],
)
def test_what_rows_cannot_be_is_told(store, change, fault):
    row = replace(ROW, **{"sequence": 2, **change})
    table = tables.table_of(Outcome, [row])  # past what `add` refuses
    parts.write_parts(store.folder / "parts", Outcome, table)
    result = verify_store(store)
    assert not result.is_whole
    assert result.faults == (fault,)


def test_a_time_under_the_bound_that_was_judged_is_no_fault(store):
    store.add([replace(ROW, sequence=2, time_ms=0.05, verdict=Verdict.IMPOSSIBLE)])
    assert verify_store(store).is_whole


def test_an_unknown_verdict_is_told(store):
    table = tables.table_of(Outcome, [replace(ROW, sequence=2)])
    place = table.schema.get_field_index("verdict")
    changed = table.set_column(place, "verdict", tables.pyarrow_module().array(["fine"]))
    parts.write_parts(store.folder / "parts", Outcome, changed)
    (fault,) = verify_store(store).faults
    assert fault.startswith("'fine' is not a verdict; expected one of: not_measured, correct")


def test_a_source_that_is_not_what_its_hash_says_is_told(store):
    bad = replace(source_of(b"other", "other.py"), text="changed")
    store.add([], [bad])
    (fault,) = verify_store(store).faults
    assert fault.startswith("source other.py does not have the SHA-256 that it is stored under")


def test_files_that_are_missing_or_unfinished_are_notes(store):
    store.add([replace(ROW, sequence=2, problem_sha256="0" * 64)])
    (store.folder / "parts" / ".part-x").write_bytes(b"PAR1")
    result = verify_store(store)
    assert result.is_whole
    assert result.notes[0] == "1 of 2 files that rows refer to are not here"
    assert ".part-x is being written or was left unfinished" in result.notes[1]


def test_damage_is_told_by_file_and_the_rest_is_read(store):
    (store.folder / "parts" / "00-notes.parquet").write_text("not a Parquet file")
    table = tables.table_of(Source, [SOURCE])
    parts.write_parts(store.folder / "parts", Source, table)
    result = verify_store(store)
    assert (result.rows, result.is_whole) == (2, False)
    first, second = sorted(map(str, result.damage), key=lambda text: "foreign" in text)
    assert "00-notes.parquet: is not a Parquet file, or was cut off" in first
    assert first.endswith("nothing can be read from it")
    assert "is a foreign file, not solkit.data" in second


def test_parts_whose_names_tell_no_hash_are_a_note(store):
    (path,) = store.parts
    path.rename(path.with_name("part.parquet"))
    result = verify_store(store)
    assert result.is_whole
    (note,) = result.notes
    assert note.startswith("1 files have no SHA-256 in their names")


def test_a_footer_that_changed_is_told(store):
    (path,) = store.parts
    data = path.read_bytes()
    place = data.rindex(b"time_ms")  # the column would be one that nobody knows, and times null
    path.write_bytes(data[:place] + b"tire_ms" + data[place + 7 :])
    (damage,) = verify_store(store).damage
    assert damage.path == path
    assert "its footer is damaged" in damage.reason
