from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import multiprocessing
import os
import random
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from solkit.core import (
    ComparedBase,
    Difference,
    LiveLaunch,
    Outcome,
    Ratio,
    Source,
    Verdict,
)
from solkit.datasets import outcomelog, parts, tables
from solkit.datasets.identifiers import source_of
from solkit.datasets.store import Added, Store, configurations, shipped
from solkit.errors import InputError, TraceError

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROW = Outcome(
    "k", "softmax", "softmax", "zoo", "softmax/M=4", "h100-sxm", {"BLOCK": 64, "x": None},
    Verdict.CORRECT, START, "random", 0.5, 0.25, 1980.0, "run", 0,
    shape={"M": 4}, dtypes=("bfloat16",), samples_ms=(0.5, 0.25), operations={"fp32": 8},
    live_launches=(LiveLaunch("f", (4, 1, 1), registers=32),),
)  # fmt: skip
COMPARED = ComparedBase("k2", {}, Difference.FASTER, ratio=Ratio(0.5, 0.4, 0.6, 0.1, 9))
SOURCE = source_of(b"def kernel(): ...", "kernel.py")


def numbered(*numbers, run="run", **changes):
    return [replace(ROW, run_id=run, sequence=n, params={"n": n}, **changes) for n in numbers]


def unsealed(store):
    """The only part of a store, under a name that tells nothing, as older ones have it."""
    (path,) = store.parts
    return path.rename(path.with_name("part.parquet"))


def sequences_of(store):
    return sorted(row.sequence for row in store.rows())


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store", create=True)


# ---------------------------------------------------------------------------- what comes back


def test_rows_come_back_as_they_were(store):
    failed = replace(
        ROW, sequence=1, verdict=Verdict.WRONG, time_ms=None, live_launches=(), samples_ms=(),
        comparison=COMPARED,
        message="off", params={}, created=START + timedelta(microseconds=1),
    )  # fmt: skip
    assert store.add([ROW, failed], [SOURCE]) == Added(2, 0, 1)
    assert sorted(store.rows(), key=lambda row: row.sequence) == [ROW, failed]
    assert store.sources().collect().rows() == [(SOURCE.sha256, SOURCE.name, SOURCE.text)]


def test_samples_are_kept_in_single_precision(store):
    store.add([replace(ROW, samples_ms=(0.1,), time_ms=0.1)])
    (row,) = store.rows()
    assert row.time_ms == 0.1
    assert row.samples_ms != (0.1,)
    assert row.samples_ms == pytest.approx((0.1,), rel=1e-7)


def test_a_message_that_is_no_text_is_kept_as_far_as_it_is(store):
    store.add([replace(ROW, message="müde \udcff")])
    assert [row.message for row in store.rows()] == ["müde ?"]


def test_every_column_is_named_and_typed_as_the_fields_are(store):
    schema = store.scan().collect_schema()
    assert schema.names()[:10] == (
        "kernel_id family kind origin problem_id device params verdict created chosen_by".split()
    )
    assert schema["samples_ms"] == pl.List(pl.Float32)
    assert schema["time_ms"] == pl.Float64
    assert schema["launches"].inner.fields[0] == pl.Field("name", pl.String)


@pytest.mark.slow
def test_rows_that_are_there_are_not_written_again(store):
    assert store.add(numbered(0, 1)) == Added(2, 0, 0)
    assert store.add(numbered(1, 2), [SOURCE]) == Added(1, 1, 1)
    assert store.add(numbered(2, 2, 3), [SOURCE]) == Added(1, 2, 0)
    assert store.add(numbered(0, run="other")) == Added(1, 0, 0)
    assert sequences_of(store) == [0, 0, 1, 2, 3]


def test_a_row_without_a_run_is_refused(store):
    with pytest.raises(InputError, match="a row has no run_id"):
        store.add([replace(ROW, run_id="")])


def test_repeats_add_up_and_do_not_collide(store):
    again = [
        replace(ROW, run_id=f"run{i}", time_ms=time) for i, time in enumerate((0.4, 0.6, None))
    ]
    turns = replace(ROW, sequence=6, comparison=COMPARED, time_ms=None)
    store.add([ROW, *again, replace(ROW, sequence=5, params={"BLOCK": 128}), turns])
    by_block = {
        row["params"]: row for row in configurations(store.scan()).collect().iter_rows(named=True)
    }
    assert len(by_block) == 2
    row = by_block['{"BLOCK":64,"x":null}']
    assert (row["tries"], row["timed"], row["time_ms"]) == (4, 3, 0.5)
    assert row["spread"] == pytest.approx(1.5)


