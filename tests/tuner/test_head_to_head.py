"""The final: what it shows, and what it does not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import spaces

from solkit.core import Configuration, Difference, Final, Space, Verdict
from solkit.measure.benches import RecordedBench
from solkit.tuner.head_to_head import head_to_head, heads_to_heads, judge_best, judge_bests
from solkit.tuner.tuning_problem import TuningProblem

BASE = Configuration("softmax/rows", "kernel", spaces.SHAPE, spaces.DEFAULT)
RIVAL = replace(BASE, params=spaces.BEST)


def rows(base_ms, rival_ms, repeats=4, seed=0, **fields):
    """Both, each `repeats` times."""
    chance = np.random.default_rng(seed)
    return [
        spaces.row(2 * n + k, params, time_ms, chance, **fields)
        for n in range(repeats)
        for k, (params, time_ms) in enumerate([(spaces.DEFAULT, base_ms), (spaces.BEST, rival_ms)])
    ]


def final_of(*times, **fields):
    return head_to_head(RecordedBench(rows(*times, **fields)), BASE, RIVAL)


def test_a_clear_win():
    result = final_of(2.0, 1.0)
    assert result.difference is Difference.FASTER
    assert result.params == spaces.BEST
    assert result.ratio.low < 0.5 < result.ratio.high < 0.52
    assert result.ratio.turns == 4 * 9


@pytest.mark.parametrize(("rival_ms", "shown"), [(1.0, "no_difference_shown"), (1.1, "slower")])
def test_no_win(rival_ms, shown):
    assert final_of(1.0, rival_ms).difference.value == shown


def test_a_win_within_what_two_processes_differ_by_is_none():
    assert final_of(1.0, 0.997, repeats=30).difference is Difference.NOT_SHOWN


def test_false_wins_are_rare():
    """Two that are the same: of 100 finals at most 5 or so may show a difference."""
    shown = [final_of(1.0, 1.0, seed=seed, repeats=5).difference for seed in range(100)]
    assert shown.count(Difference.NOT_SHOWN) >= 97


def test_a_recorded_time_is_paired_once_however_often_it_is_replayed():
    assert final_of(2.0, 1.0, repeats=1).ratio.turns == 9


def test_single_times_count_as_exact():
    single = {"samples_ms": (), "low_ms": None, "high_ms": None, "time_ms": 1.0}
    recorded = [replace(row, **single) for row in rows(1.0, 1.0, repeats=1)]
    recorded[1] = replace(recorded[1], time_ms=0.9)
    comparison = head_to_head(RecordedBench(recorded), BASE, RIVAL)
    assert comparison.difference is Difference.FASTER
    assert comparison.ratio.value == pytest.approx(0.9)
    assert comparison.ratio.high < 0.91
    assert comparison.evidence


def test_one_that_is_wrong_is_not_compared():
    recorded = rows(2.0, 1.0)
    recorded[3] = spaces.failed(recorded[3], Verdict.WRONG)
    comparison = head_to_head(RecordedBench(recorded), BASE, RIVAL)
    assert comparison.difference is Difference.NOT_COMPARED
    assert comparison.evidence == ("too much shared memory",)


def test_pairs_that_meet_together_are_told_apart():
    def named(name, *times, seed):
        return [
            replace(row, kernel_id=name[0] * 16, implementation=name)
            for row in rows(*times, seed=seed)
        ]

    wrong, slow = named("wrong", 2.0, 1.0, seed=3), named("slow", 1.0, 2.0, seed=4)
    wrong[3] = spaces.failed(wrong[3], Verdict.WRONG)
    every = RecordedBench([*rows(2.0, 1.0), *wrong, *slow])
    pairs = [
        (replace(BASE, path=name), replace(RIVAL, path=name))
        for name in (BASE.path, "wrong", "slow")
    ]
    results = heads_to_heads(every, pairs)
    alone = final_of(2.0, 1.0)
    assert results[0] == alone
    assert [result.difference.value for result in results] == ["faster", "not_compared", "slower"]
    assert results[2].ratio.turns == 4 * 9


def test_an_unstable_time_shows_nothing():
    recorded = [replace(r, verdict=Verdict.UNSTABLE, message="throttled") for r in rows(2.0, 1.0)]
    comparison = head_to_head(RecordedBench(recorded), BASE, RIVAL)
    assert comparison.difference is Difference.UNSTABLE
    assert comparison.evidence == ("throttled",)


# ------------------------------------------------------------------------------------ the winner


def tuned(times):
    """A task that was told these times, by BLOCK."""
    task = TuningProblem("it", BASE, Space.of_points(spaces.points()))
    for number, (block, time_ms) in enumerate(times.items()):
        params = {**spaces.DEFAULT, "BLOCK": block}
        row = spaces.row(number, params, time_ms, np.random.default_rng(number))
        task.tell(replace(BASE, params=params), row)
    return task


def judge(wrong, heard, base, rival):
    heard.append((base.params["BLOCK"], rival.params["BLOCK"]))
    shown = Difference.NOT_COMPARED if heard[-1][1] in wrong else Difference.NOT_SHOWN
    return Final(rival.params, shown, None, "turns")


def test_the_best_alone_meets_the_default():
    heard = []
    result = judge_best(tuned({16: 4.0, 32: 3.0, 64: 2.0}), partial(judge, (), heard))
    assert heard == [(16, 64)]
    assert result.difference is Difference.NOT_SHOWN  # and no other one is tried


def test_the_next_takes_the_place_of_one_that_is_wrong():
    heard = []
    result = judge_best(tuned({16: 4.0, 32: 3.0, 64: 2.0}), partial(judge, (64,), heard))
    assert heard == [(16, 64), (16, 32)]
    assert result.params["BLOCK"] == 32


def test_the_default_meets_nobody_if_it_is_the_best():
    heard = []
    assert judge_best(tuned({16: 1.0, 32: 3.0}), partial(judge, (), heard)) is None
    assert judge_best(tuned({16: 2.5, 32: 3.0, 64: 2.0}), partial(judge, (64,), heard)).params == {
        **spaces.DEFAULT,
        "BLOCK": 64,
    }
    assert heard == [(16, 64)]


def test_there_is_no_final_without_a_time_of_the_default():
    assert judge_best(tuned({32: 3.0, 64: 2.0}), partial(judge, (), [])) is None


def test_finals_of_several_are_judged_together():
    requests = []

    def judge_all(pairs):
        requests.append([rival.params["BLOCK"] for _, rival in pairs])
        return [
            Final(
                rival.params,
                Difference.NOT_COMPARED
                if rival.params["BLOCK"] in (64, 128)
                else Difference.FASTER,
                None,
                "turns",
            )
            for _, rival in pairs
        ]

    tasks = [
        tuned({16: 4.0, 32: 3.0, 64: 2.0}),
        tuned({16: 1.0, 32: 3.0}),
        tuned({16: 4.0, 32: 3.0}),
        tuned({16: 4.0, 128: 3.0}),
    ]
    results = judge_bests(tasks, judge_all)
    assert requests == [[64, 32, 128], [32]]  # the next one of the first, and none of the last
    assert [result and result.params["BLOCK"] for result in results] == [32, None, 32, 128]
    assert results[3].difference is Difference.NOT_COMPARED
