from __future__ import annotations

import math

import pytest
import torch

from solkit.kernelfiles import Workload
from solkit.measure.checking.trials import Trial, TrialCache, cache_bytes


def inputs(elements, value=0.0):
    return Workload((torch.full((elements,), value),), {}, reference=None, kernel=None)


def trial(name, elements=100, short=(), outputs=100):
    want = [torch.ones(outputs)]
    return Trial(name, 0, inputs(elements), want, None, is_short=name in short)


@pytest.fixture
def maker():
    def maker(*names, **options):
        def make(after=""):
            for name in names[names.index(after) + 1 if after else 0 :]:
                maker.drawn.append(name)
                yield trial(name, **options)

        return make

    maker.drawn = []
    return maker


def cannot_remake(trial):
    raise AssertionError(f"the inputs of {trial.name} were kept")


def names(cache, key, make, remake=cannot_remake):
    return [trial.name for trial in cache.cached_trials(key, make, remake)]


def test_trials_of_a_key_are_made_once(maker):
    cache = TrialCache()
    for _ in range(3):
        assert names(cache, "k", maker("a", "b")) == ["a", "b"]
    assert maker.drawn == ["a", "b"]
    assert names(cache, "other", maker("c")) == ["c"]


@pytest.mark.parametrize("requested", [1, 2])
def test_a_candidate_without_time_for_all_leaves_the_others_less_to_do(maker, requested):
    cache = TrialCache()
    begun = cache.cached_trials("k", maker("a", "b", "c"), cannot_remake)
    assert [next(begun).name for _ in range(requested)] == ["a", "b"][:requested]
    assert names(cache, "k", maker("a", "b", "c")) == ["a", "b", "c"]
    assert maker.drawn == ["a", "b", "c"]


def test_of_a_problem_that_is_too_large_the_first_that_fit_are_kept(maker):
    cache = TrialCache(most_bytes=900)  # outputs have 400 bytes, inputs as many
    for _ in range(2):
        got = list(cache.cached_trials("k", maker("a", "b", "c"), lambda _: inputs(100)))
        assert [item.name for item in got] == ["a", "b", "c"]
        assert all(len(item.workload.args) == 1 for item in got)
    assert maker.drawn == ["a", "b", "c", "c"]


@pytest.mark.parametrize(("most_bytes", "seen"), [(1300, "abc"), (900, "abcde")])
def test_one_without_much_time_goes_without_those_that_have_no_room(maker, most_bytes, seen):
    """With room for three outputs of 400 bytes it goes by these; two are too few."""
    cache, all_names = TrialCache(most_bytes), tuple("abcde")
    for _ in range(2):
        first = cache.cached_trials("k", maker(*all_names), lambda _: inputs(100), is_hasty=True)
        got = "".join(item.name for item in first)
    assert got == seen
    patient = cache.cached_trials("k", maker(*all_names), lambda _: inputs(100))
    assert "".join(item.name for item in patient) == "abcde"


def test_a_problem_whose_first_outputs_are_too_large_is_not_kept(maker):
    cache = TrialCache(most_bytes=300)
    for _ in range(2):
        assert names(cache, "k", maker("a", "b")) == ["a", "b"]
    assert maker.drawn == ["a", "b", "a", "b"]


@pytest.mark.parametrize("elements", [1000, 150])  # too large from the first, from the second on
def test_of_large_inputs_the_outputs_are_kept(maker, elements):
    cache = TrialCache(most_bytes=1100)
    make = maker("a", "b", elements=elements)
    remade = []

    def remake(trial):
        assert not trial.workload.args
        remade.append(trial.name)
        return inputs(elements)

    for _ in range(3):
        trials = list(cache.cached_trials("k", make, remake))
        assert [trial.name for trial in trials] == ["a", "b"]
        assert all(len(trial.workload.args[0]) == elements for trial in trials)
        assert all(torch.equal(trial.want[0], torch.ones(100)) for trial in trials)
    assert maker.drawn == ["a", "b"]
    assert remade == ["a", "b"] * 2


def test_inputs_that_come_out_otherwise_are_given_up_with_their_outputs(maker):
    cache = TrialCache(most_bytes=1100)
    make = maker("a", "b", elements=1000)
    assert names(cache, "k", make) == ["a", "b"]

    def remake(trial):
        return inputs(1000, 1.0 if trial.name == "b" else 0.0)

    trials = list(cache.cached_trials("k", make, remake))
    assert [trial.name for trial in trials] == ["a", "b"]
    assert float(trials[1].workload.args[0].sum()) == 0.0, "made anew, with outputs"
    assert maker.drawn == ["a", "b"] * 2


def test_trials_that_memory_was_short_for_are_made_again(maker):
    cache = TrialCache()
    for _ in range(2):
        assert names(cache, "k", maker("a", "b", "c", short={"b"})) == ["a", "b", "c"]
    for _ in range(2):
        assert names(cache, "k", maker("a", "b")) == ["a", "b"]
    assert maker.drawn == ["a", "b", "c", "b", "c", "b"]


def test_what_was_not_asked_for_longest_makes_room(maker):
    cache = TrialCache(most_bytes=1700)
    for key in ("x", "y", "x", "z", "x", "y"):
        names(cache, key, maker(key))
    assert maker.drawn == ["x", "y", "z", "y"]


def test_a_reference_that_fails_keeps_what_went_before(maker):
    def failing(after):
        if not after:
            yield trial("a")
        raise ValueError

    cache = TrialCache()
    for _ in range(2):
        with pytest.raises(ValueError):  # noqa: PT011
            names(cache, "k", failing)
    assert names(cache, "k", maker("a", "b")) == ["a", "b"]
    assert maker.drawn == ["b"]


def test_an_eighth_of_a_gpus_memory_is_for_trials_and_a_gigabyte_elsewhere():
    assert cache_bytes(144e9) == 18e9
    assert cache_bytes(8e9) == cache_bytes(math.inf) == 1 << 30