def test_times_count_where_the_verdict_says_so(store):
    verdicts = {
        0: (Verdict.CORRECT, 1.0), 1: (Verdict.IMPOSSIBLE, 1e-4), 2: (Verdict.IMPOSSIBLE, 1e-4),
        3: (Verdict.UNSTABLE, 7.0), 4: (Verdict.DEGENERATE_PROBLEM, 1e-3),
        5: (Verdict.CHEATING, 0.1), 6: (Verdict.BEATS_ALGORITHM, 1.5),
    }  # fmt: skip
    rows = [
        replace(ROW, sequence=n, verdict=verdict, time_ms=time)
        for n, (verdict, time) in verdicts.items()
    ]
    imported = replace(ROW, sequence=9, kernel_id="b", verdict=Verdict.NOT_MEASURED, time_ms=3.0)
    store.add([*rows, imported])
    result = configurations(store.scan()).sort("kernel_id")
    result = result.select("tries", "timed", "time_ms", "spread").collect().rows()
    assert result == [(1, 1, 3.0, 1.0), (7, 2, 1.25, 1.5)]


# --------------------------------------------------------------------------------- how it is read


def test_parts_are_sorted_so_that_filters_pass_over_row_groups(store, monkeypatch):
    monkeypatch.setattr(parts, "ROW_GROUP", 10)
    devices = ("h200", "h100-sxm", "a100")
    store.add([row for i in range(30) for row in numbered(i, device=devices[i % 3])])
    (path,) = store.parts
    statistics = [
        pq.ParquetFile(path).metadata.row_group(group).column(5).statistics for group in range(3)
    ]
    assert [(statistic.min, statistic.max) for statistic in statistics] == [
        (d, d) for d in sorted(devices)
    ]


def test_a_store_made_before_a_column_was_added_is_read(store):
    """The struct of `launches`, which version 1 alone has, had fewer fields once."""
    store.add([ROW])
    path = unsealed(store)
    launch = pa.struct([("name", pa.string()), ("registers", pa.int64())])
    column = pa.array([[{"name": "f", "registers": 32}]], pa.list_(launch))
    table = pq.read_table(path).drop_columns(["extra", "clock_mhz"])
    table = table.append_column("launches", column).append_column("later", pa.array([1]))
    pq.write_table(table, path)
    other = Store(store.folder.parent / "other", create=True)
    other.merge([store.folder])
    for item in (store, other):
        assert list(item.rows()) == [replace(ROW, clock_mhz=None)]
        ((row,),) = item.scan().select("launches").collect().rows()
        assert [(row[0]["name"], row[0]["registers"], row[0]["demand"])] == [("f", 32, None)]


def test_an_empty_store_has_columns_and_no_rows(store):
    assert sequences_of(store) == []
    assert configurations(store.scan()).collect().is_empty()


def test_a_condition_in_sql_chooses_rows(store):
    store.add(numbered(0, 1, 2))
    assert [row.sequence for row in store.rows(store.where("sequence > 1"))] == [2]
    with pytest.raises(InputError, match=r"the columns of data: kernel_id, family"):
        store.where("speed > 1")


def test_a_query_in_sql_is_answered(store):
    store.add(numbered(0, 1, 2), [SOURCE])
    assert store.query("select name from sources").rows() == [("kernel.py",)]
    assert store.query("select count(*) from data where sequence > 0").item() == 2
    with pytest.raises(InputError, match="'select speed from data': "):
        store.query("select speed from data")
    with pytest.raises(InputError, match="'nonsense': "):
        store.query("nonsense")


@pytest.mark.parametrize("sql", ["delete from data", " DROP TABLE data", "update data set x = 0"])
def test_a_query_that_would_write_is_refused(store, sql):
    store.add(numbered(0, 1, 2), [SOURCE])
    with pytest.raises(InputError, match=r"a query only reads; (DELETE|DROP|UPDATE) would change"):
        store.query(sql)
    assert store.query("select count(*) from data").item() == 3


def test_a_row_that_is_none_is_told_with_its_store(store):
    table = tables.table_of(Outcome, [ROW])
    place = table.schema.get_field_index("verdict")
    parts.write_parts(
        store.folder / "parts",
        Outcome,
        table.set_column(place, "verdict", pa.array(["fine"])),
    )
    with pytest.raises(InputError, match=rf"{store.folder}: a row cannot be read: .*fine"):
        list(store.rows())


