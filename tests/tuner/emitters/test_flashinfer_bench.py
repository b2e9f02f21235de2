"""Traces, validated by FlashInfer-Bench's schema (flashinfer_bench/data/trace.py, workload.py)."""

from __future__ import annotations

import json
import math
from typing import Annotated, Literal

import pydantic
import pytest
from pydantic import Field
from tuning_rows import SHAPE, row

from solkit.core import Verdict
from solkit.datasets import formats
from solkit.errors import InputError
from solkit.tuner.emitters import emit
from solkit.tuner.tuning_results import results_of_runs

Word = Annotated[str, Field(min_length=1)]
Positive = Annotated[float, Field(ge=0)]


class Workload(pydantic.BaseModel):
    axes: dict[str, Annotated[int, Field(ge=0)]]
    inputs: dict[str, dict[str, object]]
    uuid: Word


class Correctness(pydantic.BaseModel):
    max_relative_error: float
    max_absolute_error: float

    @pydantic.field_validator("max_relative_error", "max_absolute_error")
    @classmethod
    def is_an_error(cls, value: float) -> float:
        assert math.isnan(value) or value >= 0
        return value


class Performance(pydantic.BaseModel):
    latency_ms: Positive
    reference_latency_ms: Positive
    speedup_factor: Positive


class Environment(pydantic.BaseModel):
    hardware: Word
    libs: dict[str, str]


class Evaluation(pydantic.BaseModel):
    """A run that passed: it has both correctness and performance."""

    status: Literal["PASSED"]
    environment: Environment
    timestamp: Word
    log: str
    correctness: Correctness
    performance: Performance


class Trace(pydantic.BaseModel):
    definition: Word
    workload: Workload
    solution: Word
    evaluation: Evaluation


ROWS = [
    row({"B": 64}, 0.5, 0, reference_ms=2.0, max_error=1e-3),
    row({"B": 64}, 0.25, 1, shape={**SHAPE, "M": 8, "dtype": "float16", "causal": True}),
]


def traces(path):
    return [Trace.model_validate_json(line) for line in path.read_text().splitlines()]


def test_each_line_is_a_valid_trace(tmp_path):
    (path,) = emit(results_of_runs(ROWS), "flashinfer-bench", tmp_path / "traces.jsonl").paths
    first, second = traces(path)
    assert first.definition == "softmax"
    assert first.workload.axes == SHAPE
    assert second.workload.axes == {"M": 8, "N": 1024}
    assert first.workload.uuid != second.workload.uuid
    assert first.solution == "softmax/whole_row[B=64]"
    assert first.evaluation.environment.hardware == "NVIDIA H100 80GB HBM3"
    assert first.evaluation.environment.libs == {
        "torch": "2.11.0", "triton": "3.6.0", "cuda": "13.0",
    }  # fmt: skip
    assert first.evaluation.performance.model_dump() == {
        "latency_ms": 0.5, "reference_latency_ms": 2.0, "speedup_factor": 4.0,
    }  # fmt: skip
    assert first.evaluation.correctness.max_absolute_error == 1e-3
    assert math.isnan(second.evaluation.correctness.max_absolute_error)  # not measured: not 0


def test_our_reader_gives_the_rows_back(tmp_path):
    (path,) = emit(results_of_runs(ROWS), "flashinfer-bench", tmp_path / "traces.jsonl").paths
    first, second = formats.read(path).rows
    assert (first.time_ms, first.reference_ms, first.max_error) == (0.5, 2.0, 1e-3)
    assert (first.verdict, first.shape) == (Verdict.CORRECT, SHAPE)
    assert (first.device_name, first.triton_version) == ("NVIDIA H100 80GB HBM3", "3.6.0")
    assert second.time_ms == 0.25
    again = tmp_path / "again.jsonl"
    emit(results_of_runs([first]), "flashinfer-bench", again)
    assert traces(again)[0].workload == traces(path)[0].workload  # with its own UUID


def test_definition_solution_and_axes_can_be_named(tmp_path):
    emit(
        results_of_runs(ROWS[:1]),
        "flashinfer-bench",
        tmp_path / "t.jsonl",
        names={"rows": "M"},
        constants={"definition": "softmax_n1024", "solution": "mine"},
        drop=["N"],
    )
    (trace,) = traces(tmp_path / "t.jsonl")
    assert (trace.definition, trace.solution) == ("softmax_n1024", "mine")
    assert trace.workload.axes == {"rows": 4096}
    with pytest.raises(InputError, match="no integer size 'Q'"):
        emit(results_of_runs(ROWS), "flashinfer-bench", tmp_path / "t.jsonl", names={"rows": "Q"})


def test_several_kernels_share_a_file(tmp_path):
    both = [ROWS[0], row({"B": 1}, 1.0, 5, kernel="other")]
    emit(results_of_runs(both), "flashinfer-bench", tmp_path / "t.jsonl")
    assert len(traces(tmp_path / "t.jsonl")) == 2
    assert json.loads((tmp_path / "t.jsonl").read_text().splitlines()[0])["definition"] == "softmax"


def test_what_has_no_time_is_no_trace(tmp_path):
    reported_row = row({"B": 1}, None, verdict=Verdict.NOT_MEASURED, chosen_by="tuned")
    with pytest.raises(InputError, match="has no time"):
        emit(results_of_runs([reported_row]), "flashinfer-bench", tmp_path / "t.jsonl")
