"""What `solkit data collect` says where it cannot collect."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from solkit import cli
from solkit.collect import Progress
from solkit.datasets.outcomelog import OutcomeLog
from solkit.roofline import devices


@pytest.fixture
def collect(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.py").write_text("KIND = 'elementwise'\n")

    def collect(*arguments, code=0):
        command = ["data", "collect", *map(str, arguments)]
        done = CliRunner().invoke(cli.app, command)
        assert done.exit_code == code, done.output
        return done

    return collect


@pytest.fixture
def gpu(monkeypatch):
    def live(index):
        return replace(devices.find(("h100", "h200")[index]), uuid=f"GPU-{index}")

    monkeypatch.setattr("solkit.roofline.nvml.live_device", live)


def test_without_a_gpu_it_says_so(collect, tmp_path, monkeypatch):
    monkeypatch.setattr("solkit.roofline.nvml._nvml_session", lambda: contextlib.nullcontext(None))
    command = ["scale.py", "--gpu-seconds", 60, "--log", "run.jsonl"]
    assert "no GPU 0 in this machine" in collect(*command, code=2).output
    assert not (tmp_path / "run.jsonl").exists()
    assert (
        "cannot read nowhere.jsonl" in collect(*command, "--after", "nowhere.jsonl", code=2).output
    )


def test_a_store_as_an_earlier_run_is_told_how_to_be_exported(collect, tmp_path):
    (tmp_path / "kept" / "parts").mkdir(parents=True)
    command = ["scale.py", "--gpu-seconds", 60, "--log", "run.jsonl", "--after", "kept"]
    assert "solkit data export kept tried.jsonl --to tried" in collect(*command, code=2).output


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["scale.py", "--family", "gemm"], "no family 'gemm'; expected some of: scale"),
        (["scale.py", "--part", "3/2"], "no part '3/2'; expected I/N"),
        (["nowhere.py"], "no kernel file 'nowhere.py'"),
        (["scale.py", "--after", "run.jsonl"], "--after: run.jsonl is the run file itself"),
        (["scale.py", "--after", "nowhere.jsonl"], "cannot read nowhere.jsonl"),
        (["scale.py", "--after", "scale.py"], "is not a log"),
        (["scale.py", "--gpu-seconds", "0"], "--gpu-seconds"),
        (["scale.py", "--gpu-minutes", "1"], "give one of --gpu-seconds N and --gpu-minutes N"),
        (["scale.py", "--on", "gpu1"], "on: expected a GPU such as 'cuda:1', got 'gpu1'"),
        (["scale.py", "--device", "h200"], "--device h200: cuda:0 is NVIDIA H100"),
        (["scale.py", "--repeats", "1.5"], "--repeats"),
    ],
)
def test_what_is_wrong_is_named(collect, arguments, text):
    with OutcomeLog("run.jsonl", resume=True):
        pass
    command = ["--gpu-seconds", "60", "--log", "run.jsonl", *arguments]
    assert text in collect(*command, code=2).output


@pytest.mark.usefixtures("gpu")
def test_lines_of_earlier_runs_that_hold_no_row_are_told(collect, tmp_path, monkeypatch):
    monkeypatch.setattr("solkit.collect.collect", lambda *_: Progress())
    for name in ("first.jsonl", "run.jsonl"):
        with OutcomeLog(name, resume=True):
            pass
        with (tmp_path / name).open("a") as file:
            file.write('{"row": {"kern')
    command = ["scale.py", "--gpu-seconds", 60, "--log", "run.jsonl", "--after", "first.jsonl"]
    done = collect(*command)
    for name in ("first.jsonl", "run.jsonl"):
        assert f"{name}:2: the line is cut off" in done.output


def test_a_gpu_that_is_only_in_the_catalogue(collect, monkeypatch):
    monkeypatch.setattr("solkit.roofline.nvml.live_device", lambda _: devices.find("h100"))
    done = collect("scale.py", "--gpu-seconds", 60, "--log", "run.jsonl", code=2)
    assert "only a live GPU can be timed" in done.output


@pytest.mark.usefixtures("gpu")
def test_what_is_asked_for_is_handed_on_and_the_end_told(collect, monkeypatch):
    requests = []

    def collecting(_cells, bench, limits, earlier, *_):
        requests.append((bench, limits, earlier))
        bench.waited_s = 0.5
        progress = Progress(gpu_s=2.0, now="scale")
        progress.rows.update(["correct"] * 90 + ["wrong"] * 10)
        return progress

    monkeypatch.setattr("solkit.collect.collect", collecting)
    options = ["--per-shape", 24, "--repeats", 0.1, "--workers", 3, "--on", "cuda:1"]
    done = collect("scale.py", "--gpu-minutes", 2, "--log", "run.jsonl", *options)
    ((bench, limits, earlier),) = requests
    assert (bench.device.key, bench.device.uuid, earlier) == ("h200", "GPU-1", [])
    assert bench.capacity == 3 * 3 * 8  # handfuls of eight, three for each worker
    assert (limits.gpu_s, limits.per_cell, limits.repeats) == (120, 24, 0.1)
    assert "100 configurations (90 correct, 10 wrong) in 2 of 120 s: 50.0 a second" in done.output
    assert "waited for the compiler 25%; scale" in done.output
    assert "now" not in done.stderr
