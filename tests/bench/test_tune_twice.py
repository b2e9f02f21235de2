"""The comparison of two live runs of a search, on a recording instead of a GPU."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import tune_twice
from made_up_recording import ROWS, SeededBench

from solkit.core import TuneSettings, canonical
from solkit.pipeline.tuning_context import recorded_ground

BEST = {"BLOCK": 64, "num_warps": 1}
CHOICES = {"a": {"n": 1}, "b": {"n": 2}, "c": {"n": 3}}


@pytest.fixture
def bench(monkeypatch):
    """A recording that stands for the GPU and for the kernel file."""
    bench = SeededBench(ROWS)
    ground = recorded_ground(bench, ROWS[0].kernel_id, None, None, TuneSettings())
    monkeypatch.setattr(tune_twice, "live_ground", lambda *_: ground)
    return bench


def options(**changes):
    chosen = {"gpu_seconds": 5.0, "most": 300, "sweep_s": 60.0, "prior": False}
    return SimpleNamespace(**{**chosen, **changes})


def run(path, bench, seconds=1e9, **changes):
    clock = tune_twice.Clock(seconds)
    tune_twice.stages("made_up N=1", path, None, bench, options(**changes), clock)
    return json.loads(path.read_text()) if path.exists() else None


def verdict(first, second, times_ms):
    """The verdict on two runs with these choices, timed in turns."""
    return tune_twice.verdict_of(
        {
            "tunes": {"0": {"chosen": CHOICES[first]}, "1": {"chosen": CHOICES[second]}},
            "turns": [(CHOICES[name], [ms] * 6) for name, ms in times_ms.items()],
        }
    )


def test_both_runs_are_held_against_all_that_was_measured(tmp_path, bench):
    known_result = run(tmp_path / "made.json", bench)
    assert {canonical(p) for p, _ in tune_twice.measured(known_result)} == {
        canonical(row.params) for row in ROWS
    }
    assert [known_result["tunes"][seed]["chosen"] for seed in "01"] == [BEST, BEST]
    assert len(known_result["turns"]) in (tune_twice.FASTEST, tune_twice.FASTEST + 1)
    verdict = tune_twice.verdict_of(known_result)
    assert verdict["shares"] == [1.0, 1.0]
    assert verdict["same"]
    assert "2 problems" in tune_twice.table([verdict, verdict])


def test_no_more_is_measured_than_was_asked_for(tmp_path, bench):
    known_result = run(tmp_path / "made.json", bench, most=3)
    assert known_result["swept"] == []


def test_a_later_run_goes_on_where_one_ended(tmp_path, bench, monkeypatch):
    path = tmp_path / "made.json"
    assert run(path, bench, seconds=0.0) is None
    whole = run(path, bench)
    del whole["turns"], whole["tunes"]["1"]
    whole["tunes"]["0"]["chosen"] = {**BEST, "num_warps": 2}
    path.write_text(json.dumps(whole))
    again = run(path, bench)
    assert again["tunes"]["0"]["chosen"] == {**BEST, "num_warps": 2}
    assert set(again["tunes"]) == {"0", "1"}
    monkeypatch.setattr(tune_twice, "live_ground", None)  # a finished problem needs nothing
    assert run(path, bench) == again


@pytest.mark.parametrize(
    ("times_ms", "agree"),
    [
        ({"a": 1.0, "b": 1.006}, True),
        ({"a": 1.0, "b": 1.009}, False),
        ({"a": 0.005, "b": 0.00509}, True),
    ],
)
def test_other_choices_agree_if_they_are_as_fast(times_ms, agree):
    result = verdict("a", "b", times_ms)
    assert (result["same"], result["agree"]) == (False, agree)


def test_a_share_is_of_the_fastest_in_the_turns():
    result = verdict("a", "a", {"a": 2.0, "b": 2.5, "c": 1.0})
    assert result["shares"] == [0.5, 0.5]


def test_peers_choose_of_what_was_measured(tmp_path, bench):
    pytest.importorskip("optuna")
    known_result = run(tmp_path / "made.json", bench)
    for one in known_result["tunes"].values():
        one["measured"] = len(ROWS)
    shares = tune_twice.peers_of(known_result, 2)
    assert shares == {"runs": 1.0, "tpe": 1.0, "random": 1.0}


def test_parts_are_halves_in_order():
    assert len(tune_twice.PROBLEMS) == 10
    assert all("bench/wheels/" in name for name in tune_twice.PROBLEMS[:5])
