from __future__ import annotations

import math
import random
from collections import Counter
from itertools import pairwise, permutations

import pytest

from solkit.measure.timing.activities import ActivityError, CallTime
from solkit.measure.timing.sampling import (
    SamplingPlan,
    Subject,
    plan_sampling,
    plan_search,
    sample_sides,
    sides_in_turns,
)


class Sides:
    """Two sides whose times are a function of their names, and a clock that their calls move on."""

    def __init__(self, time_of, seconds_per_call=0.0):
        self.time_of, self.seconds_per_call = time_of, seconds_per_call
        self.now = 0.0
        self.rounds = []
        self.both = FakeSide(self, "candidate"), FakeSide(self, "reference")

    def clock(self):
        return self.now


class FakeSide:
    def __init__(self, sides, name):
        self.sides, self.name, self.limit_s = sides, name, math.inf

    def start(self):
        if self.name == "candidate":
            self.sides.rounds.append([])
        self.calls = 0

    def call(self):
        self.sides.rounds[-1].append(self.name)
        self.sides.now += self.sides.seconds_per_call
        self.calls += 1

    def stop(self):
        return [CallTime(self.sides.time_of(self.name), None) for _ in range(self.calls)]


def run(sides, plan=None, seed=0):
    return sample_sides(sides.both, plan or SamplingPlan(), random.Random(seed), clock=sides.clock)


def noisy(scale, seed=1):
    generator = random.Random(seed)
    return lambda name: 1.0 + scale * generator.random() if name == "candidate" else 2.0


def test_a_side_with_little_time_sits_out_once_it_has_a_few_samples():
    sides = Sides(noisy(0.001), seconds_per_call=0.01)
    sides.both[1].limit_s = 0.04
    candidate, reference = run(sides, SamplingPlan(warmup=3, minimum=30))
    assert (len(candidate.times), len(reference.times)) == (30, 8)
    assert len(reference.ran) == len(reference.begun) == 8
    sides.both[1].limit_s = 0.195
    _, reference = run(sides, SamplingPlan(warmup=3, minimum=30))
    assert len(reference.times) == 17  # and three before: .20 s


def test_a_side_far_beyond_its_time_is_called_three_times_the_first_as_a_warm_up():
    sides = Sides(noisy(0.001), seconds_per_call=0.01)
    sides.both[1].limit_s = 0.002
    candidate, reference = run(sides, SamplingPlan(warmup=5, minimum=30))
    assert (len(candidate.times), len(reference.times), len(reference.ran)) == (30, 2, 2)
    assert sum(called.count("reference") for called in sides.rounds) == 3


def test_a_search_times_few_calls_and_more_if_they_differ():
    plan = plan_search(plan_sampling(reference_s=1e-4))
    candidate, _ = run(Sides(noisy(0.001)), plan)
    assert len(candidate.times) == 20
    candidate, _ = run(Sides(noisy(0.5)), plan)
    assert len(candidate.times) > 100
    assert plan_search(plan_sampling(reference_s=2.0)).minimum == 3


def test_steady_times_stop_at_the_minimum():
    candidate, reference = run(Sides(noisy(0.001)))
    assert len(candidate.times) == len(reference.times) == 20
    assert set(reference.spans_ms) == {2.0}
    assert all(1.0 <= span < 1.1 for span in candidate.spans_ms)


