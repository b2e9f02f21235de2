"""Hints of `solkit score`: when one is given, and that a score from disk waits for none."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace

import pytest

sys.path.append(str(Path(__file__).parents[1] / "cli"))
from cli_reports import NOT_MEASURED, report_of

from solkit.core import Candidate, Configuration, Depth, Forecast, Space
from solkit.errors import UnsupportedError
from solkit.pipeline import hinting
from solkit.pipeline.hinting import Hint, hints_for_report, surely_better
from solkit.surrogate.plan import Action, Plan, Ranked

OWN = {"BLOCK": 64}
MODEL = SimpleNamespace(
    trees=lambda _: SimpleNamespace(
        calibration=SimpleNamespace(
            interval=SimpleNamespace(low=-2.0, high=2.0), scatter=SimpleNamespace(rest=0.25)
        )
    )
)
HINT = Hint({"BLOCK": 128}, 2.0, 1.5, "lowered")


def ranked(block, time_ms, *, size=0.2, abstains=False):
    """A candidate whose expected error is `size` in log2: its interval is four times as wide."""
    low, high = time_ms * 2 ** (-2 * size), time_ms * 2 ** (2 * size)
    forecast = Forecast(time_ms, low, high, 0.0, abstains)
    it = Configuration("k.py", "kernel", {}, {"BLOCK": block})
    return Ranked(it, Depth.LOWERED, forecast, Action.MEASURE, "")


def plan(*candidates):
    return Plan({}, candidates, 0.1)


def test_the_gain_must_exceed_what_equals_differ_by():
    sd = 0.5 * math.hypot(0.2, 0.2)  # sqrt(rest) of two expected errors
    least = 2 ** (sd * NormalDist().inv_cdf(0.9))
    sure = surely_better(plan(ranked(128, 1.0), ranked(64, 1.01 * least)), OWN, MODEL)
    assert sure == Hint({"BLOCK": 128}, 1.01 * least, pytest.approx(least), "lowered")
    assert surely_better(plan(ranked(128, 1.0), ranked(64, 0.99 * least)), OWN, MODEL) is None


def test_more_candidates_must_gain_more():
    few = surely_better(plan(ranked(128, 1.0), ranked(64, 9.0)), OWN, MODEL)
    many = [ranked(128 + place, 1.0 + place) for place in range(8)]
    result = surely_better(plan(*many, ranked(64, 9.0)), OWN, MODEL)
    assert result.params == {"BLOCK": 128}
    assert result.speedup == few.speedup
    assert result.least_speedup > few.least_speedup


def test_what_is_doubted_gives_no_hint():
    assert surely_better(plan(ranked(128, 1.0), ranked(64, 9.0, abstains=True)), OWN, MODEL) is None
    assert surely_better(plan(ranked(128, 1.0, abstains=True), ranked(64, 9.0)), OWN, MODEL) is None
    assert surely_better(plan(ranked(64, 9.0)), OWN, MODEL) is None


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Of a kernel with something to tune, where a model is installed."""
    path = tmp_path / "softmax.py"
    path.write_text("# a kernel")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SOLKIT_HINTS")
    monkeypatch.setattr(hinting, "model_file", lambda: "a model")
    report = report_of(path=str(path))
    space = Space({"BLOCK": [64, 128]})
    object.__setattr__(report.kernel, "candidate", Candidate("kernel", str(path), OWN, space))
    return report


@pytest.fixture
def looks(monkeypatch):
    """How often somebody looked for a hint, and found `HINT`."""
    seen = []

    def look(_, result):
        seen.append(result)
        return HINT

    monkeypatch.setattr(hinting._HintSearch, "at", look)
    return seen


def test_a_score_from_disk_waits_for_no_hint(report, looks):
    assert hints_for_report(report, took_s=0.5) == {}
    assert looks == []
    assert hints_for_report(report, took_s=9.0) == {0: HINT}
    assert len(looks) == 1
    assert hints_for_report(report, took_s=0.5) == {0: HINT}  # it is known by now
    assert hints_for_report(report, took_s=9.0) == {0: HINT}
    assert len(looks) == 1


def test_hints_can_be_turned_off(report, looks, monkeypatch):
    monkeypatch.setenv("SOLKIT_HINTS", "0")
    assert hints_for_report(report, took_s=9.0) == {}
    assert looks == []


def test_an_edit_forgets_the_hint(report, looks):
    hints_for_report(report, took_s=9.0)
    Path(report.kernel.path).write_text("# another kernel")
    assert hints_for_report(report, took_s=0.5) == {}
    assert hints_for_report(report, took_s=9.0) == {0: HINT}
    assert len(looks) == 2


def test_without_a_model_or_a_space_nothing_is_said(report, monkeypatch):
    def absent(_):
        raise UnsupportedError("no xgboost")

    monkeypatch.setattr(hinting._HintSearch, "at", lambda *_: absent(None))
    assert hints_for_report(report, took_s=9.0) == {}
    monkeypatch.setattr(hinting, "model_file", lambda: absent(None))
    assert hints_for_report(report, took_s=9.0) == {}
    assert hints_for_report(report_of(NOT_MEASURED), took_s=9.0) == {}  # nothing can be tuned


LOADED = f"""
import os, sys
sys.path.append({str(Path(__file__).parents[1] / "cli")!r})
import solkit.cli.score, solkit.pipeline.scoring
from cli_reports import NOT_MEASURED, report_of
from solkit.core import Candidate, Space
from solkit.pipeline.hinting import hints_for_report

report = report_of(NOT_MEASURED, path={__file__!r})
assert hints_for_report(report, took_s=9.0) == {{}}  # nothing can be tuned
space = Space({{"BLOCK": [64, 128]}})
tunable = Candidate("kernel", report.kernel.path, {{"BLOCK": 64}}, space)
object.__setattr__(report.kernel, "candidate", tunable)
assert hints_for_report(report, took_s=0.5) == {{}}  # it came from disk
os.environ["SOLKIT_HINTS"] = "0"
assert hints_for_report(report, took_s=9.0) == {{}}
heavy = ("ranking", "model", "trees", "features", "ast_interpreter")
print([name for name in heavy if f"solkit.surrogate.{{name}}" in sys.modules])
print("xgboost" in sys.modules)
"""


def test_what_forecasts_is_loaded_only_where_a_hint_can_be_given(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("SOLKIT_HINTS", None)
    command = [sys.executable, "-c", LOADED]
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert answer.stdout.split("\n")[:2] == ["[]", "False"]


def test_there_is_no_time_to_look(report):
    late = hinting._HintSearch(report, deadline=0.0)
    with pytest.raises(hinting._LateError, match="no time is left"):
        late.at(report.results[0])


def test_a_look_that_takes_long_is_given_up():
    forecasts = Future()
    with (
        pytest.raises(hinting._LateError, match=r"over 0\.01 s"),
        hinting._given_up_late(SimpleNamespace(give_up_rankings=forecasts.cancel), 0.01),
    ):
        forecasts.result(5)


def test_cuda_is_not_compiled_for_a_hint(report, monkeypatch):
    monkeypatch.setattr(hinting, "Analyser", None)  # nothing is analysed
    Path(report.kernel.path).write_text('CUDA = "__global__ void f() {}"\n')
    look = hinting._HintSearch(report, deadline=math.inf)
    with pytest.raises(hinting._LateError, match="too long"):
        look.at(report.results[0])
