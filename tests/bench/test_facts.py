"""Facts that SolKit ships are those that it finds now."""

from __future__ import annotations

import importlib.metadata

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

import facts as bench
import polars as pl

from solkit.datasets.store import shipped

FEW = 4


@pytest.mark.parametrize("name", ["h100", "h200"])
def test_stored_facts_and_modelled_times_are_those_found_afresh(name):
    store = shipped(name)
    having = store.scan().filter(pl.col("facts_id").is_not_null())
    versions = having.select("triton_version").unique().collect()["triton_version"].to_list()
    triton = importlib.metadata.version("triton")
    if not versions:
        pytest.skip(f"the rows of {name} have no facts yet")
    if triton not in versions:
        pytest.skip(f"Triton {versions} compiled the rows of {name}; this is {triton}")
    found = list(bench.compared(store, FEW))
    assert found
    assert [each.group.configuration for each in found if not each.is_equal] == []