def test_noise_is_sampled_up_to_the_maximum_in_doublings():
    sides = Sides(noisy(5.0))
    assert len(run(sides)[0].times) == 200
    assert [len(s) // 2 for s in sides.rounds] == [30, 20, 40, 80, 40]  # ten to warm up


def test_moderate_noise_stops_between():
    assert 20 < len(run(Sides(noisy(0.08)))[0].times) < 200


def test_the_budget_ends_it():
    sides = Sides(noisy(5.0), seconds_per_call=0.01)  # 20 ms a pair: 2 s are 100 pairs
    assert len(run(sides)[0].times) == 100


def test_a_slow_problem_takes_three():
    plan = plan_sampling(reference_s=3.0)
    assert len(run(Sides(noisy(5.0), seconds_per_call=3.0), plan)[0].times) == 3
    assert plan_sampling(reference_s=0.5).minimum == 20


def test_how_sure_is_asked_of_both_sides():
    requests = []

    def uncertainty(taken):
        requests.append(tuple(len(series.times) for series in taken))
        return 0.0 if len(requests) == 2 else 1.0

    sides = Sides(noisy(0.001))
    sample_sides(sides.both, SamplingPlan(), random.Random(0), uncertainty, sides.clock)
    assert requests == [(20, 20), (40, 40)]


def test_pairs_are_interleaved_in_random_order():
    sides = Sides(noisy(5.0))
    run(sides)
    names = [name for taken in sides.rounds for name in taken]
    pairs = Counter(zip(names[::2], names[1::2], strict=True))
    assert set(pairs) == {("candidate", "reference"), ("reference", "candidate")}
    assert min(pairs.values()) > 70  # of 210; 70 or fewer have a chance under 1e-6


def test_the_order_follows_the_seed():
    orders = []
    for seed in (3, 3, 4):
        sides = Sides(noisy(0.001))
        run(sides, seed=seed)
        orders.append(sides.rounds)
    assert orders[0] == orders[1] != orders[2]


def test_each_call_says_when_it_ran():
    sides = Sides(noisy(0.001), seconds_per_call=0.5)
    candidate, reference = run(sides)
    ran = sorted((i.start_s, i.end_s) for i in (*candidate.ran, *reference.ran))
    assert ran[0] == (10.0, 10.5)  # after 20 calls to warm up
    assert all(a[1] == b[0] for a, b in pairwise(ran))


def test_a_side_that_lost_a_time_is_heard_of():
    sides = Sides(noisy(0.0))
    sides.both[1].stop = lambda: [CallTime(1.0, None)]
    with pytest.raises(ActivityError, match="1 times for 30 calls"):
        run(sides)


def test_subjects_take_turns_under_one_timer():
    class Counting:
        method = "fake"

        def start(self):
            self.names = []

        def time(self, subject):
            self.names.append(subject.name)

        def stop(self):
            return [CallTime(times[name], None) for name in self.names]

    times = {"one": 1.0, "two": 2.0, "three": 3.0}
    timer = Counting()
    sides = sides_in_turns(timer, *(Subject(name, lambda: None) for name in times))
    taken = sample_sides(sides, SamplingPlan(warmup=100), random.Random(0))
    assert [set(series.spans_ms) for series in taken] == [{1.0}, {2.0}, {3.0}]
    assert [len(series.times) for series in taken] == [20, 20, 20]
    turns = [tuple(timer.names[i : i + 3]) for i in range(0, 360, 3)]
    assert set(turns) == set(permutations(times))  # every order comes up: 120 turns, six orders


class Paced(FakeSide):
    """A side whose calls take what a list says by the clock, each the last for good."""

    def __init__(self, sides, name, seconds):
        super().__init__(sides, name)
        self.seconds = list(seconds)

    def call(self):
        super().call()
        self.sides.now += self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]


def hopeless(seconds, told_ms, hopeless_ms):
    """How many samples each round took of a side with such calls and such times."""
    sides = Sides(lambda _: told_ms)
    sides.both = Paced(sides, "candidate", seconds), sides.both[1]
    plan = SamplingPlan(warmup=10, minimum=60, maximum=240, hopeless_ms=hopeless_ms)
    taken = run(sides, plan)
    assert len(taken[0].times) == len(taken[0].begun) == len(taken[1].times)
    return [len(items) // 2 for items in sides.rounds]


def test_a_hopeless_side_is_timed_eight_times():
    assert hopeless([0.030], 29.0, hopeless_ms=10.0) == [18]
    assert hopeless([0.030], 29.0, hopeless_ms=40.0) == [70]
    assert hopeless([0.030], 29.0, hopeless_ms=None) == [70]


def test_the_shortest_call_of_the_warm_up_decides():
    first_compiles = [5.0] + [0.002] * 100
    assert hopeless(first_compiles, 1.9, hopeless_ms=10.0) == [70]


def test_a_slow_request_is_not_taken_for_a_slow_call():
    assert hopeless([0.0009], 0.02, hopeless_ms=0.1) == [70]


def test_a_side_that_only_idles_in_its_warm_up_is_sampled_in_full():
    assert hopeless([0.5] * 10 + [0.002], 1.9, hopeless_ms=10.0) == [18, 52]


def test_a_minimum_below_eight_stays():
    sides = Sides(noisy(0.0), seconds_per_call=3.0)
    plan = SamplingPlan(warmup=1, minimum=3, maximum=3, hopeless_ms=0.5)
    assert len(run(sides, plan)[0].times) == 3
