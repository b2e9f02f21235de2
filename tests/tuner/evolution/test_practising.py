"""Practice: which finalist is taken, in a made-up world where times are given."""

from __future__ import annotations

import math

import pytest

from solkit.core import Bred, Variant, Verdict
from solkit.tuner.evolution.population_archive import Archive
from solkit.tuner.evolution.practising import (
    finalists,
    practise_finalists,
    shapes_like,
    take_far_faster,
)
from solkit.tuner.evolution.variant_evaluator import VariantOutcome

NEAR, FAR, ODD = {"M": 1}, {"M": 2}, {"M": 3}
ORIGINAL = Bred(Variant("original", ""), time_ms=10.0)


def bred(name, time_ms):
    return Bred(Variant(name, ""), params={"BLOCK": 2}, time_ms=time_ms)


def archive(**fields):
    """Variants by name, each with its time and its behaviour."""
    archive = Archive(Variant("original", ""))
    archive.note("original", time_ms=10.0, behaviour=("plain",))
    for name, (time_ms, behaviour) in fields.items():
        archive.add(Variant(name, "", "original"))
        archive.note(name, time_ms=time_ms, behaviour=(behaviour,))
    return archive


class World:
    """Times by variant and M, or those of both turns; a verdict stands for what has none."""

    def __init__(self, **times):
        self.times = {"original": {1: 10.0, 2: 10.0, 3: 10.0}, **times}
        self.asked = []

    def __call__(self, bred, shape, turn):
        result = self.times[bred.variant.id].get(shape["M"], Verdict.NOT_MEASURED)
        result = result[turn] if isinstance(result, tuple) else result
        if (bred.variant.id, shape["M"]) not in self.asked:
            self.asked.append((bred.variant.id, shape["M"]))
        if isinstance(result, Verdict):
            return VariantOutcome(result)
        return VariantOutcome(Verdict.CORRECT, result)


def practised(world, *rivals, shapes=(NEAR, FAR, ODD), may_leave=lambda _: False, alone=()):
    results = practise_finalists(ORIGINAL, rivals, shapes, world, alone)
    results = take_far_faster(ORIGINAL, rivals, results, shapes, world, may_leave)
    (taken,) = [result.id for result in results if result.taken]
    return taken, results


FAST, SECOND, THIRD = bred("fast", 1.0), bred("second", 2.0), bred("third", 3.0)


def test_the_fastest_is_taken_if_it_holds_and_no_other_is_timed():
    world = World(fast={1: 9.0, 2: 10.0, 3: 10.1})
    taken, results = practised(world, FAST, SECOND)
    assert taken == "fast"
    assert [(result.id, result.time_ms, result.params) for result in results] == [
        ("fast", 1.0, {"BLOCK": 2})
    ]
    ratios = [(practice.shape, practice.ratio) for practice in results[0].practised]
    assert ratios == [(NEAR, 0.9), (FAR, 1.0), (ODD, pytest.approx(1.01))]


def test_one_that_is_slower_at_a_practice_shape_gives_way_to_the_next():
    world = World(fast={1: 1.0, 2: 11.0, 3: 1.0}, second={1: 9.0, 2: 9.0, 3: 9.0}, third={})
    taken, results = practised(world, FAST, SECOND, THIRD)
    assert taken == "second"
    assert [result.loss for result in results] == [pytest.approx(1.1), pytest.approx(0.9)]


def test_what_is_slower_is_timed_no_further_and_the_next_begins_where_it_was():
    world = World(fast={1: 1.0, 2: 11.0, 3: 1.0}, second={1: 9.0, 2: 9.0, 3: 9.0})
    practised(world, FAST, SECOND)
    ours = [requests for requests in world.asked if requests[0] != "original"]
    assert ours == [("fast", 1), ("fast", 2), ("second", 2), ("second", 1), ("second", 3)]


