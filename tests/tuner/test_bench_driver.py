"""Budgets are spent as said, on recorded benches."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import spaces

from solkit.core import Configuration, Space, Stopped, Verdict
from solkit.measure.benches import RecordedBench
from solkit.tuner.bench_driver import drive_bench, pending_target
from solkit.tuner.early_stopping import TaskSettings
from solkit.tuner.racing import race_contenders
from solkit.tuner.tuning_problem import TuningProblem

ON = Configuration("softmax/rows", "kernel", spaces.SHAPE, spaces.DEFAULT)
NEVER = TaskSettings(stop_at=9.0, least_gain=0.0)


def task(settings=NEVER, shape=spaces.SHAPE, **fields):
    space = Space.of_points(spaces.points())
    return TuningProblem("it", replace(ON, shape=shape), space, settings=settings, **fields)


def bench(rows=None, cores=4):
    return RecordedBench(spaces.recording() if rows is None else rows, cores=cores)


def test_a_third_more_than_compile_are_pending():
    assert [pending_target(bench(cores=cores)) for cores in (1, 3, 8, 15)] == [2, 4, 11, 20]


def test_the_budget_is_spent_and_no_more():
    one, on = task(), bench()
    spent_s = drive_bench(on, [one], 10.0)
    assert spent_s == on.clock.gpu_s() == pytest.approx(10.0, abs=0.2)
    assert one.stopped is None
    assert 12 <= one.measured <= 5 * 4  # 2 s each on four cores
    assert on.pending == 0


def test_cores_and_gpu_are_kept_busy():
    one, on = task(), bench(cores=4)
    drive_bench(on, [one], 16.0)
    compiling_s = 2.0 * one.measured
    assert compiling_s >= 0.8 * 4 * 16.0


def test_the_search_learns_from_outcomes_while_others_are_pending():
    one, on = task(), bench()
    drive_bench(on, [one], 12.0)
    assert one.measured < 30
    assert one.best.time_ms < 1.12  # of 60 points, 4 are as fast


def test_the_default_is_measured_even_if_the_budget_is_smaller():
    one, on = task(), bench()
    spent_s = drive_bench(on, [one], 0.5)
    assert not one.owes_default
    assert spent_s >= 2.1


def test_earlier_seconds_count():
    one, on = task(), bench()
    assert drive_bench(on, [one], 10.0, spent_s=9.0) < 13.0
    assert on.clock.gpu_s() < 4.0


@pytest.mark.slow
def test_an_interrupt_loses_nothing_and_the_next_drive_goes_on():
    one, on, heard = task(), bench(), []

    def stop(_, what, outcome, __):
        heard.append((what, outcome))
        if len(heard) == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive_bench(on, [one], 100.0, heard=stop)
    assert one.measured == 7
    assert one.pending == on.pending == 0
    drive_bench(on, [one], 1000.0, heard=lambda _, what, outcome, __: heard.append((what, outcome)))
    assert one.stopped is Stopped.EXHAUSTED
    assert set(Counter(tuple(what.params.items()) for what, _ in heard).values()) == {1}
    assert len(heard) == 60


def test_failures_do_not_end_it():
    rows = [spaces.failed(row, Verdict.CRASHED) for row in spaces.recording()]
    one, on = task(), bench(rows)
    drive_bench(on, [one], 1000.0)
    assert one.stopped is Stopped.EXHAUSTED
    assert (one.measured, one.failed, one.best) == (60, 60, None)


def test_several_tasks_share_a_bench_and_one_is_chosen_for_each_place():
    other = {"M": 128, "N": 32}
    rows = spaces.recording()
    rows += [replace(row, shape=other, problem_id="softmax/M=128,N=32") for row in rows]
    few, many = task(), task(shape=other)
    turns = iter(range(10_000))
    drive_bench(bench(rows), [few, many], 20.0, choose=lambda open_: open_[next(turns) % 3 > 0])
    assert few.measured + many.measured >= 28
    assert 1.4 < many.measured / few.measured < 3.0


def test_a_race_adds_samples_to_contenders_alone():
    one, on = task(), bench(spaces.recording(lambda p: 1.0 + 0.1 * (p["BLOCK"] != 128)))
    drive_bench(on, [one], 25.0)
    assert len(one.contenders()) > 1
    race_contenders(on, one)
    raced = [item.configuration.params for item in one.ranked() if item.samples > 9]
    assert len(raced) > 1
    assert {params["BLOCK"] for params in raced} == {128}


def test_a_race_ends_where_nothing_new_is_recorded():
    one, on = task(), bench(spaces.recording(lambda _: 1.0, repeats=1))
    drive_bench(on, [one], 25.0)
    before_s, samples = on.clock.gpu_s(), sum(item.samples for item in one.ranked())
    race_contenders(on, one)
    assert sum(item.samples for item in one.ranked()) == samples
    assert on.clock.gpu_s() < before_s + 20.0  # one round of eight


@pytest.mark.slow
def test_a_race_keeps_to_its_budget():
    one, on = task(), bench(spaces.recording(lambda _: 1.0, repeats=3))
    drive_bench(on, [one], 25.0)
    before_s = on.clock.gpu_s()
    race_contenders(on, one, budget_s=3.0)
    assert on.clock.gpu_s() == pytest.approx(before_s + 3.0)
    assert on.pending == 0


def test_a_rest_that_no_clock_can_show_ends_a_drive():
    """0.1 + 0.2 - 0.1 is not 0.2: what is left may be less than the clock's last digit."""
    on = bench()
    spent_s = 0.0
    for number in range(1, 8):
        one = task()
        spent_s = drive_bench(on, [one], 0.7, spent_s=0.1 * number)
    assert spent_s >= 0.7
