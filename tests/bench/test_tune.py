"""The comparison of tuners, on a recording instead of a GPU."""

from __future__ import annotations

import argparse
import contextlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import tune
from made_up_recording import ROWS, SeededBench

from solkit.core import TuneSettings, Verdict
from solkit.kernelfiles import load
from solkit.measure.benches import RecordedBench
from solkit.pipeline.tuning_context import recorded_ground

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def recorded(monkeypatch):
    """Every bench is the same recording; the autotuner tries one point."""

    @contextlib.contextmanager
    def opened(_options):
        yield SeededBench(ROWS)

    def ground(bench):
        return recorded_ground(bench, ROWS[0].kernel_id, None, None, TuneSettings())

    monkeypatch.setattr(tune, "opened", opened)
    monkeypatch.setattr(tune, "live_ground", lambda *_: ground(RecordedBench(ROWS)))
    monkeypatch.setattr(tune, "read", lambda _: (ROWS[0].kernel_id, None))
    tried = tune.Course((tune.Row(dict(ROWS[0].params), 1.0, 0.0, 0.0, 0.0),))
    monkeypatch.setitem(tune.BY, "autotune", lambda *_: tried)


def options(**fields):
    chosen = {
        "gpu_seconds": 1.0, "seed": 0, "prior": False, "workers": 1, "random": 0, "plans": {},
        "peers": tune.PEERS, "stop_at": 1.0, "problems": ["made up"], "minutes": 9.0, "json": None,
    }  # fmt: skip
    return SimpleNamespace(**{**chosen, **fields})


def test_every_method_has_a_share_of_the_optimum():
    pytest.importorskip("optuna")
    result = tune.compared("made up", None, options())
    assert (result["points"], result["failed"]) == (20, 0)
    assert result["share_of_best"]["tune_wall"] == 1.0
    assert result["share_of_best"]["random_wall"] is not None
    assert result["share_of_best"]["autotune_wall"] < 1.0
    assert set(result["measured"]) == {"tune", "random", *tune.PEERS}
    assert len(result["draws_ms"]["tune_wall"]) == len(tune.DRAWS)
    assert json.loads(json.dumps(result)) == result
    assert "made up: 20 points" in tune.line(result)
    assert "tune_wall" in tune.table([result])


def test_a_sample_may_stand_for_the_whole_space():
    assert tune.compared("made up", None, options(random=7, peers=()))["points"] == 7


def test_each_result_is_on_disk_at_once_and_is_not_measured_again(tmp_path, capsys):
    path = tmp_path / "found.json"
    input_options = options(peers=(), json=path)
    assert tune.run(None, input_options, tune.known(path)) == 0
    assert [item["problem"] for item in tune.known(path)] == ["made up"]
    capsys.readouterr()
    tune.run(None, input_options, tune.known(path))
    assert capsys.readouterr().out == ""


def test_a_problem_that_fails_costs_no_other(monkeypatch, capsys):
    def compared(name, *_):
        if name == "bad":
            raise ValueError("no such way")
        return {"problem": name}

    monkeypatch.setattr(tune, "compared", compared)
    monkeypatch.setattr(tune, "line", lambda item: item["problem"])
    results = []
    assert tune.run(None, options(problems=["bad", "good"]), results) == 1
    assert results == [{"problem": "good"}]
    assert "bad failed: ValueError: no such way" in capsys.readouterr().out


def test_a_course_tells_what_was_found_by_then():
    def row(time_ms, gpu_s):
        return tune.Row({"n": gpu_s}, time_ms, gpu_s, 1.0, 0.0)

    course = tune.Course((row(None, 1.0), row(3.0, 2.0), row(2.0, 3.0), row(9.0, 4.0)))
    assert course.cost_s() == 8.0
    assert course.best(lambda r, _: r.gpu_s <= 1.5) is None
    assert course.best(lambda r, _: r.gpu_s <= 2.5) == {"n": 2.0}
    assert course.best(lambda r, compile_s: r.gpu_s + compile_s <= 8.0) == {"n": 3.0}


def test_parts_share_out_all_problems():
    parts = [tune.part(f"{n}/3") for n in (1, 2, 3)]
    listed = [tune.PROBLEMS[start::step] for start, step in parts]
    assert sorted(sum(listed, ())) == sorted(tune.PROBLEMS)
    with pytest.raises(argparse.ArgumentTypeError, match="such as 1/2"):
        tune.part("3/2")


def test_four_of_twelve_problems_are_of_other_families():
    assert len(tune.PROBLEMS) == 12
    files = [Path(problem) for problem in tune.PROBLEMS if "untrained" in problem]
    assert len(files) == 4
    assert not any((ROOT / "datasets" / "zoo" / file.stem).exists() for file in files)
    for file in files:
        loaded = load(str(ROOT / file), None)
        space = loaded.space(loaded.description.problem.shapes[0])
        assert 100 <= sum(1 for _ in space.walk()) <= 450
        assert loaded.description.candidate.params in space


def test_a_wrong_configuration_has_no_time():
    watch = tune.Watch()
    wrong = replace(ROWS[0], verdict=Verdict.WRONG)
    watch.heard(None, SimpleNamespace(params={}), wrong, 1.0)
    assert watch.course.rows[0].time_ms is None