def test_of_those_that_are_all_slower_the_one_that_loses_least_is_taken():
    world = World(fast={1: 15.0}, second={1: 12.0}, third={1: 13.0})
    taken, results = practised(world, FAST, SECOND, THIRD)
    assert taken == "second"
    assert [result.loss for result in results] == [1.5, 1.2, 1.3]


def test_one_that_is_far_faster_is_taken_if_it_can_leave_what_it_loses_to_the_original():
    finalists_seen = []
    world = World(fast={1: 1.0, 2: 11.0, 3: 12.0}, second={1: 9.0, 2: 9.0, 3: 9.0})
    taken, results = practised(
        world, FAST, SECOND, may_leave=lambda finalist: not finalists_seen.append(finalist)
    )
    assert taken == "fast"
    whole = finalists_seen[-1]
    assert whole.practised == results[0].practised
    assert {trial.shape["M"]: trial.ratio for trial in whole.practised} == {1: 0.1, 2: 1.1, 3: 1.2}
    assert practised(world, FAST, bred("second", 1.04), may_leave=lambda _: True)[0] == "second"
    assert practised(world, FAST, bred("second", 1.06), may_leave=lambda _: True)[0] == "fast"


NEXT = bred("next", 1.04)


def test_one_that_fits_a_shape_alone_is_not_timed_and_gives_way_to_a_faster_one():
    world = World(fast={1: 14.3})
    both, kept = {"may_leave": lambda _: True, "alone": {"next"}}, {"alone": {"next"}}
    assert practised(world, FAST, NEXT, **both)[0] == "fast"
    assert practised(world, FAST, NEXT, **kept)[0] == "next"  # it cannot leave what it loses
    assert {name for name, _ in world.asked} == {"original", "fast"}
    assert practised(World(), FAST, NEXT, alone={"fast"})[0] == "fast"  # it is the fastest


def test_one_that_nothing_was_seen_of_gives_way_to_one_that_is_a_little_faster():
    world = World(fast={1: 14.3}, next={})  # the budget is spent
    assert practised(world, FAST, NEXT, may_leave=lambda _: True)[0] == "fast"


@pytest.mark.parametrize(
    ("fast", "may_leave"), [({2: 11.0}, False), ({2: 11.0, 3: Verdict.WRONG}, True)]
)
def test_one_that_is_far_faster_gives_way_if_it_is_wrong_or_cannot_leave_what_it_loses(
    fast, may_leave
):
    world = World(fast={1: 1.0, **fast}, second={1: 9.0, 2: 9.0, 3: 9.0})
    assert practised(world, FAST, SECOND, may_leave=lambda _: may_leave)[0] == "second"


@pytest.mark.parametrize("verdict", [Verdict.WRONG, Verdict.OUT_OF_MEMORY, Verdict.IMPOSSIBLE])
def test_one_that_fails_loses_most(verdict):
    world = World(fast={1: verdict}, second={1: 50.0})
    taken, result = practised(world, FAST, SECOND)
    assert taken == "second"
    assert result[0].loss == math.inf
    assert [(practice.verdict, practice.ratio) for practice in result[0].practised] == [
        (verdict, None)
    ]


@pytest.mark.parametrize("verdict", [Verdict.NOT_MEASURED, Verdict.UNSTABLE])
def test_what_was_not_measured_speaks_against_nobody(verdict):
    world = World(fast={1: verdict, 2: 9.0}, second={1: 1.0})
    taken, result = practised(world, FAST, SECOND)
    assert taken == "fast"
    assert [practice.shape for practice in result[0].practised] == [FAR]


def test_a_shape_at_which_the_original_fails_is_left_out():
    world = World(fast={1: Verdict.CRASHED, 2: 9.0}, second={})
    world.times["original"] = {1: Verdict.CRASHED, 2: 10.0}
    taken, result = practised(world, FAST, SECOND)
    assert taken == "fast"
    assert [practice.shape for practice in result[0].practised] == [FAR]
    assert ("fast", 1) not in world.asked


