"""``solkit tune``, as a user runs it, on a recording."""

from __future__ import annotations

import json
import platform
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from solkit.cli import app

sys.path.append(str(Path(__file__).parents[1] / "tuner"))
import spaces

from solkit.datasets import outcomelog
from solkit.datasets.outcomelog import OutcomeLog

RUN = CliRunner()


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune") / "recording.jsonl"
    with OutcomeLog(path) as log:
        log.append(spaces.recording())
    return str(path)


def run_tune(recording, *options):
    command = "--recorded", recording, "--gpu-seconds", "5"
    return RUN.invoke(app, ["tune", "softmax/rows", *command, *options])


def test_the_page_says_what_to_do(recording):
    result = run_tune(recording)
    assert result.exit_code == 0, result.output
    assert "Use the best:" in result.stdout
    assert "times as fast (95 %:" in result.stdout
    assert "the budget is spent" in " ".join(result.stdout.split())


@pytest.mark.slow
def test_the_best_parameters_come_as_source_to_paste(recording):
    page = run_tune(recording).stdout
    best = json.loads(run_tune(recording, "--json", "-").stdout)["best"]["params"]
    (call,) = (line.strip() for line in page.splitlines() if "kernel(..., " in line)
    assert eval(call.replace("kernel(..., ", "dict(")) == best
    (decorator,) = (line.strip() for line in page.splitlines() if "@triton.autotune" in line)
    configs = types.SimpleNamespace(
        autotune=lambda configs, **_: configs, Config=lambda constants, **how: {**constants, **how}
    )
    (config,) = eval(decorator.removeprefix("@"), {"triton": configs})
    assert config == best


def test_the_versions_are_those_of_the_rows_not_this_machines(tmp_path):
    path = tmp_path / "recording.jsonl"
    rows = (replace(row, triton_version="1.2.3", torch_version=None) for row in spaces.recording())
    with OutcomeLog(path) as log:
        log.append(rows)
    versions = json.loads(run_tune(str(path), "--json", "-").stdout)["versions"]
    assert (versions["triton"], versions["torch"]) == ("1.2.3", None)
    assert versions["python"] != platform.python_version()


def test_json_alone_goes_to_stdout(recording):
    result = run_tune(recording, "--json", "-", "--seed", "3")
    data = json.loads(result.stdout)
    assert data["schema"] == "solkit.tune/1"
    assert data["shape"] == spaces.SHAPE


@pytest.mark.slow
def test_a_log_is_resumed(recording, tmp_path):
    log = tmp_path / "tune.jsonl"
    first = json.loads(run_tune(recording, "--log", str(log), "--json", "-").stdout)
    result = run_tune(recording, "--resume", str(log), "--json", "-", "--gpu-seconds", "8")
    second = json.loads(result.stdout)
    assert second["measured"] > first["measured"]
    assert 7.5 <= second["gpu_s"] <= 8.2
    assert len(outcomelog.read(log).rows) >= second["measured"]


@pytest.mark.slow
def test_a_plot_is_written(recording, tmp_path):
    pytest.importorskip("plotly")
    result = run_tune(recording, "--plot", str(tmp_path / "it.html"))
    assert result.exit_code == 0, result.output
    assert "best so far" in (tmp_path / "it.html").read_text()


@pytest.mark.quick("options0-M=1 is", "options3-give one of --log", "options4---plot: name a file")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--shape", "M=1"), "M=1 is not recorded; choose one with --shape: M=64, N=32"),
        (("--params", "BLOCK=7"), "BLOCK of 16; 32"),
        (("--device", "a100"), "'a100' is not recorded; choose one of: h100-sxm"),
        (("--log", "a", "--resume", "b"), "give one of --log"),
        (("--plot", "-"), "--plot: name a file"),
        (("--stop-at", "0"), "stop_at is 0"),
    ],
)
def test_bad_input_is_named(recording, options, message):
    result = run_tune(recording, *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_nothing_runs(tmp_path):
    path = tmp_path / "failing.jsonl"
    with OutcomeLog(path) as log:
        log.append([spaces.failed(row) for row in spaces.recording()])
    result = run_tune(str(path))
    assert result.exit_code == 3
    assert "fails: too much shared memory" in result.stdout


def test_the_chosen_parameters_are_written_in_other_forms(recording, tmp_path):
    best, configs = tmp_path / "best.json", tmp_path / "configs.py"
    result = run_tune(
        *(recording, "--json", "-", "--log", str(tmp_path / "log.jsonl")),
        *("--emit", f"best-config:{best}", "--emit", f"triton-autotune:{configs}"),
    )
    assert result.exit_code == 0, result.output
    chosen = json.loads(result.stdout)["params"]
    (entry,) = json.loads(best.read_text())["configs"]
    assert entry["params"] == chosen
    assert entry["verdict"] == "faster"
    assert "triton.Config(" in configs.read_text()


def test_a_form_that_refuses_stops_no_other(recording, tmp_path):
    best = tmp_path / "best.json"
    result = run_tune(recording, "--emit", f"vllm-moe:{tmp_path}", "--emit", f"best-config:{best}")
    assert result.exit_code == 2
    assert "vllm-moe needs E" in result.stderr
    assert best.exists()


def test_an_unknown_form_is_told_before_the_work(recording):
    result = run_tune(recording, "--emit", "toml:x")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "unknown format 'toml'" in result.stderr


@pytest.mark.slow
def test_a_database_gets_the_run_and_warms_the_next(recording, tmp_path):
    pytest.importorskip("polars")
    from solkit.tuner.database import Database

    place = str(tmp_path / "db")
    first = run_tune(
        recording, "--database", place, "--log", str(tmp_path / "1.jsonl"), "--json", "-"
    )
    assert first.exit_code == 0, first.output
    result = json.loads(first.stdout)
    (results,) = Database(place).findings()
    assert results.confirmed
    assert dict(results.chosen.params) == result["params"]
    assert results.measured == result["measured"]
    again = run_tune(
        *(recording, "--database", place, "--log", str(tmp_path / "2.jsonl"), "--json", "-"),
        *("--gpu-seconds", "2.5"),
    )
    second = json.loads(again.stdout)
    assert second["params"] == result["params"]
    cold = json.loads(run_tune(recording, "--gpu-seconds", "2.5", "--json", "-").stdout)
    assert cold["measured"] == second["measured"] < result["measured"]
    assert cold["best"]["time_ms"] > second["best"]["time_ms"]
    assert len(Database(place).findings()) == 2
    result = run_tune(recording, "--database", place, "--gpu-seconds", "0.2", "--json", "-")
    assert "the run has no log" in json.loads(result.stdout)["notes"][-1]
