from __future__ import annotations

import random
from collections import Counter

import pytest

from solkit.measure.activities import CallTime
from solkit.measure.sampling import Plan, Subject, plan_for, sample


class FakeTimer:
    """Gives times from a function of the subject's name, and moves a clock on."""

    method = "fake"

    def __init__(self, time_of, seconds_per_call=0.0):
        self.time_of, self.seconds_per_call = time_of, seconds_per_call
        self.now = 0.0
        self.sessions = []

    def time(self, subjects):
        self.sessions.append([s.name for s in subjects])
        self.now += self.seconds_per_call * len(subjects)
        return [CallTime(self.time_of(s.name), None) for s in subjects]

    def clock(self):
        return self.now


CANDIDATE = Subject("candidate", lambda: lambda: None)
REFERENCE = Subject("reference", lambda: lambda: None)


def run(timer, plan=None, seed=0):
    return sample(
        timer, CANDIDATE, REFERENCE, plan or Plan(), random.Random(seed), clock=timer.clock
    )


def noisy(scale, seed=1):
    generator = random.Random(seed)
    return lambda name: 1.0 + scale * generator.random() if name == "candidate" else 2.0


def test_steady_times_stop_at_the_minimum():
    timer = FakeTimer(noisy(0.001))
    samples = run(timer)
    assert len(samples.candidate) == len(samples.reference) == 20
    assert {t.span_ms for t in samples.reference} == {2.0}
    assert all(1.0 <= t.span_ms < 1.1 for t in samples.candidate)


def test_noise_is_sampled_up_to_the_maximum_in_doublings():
    timer = FakeTimer(noisy(5.0))
    assert len(run(timer).candidate) == 200
    assert [len(s) // 2 for s in timer.sessions] == [10, 20, 20, 40, 80, 40]  # warm-up first


def test_moderate_noise_stops_between():
    samples = run(FakeTimer(noisy(0.08)))
    assert 20 < len(samples.candidate) < 200


def test_the_budget_ends_it():
    timer = FakeTimer(noisy(5.0), seconds_per_call=0.01)  # 20 ms a pair: 2 s are 100 pairs
    assert len(run(timer).candidate) == 100


def test_a_slow_problem_takes_three():
    plan = plan_for(reference_s=3.0)
    timer = FakeTimer(noisy(5.0), seconds_per_call=3.0)
    assert len(run(timer, plan).candidate) == 3
    assert plan_for(reference_s=0.5).minimum == 20


def test_pairs_are_interleaved_in_random_order():
    timer = FakeTimer(noisy(5.0))
    run(timer)
    names = [name for session in timer.sessions for name in session]
    pairs = Counter(zip(names[::2], names[1::2], strict=True))
    assert set(pairs) == {("candidate", "reference"), ("reference", "candidate")}
    assert min(pairs.values()) > 70  # of 210; 70 or fewer have a chance under 1e-6


def test_the_order_follows_the_seed():
    orders = []
    for seed in (3, 3, 4):
        timer = FakeTimer(noisy(0.001))
        run(timer, seed=seed)
        orders.append(timer.sessions)
    assert orders[0] == orders[1] != orders[2]


def test_a_timer_that_fails_is_heard_of():
    class Failing(FakeTimer):
        def time(self, _):
            raise KeyError("no events")

    with pytest.raises(KeyError):
        run(Failing(noisy(0.0)))
