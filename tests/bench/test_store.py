from __future__ import annotations

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

import store


def test_every_figure_of_the_docs_is_measured(tmp_path):
    measurement = store.measure(60, tmp_path)
    assert measurement["rows"] == 60
    assert measurement["files"] == 3  # a part of rows, one of sources and one of facts
    assert 0 < measurement["facts"] <= 60
    assert 100 < measurement["facts_bytes_each"] < 2000
    assert 0 < measurement["largest_mb"] <= measurement["megabytes"] < 1
    assert measurement["run_bytes_per_row"] > 500
    assert all(
        measurement[f"{name}_s"] > 0 for name in ("write", "filter", "load", "load_then_filter")
    )


def test_made_up_rows_are_the_same_each_time():
    assert list(store.synthetic(20)) == list(store.synthetic(20))
    assert len({row.sequence for row in store.synthetic(20)}) == 20
    first, *_ = store.synthetic(1)
    assert store.facts_of(first) == store.facts_of(first)
