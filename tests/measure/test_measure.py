from __future__ import annotations

import json
from textwrap import dedent

import pytest

from solkit.core import (
    KernelAnalysis,
    Launch,
    Measurement,
    Occupancy,
    Protocol,
    Tolerance,
    Verdict,
)
from solkit.errors import KernelFileError, ParamsError, ShapeError, UnsupportedError, WorkerError
from solkit.measure import Outcome, is_available, measure
from solkit.measure._parent import _conclude, _visible, run
from solkit.measure._process import Ended
from solkit.measure.messages import Request, decode, encode

HEAD = """
import torch

def inputs(N=16, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2
"""


@pytest.fixture
def request_for(tmp_path):
    def request_for(kernel, head=HEAD, **changes):
        path = tmp_path / "mine.py"
        path.write_text(head + dedent(kernel))
        fields = {"reference": None, "shape": {}, "params": {}, "tolerance": None}
        fields |= {"time_limit_s": 60.0, "seed": 0, "device": "cpu"}
        return Request(path=str(path), **{**fields, **changes})

    return request_for


def test_messages_survive_the_way():
    launch = Launch(
        "k", (3, 2, 1), 4, 3, 1, {"BLOCK": 64, "CAUSAL": True, "x": None}, {"x": "*fp32"}
    )
    kernel = KernelAnalysis(launch, 32, 0, 1024, Occupancy(0.5, "registers", 4, 2.5, 0.83), True)
    measurement = Measurement(1.5, 1.4, 1.6, None, 2.0, "events", 0.25, 20, 1980.0, (kernel,))
    protocol = Protocol("events", "cold", "read", 13, 20, 120.0, 0)
    outcome = Outcome(Verdict.CORRECT, ("a\nb", "ü"), protocol, measurement)
    assert decode(Outcome, encode(outcome)) == outcome
    shape = {"M": 4096, "p": 0.5, "dtype": "bfloat16", "causal": True}
    request = Request("k.py", None, shape, {}, Tolerance(1e-2, 0.0), 5.0, 3)
    again = decode(Request, encode(request))
    assert again == request
    assert [type(v) for v in again.shape.values()] == [int, float, str, bool]


# ------------------------------------------------------- what a child's end amounts to


def conclude(request_for, *messages, printed="", returncode=0, timed_out=False):
    answer = "".join(json.dumps(m) + "\n" for m in messages)
    return _conclude(Ended(answer, printed, returncode, timed_out), request_for(""))


def test_an_answer_counts_whatever_came_after_it(request_for):
    outcome = Outcome(Verdict.WRONG, ("e",), None, None)
    message = {"outcome": encode(outcome)}
    assert conclude(request_for, {"stage": "timing"}, message, returncode=-11) == outcome


def test_a_death_names_the_signal_and_the_stage(request_for):
    outcome = conclude(request_for, {"stage": "timing"}, printed="1\n2\n", returncode=-6)
    assert outcome.verdict is Verdict.CRASHED
    assert outcome.errors == ("timing: the process was killed by SIGABRT", "1", "2")


def test_a_timeout_names_the_stage(request_for):
    outcome = conclude(request_for, {"stage": "timing"}, returncode=-9, timed_out=True)
    assert outcome.verdict is Verdict.TIMED_OUT
    assert outcome.errors == ("timing: killed after 60 s",)


def test_a_death_before_the_start_is_no_candidates_fault(request_for):
    with pytest.raises(WorkerError, match="did not start:\nNo module named torch"):
        conclude(request_for, printed="No module named torch", returncode=1)


def test_an_answer_cut_off_is_none(request_for):
    ended = Ended('{"stage": "timing"}\n{"outc', "", -9, False)
    assert _conclude(ended, request_for("")).verdict is Verdict.CRASHED


@pytest.mark.parametrize("answer", ["what?\n", "[1]\n", '{"outcome": "{}"}\n'])
def test_nonsense(request_for, answer):
    with pytest.raises(WorkerError, match="nonsense"):
        _conclude(Ended(answer, "", 0, False), request_for(""))


# ------------------------------------------------------- real processes, on the CPU


def test_a_wrong_kernel(request_for):
    outcome = run(request_for("def kernel(x): return x"))
    assert outcome.verdict is Verdict.WRONG
    assert "16 of 16 elements (100 %)" in outcome.errors[0]


def test_a_kernel_that_prints_and_dies(request_for):
    kernel = """
        import ctypes
        def kernel(x):
            print("about to die")
            ctypes.string_at(0)
    """
    outcome = run(request_for(kernel))
    assert outcome.verdict is Verdict.CRASHED
    assert outcome.errors[0] == "running the candidate: the process was killed by SIGSEGV"
    assert "about to die" in outcome.errors
    assert any("mine.py" in line and "kernel" in line for line in outcome.errors)  # faulthandler


def test_a_kernel_that_exits(request_for):
    outcome = run(request_for("import os\ndef kernel(x): os._exit(3)"))
    assert outcome.verdict is Verdict.CRASHED
    assert outcome.errors[0] == "running the candidate: the process exited by itself with code 3"


def test_a_kernel_that_never_ends(request_for):
    kernel = """
        def kernel(x):
            while True:
                pass
    """
    outcome = run(request_for(kernel, time_limit_s=9.0))
    assert outcome.verdict is Verdict.TIMED_OUT
    assert outcome.errors[0] == "running the candidate: killed after 9 s"


def test_a_right_kernel_has_no_time_without_a_gpu(request_for):
    with pytest.raises(UnsupportedError, match="only a CUDA device can be timed"):
        run(request_for("def kernel(x): return x * 2"))


@pytest.mark.parametrize(
    ("changes", "error"),
    [({"shape": {"Q": 3}}, ShapeError), ({"params": {"BLOCK": 3}}, ParamsError)],
)
def test_input_errors_reach_the_caller(request_for, changes, error):
    with pytest.raises(error):
        run(request_for("def kernel(x): return x * 2", **changes))


def test_a_file_that_fails_to_import_is_named_with_its_line(request_for):
    request = request_for("1 / 0", head="\n\n")
    with pytest.raises(KernelFileError) as caught:
        run(request)
    assert (caught.value.path, caught.value.line) == (request.path, 3)


# ------------------------------------------------------- which GPU


def test_the_child_sees_one_gpu():
    assert _visible(None, 2) == "2"
    assert _visible("4, GPU-abc,6", 1) == "GPU-abc"
    assert _visible("4", 1) == ""


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_hidden_gpus_are_not_available(monkeypatch, hidden):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert not is_available()


@pytest.mark.skipif(is_available(), reason="there is a GPU")
def test_no_gpu_is_said(request_for):
    with pytest.raises(UnsupportedError, match="sees no CUDA device"):
        measure(request_for("def kernel(x): return x * 2").path, {}, {})
