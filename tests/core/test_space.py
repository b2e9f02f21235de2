"""The space of a kernel's parameters."""

from __future__ import annotations

import itertools
import math
import pickle
import time
from collections import Counter

import pytest

from solkit.core import Space
from solkit.errors import InputError, ParamsError

SIDES = {"X": [16, 32, 48, 64], "Y": [1, 2, 4], "HOW": ["a", "b"], "FAST": [False, True]}
HUGE = {f"P{i}": range(1000) for i in range(6)}


def small(params):
    return params["X"] * params["Y"] <= 96


def listed(values, *tests):
    """The legal points, from the product of lists."""
    every = [dict(zip(values, chosen)) for chosen in itertools.product(*values.values())]
    return [params for params in every if all(test(params) for test in tests)]


def key(params):
    return tuple((type(value), value) for value in params.values())


def sample(space, number, seed):
    return list(itertools.islice(space.shuffled(seed), number))


LIMITED = Space(SIDES).where("X * Y <= 96", small, ["X", "Y"])
LEGAL = listed(SIDES, small)


# ------------------------------------------------------------------------------- points


def test_legal_points_come_in_the_order_of_the_product():
    assert list(Space(SIDES).walk()) == listed(SIDES)
    assert list(LIMITED.walk()) == LEGAL
    assert 0 < len(LEGAL) < len(listed(SIDES))


def test_a_constraint_is_asked_as_soon_as_its_parameters_are_known():
    requests = []

    def first(params):
        requests.append(params["A"])
        return params["A"] == 3

    space = Space({"A": range(5), "B": range(10**9)}).where("A == 3", first, ["A"])
    assert list(itertools.islice(space.walk(), 2)) == [{"A": 3, "B": 0}, {"A": 3, "B": 1}]
    assert requests == [0, 1, 2, 3]


def test_a_constraint_on_all_parameters_sees_all_of_them():
    space = Space(SIDES).where("few", lambda params: len(params) == 4 and small(params))
    assert list(space.walk()) == LEGAL


def test_place_and_point_are_each_others_inverse():
    space = Space(SIDES)
    assert [space.point(place) for place in range(space.size)] == listed(SIDES)
    assert [space.index(params) for params in listed(SIDES)] == list(range(48))
    huge = Space(HUGE)
    assert huge.size == 10**18
    assert huge.index(huge.point(123_456_789_012_345_678)) == 123_456_789_012_345_678
    assert huge.point(10**18 - 1) == {f"P{i}": 999 for i in range(6)}


@pytest.mark.parametrize("place", [-1, 48])
def test_a_place_outside_the_space_is_refused(place):
    with pytest.raises(ParamsError, match=f"no point {place}: it has 48 points"):
        Space(SIDES).point(place)


def test_membership_is_being_a_legal_point():
    assert all((params in LIMITED) == small(params) for params in listed(SIDES))
    point = LEGAL[0]
    assert {**point, "X": 17} not in LIMITED
    assert {**point, "MORE": 1} not in LIMITED
    assert {name: point[name] for name in ("X", "Y")} not in LIMITED


def test_a_space_of_nothing_has_one_point():
    assert list(Space().walk()) == [{}]
    assert {} in Space()
    assert list(Space().where("never", lambda _: False).walk()) == []


# ------------------------------------------------------------------------------- values


def test_one_and_one_point_nought_and_true_are_three_values():
    space = Space({"A": [1, 1.0, True, 1, 1.0]})
    assert [key(params) for params in space.walk()] == [
        ((int, 1),),
        ((float, 1.0),),
        ((bool, True),),
    ]
    assert space.index({"A": True}) == 2
    points = Space.of_points([{"A": 1}, {"A": True}, {"A": 1}])
    assert points.size == 2
    assert {"A": 1.0} not in points
    assert {"A": True} not in Space({"A": range(3)})
    assert {"A": 1.0} not in Space({"A": range(3)})


def test_a_range_is_kept_as_it_is():
    space = Space({"A": range(0, 10**8, 2), "B": [1, 2]})
    assert space.values["A"] is not None
    assert isinstance(space.values["A"], range)
    assert space.index({"A": 99_999_998, "B": 2}) == space.size - 1
    assert {"A": 3, "B": 1} not in space
    with pytest.raises(ParamsError, match="A has no value 3;"):
        space.index({"A": 3, "B": 1})


def test_a_value_that_is_no_scalar_is_refused():
    with pytest.raises(ParamsError, match=r"TILE has the value \[1\]; expected a number"):
        Space({"TILE": [[1]]})


def test_a_constraint_on_an_unknown_parameter_is_refused():
    with pytest.raises(ParamsError, match=r"Z < 3 names 'Z'; the parameters are: X, Y, HOW, FAST"):
        Space(SIDES).where("Z < 3", small, ["Z"])


