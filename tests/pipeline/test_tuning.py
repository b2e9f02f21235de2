"""`solkit.tune` from end to end, on recorded benches."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "tuner"))
import spaces

import solkit
from solkit.core import Comparison, Difference, Stopped, TuneSettings, TuneVerdict, Verdict
from solkit.datasets import outcomelog
from solkit.errors import InputError, NotRecordedError, ParamsError, UnsupportedError
from solkit.measure.benches import RecordedBench
from solkit.pipeline import tuning
from solkit.report import tuning as page

FULL = TuneSettings(stop_at=9.0, least_gain=0.0)


def tuned(rows=None, seconds=20.0, settings=FULL, **fields):
    bench = RecordedBench(spaces.recording() if rows is None else rows, cores=4)
    return solkit.tune(
        "softmax/rows", gpu_seconds=seconds, bench=bench, settings=settings, **fields
    )


def test_it_says_how_sure_it_is_that_nothing_clearly_faster_is_left():
    result = tuned(seconds=1000.0, settings=TuneSettings(stop_at=9.0))
    assert result.stopped is Stopped.EXPECTED_GAIN
    assert result.better_chance < 0.1
    data = json.loads(page.dumps(result))
    assert data["better_chance"] == result.better_chance
    words = page.SearchView.from_json(data).effort
    assert "the chance that another saves over 2 % is under 1 %" in words
    assert words in page.convergence_plot(result)


def test_it_lists_what_is_as_fast_as_the_best():
    result = tuned(spaces.recording(lambda p: 1.0 if p["BLOCK"] == 128 else 2.0), seconds=1000.0)
    assert result.equals
    assert all(timed.params["BLOCK"] == 128 for timed in result.equals)
    assert result.best.params not in [timed.params for timed in result.equals]
    data = json.loads(page.dumps(result))
    assert [timed["params"] for timed in data["equals"]] == [e.params for e in result.equals]
    view = page.SearchView.from_json(data)
    assert (
        f"{len(result.equals)} others are as fast, as far as was measured: BLOCK=128" in view.equals
    )
    assert any(view.equals in line for line in view.lines())


def test_failures_alike_end_it_and_say_what_would_mend_it():
    why = "output 0: dtype torch.float32 where the reference has torch.bfloat16"
    rows = [replace(spaces.failed(r, Verdict.WRONG), message=why) for r in spaces.recording()]
    result = tuned(rows, seconds=1000.0)
    assert result.stopped is Stopped.FAILS_ALIKE
    assert result.measured < 20  # those that were compiled ahead included
    assert why in result.notes[-1]
    assert "Convert the output to torch.bfloat16" in result.notes[-1]


def write_choices(folder, block, warps, stages=3):
    """A file as SGLang has it, for another GPU and another size."""
    path = folder / "N=32,device_name=NVIDIA_A100-SXM4-80GB.json"
    chosen = {"BLOCK": block, "num_warps": warps, "num_stages": stages}
    path.write_text(json.dumps({"48": chosen}), encoding="utf-8")
    return str(path)


def test_what_another_tool_chose_elsewhere_is_measured_right_after_the_default(tmp_path):
    log = tmp_path / "run.jsonl"
    choices = (write_choices(tmp_path, 128, 4),)
    how = replace(FULL, choices=choices, prior=False, log=log)
    result = tuned(seconds=4.0, settings=how)
    rows = outcomelog.read(log).rows
    assert [row.params for row in rows[:2]] == [spaces.DEFAULT, spaces.BEST]
    assert (result.verdict, result.best.params) == (TuneVerdict.FASTER, spaces.BEST)


def test_a_choice_that_is_slower_here_changes_nothing(tmp_path):
    slow = spaces.recording(lambda p: 1.0 if p == spaces.DEFAULT else 2.0)
    how = replace(FULL, choices=(write_choices(tmp_path, 128, 4),))
    assert tuned(slow, settings=how).params == spaces.DEFAULT


def test_choices_that_the_space_lacks_are_reported(tmp_path):
    path = write_choices(tmp_path, 1024, 4)
    result = tuned(settings=replace(FULL, choices=(path,)))
    assert f"No choice of {path} is in the kernel's SPACE." in result.notes


def test_what_it_says():
    result = tuned()
    assert (result.kernel, result.kernel_id, result.device) == (
        "softmax/rows",
        "k" * 16,
        "h100-sxm",
    )
    assert (result.shape, result.problem_id) == (spaces.SHAPE, "softmax/M=64,N=32")
    assert result.sol_ms == spaces.SOL_MS
    assert result.default.params == spaces.DEFAULT
    assert result.default.time_ms == pytest.approx(spaces.true_ms(spaces.DEFAULT), rel=0.01)
    assert result.verdict is TuneVerdict.FASTER
    assert result.params == result.best.params == result.final.params
    truth = spaces.true_ms(spaces.DEFAULT) / spaces.true_ms(result.params)
    assert result.speedup == pytest.approx(truth, rel=0.02)
    assert result.best.low_ms <= result.best.time_ms <= result.best.high_ms
    assert (result.stopped, result.log) == (Stopped.BUDGET, None)
    assert 19.0 <= result.gpu_s <= 20.2
    assert 0 < result.failed < result.measured
    assert result.environment["solkit"] is None  # the recorded rows do not state it


def test_the_best_time_falls_along_the_trajectory():
    result = tuned()
    seconds = [at.gpu_s for at in result.trajectory]
    times = [at.best_ms for at in result.trajectory]
    assert seconds == sorted(seconds)
    assert times == sorted(set(times), reverse=True)
    assert 0 < seconds[0] <= seconds[-1] <= result.gpu_s


def test_what_is_not_shown_to_be_faster_is_left_alone():
    result = tuned(spaces.recording(lambda _: 1.0))
    assert result.verdict is TuneVerdict.KEEP
    assert result.params == spaces.DEFAULT
    assert result.best.time_ms <= result.default.time_ms  # the luckiest of many
    assert result.final.difference.value == "no_difference_shown"


def test_the_default_is_kept_if_it_is_the_best():
    result = tuned(spaces.recording(lambda p: 1.0 if p == spaces.DEFAULT else 2.0))
    assert (result.verdict, result.final) == (TuneVerdict.KEEP, None)
    assert result.best.params == spaces.DEFAULT


def test_a_budget_below_one_measurement_still_measures_the_default():
    result = tuned(seconds=0.01)
    assert result.default.time_ms is not None
    assert result.stopped is Stopped.BUDGET


def test_a_space_with_one_point():
    rows = [row for row in spaces.recording() if row.params == spaces.DEFAULT]
    result = tuned(rows)
    assert (result.measured, result.stopped) == (1, Stopped.EXHAUSTED)
    assert result.verdict is TuneVerdict.KEEP


def test_all_fail():
    rows = [spaces.failed(row, Verdict.CRASHED) for row in spaces.recording()]
    result = tuned(rows, seconds=1000.0)
    assert (result.best, result.final, result.verdict) == (None, None, TuneVerdict.KEEP)
    assert result.measured == result.failed == 60
    assert result.default.message == "too much shared memory"
    assert json.loads(page.dumps(result))["best"] is None


@pytest.mark.slow
def test_what_is_in_use_fails():
    result = tuned(spaces.recording(wrong=lambda p: p["BLOCK"] == 16), seconds=40.0)
    assert result.verdict is TuneVerdict.FASTER
    assert result.speedup is None
    assert "fail" in result.notes[-1]
    assert result.params["BLOCK"] != 16


def test_it_stops_near_enough_to_the_speed_of_light():
    rows = [replace(row, bound_ms=0.97) for row in spaces.recording()]
    result = tuned(rows, seconds=1000.0, settings=TuneSettings(stop_at=0.9, least_gain=0.0))
    assert result.stopped is Stopped.SPEED_OF_LIGHT
    assert result.measured < 60
    assert 0.97 / result.best.time_ms >= 0.9


def test_the_parameters_in_use_may_be_given():
    result = tuned(settings=replace(FULL, params={"BLOCK": 64}))
    assert result.default.params == {**spaces.DEFAULT, "BLOCK": 64}
    assert result.default.time_ms is not None


def test_the_same_seed_gives_the_same_run():
    one, two = tuned(seconds=8.0), tuned(seconds=8.0)
    assert one.trajectory == two.trajectory
    assert one.best == two.best


# ------------------------------------------------------------------------- interrupt and resume


def interrupting(number):
    """A listener that is interrupted at so many measurements."""

    def show(status):
        if status.stage == "searching" and status.measured == number:
            raise KeyboardInterrupt

    return show


def test_an_interrupt_keeps_everything_and_still_runs_the_final():
    result = tuned(seconds=1000.0, show=interrupting(17))
    assert (result.measured, result.stopped) == (17, Stopped.INTERRUPTED)
    assert result.final is not None
    assert result.verdict is TuneVerdict.FASTER


def test_a_second_interrupt_skips_the_final(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("solkit.tuner.head_to_head.head_to_head", interrupted)
    result = tuned(seconds=1000.0, show=interrupting(17))
    assert (result.final, result.verdict) == (None, TuneVerdict.KEEP)
    assert result.best.time_ms < result.default.time_ms
    assert "interrupted" in result.notes[-1]


def measured_rows(log):
    """Those of measurements: the final adds a row that says what it showed."""
    return [row for row in outcomelog.read(log).rows if row.comparison is None]


def test_the_log_says_what_the_final_showed(tmp_path):
    log = tmp_path / "tune.jsonl"
    result = tuned(settings=replace(FULL, log=log))
    (last,) = [row for row in outcomelog.read(log).rows if row.comparison is not None]
    assert (last.params, last.comparison.params) == (result.best.params, spaces.DEFAULT)
    assert last.comparison.difference.value == "faster"
    assert last.comparison.ratio == result.final.ratio


@pytest.mark.slow
def test_a_resumed_run_counts_nothing_twice(tmp_path):
    log = tmp_path / "tune.jsonl"
    first = tuned(seconds=30.0, settings=replace(FULL, log=log), show=interrupting(17))
    assert first.log == str(log)
    assert len(measured_rows(log)) == 17
    again = replace(FULL, log=log, resume=True)
    second = tuned(seconds=30.0, settings=again)
    rows = measured_rows(log)
    keys = [json.dumps(dict(row.params), sort_keys=True) for row in rows if row.sequence]
    assert len(set(keys)) == second.measured > 17
    assert 28.5 <= second.gpu_s <= 30.2
    assert second.trajectory[: len(first.trajectory)] == tuple(
        replace(at, gpu_s=pytest.approx(at.gpu_s, abs=1e-3)) for at in first.trajectory
    )
    third = tuned(seconds=30.0, settings=again)
    assert third.measured == second.measured
    assert third.best.params == second.best.params
    assert third.gpu_s == pytest.approx(second.gpu_s, abs=0.3)


def test_rows_of_other_kernels_in_a_resumed_log_do_not_count(tmp_path):
    log = tmp_path / "tune.jsonl"
    with outcomelog.OutcomeLog(log) as file:
        other = spaces.row(1, spaces.BEST, 0.001, np.random.default_rng(0), kernel_id="other")
        file.append([other])
    result = tuned(settings=replace(FULL, log=log, resume=True))
    assert result.best.time_ms > 0.5


# ---------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("result", "settings", "error", "message"),
    [
        ({"shape": {"M": 3}}, {}, NotRecordedError, "M=3 is not recorded.*M=64, N=32"),
        ({}, {"params": {"BLOCK": 3}}, ParamsError, "BLOCK of 16; 32; 64; 128; 256"),
        ({}, {"params": {"NONE": 3}}, ParamsError, "NONE=3"),
        ({"seconds": 0.0}, {}, InputError, "gpu_seconds is 0.0"),
    ],
)
def test_errors_name_the_value_and_the_valid_ones(result, settings, error, message):
    with pytest.raises(error, match=message):
        tuned(settings=replace(FULL, **settings), **result)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stop_at": 0.0}, "stop_at is 0.0"),
        ({"least_gain": 1.0}, "least_gain is 1.0"),
        ({"resume": True}, "name the log"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(InputError, match=message):
        TuneSettings(**settings)


def test_an_unknown_kernel_names_those_recorded():
    with pytest.raises(NotRecordedError, match=r"no kernel 'gemm'; recorded: softmax/rows \(kkkk"):
        solkit.tune("gemm", bench=RecordedBench(spaces.recording()))


def test_without_a_gpu_or_a_recording_it_says_so():
    with pytest.raises(UnsupportedError, match=r"cannot time on .*--recorded FILE"):
        solkit.tune("examples/softmax.py", device="h100")


# --------------------------------------------------------------------------------------- reports


def test_the_json_is_the_contract():
    data = json.loads(page.dumps(tuned()))
    assert data["schema"] == "solkit.tune/1"
    expected = {"kernel", "shape", "device", "sol_ms", "default", "best", "verdict", "speedup"}
    expected |= {"measured", "failed", "gpu_s", "stopped", "trajectory", "versions"}
    expected |= {"equals", "better_chance", "expected_gain"}
    assert expected <= set(data)
    assert {"params", "time_ms"} <= set(data["default"])
    assert {"params", "time_ms", "low", "high"} <= set(data["best"])
    assert data["verdict"] == "faster"
    speedup = data["speedup"]
    assert 1 < speedup["low"] <= speedup["value"] <= speedup["high"]
    assert all(set(at) == {"gpu_s", "best_ms"} for at in data["trajectory"])


@pytest.mark.slow
def test_the_plot_shows_the_times():
    pytest.importorskip("plotly")
    result = tuned()
    text = page.convergence_plot(result)
    assert text.lower().startswith("<!doctype html>")
    assert "best so far" in text
    assert "speed of light" in text
    assert str(result.trajectory[-1].best_ms)[:8] in text


def test_progress_says_what_is_left():
    lines = []
    tuned(show=lambda status: lines.append(page.status_line(status)))
    assert any("of 20 s left" in line and "next may save" in line for line in lines)
    assert lines[-1].startswith("final")


def test_an_error_of_the_final_loses_nothing(monkeypatch):
    def failing(*_, **__):
        raise UnsupportedError("no GPU")

    monkeypatch.setattr("solkit.tuner.head_to_head.head_to_head", failing)
    result = tuned()
    assert result.verdict is TuneVerdict.KEEP
    assert result.notes == ("The final could not be run: no GPU",)
    assert result.best.time_ms < result.default.time_ms


def test_the_guarded_final_says_what_compare_says(monkeypatch):
    """Its arguments, and its answer: the comparison itself has its own tests."""
    requests = {}

    class Report:
        comparisons, failed = (), (solkit.core.FailedShape({}, "no such GPU"),)

    def compare(*files, **fields):
        requests.update(fields, files=files)
        return Report

    monkeypatch.setattr("solkit.pipeline.comparing.compare", compare)
    base = solkit.core.Configuration("a.py", "kernel", {"M": 1}, {"B": 1}, "ref.py")
    result = tuning.guarded_final(None, None, base, replace(base, params={"B": 2}))
    assert requests["files"] == ("a.py", "a.py")
    assert (requests["base_params"], requests["params"]) == ({"B": 1}, {"B": 2})
    assert (requests["shapes"], requests["reference"]) == ([{"M": 1}], "ref.py")
    assert result.difference.value == "not_compared"
    assert result.evidence == ("no such GPU",)
    right = SimpleNamespace(verdict=Verdict.CORRECT, errors=("A note.",))
    failed = SimpleNamespace(verdict=Verdict.WRONG, errors=("output 0 differs",))
    comparison = Comparison(
        None, right, failed, Difference.NOT_COMPARED, errors=("The candidate failed.",)
    )
    with monkeypatch.context() as patch:
        patch.setattr(Report, "comparisons", (comparison,))
        result = tuning.guarded_final(None, None, base, base)
    assert result.evidence == ("The candidate failed.", "output 0 differs")
    requests.clear()
    monkeypatch.setattr(
        "solkit.pipeline.comparing.compare_in_turns",
        lambda *pair: requests.update(pair=pair) or Report,
    )
    result = tuning.guarded_final("gpu", "how", base, base, searched=True)
    assert requests == {"pair": (base, base, "gpu", "how")}
    assert result.evidence == ("no such GPU",)
