"""Facts beside rows: stored once, given to rows that lack them, whole or told."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

import polars as pl
import pyarrow.parquet as pq
from polars.testing import assert_frame_equal

from solkit.core import FACTS_VERSION, Outcome, StoredFacts, Verdict
from solkit.datasets import card, parts
from solkit.datasets.outcomelog import OutcomeLog
from solkit.datasets.store import Added, Store
from solkit.datasets.verification import verify_store
from solkit.errors import InputError

ROW = Outcome(
    "k", "softmax", "softmax", "zoo", "softmax/M=4", "h100-sxm", {}, Verdict.CORRECT,
    datetime(2026, 1, 1, tzinfo=timezone.utc), "random", 0.5, 0.25, run_id="run",
)  # fmt: skip
FEW = 12
VERSION_1 = Path(__file__).parent / "data" / "version1.parquet"


def facts(name):
    return StoredFacts(name, f'{{"launches":[{{"name":"{name}"}}]}}')


def row(sequence, facts_id, **changes):
    return replace(ROW, sequence=sequence, facts_id=facts_id, **changes)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store", create=True)


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A store with a part of version 1: rows of the H100's set as SolKit 0.1 wrote it."""
    folder = tmp_path_factory.mktemp("old")
    (folder / "parts").mkdir()
    shutil.copy(VERSION_1, folder / "parts")
    return Store(folder)


def keys(rows):
    return [(row.run_id, row.sequence) for row in rows]


def test_facts_are_stored_once_and_found_by_their_rows(store):
    input_rows = [row(0, "a"), row(1, "b"), row(2, "a", device="h200"), row(3, None)]
    assert store.add(input_rows, (), [facts("a"), facts("b"), facts("a")]) == Added(
        4, 0, 0, facts=2
    )
    assert store.add([row(4, "a")], (), [facts("a")]) == Added(1, 0, 0)
    result = store.scan().join(store.facts(), left_on="facts_id", right_on="id", how="left")
    fields = dict(result.select("sequence", "text").collect().rows())
    a, b = facts("a").text, facts("b").text
    assert fields == {0: a, 1: b, 2: a, 3: None, 4: a}
    assert store.query("select count(*) from facts").item() == 2


def test_facts_are_in_the_order_of_their_rows(store):
    names = ["q", "c", "x", "a"]
    rows = [row(n, name, kernel_id=f"k{n}") for n, name in enumerate(names)]
    store.add(rows, (), [facts(name) for name in ("z", *sorted(names))])
    (path,) = store.files(StoredFacts)
    assert pq.read_table(path)["id"].to_pylist() == [*names, "z"]
    assert parts.has_sealed_name(path)


def test_the_recorded_part_is_of_version_1():
    assert pq.read_schema(VERSION_1).metadata[b"solkit.schema"] == b"solkit.data/1"


def test_rows_of_both_versions_are_read_together(store, old):
    store.merge([old.folder])
    store.add([row(0, "a")], (), [facts("a")])
    launches = pl.col("launches").list.len()
    frame = store.scan().select("run_id", "facts_id", launches).collect()
    assert len(frame) == FEW + 1
    new = frame.filter(pl.col("run_id") == "run")
    assert new.rows() == [("run", "a", None)]
    assert frame.filter(pl.col("run_id") != "run")["launches"].min() >= 1
    records = {(row.run_id, row.sequence): row for row in store.rows()}
    assert records["run", 0] == row(0, "a")
    assert {record.schema_version for record in records.values()} == {1, 2}


@pytest.mark.slow
def test_giving_facts_to_rows_changes_no_other_column(old, tmp_path):
    before = old.scan().sort("run_id", "sequence").collect()
    chosen = keys(old.rows())[::3]
    facts_of = {key: f"f{n}" for n, key in enumerate(chosen)}
    new = old.with_facts(tmp_path / "new", facts_of, [facts(name) for name in facts_of.values()])
    after = new.scan().sort("run_id", "sequence").collect()
    assert_frame_equal(before.drop("launches", "facts_id"), after.drop("launches", "facts_id"))
    own = dict(zip(after.select("run_id", "sequence").rows(), after["facts_id"], strict=True))
    assert {key: name for key, name in own.items() if name is not None} == facts_of
    lost = after.filter(pl.col("launches").is_null()).select("run_id", "sequence").rows()
    assert sorted(lost) == sorted(chosen)
    kept = before.filter(~pl.struct("run_id", "sequence").is_in([
        {"run_id": run, "sequence": place} for run, place in chosen
    ]))  # fmt: skip
    assert_frame_equal(
        kept.select("launches"), after.filter(pl.col("facts_id").is_null()).select("launches")
    )
    assert all(parts.has_sealed_name(path) for path in new.files())
    assert verify_store(new).facts == len(chosen)
    assert old.scan().select(pl.col("facts_id").count()).collect().item() == 0
    with pytest.raises(InputError, match="is a store already"):
        old.with_facts(tmp_path / "new", {}, [])


