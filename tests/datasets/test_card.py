from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

from solkit.core import Verdict
from solkit.datasets import card
from solkit.datasets.record import TimedConfiguration, source_of
from solkit.datasets.store import Store
from solkit.errors import InputError

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SOURCE = source_of(b"def kernel(): ...", "kernel.py")
ROW = TimedConfiguration(
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
    found = card.repeats(store.scan())
    assert found.configurations == 3  # of changes 0, 1 and 2 %
    assert found.median == pytest.approx(0.01)
    assert found.p95 == pytest.approx(0.019)


def test_repeats_within_a_run_are_none(tmp_path):
    other = Store(tmp_path / "other", create=True)
    other.add([timed("a", 0, 1.0), timed("a", 1, 2.0, params={"n": 0})])
    assert card.repeats(other.scan()) == card.Repeats(0)


def test_an_exported_set_is_a_store_with_a_card(store, tmp_path):
    path = card.export(store, tmp_path / "set", "Times", "Measured by hand.", "sequence < 7")
    exported = Store(tmp_path / "set")
    assert len(list(exported.rows())) == 7
    assert exported.sources().collect()["name"].to_list() == ["kernel.py"]
    text = path.read_text()
    front = text.split("---\n")[1]
    assert "license: cc-by-4.0\n" in front
    assert "pretty_name: Times\n" in front
    assert "- config_name: sources\n  data_files: sources/*.parquet\n" in front
    assert "Measured by hand." in text
    assert "| h100-sxm | softmax | 1 | 1 | 1 | 4 | 7 | 0 |" in text
    assert "| b | 2026-01-01 01:00 | 3 | NVIDIA H100 |" in text
    assert "1.00% in the median and 1.90% at the 95th percentile" in text


def test_a_set_needs_rows_and_a_new_folder(store, tmp_path):
    with pytest.raises(InputError, match="no rows to export"):
        card.export(store, tmp_path / "set", "Times", where="sequence > 100")
    with pytest.raises(InputError, match="holds something already"):
        card.export(store, store.folder, "Times")
