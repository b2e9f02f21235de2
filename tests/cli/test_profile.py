"""``solkit profile`` from end to end."""

from __future__ import annotations

import contextlib
import io
import json
import types
from dataclasses import replace

import pytest

import solkit.profiling
from solkit import cli
from solkit.tuner import manifest

OP = {
    "External id": 1,
    "Input Dims": [[4096, 4096]],
    "Input type": ["float"],
    "Input Strides": [[4096, 1]],
    "Concrete Inputs": [""],
}
EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::relu", "ts": 0, "dur": 9, "args": OP},
    {
        "ph": "X",
        "cat": "kernel",
        "name": "void relu<float>(int)",
        "ts": 10,
        "dur": 100,
        "args": {"External id": 1, "device": 0, "stream": 7},
    },
]


def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    said = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with said[0], said[1], pytest.raises(SystemExit) as outcome:
        cli.app(["profile", *arguments])
    return types.SimpleNamespace(
        exit_code=outcome.value.code or 0, stdout=out.getvalue(), stderr=err.getvalue()
    )


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": EVENTS}))
    return str(path)


@pytest.mark.slow
def test_a_trace_is_reported(trace, tmp_path):
    out = tmp_path / "profile.json"
    outcome = run(trace, "--device", "h100", "--json", str(out))
    assert outcome.exit_code == 0
    assert "relu\n    limited by dram · f32[4096, 4096]" in outcome.stdout
    data = json.loads(out.read_text())
    assert data["ops"][0]["gap"] == pytest.approx(100e-6 / (2 * 4 * 4096**2 / 3.35232e12))


def test_json_to_stdout_is_alone(trace):
    outcome = run(trace, "--device", "h100", "--json", "-")
    assert json.loads(outcome.stdout)["schema"] == "solkit.profile/1"


def test_a_manifest_for_a_batch_is_written(trace, tmp_path):
    out = tmp_path / "batch.toml"
    assert run(trace, "--device", "h100", "--manifest", str(out)).exit_code == 0
    (entry,) = manifest.read_manifest(out).kernels
    assert (entry.name, entry.path) == ("aten::relu", "")
    assert [(shape.calls, shape.tensors) for shape in entry.shapes] == [(1, ("f32[4096, 4096]",))]
    trace_out = run(trace, "--trace-out", str(out), "--manifest", str(out))
    assert "--trace-out and --manifest both name" in trace_out.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "names no GPU: say which it was recorded on with --device"),
        (("--device", "h999"), "unknown device 'h999'"),
        (("--device", "h100", "--json", "/none/x.json"), "--json: cannot write"),
        (("3", "--", "--lr"), "a trace takes no arguments, got 3 --lr"),
    ],
)
def test_a_users_mistake_is_told_without_a_traceback(trace, arguments, said):
    outcome = run(trace, *arguments)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert said in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_a_script_without_a_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr("solkit.roofline.nvml.live_devices", lambda: ())
    outcome = run(str(tmp_path / "train.py"))
    assert outcome.exit_code == 2
    assert "a trace saved on another machine can be read here" in outcome.stderr


def test_options_reach_the_function_and_a_failed_script_is_an_exit_code(trace, monkeypatch):
    seen = {}
    real = solkit.profiling.profile

    def profile(_, arguments, **options):
        seen.update(options, arguments=list(arguments))
        return replace(real(trace, device="h100"), failure="train.py: failed with exit code 1")

    monkeypatch.setattr(solkit.profiling, "profile", profile)
    outcome = run(
        "train.py", "7", "--skip", "2", "--calls", "4", "--trace-out", "t.json",
        "--script-limit", "9", "--precision", "tf32", "--", "--lr", "1",
    )  # fmt: skip
    assert seen == {
        "device": None,
        "precision": "tf32",
        "skip": 2,
        "calls": 4,
        "trace_out": "t.json",
        "time_limit_s": 9.0,
        "arguments": ["7", "--lr", "1"],
    }
    assert outcome.exit_code == 2
    assert "this is what was profiled before" in outcome.stdout
