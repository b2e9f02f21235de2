"""Figures of rankings across languages, counted by hand."""

from __future__ import annotations

import math
import sys
import types

import across_languages
import numpy as np
import pytest
from across_languages import figures, pairs_right, spearman


def test_ranks_of_equal_values_are_shared():
    assert across_languages.ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [2.5, 0, 2.5, 1]


@pytest.mark.parametrize(
    ("predicted", "correlation"),
    [([1, 2, 3, 4], 1.0), ([4, 3, 2, 1], -1.0), ([2, 1, 4, 3], 0.6), ([5, 5, 5, 5], math.nan)],
)
def test_rank_correlation(predicted, correlation):
    """By 1 - 6 * sum of squared differences / (n * (n * n - 1)); here 1 - 6 * 4 / 60."""
    result = spearman(np.array([10.0, 20.0, 30.0, 40.0]), np.array(predicted, float))
    assert result == pytest.approx(correlation, nan_ok=True)


def test_pairs_near_each_other_do_not_count():
    times, predicted = np.array([1.0, 1.1, 2.0]), np.array([5.0, 4.0, 4.5])
    # of 1 and 2, 1.1 and 2: the second is right
    assert pairs_right(times, predicted, ["a", "a", "b"]) == (1.0, 2)


def test_pairs_of_one_language_are_left_out_if_asked():
    times, predicted = np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 2.0])
    assert pairs_right(times, predicted, ["a", "a", "b"]) == (2.5, 3)
    assert pairs_right(times, predicted, ["a", "a", "b"], apart=True) == (1.5, 2)


def test_pairs_are_of_one_problem_and_unknown_times_are_counted_apart():
    times = np.array([1.0, 2.0, 4.0, 100.0, 300.0])
    predicted = np.array([1.9, 4.0, math.nan, 250.0, 301.0])
    results = figures(times, predicted, list("ppppq"), list("abaab"), apart=False)
    assert (results.configurations, results.unknown) == (4, 1)
    assert results.within == 0.75  # 1.9, 2.0 and 1.003 times; not 2.5
    assert (results.right, results.pairs) == (1.0, 3)
    assert results.rank == pytest.approx(1.0)  # of p: q has one


def test_a_figure_that_is_unknown_misses_its_goal():
    reached = across_languages.Figures(0, 3, math.nan, 0.9, 0.9, 0.9, 0.9, 10)
    assert across_languages.shortfalls(reached) == 1


def test_seconds_are_counted_once_where_activities_are_inside_each_other():
    """A clock of given readings: 100 s in all, 30 of them compile, of which 12 are called in it."""
    readings = iter([0.0, 10.0, 20.0, 32.0, 40.0, 100.0])
    watch = across_languages.Stopwatch(lambda: next(readings))
    inner = watch.timed("compile", lambda: "binary")
    outer = watch.timed("compile", inner)
    assert watch.timed("facts", outer)() == "binary"
    assert watch.spent_s == {"compile": 30.0, "facts": 70.0}


def test_seconds_of_what_fails_are_counted():
    readings = iter([1.0, 4.0])
    watch = across_languages.Stopwatch(lambda: next(readings))
    with pytest.raises(ZeroDivisionError):
        watch.timed("compile", lambda: 1 / 0)()
    assert watch.spent_s == {"compile": 3.0}


def test_functions_are_timed_where_they_stand(monkeypatch):
    module = types.ModuleType("made_up_language")
    module.Compiler = type("Compiler", (), {"run": lambda _, text: text.upper()})
    monkeypatch.setitem(sys.modules, "made_up_language", module)
    readings = iter([2.0, 7.0])
    watch = across_languages.Stopwatch(lambda: next(readings))
    watch.replace("compile", "made_up_language:Compiler.run")
    watch.replace("compile", "a_language_that_is_not_loaded:run")
    watch.replace("compile", "made_up_language.not_there:run")
    assert module.Compiler().run("ptx") == "PTX"
    assert watch.spent_s == {"compile": 5.0}


@pytest.mark.parametrize(
    ("cost", "is_reached"),
    [
        ((0.1, 0.2, 0.7), True),  # 0.9 of 1 s
        ((0.1, 0.4, 0.7), False),  # 1.1 of 1 s
        ((1.0, 0.4, 1.5), True),  # 1.9 of 2 s
        ((1.0, 0.6, 1.5), False),  # 2.1 of 2 s
        ((0.1, 0.2, 0.7, "not installed"), False),
    ],
)
def test_facts_take_a_second_or_twice_the_compile(cost, is_reached):
    assert across_languages.Cost(*cost).is_reached is is_reached
