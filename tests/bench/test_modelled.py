"""Modelled times of a set: from facts where rows have them, else as version 1 kept them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

import modelled
import pyarrow as pa

from solkit.core import Access, Facts, Launch, Outcome, Requests, StoredFacts, Verdict
from solkit.datasets import parts
from solkit.datasets.facts import facts_to_json
from solkit.datasets.store import Store, Tables
from solkit.roofline import devices
from solkit.roofline.calibration import calibrated
from solkit.roofline.kernel.evaluate import described

ROW = Outcome(
    "k", "copy", "copy", "zoo", "copy/N=4", "h100-sxm", {}, Verdict.CORRECT,
    datetime(2026, 1, 1, tzinfo=timezone.utc), "random", 1.0, 0.5, run_id="run",
    implementation="copy/plain", kernel_sum_ms=1.0,
)  # fmt: skip
REQUESTS = Requests(
    accesses=(Access("load", "global", "x", "k.py:3", 2**18, 2**22, 2**22, 2**27, 2**27, 16),),
    operations={"fp32": 1 << 25},
    l1_wavefronts=1 << 20,
    l2_read_bytes=1 << 27,
    l2_write_bytes=0,
)  # fmt: skip


def facts(name, *launches):
    return StoredFacts(name, facts_to_json(launches))


def launch(count=1, requests=REQUESTS):
    launch = Launch("f", (4096, 1, 1), 4, 1, count=count)
    return Facts(launch, registers=32, spills=0, shared_bytes=0, requests=requests)


def test_rows_with_facts_are_modelled_for_their_device(tmp_path):
    store = Store(tmp_path / "store", create=True)
    rows = [
        replace(ROW, facts_id="known"),
        replace(ROW, sequence=1, device="h200", facts_id="known"),
        replace(ROW, sequence=2, params={"B": 1}, facts_id="unknown"),
        replace(ROW, sequence=3, params={"B": 2}),
    ]
    known_facts, unknown = (
        facts("known", launch(3), launch()),
        facts("unknown", launch(requests=None)),
    )
    store.add(rows, (), [known_facts, unknown])
    fields = dict(modelled.modelled(store).select("device", "model_ms").rows())
    each_ms = {
        key: described(launch(), calibrated(devices.find(key))).model.time_ms
        for key in ("h100-sxm", "h200")
    }
    assert fields == pytest.approx({key: 4 * time_ms for key, time_ms in each_ms.items()})


def test_rows_that_beat_the_algorithm_count(tmp_path):
    store = Store(tmp_path / "store", create=True)
    row = replace(ROW, verdict=Verdict.BEATS_ALGORITHM, facts_id="known")
    store.add([row, replace(row, sequence=1, params={"B": 1}, verdict=Verdict.WRONG)], (),
              [facts("known", launch())])  # fmt: skip
    assert modelled.modelled(store)["params"].to_list() == ["{}"]


def test_rows_of_version_1_have_the_time_that_they_were_stored_with(tmp_path):
    store = Store(tmp_path / "store", create=True)
    rows = Tables.of([ROW, replace(ROW, sequence=1, params={"B": 1})]).rows
    kind = rows.schema.field("launches").type
    launches = [
        [{"name": "f", "count": 3, "demand": {"model_ms": 0.25}}],
        [{"name": "f", "count": 1, "demand": None}],
    ]
    place = rows.schema.get_field_index("launches")
    parts.write_parts(
        store.folder / "parts",
        Outcome,
        rows.set_column(place, "launches", pa.array(launches, kind)),
    )
    (row,) = modelled.modelled(store).rows(named=True)
    assert (row["params"], row["model_ms"], row["group"]) == ("{}", 0.75, "zoo, version 1")
    assert row["ratio"] == 0.75


def test_a_time_under_the_hard_bound_counts_as_it(tmp_path):
    store = Store(tmp_path / "store", create=True)
    row = replace(ROW, facts_id="known", hard_bound_ms=0.5)
    store.add([row], (), [facts("known", launch())])
    assert described(launch(), calibrated(devices.find("h100-sxm"))).model.time_ms < 0.5
    (result,) = modelled.modelled(store).rows(named=True)
    assert (result["model_ms"], result["raised"], result["ratio"]) == (0.5, True, 0.5)


def test_configurations_that_are_far_off_are_listed_by_kernel(tmp_path):
    store = Store(tmp_path / "store", create=True)
    rows = [replace(ROW, sequence=n, params={"B": n}, facts_id="known") for n in range(3)]
    rows[2] = replace(rows[2], kernel_sum_ms=0.05)  # near the model's
    store.add(rows, (), [facts("known", launch())])
    table = modelled._far("own", modelled.modelled(store))
    assert table.row_count == 1
    cells = [list(column.cells) for column in table.columns]
    assert cells[:3] == [["zoo"], ["copy/plain"], ["2"]]
