"""Events of a trace as nouns, and the op that each kernel belongs to."""

from __future__ import annotations

import json

import pytest

from solkit.errors import InputError
from solkit.profiling.matching import NONE, match_activities
from solkit.profiling.trace_reader import Gpu, read_trace


def names(recording, matching):
    ops = [recording.ops[op].signature.name if op != NONE else None for op in matching.ops]
    return dict(zip((a.name for a in matching.activities), ops))


def test_events_are_read_with_their_fields(trace):
    op = trace.op("aten::mul", 0, 9, ("float", [4, 3]), ("double", []), scalars=(2,))
    trace.kernel(5, 8, launch=2, op=op)
    trace.kernel(8, 9, category="gpu_memset", name="Memset (Device)")
    trace.step(3, 0, 10)
    recording = read_trace(trace.write("trace.json.gz"))
    (read_op,) = recording.ops
    assert read_op.signature.shapes == ((4, 3), (), ())
    assert read_op.signature.strides == ((3, 1), (), ())
    assert read_op.signature.values == ("", "", "2")
    assert read_op.signature.tensors == ("f32[4, 3]", "f64[]")
    kernel, memset = recording.activities
    assert (kernel.start_us, kernel.end_us, kernel.duration_us, kernel.stream) == (5, 8, 3, "7")
    assert kernel.correlation == recording.calls[0].correlation != memset.correlation == 0
    assert recording.gpus == (Gpu(0, "NVIDIA H100 80GB HBM3", 132),)
    assert [step.name for step in recording.steps] == ["ProfilerStep#3"]
    assert recording.has_shapes


def test_ops_alike_share_one_signature(trace):
    for start in (0, 10, 20):
        trace.op("aten::relu", start, start + 5, ("float", [4 if start < 20 else 5]))
    first, second, third = (op.signature for op in read_trace(trace.write()).ops)
    assert first is second
    assert third != first


@pytest.mark.parametrize(
    "event",
    [
        {"cat": "kernel", "name": "k"},
        {"cat": "kernel", "name": "k", "ts": "soon"},
        {"cat": "kernel", "name": "k", "ts": float("nan")},
        {"cat": "kernel", "name": "k", "ts": 1, "dur": -1},
        {"cat": "kernel", "name": "k", "ts": 1, "args": {"correlation": [1]}},
        {"cat": "cpu_op", "name": "o", "ts": None},
        {
            "cat": "cpu_op",
            "name": "o",
            "ts": 1,
            "args": {"Input Dims": [3], "Input type": ["float"]},
        },
    ],
)
def test_an_event_that_lacks_its_fields_is_an_error(trace, event):
    trace.events.append({"ph": "X", **event})
    with pytest.raises(InputError, match=f"a {event['cat']} event, '{event['name']}'"):
        read_trace(trace.write())


@pytest.mark.parametrize("odd", [7, "text", None, [1], {"ph": "M"}, {"ph": "X"}])
def test_events_of_other_kinds_are_passed_over(trace, odd):
    trace.kernel(0, 1)
    trace.events.append(odd)
    assert len(read_trace(trace.write()).activities) == 1


def test_json_that_is_no_trace(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"schema": "solkit.score/1"}))
    with pytest.raises(InputError, match="no traceEvents; expected a trace"):
        read_trace(str(path))


# ----------------------------------------------------------------------------------- matching


def test_a_kernel_belongs_to_the_innermost_op_that_its_id_names(trace):
    trace.op("aten::linear", 0, 10)
    inner = trace.op("aten::addmm", 2, 8)
    trace.kernel(20, 30, launch=5, op=inner, name="gemm")
    recording = read_trace(trace.write())
    matching = match_activities(recording, 0)
    assert names(recording, matching) == {"gemm": "aten::addmm"}
    around = [recording.ops[i].signature.name for i in matching.enclosing_ops(matching.ops[0])]
    assert around == ["aten::addmm", "aten::linear"]


def test_without_an_id_it_is_the_op_that_encloses_the_launch(trace):
    trace.op("aten::linear", 0, 10)
    trace.op("aten::t", 0, 1)
    trace.op("aten::addmm", 2, 8)
    trace.op("aten::mm", 3, 9, tid=200)  # on another thread
    trace.kernel(20, 30, launch=5, name="inner")
    trace.kernel(30, 40, launch=9, name="outer")
    trace.kernel(40, 50, launch=15, name="after")
    recording = read_trace(trace.write())
    assert names(recording, match_activities(recording, 0)) == {
        "inner": "aten::addmm",
        "outer": "aten::linear",
        "after": None,
    }


def test_an_id_whose_op_was_not_open_is_not_believed(trace):
    closed = trace.op("aten::empty", 0, 1)
    trace.op("aten::copy_", 2, 8)
    trace.kernel(20, 30, launch=5, op=closed, name="copy")
    recording = read_trace(trace.write())
    assert names(recording, match_activities(recording, 0)) == {"copy": "aten::copy_"}


def test_backward_runs_on_a_thread_of_its_own(trace):
    trace.op("autograd::engine::evaluate_function: MmBackward0", 0, 20, tid=200)
    inner = trace.op("aten::mm", 5, 10, tid=200)
    trace.kernel(30, 40, launch=7, op=inner, name="gemm", tid=200)
    recording = read_trace(trace.write())
    assert names(recording, match_activities(recording, 0)) == {"gemm": "aten::mm"}


def test_kernels_of_a_graph_or_without_a_launch_belong_to_no_op(trace):
    region = trace.op("Torch-Compiled Region", 0, 10)
    trace.kernel(20, 30, launch=5, op=region, name="of a graph", call="cudaGraphLaunch")
    trace.kernel(30, 40, name="before the recording")
    recording = read_trace(trace.write())
    matches = match_activities(recording, 0)
    assert set(names(recording, matches).values()) == {None}
    assert [call != NONE for call in matches.calls] == [True, False]


def test_only_the_gpu_asked_for_is_matched_in_order_of_time(trace):
    trace.kernel(5, 6, name="late")
    trace.kernel(1, 2, name="early")
    trace.kernel(0, 9, name="elsewhere", device=1)
    matches = match_activities(read_trace(trace.write()), 0)
    assert [activity.name for activity in matches.activities] == ["early", "late"]
