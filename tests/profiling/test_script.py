"""Scripts run under the profiler: what is recorded of them, and how they may end."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import solkit
from solkit.errors import InputError
from solkit.profiling import _profiler_runner, script
from solkit.profiling.trace_reader import read_trace

TRAINING = """
import sys, torch
assert __name__ == "__main__"
import beside
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
model = torch.compile(model, backend="eager", fullgraph=True)
loss = torch.nn.L1Loss()
try:
    for i in range(int(sys.argv[1])):
        loss(model(torch.ones(2, 4)), torch.zeros(2, 4)).backward()
finally:
    raise beside.Fault("at the end")
"""


@pytest.mark.slow
def test_a_script_is_recorded_until_enough_even_if_it_then_fails(tmp_path, capfd):
    (tmp_path / "beside.py").write_text("class Fault(Exception): ...")
    path = tmp_path / "train.py"
    path.write_text(TRAINING)
    trace = str(tmp_path / "trace.json.gz")
    failure = script.record_trace(str(path), ["9"], trace, calls=4, time_limit_s=600)
    assert failure.endswith("train.py: its process ended with exit code 1")
    assert "beside.Fault: at the end" in capfd.readouterr().err
    recording = read_trace(trace)
    assert [step.name for step in recording.steps] == [f"ProfilerStep#{i}" for i in range(1, 5)]
    backward = [op for op in recording.ops if op.signature.name == "AddmmBackward0"]
    assert len(backward) == 5  # before the first step, too
    inputs = {op.signature.tensors for op in recording.ops if op.signature.name == "aten::addmm"}
    assert inputs == {("f32[4]", "f32[2, 4]", "f32[4, 4] strided")}


def test_a_script_that_was_ended_has_not_failed(tmp_path, monkeypatch):
    path = tmp_path / "train.py"
    path.write_text("from solkit.profiling import _profiler_runner as r\nraise r._EnoughError")
    monkeypatch.setattr(_profiler_runner, "profile", lambda **_: contextlib.nullcontext())
    monkeypatch.setattr(_profiler_runner._Steps, "install", lambda _: None)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _profiler_runner.main("trace.json", 1, "", str(path), "an argument")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert sys.argv == [str(path), "an argument"]
    assert sys.path[0] == str(tmp_path)


def child(monkeypatch, code):
    """In place of the runner: the trace is its first argument."""
    monkeypatch.setattr(
        script, "_command", lambda _, __, trace, *___: [sys.executable, "-c", code, trace]
    )


def test_a_script_that_takes_too_long_is_interrupted(tmp_path, monkeypatch):
    ready = tmp_path / "ready"

    class OnceItRuns(script.Program):
        """Its time is over as soon as the child has something to lose."""

        def wait(self, timeout_s):
            if timeout_s != 1.0:
                return super().wait(timeout_s)
            while not ready.exists() and super().wait(0.0) is None:
                time.sleep(0.01)
            return None

    monkeypatch.setattr(script, "Program", OnceItRuns)
    code = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
try:
    pathlib.Path(sys.argv[1]).with_name("ready").touch()
    time.sleep(600)
except KeyboardInterrupt:
    pathlib.Path(sys.argv[1]).write_text("what there was")
"""
    child(monkeypatch, code)
    path = tmp_path / "slow.py"
    path.touch()
    trace = tmp_path / "trace.json"
    failure = script.record_trace(str(path), [], str(trace), calls=1, time_limit_s=1.0)
    assert failure.endswith("slow.py: ran for over 1 s and was interrupted")
    assert trace.read_text() == "what there was"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os._exit(7)", "its process ended with exit code 7"),
        ("import os; os.abort()", "its process died of SIGABRT"),
        ("", "ended without a trace"),
    ],
)
def test_a_script_that_leaves_no_trace(tmp_path, monkeypatch, code, said):
    child(monkeypatch, code)
    path = tmp_path / "gone.py"
    path.touch()
    (tmp_path / "trace.json").write_text("of an earlier run")
    with pytest.raises(InputError, match=rf"gone\.py: {said}"):
        script.record_trace(str(path), [], str(tmp_path / "trace.json"), calls=1, time_limit_s=300)


def test_a_trace_that_cannot_be_written_is_told_before_the_script_runs(tmp_path):
    path = tmp_path / "s.py"
    path.touch()
    with pytest.raises(InputError, match=r"cannot write .*none/t\.json: No such file"):
        script.record_trace(
            str(path), [], str(tmp_path / "none" / "t.json"), calls=1, time_limit_s=1
        )


def test_a_script_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"none\.py: no such file"):
        script.record_trace(str(tmp_path / "none.py"), [], "trace.json", calls=1, time_limit_s=1)


def test_a_profiled_script_skips_its_first_calls_and_tells_of_its_failure(
    trace, monkeypatch, tmp_path
):
    def recorded(path, arguments, kept, **limits):
        assert (path, arguments, limits) == (
            "t.py",
            ["5"],
            {"calls": 5, "time_limit_s": 9.0, "flow": None},
        )
        for i in range(5):
            trace.step(i, 100 * i, 100 * i + 100)
            trace.kernel(100 * i + 10, 100 * i + 90, launch=100 * i + 5)
        assert trace.write("kept.json") == kept
        return "t.py: failed"

    monkeypatch.setattr("solkit.profiling._check_for_gpu", lambda _: None)
    monkeypatch.setattr(script, "record_trace", recorded)
    kept = tmp_path / "kept.json"
    result = solkit.profile("t.py", ["5"], calls=2, trace_out=kept, time_limit_s=9.0)
    assert (result.path, result.failure, result.steps) == ("t.py", "t.py: failed", 2)
    assert kept.exists()


def test_a_profiler_that_does_not_say_what_flows_leaves_the_trace(tmp_path, monkeypatch, capsys):
    def fail(_):
        raise RecursionError("deep")

    monkeypatch.setattr(_profiler_runner.torch_profiler, "tensor_flow", fail)
    session = SimpleNamespace(export_chrome_trace=lambda path: Path(path).write_text("{}"))
    trace, flow = tmp_path / "trace.json", tmp_path / "flow.json"
    _profiler_runner._write(session, str(trace), str(flow))
    assert (trace.exists(), flow.exists()) == (True, False)
    assert "what flows between operators is not known: RecursionError" in capsys.readouterr().err