@pytest.mark.parametrize(
    ("base", "rival", "ratio"),
    [
        (10.0, 10.19, 1.019),  # noise
        (10.0, 10.21, 1.021),  # slower both times
        (10.0, (10.9, 10.1), 1.01),  # the second look differs
        ((10.0, 9.0), (10.5, 9.9), 1.1),
        (10.0, (11.1, 9.0), 1.11),  # clearly slower: there is no second look
        (10.0, (10.5, Verdict.NOT_MEASURED), 1.05),  # the budget is spent
        ((10.0, Verdict.UNSTABLE), (10.5, 9.0), 1.05),
    ],
)
def test_a_loss_within_what_repeats_differ_by_is_looked_at_twice(base, rival, ratio):
    world = World(fast={1: rival}, second={})
    world.times["original"] = {1: base}
    taken, result = practised(world, FAST, SECOND)
    assert result[0].practised[0].ratio == pytest.approx(ratio)
    assert taken == ("fast" if ratio < 1.02 else "second")


def test_finalists_are_the_best_and_what_is_faster_beyond_noise():
    reported_archive = archive(a=(5.0, "x"), b=(9.9, "y"), c=(7.0, "z"), slow=(12.0, "w"))
    assert [finalist.variant.id for finalist in finalists(reported_archive, 10.0)] == ["a", "c"]


def test_the_best_is_a_finalist_though_it_is_hardly_faster():
    reported_archive = archive(a=(9.95, "x"))
    assert [finalist.variant.id for finalist in finalists(reported_archive, 10.0)] == ["a"]


def test_variants_of_other_behaviours_come_before_more_of_the_same():
    alike = {f"alike{n}": (1.0 + n / 10, "x") for n in range(5)}
    reported_archive = archive(**alike, apart=(8.0, "y"), other=(9.0, "z"))
    names = [finalist.variant.id for finalist in finalists(reported_archive, 10.0)]
    assert names == ["alike0", "alike1", "apart", "other"]


def test_there_are_no_finalists_if_nothing_ran():
    assert finalists(Archive(Variant("original", "")), None) == []


def test_where_the_original_fails_all_that_run_are_finalists():
    reported_archive = archive(a=(20.0, "x"))
    reported_archive.note("original", time_ms=None)
    assert [finalist.variant.id for finalist in finalists(reported_archive, None)] == ["a"]


def test_shapes_are_uneven_long_and_short_and_keep_what_is_small_or_no_size():
    shape = {"M": 16384, "N": 4096, "D": 128, "causal": True, "dtype": "float16", "eps": 0.5}
    same = {"D": 128, "causal": True, "dtype": "float16", "eps": 0.5}
    assert shapes_like(shape)[:4] == [
        {"M": 10241, "N": 2561, **same},
        {"M": 2048, "N": 16384, **same},
        {"M": 32768, "N": 512, **same},
        {"M": 8192, "N": 2048, **same},
    ]


def test_one_size_becomes_uneven_shorter_and_longer():
    assert shapes_like({"N": 1024}) == [{"N": n} for n in (641, 128, 2048, 512)]


def test_the_largest_size_changes_though_it_is_small():
    assert [item["N"] for item in shapes_like({"N": 64, "C": 3})] == [41, 8, 128, 32]
    assert {item["C"] for item in shapes_like({"N": 64, "C": 3})} == {3}


def test_of_no_size_no_shape_is_made():
    assert shapes_like({"dtype": "float16", "causal": True, "one": 1}) == []


@pytest.mark.parametrize("shape", [{"M": 2}, {"M": 2, "N": 2}, {"M": 300, "N": 300, "K": 300}])
def test_shapes_are_distinct_and_all_sizes_positive(shape):
    new_shapes_like = shapes_like(shape)
    assert shape not in new_shapes_like
    assert all(new_shapes_like.count(item) == 1 for item in new_shapes_like)
    assert all(value > 0 for item in new_shapes_like for value in item.values())
