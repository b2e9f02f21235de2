"""``solkit tune``, as a user runs it, on a recording."""

from __future__ import annotations

import json
import sys
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


def asked(recording, *options):
    given = "--recorded", recording, "--gpu-seconds", "5"
    return RUN.invoke(app, ["tune", "softmax/rows", *given, *options])


def test_the_page_says_what_to_do(recording):
    told = asked(recording)
    assert told.exit_code == 0, told.output
    assert "Use the best:" in told.stdout
    assert "times as fast (95 %:" in told.stdout
    assert "the budget is spent" in " ".join(told.stdout.split())


def test_json_alone_goes_to_stdout(recording):
    told = asked(recording, "--json", "-", "--seed", "3")
    found = json.loads(told.stdout)
    assert found["schema"] == "solkit.tune/1"
    assert found["shape"] == spaces.SHAPE


def test_a_log_is_resumed(recording, tmp_path):
    log = tmp_path / "tune.jsonl"
    first = json.loads(asked(recording, "--log", str(log), "--json", "-").stdout)
    told = asked(recording, "--resume", str(log), "--json", "-", "--gpu-seconds", "8")
    second = json.loads(told.stdout)
    assert second["measured"] > first["measured"]
    assert 7.5 <= second["gpu_s"] <= 8.2
    assert len(outcomelog.read(log).rows) >= second["measured"]


def test_a_plot_is_written(recording, tmp_path):
    pytest.importorskip("plotly")
    told = asked(recording, "--plot", str(tmp_path / "it.html"))
    assert told.exit_code == 0, told.output
    assert "best so far" in (tmp_path / "it.html").read_text()


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
    told = asked(recording, *options)
    assert told.exit_code == 2
    assert message in told.stderr


def test_nothing_runs(tmp_path):
    path = tmp_path / "failing.jsonl"
    with OutcomeLog(path) as log:
        log.append([spaces.failed(row) for row in spaces.recording()])
    told = asked(str(path))
    assert told.exit_code == 3
    assert "fails: too much shared memory" in told.stdout