# --------------------------------------------------------------------------------- what is no store


def test_only_a_store_is_opened_and_only_a_free_folder_becomes_one(tmp_path):
    with pytest.raises(InputError, match="is not a store: it does not exist"):
        Store(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; a store is a folder"):
        Store(tmp_path / "file", create=True)
    with pytest.raises(InputError, match="is not a store: it contains other files"):
        Store(tmp_path, create=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is not a store: it is empty"):
        Store(tmp_path / "empty")
    with pytest.raises(
        InputError, match="no set 'nothing', and no folder of that name; there are: "
    ):
        shipped("nothing")


@pytest.mark.parametrize("examined_before", range(8))
def test_a_store_that_another_process_makes_meanwhile_is_opened(
    tmp_path, monkeypatch, examined_before
):
    examined = itertools.count()

    def other_process_makes_it_in_time(examination):
        def examine(path):
            if next(examined) == examined_before:
                os.makedirs(tmp_path / "new" / "parts")  # noqa: PTH103 - Path is patched
            return examination(path)

        return examine

    for name in ("exists", "is_dir", "iterdir"):
        monkeypatch.setattr(Path, name, other_process_makes_it_in_time(getattr(Path, name)))
    assert Store(tmp_path / "new", create=True).parts == ()


def test_a_damaged_part_is_named_and_nothing_is_added_meanwhile(store):
    store.add(numbered(0, 1))
    (path,) = store.parts
    path.write_bytes(path.read_bytes()[:-100])
    for action in (store.scan, lambda: store.add(numbered(2))):
        with pytest.raises(
            InputError, match=rf"{path.name}: was cut off, or its footer is damaged"
        ):
            action()
    path = unsealed(store)
    with pytest.raises(InputError, match=rf"{path.name}: is not a Parquet file, or was cut off"):
        store.scan()


def test_a_foreign_part_and_a_newer_one_are_named(store):
    store.add([ROW])
    path = unsealed(store)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({}), path)
    with pytest.raises(InputError, match=r"is a foreign file, not solkit\.data"):
        store.scan()
    pq.write_table(table.replace_schema_metadata({"solkit.schema": "solkit.data/9"}), path)
    with pytest.raises(InputError, match="has version 9; the newest that this SolKit reads is 2"):
        store.scan()
    changed = table.set_column(5, "device", pa.array([1])).replace_schema_metadata(
        {"solkit.schema": "solkit.data/1"}
    )
    pq.write_table(changed, path)
    with pytest.raises(InputError, match="column device is int64, not string"):
        store.scan()


@pytest.mark.slow
def test_a_changed_byte_is_never_answered_from(store, monkeypatch):
    monkeypatch.setattr(parts, "ROW_GROUP", 4)
    store.add(numbered(*range(12)), [SOURCE])
    chance = random.Random(1)
    for path, form, read in (
        (store.parts[0], Outcome, store.scan),
        (store.source_parts[0], Source, store.sources),
    ):
        whole, rows = path.read_bytes(), read().collect().rows()
        for step in range(100):
            if step % 5:
                damaged = bytearray(whole)
                damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
            else:
                damaged = whole[: chance.randrange(len(whole))]
            path.write_bytes(damaged)
            with pytest.raises(InputError, match=re.escape(str(path))):
                read()
            table, damage = parts.salvage_row_groups(path, form)
            saved = pl.from_arrow(table).rows()
            assert damage is not None
            assert len(saved) == damage.readable
            assert all(row in rows for row in saved)
        path.write_bytes(whole)
    assert sequences_of(store) == list(range(12))


def test_a_part_without_a_seal_is_held_against_its_page_checksums(store):
    store.add(numbered(*range(30)))
    path = unsealed(store)
    assert sequences_of(store) == list(range(30))
    data = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"part\.parquet: is damaged .*row group 0"):
        store.query("select count(*) from data")


