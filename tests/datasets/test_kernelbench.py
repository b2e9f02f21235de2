from __future__ import annotations

import hashlib
from dataclasses import fields, replace

import pytest

pytest.importorskip("pyarrow")

from solkit.datasets import kernelbench, shipped
from solkit.datasets.kernelbench import TimedReference
from solkit.errors import InputError

SOURCE = b"class Model: ..."
SHA256 = hashlib.sha256(SOURCE).hexdigest()
EMPTY = TimedReference(**{f.name: None for f in fields(TimedReference)})
EAGER = replace(
    EMPTY,
    level=1,
    number=23,
    name="23_Softmax",
    sha256=SHA256,
    category="softmax",
    device="NVIDIA H100 80GB HBM3",
    variant="eager",
    status="ok",
    median_ms=1.25,
    samples=20,
    conv_tf32=True,
    run="2026-11-21T12:00:00+00:00",
)
ROWS = (
    EAGER,
    replace(EAGER, variant="compiled", status="out_of_memory", message="full", median_ms=None),
    replace(EAGER, variant="eager_tf32", status="same_as_default", median_ms=None),
)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "_CHECKOUT", tmp_path)
    kernelbench.write_baselines(ROWS, tmp_path / "kernelbench_h100.parquet")
    return tmp_path


def test_rows_come_back_as_they_were_written(data):
    assert kernelbench.shipped_rows("h100") == ROWS
    assert kernelbench.read_baselines(data / "kernelbench_h100.parquet") == ROWS


def test_a_row_without_its_key_cannot_be_written(data):
    with pytest.raises(Exception, match="sha256"):
        kernelbench.write_baselines([replace(EAGER, sha256=None)], data / "kernelbench_x.parquet")


def test_a_baseline_is_found_by_file_or_hash(data):
    file = data / "renamed.py"
    file.write_bytes(SOURCE)
    assert kernelbench.baseline_row(file) == kernelbench.baseline_row(SHA256) == EAGER


@pytest.mark.usefixtures("data")
def test_where_tf32_changes_nothing_the_default_is_the_baseline():
    assert kernelbench.baseline_row(SHA256, variant="eager_tf32") == EAGER


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("0" * 64,), "no such file"),
        (("missing.py",), "missing.py: no such file, and no SHA-256"),
        ((SHA256, "h100", "compiled"), "not timed: out_of_memory"),
        ((SHA256, "h100", "fast"), "eager, compiled, eager_tf32, compiled_tf32"),
        ((SHA256, "b200"), "there are: h100"),
    ],
)
def test_what_is_missing_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        kernelbench.baseline_row(*arguments)


def test_the_table_that_ships_is_whole_and_keeps_to_its_bounds():
    table = kernelbench.shipped_rows("h100")
    keys = {(row.sha256, row.variant) for row in table}
    assert len(keys) == len(table) == 200 * len(kernelbench.VARIANTS)
    for row in table:
        assert len(row.sha256) == 64
        assert row.status in (kernelbench.OK, kernelbench.SAME_AS_DEFAULT)
        assert 0 < row.hard_ms <= row.roofline_ms <= row.unfused_ms * (1 + 1e-9)
        if row.median_ms is not None:
            assert row.low_ms <= row.median_ms <= row.high_ms
            assert row.ratio == pytest.approx(row.median_ms / row.roofline_ms)
            assert row.degenerate or row.median_ms >= row.hard_ms