@pytest.mark.slow
def test_a_log_gives_facts_to_the_rows_of_others_when_they_are_merged(old, tmp_path):
    first, second = keys(old.rows())[:2]
    log = OutcomeLog(tmp_path / "facts.jsonl")
    log.append(facts=[facts("a")], facts_of={first: "a"})
    log.append(facts=[facts("b")], facts_of={second: "b", ("gone", 1): "b"})
    new = Store(tmp_path / "new", create=True)
    remaining_text = (
        "facts belong to 1 rows that are not here: merge them with these rows into a new store"
    )
    assert new.merge([old.folder, log.path]) == Added(FEW, 0, 0, (remaining_text,), 2)
    result = new.scan().filter(pl.col("facts_id").is_not_null())
    assert set(result.select("run_id", "sequence", "facts_id").collect().rows()) == {
        (*first, "a"),
        (*second, "b"),
    }
    assert verify_store(new).is_whole
    late = Store(tmp_path / "late", create=True)
    late.merge([old.folder])
    known_value, _ = late.merge([old.folder, log.path]).faults
    assert known_value.startswith(
        f"{FEW} rows are in {late.folder} already and were not given facts"
    )


def test_an_exported_set_holds_the_facts_of_its_rows_alone(store, tmp_path):
    input_rows = [row(0, "a"), row(1, "b", family="gemm"), row(2, "a"), row(3, None)]
    store.add(input_rows, (), [facts("a"), facts("b")])
    text = card.export_set(store, tmp_path / "set", "Set", where="family = 'softmax'").read_text()
    assert "config_name: facts\n  data_files: facts/*.parquet" in text
    assert Store(tmp_path / "set").facts().collect().rows() == [("a", facts("a").text)]


def test_an_exported_set_keeps_facts_that_no_row_names(store, tmp_path):
    """Those of the lowered depth are found by their key."""
    store.add([row(0, "a")], (), [facts("a"), facts("lowered")])
    card.export_set(store, tmp_path / "set", "Set")
    assert set(Store(tmp_path / "set").facts().collect()["id"]) == {"a", "lowered"}


def test_facts_that_are_missing_or_no_json_are_told(store):
    store.add([row(0, "a"), row(1, "b")], (), [facts("a")])
    result = verify_store(store)
    assert result.is_whole
    assert (result.facts, result.notes) == (1, ("1 of 2 facts that rows refer to are not here",))
    store.add((), (), [StoredFacts("b", "{")])
    (fault,) = verify_store(store).faults
    assert fault.startswith("facts b are not JSON")


def test_damaged_facts_are_told_and_the_rest_salvaged(store, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "ROW_GROUP", 1)
    store.add([row(0, "a"), row(1, "b")], (), [facts("a"), facts("b")])
    (path,) = store.files(StoredFacts)
    data = bytearray(path.read_bytes())
    data[10] ^= 1  # in the first row group
    path.write_bytes(data)
    with pytest.raises(InputError, match="1 of 2 rows can be read"):
        store.facts()
    (damage,) = verify_store(store).damage
    assert damage.path == path
    saved = Store(tmp_path / "saved", create=True)
    assert saved.merge([store.folder], salvage=True).facts == 1
    assert saved.facts().collect().rows() == [("b", facts("b").text)]


def test_an_exported_set_leaves_out_what_an_older_model_said_and_nothing_else(old, tmp_path):
    card.export_set(old, tmp_path / "set", "Old rows")
    before, after = (
        item.scan().sort("run_id", "sequence").collect() for item in (old, Store(tmp_path / "set"))
    )
    demands = pl.col("launches").list.eval(pl.element().struct.field("demand").is_not_null())
    assert before.select(demands.list.all()).to_series().all()
    assert not after.select(demands.list.any()).to_series().any()
    paths = ["path", "problem_path"]
    assert_frame_equal(before.drop("launches", *paths), after.drop("launches", *paths))
    kept = [name for name, _ in before.schema["launches"].inner if name != "demand"]
    for name in kept:
        launch = pl.col("launches").list.eval(pl.element().struct.field(name))
        assert_frame_equal(before.select(launch), after.select(launch))


def test_an_exported_set_leaves_out_unnamed_facts_of_older_versions(store, tmp_path):
    texts = {"named": 1, "old": 1, "lowered": FACTS_VERSION}
    reported_facts = [
        StoredFacts(name, f'{{"version":{n},"launches":[]}}') for name, n in texts.items()
    ]
    store.add([row(0, "named")], (), reported_facts)
    card.export_set(store, tmp_path / "set", "Some")
    assert Store(tmp_path / "set").facts().collect()["id"].to_list() == ["named", "lowered"]
