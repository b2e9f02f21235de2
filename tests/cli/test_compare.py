"""`solkit compare`: what reaches the pipeline, the page, the JSON and the exit codes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from solkit import pipeline
from solkit.cli import app
from solkit.core import (
    Analysis,
    AnalysisStatus,
    Bound,
    BoundTimes,
    Candidate,
    Comparison,
    ComparisonReport,
    Difference,
    FailedShape,
    KernelFile,
    Measurement,
    MeasureSettings,
    Problem,
    Protocol,
    Ratio,
    Result,
    Verdict,
    Work,
)
from solkit.errors import UnsupportedError
from solkit.processes import jobs as worker
from solkit.roofline import devices

run = CliRunner().invoke

RESULT = Result(
    {"M": 4096}, {"BLOCK": 64}, Verdict.CORRECT, Work({}, {}, 64, 64, 64, 64),
    Bound(0.02, "dram", (), {}, "tolerance", (), BoundTimes(0.02, 0.01, 0.02)),
    Analysis(AnalysisStatus.COMPLETE),
    measurement=Measurement(0.05, 0.049, 0.051, None, 0.1, "cupti", 0.0, 20),
)  # fmt: skip
PROTOCOL = Protocol("cupti", "cold", "read", 10, 80, 240.0, 3)


def file(name):
    problem = Problem("softmax", "softmax.py", "native", "reference", {"M": 4096}, ({},))
    return KernelFile(problem, Candidate("kernel", f"{name}.py", {}))


FASTER = Comparison(
    file("new"), RESULT, replace(RESULT, params={"BLOCK": 128}), Difference.FASTER,
    Ratio(0.9314, 0.9262, 0.9366, 0.0044, 80), 0.0501, 0.0467, PROTOCOL, ("a note",),
)  # fmt: skip


@pytest.fixture
def compared(monkeypatch):
    """`solkit.pipeline.compare` that notes its arguments and finds what a test wants."""
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setattr(worker, "start", lambda: None)
    requests = []

    def compared(*comparisons, failed=(), error=None):
        report = ComparisonReport(
            {"solkit": "0.1"},
            file("old"),
            (file("new"),),
            devices.find("h100"),
            comparisons,
            failed,
        )

        def compare(*args, **kwargs):
            requests.append((args, kwargs))
            if error is not None:
                raise error
            return report

        monkeypatch.setattr(pipeline, "compare", compare)
        return requests

    return compared


def test_defaults_and_flags_reach_the_pipeline(compared):
    request = compared(FASTER)
    run(app, ["compare", "old.py", "new.py"])
    run(
        app,
        "compare old.py new.py newer.py --device h100 --reference ref.py --shape M=1 --shape M=2 "
        "--base-params BLOCK=64 --params BLOCK=128,num_warps=4 --precision tf32 --budget 0.5 "
        "--time-limit 9 --study-limit 20 --log runs.jsonl --on cuda:1 --protocol warm --sandbox "
        "--custom-kernel".split(),
    )
    assert request == [
        (
            ("old.py", "new.py"),
            {
                "device": None, "reference": None, "shapes": None, "base_params": None,
                "params": None, "settings": MeasureSettings(),
            },
        ),
        (
            ("old.py", "new.py", "newer.py"),
            {
                "device": "h100", "reference": "ref.py", "shapes": [{"M": 1}, {"M": 2}],
                "base_params": {"BLOCK": 64}, "params": {"BLOCK": 128, "num_warps": 4},
                "settings": MeasureSettings(
                    on="cuda:1", precision="tf32", time_limit_s=9.0, study_limit_s=20.0,
                    turns_s=0.5, log="runs.jsonl", protocol="warm", sandbox=True,
                    custom_kernel=True,
                ),
            },
        ),
    ]  # fmt: skip


def test_the_page(compared):
    compared(FASTER)
    result = run(app, ["compare", "old.py", "new.py"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    (row,) = [line for line in lines if "0.9314" in line]
    text = "M=4096 new BLOCK=128 50.1 µs 46.7 µs 0.9314 0.9262 to 0.9366 faster"
    assert row.split() == text.split()
    assert lines[0].split() == ["base", "old.py"]
    assert "cupti, cold L2 (read), eager · called in turns, in random order" in result.stdout
    assert "80 turns · differences under 0.4% cannot be shown" in result.stdout
    assert "M=4096: a note" in result.stdout


NOT_COMPARED = Comparison(
    file("new"),
    RESULT,
    replace(RESULT, verdict=Verdict.WRONG, measurement=None, errors=("output 0 differs",)),
    Difference.NOT_COMPARED,
    errors=("The candidate failed.",),
)


def test_a_candidate_that_failed(compared):
    compared(FASTER, NOT_COMPARED)
    result = run(app, ["compare", "old.py", "new.py"])
    assert result.exit_code == 3
    assert "not compared" in result.stdout
    assert "M=4096: wrong: output 0 differs" in result.stdout


@pytest.mark.parametrize(
    ("difference", "words"),
    [(Difference.NOT_SHOWN, "no difference shown"), (Difference.UNSTABLE, "unstable")],
)
def test_whatever_is_found_is_no_failure(compared, difference, words):
    compared(replace(FASTER, difference=difference))
    result = run(app, ["compare", "old.py", "new.py"])
    assert result.exit_code == 0
    assert words in result.stdout


def test_json(compared, tmp_path):
    compared(FASTER, NOT_COMPARED, failed=(FailedShape({"M": -1}, "no such shape"),))
    result = run(app, ["compare", "old.py", "new.py", "--json", "-"])
    assert result.exit_code == 3
    data = json.loads(result.stdout)
    assert data["schema"] == "solkit.compare/1"
    assert (data["base"]["path"], data["candidates"][0]["path"]) == ("old.py", "new.py")
    assert data["failed"] == [{"shape": {"M": -1}, "error": "no such shape"}]
    first, second = data["comparisons"]
    assert first["shape"] == {"M": 4096}
    assert (first["difference"], first["candidate_path"]) == ("faster", "new.py")
    assert first["ratio"] == {
        "value": 0.9314, "low": 0.9262, "high": 0.9366, "resolution": 0.0044, "turns": 80
    }  # fmt: skip
    assert (first["base_ms"], first["candidate_ms"]) == (0.0501, 0.0467)
    assert first["protocol"]["method"] == "cupti"
    assert first["base"]["median_ms"] == 0.05
    assert first["candidate"]["params"] == {"BLOCK": 128}
    assert (second["difference"], second["ratio"], second["base_ms"]) == (
        "not_compared",
        None,
        None,
    )
    assert second["candidate"]["verdict"] == "wrong"
    path = tmp_path / "out.json"
    result = run(app, ["compare", "old.py", "new.py", "--json", str(path)])
    assert "0.9314" in result.stdout
    assert json.loads(path.read_text()) == data


def test_an_interval_without_end_has_no_json_form(compared):
    compared(replace(FASTER, ratio=Ratio(0.9, 0.0, float("inf"), 0.004, 3)))
    result = run(app, ["compare", "old.py", "new.py", "--json", "-"])
    assert json.loads(result.stdout)["comparisons"][0]["ratio"]["high"] is None


def test_a_shape_that_failed(compared):
    compared(FASTER, failed=(FailedShape({"M": -1}, "no such shape"),))
    result = run(app, ["compare", "old.py", "new.py"])
    assert result.exit_code == 2
    assert "M=-1: no such shape" in result.stdout


def test_no_gpu_and_no_candidate(compared):
    compared(error=UnsupportedError("cannot measure on X: it is not in this machine"))
    result = run(app, ["compare", "old.py", "new.py"])
    assert result.exit_code == 2
    assert "cannot measure on X" in result.stderr
    assert run(app, ["compare", "old.py"]).exit_code == 2