def test_a_space_goes_to_other_processes():
    space = Space(SIDES)
    assert sample(space, 1, 0)
    assert pickle.loads(pickle.dumps(space)) == space


# ------------------------------------------------------------------------------- samples


def test_samples_are_uniform_over_the_legal_points():
    counts = Counter(key(sample(LIMITED, 1, seed)[0]) for seed in range(4000))
    assert counts.keys() == {key(params) for params in LEGAL}
    expected = 4000 / len(LEGAL)
    chi_square = sum((n - expected) ** 2 / expected for n in counts.values())
    freedom = len(LEGAL) - 1
    # Wilson and Hilferty: the 99.99 % point is near f * (1 - 2/9f + 3.72 * sqrt(2/9f))^3
    limit = freedom * (1 - 2 / (9 * freedom) + 3.72 * math.sqrt(2 / (9 * freedom))) ** 3
    assert chi_square < limit


def test_pairs_of_samples_are_uniform_too():
    space = Space({"A": range(5)}).where("not 2", lambda p: p["A"] != 2)
    counts = Counter(tuple(p["A"] for p in sample(space, 2, seed)) for seed in range(6000))
    assert len(counts) == 12  # ordered pairs of 4 points: none twice
    assert sum((n - 500) ** 2 / 500 for n in counts.values()) < 37.4  # 99.99 % of 11 degrees


def test_a_sample_of_the_whole_space_has_each_legal_point_once():
    drawn = sample(LIMITED, 1000, "seed")
    assert sorted(map(str, drawn)) == sorted(map(str, LEGAL))
    assert drawn != LEGAL


def test_a_seed_gives_the_same_sample_again():
    assert sample(LIMITED, 9, "seed") == sample(LIMITED, 9, "seed")
    assert sample(LIMITED, 9, "seed") != sample(LIMITED, 9, "another")


def test_a_space_of_a_billion_billion_points_takes_milliseconds():
    space = Space(HUGE).where("P0 < P1", lambda p: p["P0"] < p["P1"], ["P0", "P1"])
    start = time.process_time()
    drawn = sample(space, 100, 0)
    assert all(params in space for params in drawn)
    assert list(itertools.islice(space.walk(), 10))
    assert time.process_time() - start < 0.2  # it takes 0.01


@pytest.mark.slow
def test_too_rare_legal_points_are_refused():
    space = Space(HUGE).where("P0 == P1 == 7", lambda p: p["P0"] == p["P1"] == 7, ["P0", "P1"])
    with pytest.raises(InputError, match=r"fewer than 1 in 100,000.*P0, .*'P0 == P1 == 7'"):
        sample(space, 10, 0)


def test_rare_legal_points_are_found():
    space = Space(HUGE).where("P0 < 1", lambda p: p["P0"] < 1 and p["P1"] < 100, ["P0", "P1"])
    drawn = sample(space, 5, 0)  # 1 in 10 000
    assert all(params["P0"] == 0 and params["P1"] < 100 for params in drawn)


# ------------------------------------------------------------------------------- lists of points

POINTS = [{"A": 4, "B": "y"}, {"A": 2, "B": "x"}, {"A": 8, "B": "y"}, {"A": 4, "B": "x"}]


def test_a_list_of_points_is_a_space_of_them_alone():
    space = Space.of_points([*POINTS, POINTS[0]])
    assert list(space.walk()) == POINTS
    assert space.size == 4
    assert [space.index(params) for params in POINTS] == [0, 1, 2, 3]
    assert {"A": 2, "B": "y"} not in space
    assert sorted(map(str, sample(space, 4, 0))) == sorted(map(str, POINTS))
    with pytest.raises(ParamsError, match="A=2, B='y' is not one of the 4 points"):
        space.index({"A": 2, "B": "y"})


def test_values_of_points_are_in_order_of_size():
    space = Space.of_points([{"A": v} for v in ("b", 16, 2.5, "a", True, 9)])
    assert list(space.values["A"]) == [True, 2.5, 9, 16, "a", "b"]


def test_points_can_be_constrained():
    space = Space.of_points(POINTS).where("A > 2", lambda p: p["A"] > 2)
    assert list(space.walk()) == [POINTS[0], POINTS[2], POINTS[3]]


def test_points_with_other_parameters_are_refused():
    with pytest.raises(ParamsError, match="A=1, C=2 does not have those of A=1"):
        Space.of_points([{"A": 1}, {"A": 1, "C": 2}])


def test_no_points():
    space = Space.of_points([])
    assert (space.size, list(space.walk()), list(space.shuffled(0))) == (0, [], [])


# ------------------------------------------------------------------------------- legality


def test_a_constraint_that_fails_names_the_point():
    space = Space({"A": [2, 1, 0]}).where("8 % A == 0", lambda p: 8 % p["A"] == 0)
    with pytest.raises(ParamsError, match=r"8 % A == 0 raised ZeroDivisionError: .* at A=0"):
        list(space.walk())
