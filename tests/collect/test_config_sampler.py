"""Which configurations come next."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest

from solkit.collect.config_sampler import (
    DEFAULT,
    LATIN_HYPERCUBE,
    NEAR_BEST,
    RANDOM,
    ConfigSampler,
    is_sparsely_good,
    lacks_draws,
)
from solkit.core import Space

SPACE = {"BLOCK": [16, 32, 64, 128, 256], "SPLIT": [1, 2, 4], "EVICT": ["", "evict_first"]}
VALID = [dict(zip(SPACE, values)) for values in itertools.product(*SPACE.values())]
START = {"BLOCK": 64, "SPLIT": 2, "EVICT": ""}


def chooser(valid=VALID, default=START, seed="seed"):
    return ConfigSampler(Space.of_points(valid), default, seed)


def names(chosen):
    return [tuple(params.values()) for params, _ in chosen]


def test_each_configuration_comes_once_the_default_first():
    chosen = chooser().spread(1000)
    assert chosen[0] == (START, DEFAULT)
    assert Counter(names(chosen)) == Counter(tuple(params.values()) for params in VALID)
    assert {how for _, how in chosen[1:]} == {LATIN_HYPERCUBE, RANDOM}


def test_a_configuration_that_is_there_twice_comes_once():
    twice = chooser([{"B": 64}, {"B": 64}, {"B": 128}, {"B": 64.0}], {"B": 64})
    assert len(twice) == 3
    pairs = sorted((type(params["B"]).__name__, params["B"]) for params, _ in twice.spread(9))
    assert pairs == [("float", 64.0), ("int", 64), ("int", 128)]


def test_a_default_that_is_not_valid_is_left_out():
    chosen = chooser(default={"BLOCK": 7, "SPLIT": 1, "EVICT": ""}).spread(1000)
    assert len(chosen) == len(VALID)
    assert DEFAULT not in {how for _, how in chosen}


def test_two_machines_choose_alike():
    assert chooser().spread(20) == chooser().spread(20)
    assert chooser().spread(20) != chooser(seed="another").spread(20)


def test_what_is_spread_does_not_depend_on_the_times():
    one, other = chooser(), chooser()
    for params in VALID[:3]:
        one.note(params, 1.0)
        other.note(params, None)
    assert one.spread(20) == other.spread(20)


def test_asked_twice_it_goes_on():
    whole, parts = chooser(), chooser()
    assert whole.spread(12) == [*parts.spread(5), *parts.spread(7)]
    assert len(parts) == len(VALID) - 12


def test_the_first_hypercube_covers_every_value_about_equally():
    valid = [{"A": a, "B": b, "C": c} for a in range(4) for b in range(3) for c in (1, 2)]
    chosen = [params for params, how in chooser(valid, {}).spread(12) if how == LATIN_HYPERCUBE]
    assert len(chosen) >= 8  # of 12 points: two may be the same
    for name, count in (("A", 4), ("B", 3), ("C", 2)):
        seen = Counter(params[name] for params in chosen)
        assert len(seen) == count
        assert max(seen.values()) <= 12 // count


def test_a_parameter_of_many_values_has_each_of_them_in_a_hypercube():
    valid = [{"A": a, "B": b} for a in range(20) for b in range(20)]
    chosen = [params for params, how in chooser(valid, {}).spread(20) if how == LATIN_HYPERCUBE]
    assert len(chosen) == 20
    assert {params["A"] for params in chosen} == {params["B"] for params in chosen} == {*range(20)}


def test_where_little_of_the_box_is_valid_all_of_it_comes_all_the_same():
    valid = [{"A": n, "B": n} for n in range(50)]
    assert len(chooser(valid, {}).spread(1000)) == 50


def test_while_one_time_is_known_those_like_it_come_first():
    one = chooser()
    one.note({"BLOCK": 64, "SPLIT": 1, "EVICT": ""}, 1.0)
    chosen = one.near(100)
    assert {how for _, how in chosen} == {NEAR_BEST}
    assert set(names(chosen)[:2]) == {(32, 1, ""), (128, 1, "")}  # one step of the longest axis
    assert names(chosen)[-1][0] in (16, 256)
    assert len(chosen) == len(VALID) - 1
    assert one.near(100) == []  # they are taken


def test_values_are_neighbours_by_size_not_by_spelling():
    one = chooser([{"B": b} for b in (8, 16, 128, 1024)], {})
    one.note({"B": 128}, 1.0)
    assert {params["B"] for params, _ in one.near(2)} == {16, 1024}


def test_between_two_good_ones_is_tried_before_beside_a_bad_one():
    one = chooser([{"B": b} for b in range(9)], {})
    for b, time_ms in ((1, 1.0), (3, 1.1), (6, 9.0)):
        one.note({"B": b}, time_ms)
    assert [params["B"] for params, _ in one.near(9)] == [0, 2, 4, 5, 7, 8]


def test_what_is_expected_is_the_weighted_mean_of_what_is_known():
    valid = [{"A": a, "B": b} for a in range(5) for b in range(3)]
    times = {(0, 0): 2.0, (4, 2): 1.0, (2, 1): 1.5, (3, 0): 40.0}
    one = chooser(valid, {})
    for (a, b), time_ms in times.items():
        one.note({"A": a, "B": b}, time_ms)

    def expected(a, b):
        weights = {
            (c, d): math.exp(-(abs(a - c) / 2 + abs(b - d) / math.sqrt(2)) / 0.6) for c, d in times
        }
        log = {place: min(math.log(time_ms), 1.0) for place, time_ms in times.items()}
        return sum(weights[p] * log[p] for p in times) / sum(weights.values())

    remaining_pairs = [(p["A"], p["B"]) for p in valid if (p["A"], p["B"]) not in times]
    assert names(one.near(100)) == sorted(remaining_pairs, key=lambda place: expected(*place))


def test_what_was_noted_is_not_tried_again_and_its_best_time_counts():
    one = chooser()
    one.note(START, 5.0)
    one.note(START, 2.0)
    one.note({"BLOCK": 16, "SPLIT": 1, "EVICT": ""}, None)
    remaining_names = names(one.spread(1000))
    assert len(remaining_names) == len(VALID) - 2
    assert (64, 2, "") not in remaining_names


def test_a_failure_has_no_neighbours():
    one = chooser()
    one.note(START, None)
    assert one.near(10) == []


def test_what_is_not_valid_is_noted_without_harm():
    one = chooser()
    one.note({"BLOCK": 99, "SPLIT": 1, "EVICT": ""}, 0.1)
    assert one.near(10) == []
    assert len(one) == len(VALID)


@pytest.mark.parametrize("valid", [[], [{}]])
def test_no_space(valid):
    one = chooser(valid, {})
    assert [params for params, _ in one.spread(10)] == valid
    assert one.near(10) == []


@pytest.mark.parametrize(
    ("times_ms", "sparse"),
    [
        ([], True),
        ([1.0], False),  # as far as is known there is nothing to find
        ([1.0, 1.1, 1.2, 1.3, 1.4], True),
        ([1.0] * 7 + [1.3] * 8, True),
        ([1.0] * 8 + [1.3] * 9, False),
        ([1.0] * 7 + [1.3] * 6, False),  # flat
    ],
)
def test_where_few_good_ones_are_known(times_ms, sparse):
    assert is_sparsely_good(times_ms) is sparse


@pytest.mark.parametrize(
    ("times_ms", "drawn_ms", "lacks"),
    [
        ([], [], False),
        ([1.0, 1.3, 1.4], [1.3, 1.4], True),
        ([1.0, 1.3, 1.4], [], True),
        ([1.0, 1.1, 1.3, 1.4, 1.5], [1.1, 1.4], False),
        ([1.0, 1.05, 1.3], [1.3], False),  # flat
    ],
)
def test_where_the_search_alone_found_good_ones(times_ms, drawn_ms, lacks):
    assert lacks_draws(times_ms, drawn_ms) is lacks


def test_of_a_huge_space_some_are_drawn():
    values = {name: range(1000) for name in "ABC"}
    space = Space(values).where("A < B", lambda params: params["A"] < params["B"], ["A", "B"])
    one = ConfigSampler(space, {"A": 0, "B": 1, "C": 0}, "seed")
    assert len(one) == 20_000
    chosen = [params for params, _ in one.spread(100)]
    assert all(params in space for params in chosen)
    assert len({params["C"] for params in chosen}) > 50
    for params in chosen:
        one.note(params, 1.0 + params["C"])
    assert len(one.near(8)) == 8