@pytest.mark.slow
def test_damage_to_a_part_without_a_seal_never_ends_in_a_traceback(store, monkeypatch):
    monkeypatch.setattr(parts, "ROW_GROUP", 4)
    store.add(numbered(*range(12)))
    path = unsealed(store)
    whole, chance = path.read_bytes(), random.Random(1)
    footer = int.from_bytes(whole[-8:-4], "little")
    for step in range(60):
        damaged = bytearray(whole)
        damaged[-1 - chance.randrange(footer if step % 2 else len(whole))] ^= 1 << step % 8
        path.write_bytes(damaged)
        text = ""
        try:
            store.scan().collect()
        except InputError as error:
            text = str(error)
        assert not text or str(path) in text


def test_row_groups_are_sealed_from_the_first_byte_to_the_footer(store, monkeypatch):
    monkeypatch.setattr(parts, "ROW_GROUP", 10)
    store.add(numbered(*range(25)))
    (path,) = store.parts
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    seals = json.loads(pq.ParquetFile(path).metadata.metadata[b"solkit.row_groups"])
    ends = [end for end, _ in seals]
    starts = [0, *ends[:-1]]
    assert (len(ends), ends[-1]) == (3, len(data) - 8 - length)
    sealed = [hashlib.sha256(data[start:end]).hexdigest() for start, end in zip(starts, ends)]
    assert [seal for _, seal in seals] == sealed
    assert path.stem.endswith(f"-{hashlib.sha256(data[ends[-1] :]).hexdigest()}")


# ------------------------------------------------------------------------------ merging, salvaging


@pytest.mark.slow
def test_stores_parts_and_runs_are_merged(store, tmp_path):
    with outcomelog.OutcomeLog(tmp_path / "run.jsonl", resume=True) as log:
        log.append(numbered(0, 1), [SOURCE])
    with (tmp_path / "run.jsonl").open("a") as file:
        file.write("{")
    other = Store(tmp_path / "other", create=True)
    other.add(numbered(7, 8), [SOURCE])
    added = store.merge([tmp_path / "run.jsonl", other.folder])
    assert (added.rows, added.known, added.sources) == (4, 0, 1)
    assert added.faults == (
        f"{tmp_path}/run.jsonl:5: the line is cut off: 1 bytes that are not JSON",
    )
    assert store.merge([*other.parts]) == Added(0, 2, 0)
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "run.jsonl").read_bytes()))
    assert store.merge([packed]).known == 2
    for path, why in [
        ("none", "does not exist"),
        ("x.csv", "is not a store, a part"),
        ("d", "is not a store"),
    ]:
        (tmp_path / "x.csv").write_text("")
        (tmp_path / "d").mkdir(exist_ok=True)
        with pytest.raises(InputError, match=why):
            store.merge([tmp_path / path])


def test_what_can_be_read_of_a_damaged_part_is_salvaged(store, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "ROW_GROUP", 10)
    store.add(numbered(*range(10, 40)))
    (path,) = store.parts
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    place = column.data_page_offset + column.total_compressed_size // 2
    data[place] ^= 0xFF
    path.write_bytes(data)
    target = Store(tmp_path / "saved", create=True)
    with pytest.raises(InputError, match=rf"{path.name}: is damaged .*; 20 of 30 rows can be read"):
        target.merge([store.folder])
    added = target.merge([store.folder], salvage=True)
    assert (added.rows, len(added.faults)) == (20, 1)
    assert sequences_of(target) == [*range(10, 20), *range(30, 40)]


def test_the_salvage_that_is_named_works_for_sources_too(store, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "ROW_GROUP", 1)
    others = [source_of(b"a = 1", "a.py"), source_of(b"b = 2", "b.py")]
    store.add([ROW], others)
    (path,) = store.source_parts
    healthy = Store(tmp_path / "healthy", create=True)
    assert healthy.merge([path]) == Added(0, 0, 2)
    data = bytearray(path.read_bytes())
    data[10] ^= 1  # in the first row group
    path.write_bytes(data)
    target = Store(tmp_path / "saved", create=True)
    with pytest.raises(InputError) as error:
        target.merge([store.folder])
    reported_match = re.search(
        r"1 of 2 rows can be read: solkit data merge NEW (.*) --salvage$", str(error.value)
    )
    assert target.merge([reported_match[1]], salvage=True).sources == 1
    path.write_bytes(data[:-1])
    with pytest.raises(InputError, match=r"nothing can be read from it$"):
        target.merge([store.folder])


