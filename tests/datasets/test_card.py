from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

from solkit.core import Outcome, Source, StoredFacts, Verdict
from solkit.datasets import card, parts
from solkit.datasets.identifiers import source_of
from solkit.datasets.store import Store
from solkit.errors import InputError, TraceError

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SOURCE = source_of(b"def kernel(): ...", "kernel.py")
ROW = Outcome(
    "k", "softmax", "softmax", "zoo", "softmax/M=4", "h100-sxm", {}, Verdict.CORRECT, START,
    "random", run_id="a", source_sha256=SOURCE.sha256, device_name="NVIDIA H100",
)  # fmt: skip


def timed(run, number, time, hours=0, **changes):
    values = {"created": START + timedelta(hours=hours), "params": {"n": number}, **changes}
    return replace(ROW, run_id=run, sequence=number, time_ms=time, **values)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store", create=True)
    rows = [timed("a", n, 1.0) for n in range(4)]
    rows += [timed("b", n, 1.0 + n / 100, hours=1) for n in range(3)]
    rows.append(timed("b", 7, 9.0, verdict=Verdict.WRONG))
    store.add(rows, [SOURCE, source_of(b"unused", "unused.py")])
    return store


def test_repeats_are_compared_between_runs(store):
    results = card.compare_repeats(store.scan())
    assert results.configurations == 3  # of changes 0, 1 and 2 %
    assert results.median == pytest.approx(0.01)
    assert results.p95 == pytest.approx(0.019)


def test_repeats_within_a_run_are_none(tmp_path):
    other = Store(tmp_path / "other", create=True)
    other.add([timed("a", 0, 1.0), timed("a", 1, 2.0, params={"n": 0})])
    assert card.compare_repeats(other.scan()) == card.Repeats(0)


def test_an_exported_set_is_a_store_with_a_card(store, tmp_path):
    path = card.export_set(store, tmp_path / "set", "Times", "Measured by hand.", "sequence < 7")
    exported = Store(tmp_path / "set")
    assert len(list(exported.rows())) == 7
    assert exported.sources().collect()["name"].to_list() == ["kernel.py"]
    text = path.read_text()
    front = text.split("---\n")[1]
    assert "license: cc-by-4.0\n" in front
    assert 'pretty_name: "Times"\n' in front
    assert "- config_name: sources\n  data_files: sources/*.parquet\n" in front
    assert "Measured by hand." in text
    assert "| h100-sxm | softmax | 1 | 1 | 1 | 4 | 7 | 0 |" in text
    assert "| b | 2026-01-01 01:00 | 3 | NVIDIA H100 |" in text
    assert "1.00% in the median and 1.90% at the 95th percentile" in text


@pytest.mark.slow
def test_an_exported_set_is_smaller_and_holds_the_same(tmp_path):
    """As real facts do, these repeat much of the one before, in an order of their own."""
    chance = random.Random(0)
    words = [f'"{chance.getrandbits(48):x}"' for _ in range(2000)]
    texts = [",".join(chance.sample(words, 60)) for _ in range(40)]
    rows, facts = [], []
    for number in range(400):
        name = hashlib.sha256(b"%d" % number).hexdigest()
        facts.append(StoredFacts(name, ";".join(chance.sample(texts, 8))))
        rows.append(timed("a", number, chance.random(), facts_id=name))
    store = Store(tmp_path / "store", create=True)
    store.add(rows, [SOURCE], facts)
    card.export_set(store, tmp_path / "set", "Times")
    exported = Store(tmp_path / "set")
    assert list(exported.rows()) == list(store.rows())
    assert exported.facts().collect().equals(store.facts().collect())
    (before,), (after,) = store.files(StoredFacts), exported.files(StoredFacts)
    assert parts.has_sealed_name(after)
    assert after.stat().st_size < before.stat().st_size


@pytest.mark.quick("[my] set", "null")
@pytest.mark.parametrize("title", ["#1 set", "[my] set", "a: b", 'so "called"', "null", "ö 😀"])
def test_any_title_is_one_in_the_front_matter(store, title):
    front = card.render_card(store, title).split("---\n")[1]
    (line,) = (line for line in front.splitlines() if line.startswith("pretty_name: "))
    assert json.loads(line.removeprefix("pretty_name: ")) == title  # which YAML reads alike


def test_a_set_is_there_whole_or_not_at_all(store, tmp_path, monkeypatch):
    write = parts.write_parts

    def full_at_the_sources(folder, form, table, **how):
        if form is Source:
            raise TraceError("No space left on device")
        return write(folder, form, table, **how)

    before = sorted(tmp_path.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(parts, "write_parts", full_at_the_sources)
        with pytest.raises(TraceError, match="No space left on device"):
            card.export_set(store, tmp_path / "set", "Times")
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "set").mkdir()
    path = card.export_set(store, tmp_path / "set", "Times")
    assert Store(tmp_path / "set").scan().collect().height == 8
    assert 'Store("set")' in path.read_text()


def test_an_empty_folder_is_filled_not_replaced(store, tmp_path):
    """A shell may stand in it, or a file system be mounted there."""
    folder = tmp_path / "set"
    folder.mkdir()
    inode = folder.stat().st_ino
    card.export_set(store, folder, "Times")
    assert folder.stat().st_ino == inode
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "parts", "sources"]
    assert len(list(Store(folder).rows())) == len(list(store.rows()))


def test_a_damaged_store_is_not_exported(store, tmp_path):
    for (path,) in (store.parts, store.source_parts):
        whole = path.read_bytes()
        path.write_bytes(bytes([whole[0], *whole[1:40], whole[40] ^ 1, *whole[41:]]))
        with pytest.raises(InputError, match=path.name):
            card.export_set(store, tmp_path / "set", "Times")
        path.write_bytes(whole)
    assert not (tmp_path / "set").exists()


def test_a_set_needs_rows_and_a_new_folder(store, tmp_path):
    with pytest.raises(InputError, match="no rows to export"):
        card.export_set(store, tmp_path / "set", "Times", where="sequence > 100")
    with pytest.raises(InputError, match="is not empty"):
        card.export_set(store, store.folder, "Times")
