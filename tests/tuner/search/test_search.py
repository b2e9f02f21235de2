"""What a search asks for, and how it learns."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from solkit.core import Space
from solkit.errors import InputError, ParamsError
from solkit.tuner import Search

VALUES = {
    "X": [16, 32, 48, 64, 80, 96, 112, 128],
    "Y": [1, 2, 4, 8],
    "HOW": ["a", "b", "c"],
    "FAST": [False, True],
    "ONE": [7],
}


def took(params):
    """A time in ms with one best point of 192: X=64, Y=4, HOW=b, FAST."""
    way = {"a": 1.0, "b": 0.0, "c": 2.0}[params["HOW"]]
    size = abs(math.log2(params["X"] / 64)) + 0.5 * abs(math.log2(params["Y"] / 4))
    return 2.0 ** (size + way + (not params["FAST"]) * 0.3)


def key(params):
    return tuple((type(value), value) for value in params.values())


def searched(search, number, time_of=took):
    for _ in range(number):
        (params,) = search.ask()
        search.tell(params, time_of(params))
    return search


@pytest.mark.slow
def test_finds_the_best_of_a_smooth_space_in_a_fifth_of_it():
    results = [searched(Search(Space(VALUES), seed=seed), 38).best[1] for seed in range(5)]
    assert results == [1.0] * 5


@pytest.mark.parametrize("seed", range(4))
def test_a_space_of_one_parameter_needs_few_starts(seed):
    """A parabola over 64 values: six points that are spread may all be five from its floor."""
    search = searched(Search(Space({"X": list(range(64))}), seed=seed), 6, parabola)
    assert abs(search.best[0]["X"] - 21) <= 2


def parabola(params):
    return 1 + ((params["X"] - 21) / 16) ** 2


@pytest.mark.slow
def test_asks_for_every_point_once_and_then_for_none():
    space = Space(VALUES).where("X * Y <= 256", lambda p: p["X"] * p["Y"] <= 256, ["X", "Y"])
    search = Search(space)
    requests = []
    while points := search.ask(7):
        requests += points
        for params in points:
            search.tell(params, took(params))
    assert sorted(map(key, requests), key=str) == sorted(map(key, space.walk()), key=str)
    assert search.exhausted


def test_pending_points_are_not_asked_for_again():
    search = searched(Search(Space(VALUES)), 12)
    points = [*search.ask(5), *search.ask(5)]
    assert len(set(map(key, points))) == 10


def test_the_points_of_a_batch_differ_as_much_as_answers_in_turn():
    search = searched(Search(Space(VALUES), seed=3), 20)
    batch = search.ask(8)
    expected = sorted(took(params) for params in Space(VALUES).walk())
    assert sorted(took(params) for params in batch)[0] <= expected[20]


def test_the_same_seed_and_times_give_the_same_answers():
    runs = []
    for _ in range(2):
        search = Search(Space(VALUES), seed=5)
        requests = []
        for _ in range(25):
            requests += search.ask()
            search.tell(requests[-1], took(requests[-1]))
        runs.append(requests)
    assert runs[0] == runs[1]
    assert Search(Space(VALUES), seed=6).ask(5) != Search(Space(VALUES), seed=5).ask(5)


def test_first_points_come_first_and_those_of_other_spaces_are_left_out():
    first = [{"X": 48, "Y": 2, "HOW": "a", "FAST": False, "ONE": 7}, {"X": 48}]
    search = Search(Space(VALUES), first=first)
    assert search.ask() == first[:1]
    assert search.ask() != first[:1]


@pytest.mark.slow
def test_failures_are_learned():
    """Half of the space fails: a search that learns it asks there less than one that does not."""

    def time_of(params):
        return None if params["HOW"] == "b" or params["X"] > 96 else took(params)

    failed = []
    for seed in range(4):
        search = searched(Search(Space(VALUES), seed=seed), 8, time_of)
        requests = []
        for _ in range(24):
            requests += search.ask()
            search.tell(requests[-1], time_of(requests[-1]))
        failed += [time_of(params) is None for params in requests]
    assert np.mean(failed) < 0.3  # at random: half


def test_goes_on_where_everything_failed():
    search = searched(Search(Space(VALUES)), 20, lambda _: None)
    assert search.best is None
    assert math.isnan(search.expected_gain())
    assert len(search.ask(3)) == 3


def test_the_best_is_the_fastest_that_was_told_even_if_not_asked_for():
    search = Search(Space(VALUES))
    point = {"X": 64, "Y": 4, "HOW": "b", "FAST": True, "ONE": 7}
    search.tell({**point, "X": 16}, 3.0)
    search.tell(point, 0.5)
    search.tell({**point, "X": 32}, None)
    assert search.best == (point, pytest.approx(0.5))


@pytest.mark.parametrize("time_ms", [0.0, -1.0, math.nan, math.inf])
def test_refuses_times_that_are_none(time_ms):
    with pytest.raises(InputError, match="expected a positive number"):
        Search(Space(VALUES)).tell(next(Space(VALUES).walk()), time_ms)


def test_refuses_points_of_other_spaces():
    with pytest.raises(ParamsError, match="X has no value 17"):
        Search(Space(VALUES)).tell({**next(Space(VALUES).walk()), "X": 17}, 1.0)


@pytest.mark.slow
def test_forecasts_come_near_the_times_of_points_not_measured():
    search = searched(Search(Space(VALUES), seed=1), 60)
    points = [params for params in Space(VALUES).walk() if took(params) < 4]
    mean, sd = search.forecast(points)
    actual = np.log2([took(params) for params in points])
    assert np.abs(mean - actual).mean() < 0.25
    assert (sd >= 0).all()


@pytest.mark.slow
def test_the_expected_gain_falls_once_the_best_is_found():
    early = searched(Search(Space(VALUES), seed=2), 9)
    late = searched(Search(Space(VALUES), seed=2), 120)
    assert 0 <= late.expected_gain() < 0.02 < early.expected_gain() <= 1


@pytest.mark.slow
def test_the_chance_of_something_better_falls_once_the_best_is_found():
    early = searched(Search(Space(VALUES), seed=2), 12)
    late = searched(Search(Space(VALUES), seed=2), 150)
    assert early.best[1] > 1.05
    assert early.chance_of_better() > 0.5
    assert late.best[1] == 1.0
    assert late.chance_of_better() < 0.1


def test_a_smaller_saving_is_the_likelier_one():
    search = searched(Search(Space(VALUES), seed=2), 20)
    assert search.chance_of_better(0.5) < search.chance_of_better(0.01)


def test_the_chance_of_something_better_is_unknown_before_the_first_time():
    search = Search(Space(VALUES))
    assert math.isnan(search.chance_of_better())
    search.tell(search.ask()[0], None)
    assert math.isnan(search.chance_of_better())


def test_an_exhausted_space_has_nothing_to_gain():
    search = searched(Search(Space({"X": [1, 2, 3]})), 3, lambda params: params["X"])
    assert search.exhausted
    assert search.expected_gain() == search.chance_of_better() == 0.0


def test_a_space_of_one_point_and_one_of_none():
    search = Search(Space({"ONE": [7]}))
    assert search.ask(2) == [{"ONE": 7}]
    search.tell({"ONE": 7}, 1.0)
    assert search.ask() == []
    assert Search(Space.of_points([])).ask() == []


class Believed:
    """A prior that knows how times compare, not their level."""

    def log2_ms(self, points):
        return np.log2([took(params) for params in points]) + 3, np.full(len(points), 0.5)

    def fails(self, points):
        return np.array([0.0 if params["X"] != 64 else 0.1 for params in points])


def test_a_prior_decides_the_first_answer():
    assert took(Search(Space(VALUES), prior=Believed()).ask()[0]) == 1.0


def test_what_a_prior_expects_to_be_fastest_comes_first():
    class Sure(Believed):
        def fails(self, points):
            return np.zeros(len(points))

    search, results = Search(Space(VALUES), prior=Sure()), []
    for _ in range(8):
        (params,) = search.ask()
        search.tell(params, 8 * took(params))
        results.append(took(params))
    assert results == sorted(map(took, Space(VALUES).walk()))[:8]


def test_what_may_fail_counts_as_slow():
    class Doubtful(Believed):
        def fails(self, points):
            return np.array([0.9 * (params["X"] == 64) for params in points])

    search, requests = Search(Space(VALUES), prior=Doubtful()), []
    for _ in range(8):
        (params,) = search.ask()
        search.tell(params, took(params))
        requests.append(params["X"])
    assert requests[0] == 64  # before anything is timed, the forecast alone decides
    assert 64 not in requests[1:]


@pytest.mark.slow
def test_a_prior_that_misleads_is_overcome():
    def other(params):
        return 64 / took(params)

    search = searched(Search(Space(VALUES), prior=Believed(), seed=1), 60, other)
    assert search.best[1] <= sorted(other(params) for params in Space(VALUES).walk())[2]


@pytest.mark.slow
def test_a_space_of_a_hundred_million_points():
    values = {f"P{at}": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] for at in range(8)}
    space = Space(values).where("P0 * P1 <= 65536", lambda p: p["P0"] * p["P1"] <= 65536)

    def time_of(params):
        return 2.0 ** (sum(abs(math.log2(value / 16)) for value in params.values()) / 4)

    start = time.process_time()  # others may keep this machine busy
    search = searched(Search(space), 60, time_of)
    assert time.process_time() - start < 20
    assert search.best[1] < 2.0  # of 1 to 1024; the median of the space is 32


def test_what_costs_less_is_preferred():
    """HOW changes the cost alone: the cheap half gets most answers."""

    def time_of(params):
        return took({**params, "HOW": "b"})

    cheap = []
    for seed in range(3):
        search = Search(Space(VALUES), seed=seed)
        for number in range(28):
            (params,) = search.ask()
            dear = params["HOW"] == "c"
            search.tell(params, time_of(params), 10.0 if dear else 0.1)
            cheap += [not dear] if number >= 8 else []
    assert np.mean(cheap) > 0.85  # two thirds of the points are cheap


@pytest.mark.slow
def test_a_space_too_large_to_list_is_exhausted_when_all_was_asked_for(monkeypatch):
    monkeypatch.setattr("solkit.tuner.search.candidates.LISTED", 20)
    space = Space(VALUES).where("X > 32", lambda p: p["X"] > 32, ["X"])
    search = Search(space)
    requests = []
    while points := search.ask(3):
        assert not search.exhausted or not search.ask()
        requests += points
        for params in points:
            search.tell(params, took(params))
    assert sorted(map(key, requests), key=str) == sorted(map(key, space.walk()), key=str)
    assert search.exhausted


@pytest.mark.slow
def test_values_of_every_kind_are_searched():
    values = {
        "kind": ["a", None, True, 1, 1.5],
        "signed": [-2, -1, 0, 1, 2],
        "wide": range(1, 5000),
        "share": [0.1, 0.5, 0.9],
    }

    def time_of(params):
        return 1.0 + abs(params["signed"]) + (params["kind"] is not None) + params["wide"] / 1000

    search = searched(Search(Space(values), seed=1), 50, time_of)
    assert search.best[1] < 1.2
