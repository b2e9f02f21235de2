"""The page and the JSON of ``solkit bound``, and tables that ``solkit score`` has as well."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from solkit.core import Chain, Contributor, FailedShape, Fusion, OpWork, Part, PartBound, Verdict
from solkit.report import bounds, explain, terminal


def page(render, report, width=100, **flags):
    out = io.StringIO()
    render(report, Console(file=out, width=width), **flags)
    return out.getvalue()


@pytest.fixture
def report(make):
    """Two shapes, the first told by op; a third failed."""
    reported_contributors = tuple(
        Contributor(f"aten.op{i}", 10, 0.1, f"/a/b/model.py:{i}", i) for i in range(1, 8)
    )
    whole = make.bound()
    resource = replace(whole.resources[0], contributors=reported_contributors)
    whole = replace(whole, resources=(resource, *whole.resources[1:]))
    part = PartBound(Part((0, 1), ("aten.mm", "aten._softmax"), "model.py:3", make.work()), whole)
    levels = Fusion(0.1, (part, part, part), (part,))
    work = make.work(
        ops=(OpWork("aten.convolution", make.work().operations, shortcut="transform"),)
    )
    first = make.result(bound=whole, fusion=levels, work=work)
    second = make.result(shape={"M": 8}, bound=make.bound())
    return make.report(first, second, failed=(FailedShape({"M": 7}, "model.py:3: no"),))


def test_the_page_tells_every_shape_and_the_one_that_failed(report):
    text = page(bounds.render, report)
    for said in (
        "M=7: model.py:3: no",
        "SOL          128 µs, limited by tensor.bf16",
        "one kernel 100 µs · 3 kernels, one per op, 385 µs: fusion is worth up to 3.85×",
        "roofline 128 µs · hard 30.0 µs",
    ):
        assert said in text
    overview = text[text.index("shape") : text.index("──")]
    assert overview.count("tensor.bf16") == 2
    assert "385 µs" in overview
    for absent in ("verdict", "model.py:1 ", "one per op:", "next"):
        assert absent not in text


def test_explained_names_ops_lines_sources_and_reasons(report):
    text = page(bounds.render, report, explained=True)
    assert "op5 (5 times)    model.py:5" in text
    assert "2 more" in text
    assert "op6" not in text
    assert "not split by op" in text  # the other resource
    assert "1070 TFLOP/s = datasheet, scaled" in text
    assert "hard lower   aten.convolution: Winograd and FFT" in text


def test_kernels_are_numbered_and_summed(report):
    text = page(bounds.render, report, kernels=True)
    assert "0-1  mm + softmax" in text
    assert "groups: 1 kernel " in text
    assert "one per op: 3 kernels" in text
    with_floor = replace(report, device=replace(report.device, launch_us=1.2))
    assert "3 kernels, each launched in 1.20 µs" in page(bounds.render, with_floor, kernels=True)


def test_scores_page_can_be_explained_too(report):
    assert "op5 (5 times)" in page(terminal.render, report, explained=True)
    assert "op5" not in page(terminal.render, report)


def test_a_time_between_hard_bound_and_roofline_is_explained(make):
    work = make.work(
        ops=(OpWork("aten.convolution", make.work().operations, shortcut="transform"),)
    )
    beaten = make.measured(verdict=Verdict.BEATS_ALGORITHM, work=work)
    beaten = replace(beaten, measurement=make.measurement(median_ms=0.1))
    text = page(terminal.render, make.report(beaten), width=140)
    assert "beaten by    aten.convolution: Winograd and FFT" in text
    assert "beaten by" not in page(terminal.render, make.report(make.measured(work=work)))


def test_a_bound_below_the_launch_floor_is_told(make):
    small = make.bound(time_ms=1e-4, at=replace(make.bound().at, launch_floor_ms=1.2e-3))
    text = page(bounds.render, make.report(make.result(bound=small)))
    assert "floor        launch-limited: one launch takes 1.20 µs, more than the bound" in text
    assert "launch-limited" not in page(bounds.render, make.report(make.result()))


def test_the_latency_floor_of_dependent_steps_is_told_if_it_is_long(make):
    chain = Chain(512, 0, {"contraction.fp32": 10**9}, "solkit.lstm", "/home/me/model.py:9")
    for floor_ms, is_told in ((0.05, True), (0.001, False)):
        slow = make.bound(time_ms=0.17, at=replace(make.bound().at, chain_floor_ms=floor_ms))
        chained = make.result(bound=slow, work=make.work(chain=chain))
        text = " ".join(page(bounds.render, make.report(chained)).split())
        results = "floor 50.0 µs of latency: 512 steps of this algorithm wait for one another"
        assert (results in text) == is_told
        assert ("solkit.lstm (model.py:9)" in text) == is_told


def test_json_is_the_contract(report):
    data = json.loads(bounds.dumps(report))
    assert data["schema"] == "solkit.bound/1"
    assert set(data) == {"schema", "environment", "kernel", "device", "results", "failed"}
    first, second = data["results"]
    assert set(first) == {"shape", "work", "bound", "fusion", "unfused", "grouped", "best"}
    assert first["bound"]["resources"]["tensor.bf16"]["contributors"][4] == {
        "name": "aten.op5", "amount": 10, "share": 0.1, "line": "/a/b/model.py:5", "count": 5,
    }  # fmt: skip
    assert first["fusion"]["grouped_ms"] == pytest.approx(0.12839)
    assert first["grouped"] == [
        {"positions": [0, 1], "names": ["aten.mm", "aten._softmax"], "line": "model.py:3",
         "time_ms": 0.12839, "limiter": "tensor.bf16", "dram_bytes": 3 * 2 * 4096**2},
    ]  # fmt: skip
    assert (second["fusion"], second["unfused"]) == (None, [])
    assert data["failed"] == [{"shape": {"M": 7}, "error": "model.py:3: no"}]


def test_a_line_of_another_file_is_told_by_its_name():
    assert explain.format_place("/path/to/layers.py:12", "to/model.py") == "layers.py:12"
    assert explain.format_place("/path/to/model.py:12", "to/model.py") == "L12"
    assert explain.format_place("", "model.py") == ""
