"""Facts that SolKit ships are those of a fresh analysis."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from datetime import datetime, timezone

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

import facts as bench
import polars as pl

from solkit.core import Facts, Launch, Outcome, Requests, Verdict
from solkit.datasets.store import shipped

FEW = 6
TRITON = importlib.metadata.version("triton")
FACTS = Facts(Launch("double", (8, 1, 1), 4, 2), registers=16)
ROW = Outcome(
    "k", "double", "elementwise", "zoo", "double/N=4096", "h100-sxm", {}, Verdict.CORRECT,
    datetime(2026, 1, 1, tzinfo=timezone.utc), "random",
)  # fmt: skip


@pytest.mark.parametrize(
    ("registers", "tools", "result"),
    [
        (16, (), "same"),
        (16, ("torch 2.11.0",), "same"),
        (17, (), "different"),
        (17, ("torch 2.11.0",), "other tools"),
    ],
)
def test_a_difference_is_one_of_tools_where_these_differ(registers, tools, result):
    fresh = replace(FACTS, registers=registers)
    assert bench.Compared(ROW, 1, (FACTS,), (fresh,), tools=tools).result == result


@pytest.mark.parametrize(("stored", "is_equal"), [((), True), ((32.0,), True), ((31.0,), False)])
def test_how_often_loops_run_is_compared_where_it_was_stored(stored, is_equal):
    requests = Requests(
        accesses=(), operations={}, l1_wavefronts=0, l2_read_bytes=0, l2_write_bytes=0
    )
    before, fresh = (
        replace(FACTS, requests=replace(requests, iterations_by_depth=runs))
        for runs in (stored, (32.0,))
    )
    assert bench.Compared(ROW, 1, (before,), (fresh,)).is_equal is is_equal


def test_a_failed_analysis_is_a_difference():
    assert bench.Compared(ROW, 1, (FACTS,), None, "no such file").result == "different"


def test_stored_facts_and_modelled_times_are_those_found_afresh():
    stores = [shipped("h100"), shipped("h200")]
    having = pl.concat([store.scan().filter(pl.col("facts_id").is_not_null()) for store in stores])
    versions = having.select("triton_version").unique().collect()["triton_version"].to_list()
    if TRITON not in versions:
        pytest.skip(f"facts of shipped rows are of Triton {versions}; this is {TRITON}")
    results = list(bench.compared(stores, FEW))
    assert sum(result.count for result in results) == FEW
    assert [item.row for item in results if item.result == "different"] == []
