"""``solkit batch`` from end to end, on a recording."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import types
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pipeline"))
import recorded_batch as recorded

from solkit import cli


def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as outcome,
    ):
        cli.app(["batch", *map(str, arguments)])
    return types.SimpleNamespace(
        exit_code=outcome.value.code or 0, stdout=out.getvalue(), stderr=err.getvalue()
    )


@pytest.fixture
def files(tmp_path):
    manifest = tmp_path / "batch.toml"
    manifest.write_text(recorded.TEXT)
    return manifest, recorded.written(tmp_path)


@pytest.mark.slow
def test_a_batch_is_reported_as_a_page_and_as_json(files, tmp_path):
    manifest, recording = files
    out = tmp_path / "batch.json"
    outcome = run(manifest, "--recorded", recording, "--json", out)
    assert outcome.exit_code == 0, outcome.stderr
    data = json.loads(out.read_text())
    assert (data["schema"], data["device"]) == ("solkit.batch/1", "h100-sxm")
    steep, few, flat = data["results"]
    assert [result["verdict"] for result in data["results"]] == ["faster", "faster", "keep"]
    assert steep["calls"] * steep["default"]["time_ms"] > steep["saved_ms"] > 1000
    assert few["held_out"][0]["passed"]
    assert flat["held_out"] == []
    assert data["saved_ms"] == pytest.approx(steep["saved_ms"] + few["saved_ms"])
    assert "aten::mm is left out: its path is empty" in outcome.stdout
    assert "2 of 3 changed, the others kept" in outcome.stdout


def test_json_to_stdout_is_alone_and_a_triage_has_no_results(files):
    manifest, recording = files
    outcome = run(manifest, "--recorded", recording, "--triage", "--json", "-")
    data = json.loads(outcome.stdout)
    assert (data["results"], len(data["triage"])) == ([], 3)
    assert data["triage"][0]["worth"] == "unknown"


@pytest.mark.slow
def test_a_run_is_resumed(files, tmp_path):
    manifest, recording = files
    log = tmp_path / "run.jsonl"
    first = run(manifest, "--recorded", recording, "--gpu-minutes", 0.3, "--log", log)
    assert first.exit_code == 0
    again = run(manifest, "--recorded", recording, "--resume", log, "--json", "-")
    assert json.loads(again.stdout)["gpu_s"] > 18.0
    both = run(manifest, "--recorded", recording, "--resume", log, "--log", log)
    assert (both.exit_code, both.stdout) == (2, "")


@pytest.mark.quick("change1-shapes", "keys here are:")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("gpu_minutes = 2", "gpu_minutes = 0"), "batch.toml:3: limits.gpu_minutes: input should"),
        (("calls = 10 ", "calls = 0 "), "shapes[1].calls: input should be greater than 0"),
        (("[[kernels]]", "[[kernel]]"), "the keys here are: kernels, limits, device"),
        (('path = "flat/rows"', 'path = "flat/rows"\nemit = ["x"]'), "'x' is not FORMAT:PATH"),
    ],
)
def test_a_mistake_in_a_manifest_is_told_with_its_place(files, change, said):
    manifest, recording = files
    manifest.write_text(recorded.TEXT.replace(*change))
    outcome = run(manifest, "--recorded", recording)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert said in outcome.stderr
    assert "Traceback" not in outcome.stderr


@pytest.mark.slow
def test_a_size_that_the_problem_does_not_have_is_invalid_input(tmp_path):
    kernel = Path(__file__).parents[2] / "examples" / "softmax.py"
    manifest = tmp_path / "batch.toml"
    sizes = "[{sizes = {M = 64, N = 64}}, {sizes = {M = 64, Q = 7}}]"
    manifest.write_text(f'[[kernels]]\npath = "{kernel}"\nshapes = {sizes}\n')
    outcome = run(manifest, "--triage", "--device", "h100", "--no-database")
    assert outcome.exit_code == 2
    assert "has no size 'Q' (given as Q=7); its sizes are: M, N, dtype" in outcome.stderr
