from __future__ import annotations

import pytest
import torch

from solkit.kernelfiles import Workload
from solkit.measure.checking.trials import Trial, TrialCache


def trial(name, elements=100, short=()):
    x = torch.zeros(elements)
    workload = Workload((x,), {}, reference=None, kernel=None)
    return Trial(name, 0, workload, [x + 1], None, is_short=name in short)


@pytest.fixture
def maker():
    def maker(*names, **options):
        def make():
            for name in names:
                maker.made.append(name)
                yield trial(name, **options)

        return make

    maker.made = []
    return maker


def names(cache, key, make):
    return [trial.name for trial in cache.cached_trials(key, make)]


def test_trials_of_a_key_are_made_once(maker):
    cache = TrialCache()
    for _ in range(3):
        assert names(cache, "k", maker("a", "b")) == ["a", "b"]
    assert maker.made == ["a", "b"]
    assert names(cache, "other", maker("c")) == ["c"]


def test_those_that_were_not_all_asked_for_are_made_again(maker):
    cache = TrialCache()
    next(cache.cached_trials("k", maker("a", "b")))
    assert names(cache, "k", maker("a", "b")) == ["a", "b"]
    assert maker.made == ["a", "a", "b"]


def test_a_problem_that_is_too_large_is_not_kept(maker):
    cache = TrialCache(most_bytes=1500)  # a trial has 800: 100 elements of 4 bytes, twice
    for _ in range(2):
        assert names(cache, "k", maker("a", "b")) == ["a", "b"]
    assert maker.made == ["a", "b", "a", "b"]


def test_trials_that_memory_was_short_for_are_made_again(maker):
    cache = TrialCache()
    for _ in range(2):
        assert names(cache, "k", maker("a", "b", "c", short={"b"})) == ["a", "b", "c"]
    names(cache, "k", maker("a", "b"))
    names(cache, "k", maker("a", "b"))
    assert maker.made == ["a", "b", "c"] * 2 + ["a", "b"]


def test_what_was_not_asked_for_longest_makes_room(maker):
    cache = TrialCache(most_bytes=1700)
    for key in ("x", "y", "x", "z", "x", "y"):
        names(cache, key, maker(key))
    assert maker.made == ["x", "y", "z", "y"]


def test_a_reference_that_fails_keeps_nothing(maker):
    def failing():
        yield trial("a")
        raise ValueError

    cache = TrialCache()
    with pytest.raises(ValueError):  # noqa: PT011
        names(cache, "k", failing)
    assert names(cache, "k", maker("b")) == ["b"]