def test_copies_of_a_run_that_went_on_apart_are_told_and_nothing_is_written(store, tmp_path):
    with outcomelog.OutcomeLog(tmp_path / "a.jsonl", resume=True) as log:
        log.append(numbered(0, 1))
    (tmp_path / "b.jsonl").write_bytes((tmp_path / "a.jsonl").read_bytes())
    for name, numbers in (("a", (5, 6)), ("b", (6, 7, 8))):
        with outcomelog.OutcomeLog(tmp_path / f"{name}.jsonl", resume=True) as log:
            log.append(numbered(*numbers))
    store.merge([tmp_path / "a.jsonl"])
    empty = Store(tmp_path / "empty", create=True)
    for target, inputs in ((store, ["b"]), (empty, ["a", "b"])):
        before = sequences_of(target)
        with pytest.raises(InputError, match=rf"^2 rows of run {log.run_id}, from sequence 3 on"):
            target.merge([tmp_path / f"{name}.jsonl" for name in inputs])
        assert sequences_of(target) == before


def test_a_row_imported_again_may_be_labelled_otherwise(store):
    store.add([ROW])
    again = replace(ROW, created=START + timedelta(hours=1), kind="other", device="h100")
    assert store.add([again]) == Added(0, 1, 0)


# ------------------------------------------------------------------------- interrupted, full, alike


class Killed(BaseException):
    """As sudden as SIGKILL: nothing catches it."""


def _steps(monkeypatch, fail_at, error):
    """Let the `fail_at`-th change of the file system raise; gives how many there were."""
    count = [0]

    def counted(function):
        def step(*args, **kwargs):
            count[0] += 1
            if count[0] == fail_at:
                raise error
            return function(*args, **kwargs)

        return step

    monkeypatch.setattr(os, "fsync", counted(os.fsync))
    monkeypatch.setattr(Path, "rename", counted(Path.rename))
    monkeypatch.setattr(parts, "_encode_part", counted(parts._encode_part))
    return count


@pytest.mark.slow
def test_killed_at_any_step_rows_are_neither_lost_nor_doubled(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", 2)
    for step in range(1, 40):
        store = Store(tmp_path / f"killed{step}", create=True)
        store.add(numbered(0))
        with monkeypatch.context() as patch:
            _steps(patch, step, Killed())
            try:
                store.add(numbered(1, 2, 3), [SOURCE])
                break
            except Killed:
                assert 0 in sequences_of(store)
        assert store.add(numbered(0, 1, 2, 3), [SOURCE]).known >= 1
        assert sequences_of(store) == [0, 1, 2, 3]
        assert store.sources().collect().height == 1
        assert not list(store.folder.rglob(".part-*"))
    assert step == 3 * 4 + 1  # a file of sources and two parts, four steps each


@pytest.mark.slow
def test_a_full_disk_is_told_and_leaves_nothing_behind(store, monkeypatch):
    store.add(numbered(0))
    before = sorted(store.folder.rglob("*"))
    for step in (1, 2, 3):
        with monkeypatch.context() as patch:
            _steps(patch, step, OSError(28, "No space left on device"))
            with pytest.raises(TraceError, match="1 rows could not be written: No space left"):
                store.add(numbered(1))
        assert sorted(store.folder.rglob("*")) == before
    assert store.add(numbered(1)) == Added(1, 0, 0)


def test_a_part_that_would_be_too_large_is_cut(store, monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES", 60_000)
    noisy = [replace(row, message=os.urandom(500).hex()) for row in numbered(*range(200))]
    store.add(noisy)
    assert len(store.parts) > 1
    assert all(path.stat().st_size <= 60_000 for path in store.parts)
    assert sequences_of(store) == list(range(200))


def _write(folder, barrier, first):
    store = Store(folder, create=True)
    barrier.wait(120)
    for n in range(3):
        store.add(numbered(first + n, 1000 + n), [SOURCE])


@pytest.mark.slow
def test_writers_at_the_same_time_lose_and_double_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")  # polars does not survive a fork
    barrier, folder = context.Barrier(2), tmp_path / "store"
    other = context.Process(target=_write, args=(folder, barrier, 10))
    other.start()
    _write(folder, barrier, 0)
    other.join(120)
    assert other.exitcode == 0
    assert sequences_of(Store(folder)) == [0, 1, 2, 10, 11, 12, 1000, 1001, 1002]
    assert Store(folder).sources().collect().height == 1


def test_tables_hold_records_of_any_form():
    for form, record in ((Outcome, ROW), (Source, SOURCE)):
        assert list(tables.records_of(form, tables.table_of(form, [record]))) == [record]
