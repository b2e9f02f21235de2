"""The comparison of two live runs of a search, on a recording instead of a GPU."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest
import tune_twice
from made_up_recording import ROWS, SeededBench

from solkit.core import TuneSettings, canonical
from solkit.errors import SolkitError
from solkit.pipeline.tuning_context import recorded_ground

BEST = {"BLOCK": 64, "num_warps": 1}
CHOICES = {"a": {"n": 1}, "b": {"n": 2}, "c": {"n": 3}}


class NamedBench(SeededBench):
    """A recording of one of several GPUs."""

    uuid = None

    @property
    def device(self):
        return replace(super().device, uuid=self.uuid)


class RecordedGpu(tune_twice.Gpu):
    """A GPU of which everything is recorded, without a process of its own."""

    def __init__(self, options, uuid="GPU-0"):
        self.options, self.bench, self.uuid, self.calls = options, None, uuid, []

    def ground(self, name):
        del name
        return recorded_ground(SeededBench(ROWS), ROWS[0].kernel_id, None, None, TuneSettings())

    def study(self, name):
        self.studied = name

    def renewed(self):
        self.bench = NamedBench(ROWS)
        self.bench.uuid = self.uuid
        return self.bench

    def submit(self, method, *arguments):
        """As a `GpuProcess`, but at once."""
        self.calls.append(method)
        future = Future()
        try:
            future.set_result(getattr(self, method)(*arguments))
        except ArithmeticError as error:
            future.set_exception(error)
        return future


def options(**changes):
    chosen = {"gpu_seconds": 5.0, "most": 300, "sweep_s": 60.0, "prior": False, "earlier": None}
    return SimpleNamespace(**{**chosen, **changes})


def run(path, seconds=1e9, gpus=None, **changes):
    how = options(**changes)
    clock, gpus = tune_twice.Clock(seconds), gpus or [RecordedGpu(how)]
    tune_twice.stages("made_up N=1", path, gpus, how, clock)
    return json.loads(path.read_text()) if path.exists() else None


def verdict(first, second, times_ms):
    """The verdict on two runs with these choices, timed in turns."""
    return tune_twice.verdict_of(
        {
            "tunes": {"0": {"chosen": CHOICES[first]}, "1": {"chosen": CHOICES[second]}},
            "turns": [(CHOICES[name], [ms] * 6) for name, ms in times_ms.items()],
        }
    )


def test_both_runs_are_held_against_all_that_was_measured(tmp_path):
    known_result = run(tmp_path / "made.json")
    assert {canonical(p) for p, _ in tune_twice.measured(known_result)} == {
        canonical(row.params) for row in ROWS
    }
    assert [known_result["tunes"][seed]["chosen"] for seed in "01"] == [BEST, BEST]
    assert len(known_result["turns"]) in (tune_twice.FASTEST, tune_twice.FASTEST + 1)
    verdict = tune_twice.verdict_of(known_result)
    assert verdict["shares"] == [1.0, 1.0]
    assert verdict["same"]
    assert "2 problems" in tune_twice.table([verdict, verdict])


def test_two_gpus_search_by_a_seed_each(tmp_path):
    gpus = [RecordedGpu(options(), f"GPU-{number}") for number in range(2)]
    result = run(tmp_path / "made.json", gpus=gpus)
    assert [gpu.calls for gpu in gpus] == [["tuned", "swept", "turns"], ["tuned", "swept"]]
    assert [run["gpu"] for run in result["tunes"].values()] == ["GPU-0", "GPU-1"]
    table = tune_twice.table([tune_twice.verdict_of(result)])
    assert "on GPU-0 and GPU-1: " in table


def test_the_rest_is_shared_out():
    done = [row.params for row in ROWS[:5]]
    gpu = RecordedGpu(options(most=16))
    gpu.renewed()
    shares = [gpu.swept("made_up N=1", done, (number, 2), 60.0) for number in range(2)]
    assert [len(share) for share in shares] == [6, 5]  # sixteen, of which five were measured
    swept = {canonical(params) for share in shares for params, *_ in share}
    assert len(swept) == 11
    assert not swept & set(map(canonical, done))


def before_turns(result):
    """The result as it was when the turns began."""
    return {key: value for key, value in result.items() if key != "turns"}


def test_what_one_gpu_found_is_kept_if_the_other_fails(tmp_path):
    gpus = [RecordedGpu(options(), f"GPU-{number}") for number in range(2)]
    gpus[0].tuned = lambda *_: 1 // 0
    path = tmp_path / "made.json"
    with pytest.raises(ZeroDivisionError):
        run(path, gpus=gpus)
    assert list(json.loads(path.read_text())["tunes"]) == ["1"]
    result = run(path, gpus=[RecordedGpu(options(), "GPU-2")])
    assert {seed: run["gpu"] for seed, run in result["tunes"].items()} == {
        "0": "GPU-2",
        "1": "GPU-1",
    }


def test_what_an_earlier_run_measured_is_not_swept_again(tmp_path):
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    whole = run(tune_twice.file_of("made_up N=1", earlier))
    gpu = RecordedGpu(options())
    result = run(tmp_path / "made.json", gpus=[gpu], earlier=earlier)
    assert gpu.calls == ["tuned", "tuned", "turns"]
    assert {canonical(params) for params, _ in tune_twice.measured(result)} == {
        canonical(params) for params, _ in tune_twice.measured(whole)
    }


def test_the_next_problem_is_studied_once_the_searches_are_over(tmp_path):
    how = options()
    gpu = RecordedGpu(how)
    path, clock = tmp_path / "made.json", tune_twice.Clock(1e9)
    tune_twice.stages("made_up N=1", path, [gpu], how, clock, "next N=2")
    assert gpu.calls == ["tuned", "tuned", "study", "swept", "turns"]
    assert gpu.studied == "next N=2"


def test_runs_without_turns_are_shown_with_their_gpus(tmp_path, capsys):
    result = before_turns(run(tmp_path / "made.json"))
    (tmp_path / "made.json").write_text(json.dumps(result))
    tune_twice.show(SimpleNamespace(folder=tmp_path, replays=0))
    assert "2 runs, on GPU-0, no turns yet; the same choice" in capsys.readouterr().out


def test_a_process_opens_its_gpu_once_and_says_why_it_could_not():
    process = tune_twice.GpuProcess("cuda:9", 1, options())
    with contextlib.closing(process), pytest.raises(SolkitError, match="no GPU 9"):
        process.submit("study", "made_up N=1").result()


def test_no_more_is_measured_than_was_asked_for(tmp_path):
    known_result = run(tmp_path / "made.json", most=3)
    assert known_result["swept"] == []


def test_a_later_run_goes_on_where_one_ended(tmp_path):
    path = tmp_path / "made.json"
    assert run(path, seconds=0.0) is None
    whole = run(path)
    del whole["turns"], whole["tunes"]["1"]
    whole["tunes"]["0"]["chosen"] = {**BEST, "num_warps": 2}
    path.write_text(json.dumps(whole))
    again = run(path)
    assert again["tunes"]["0"]["chosen"] == {**BEST, "num_warps": 2}
    assert set(again["tunes"]) == {"0", "1"}
    assert run(path, gpus=["a finished problem needs no GPU"]) == again


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


def test_peers_choose_of_what_was_measured(tmp_path):
    pytest.importorskip("optuna")
    known_result = run(tmp_path / "made.json")
    for one in known_result["tunes"].values():
        one["measured"] = len(ROWS)
    shares = tune_twice.peers_of(known_result, 2)
    assert shares == {"runs": 1.0, "tpe": 1.0, "random": 1.0}


def test_parts_are_halves_in_order():
    assert len(tune_twice.PROBLEMS) == 10
    assert all("bench/wheels/" in name for name in tune_twice.PROBLEMS[:5])
