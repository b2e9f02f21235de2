"""Configurations of `cuda.tile.tune` are parameters; a search chooses by them and times nothing."""

from __future__ import annotations

import sys
from collections import namedtuple
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest

from solkit.adapters.cutile_configs import choose_config, cutile_tuner, restrict_cutile
from solkit.errors import ParamsError
from solkit.kernelfiles._source import space_of_tuners

Tiles = namedtuple("Tiles", "m n")


@dataclass(frozen=True)
class Sizes:
    m: int
    n: int


@pytest.mark.parametrize(
    "configs",
    [
        [SimpleNamespace(m=8, n=64), SimpleNamespace(m=16, n=64)],
        [{"m": 8, "n": 64}, {"m": 16, "n": 64}],
        [Sizes(8, 64), Sizes(16, 64)],
        [Tiles(8, 64), Tiles(16, 64)],
    ],
)
def test_the_names_in_a_configuration_are_parameters(configs):
    points = list(space_of_tuners([cutile_tuner(configs)]).points)
    assert points == [{"m": 8, "n": 64}, {"m": 16, "n": 64}]
    assert choose_config(configs, {}, "k") is configs[0]
    assert choose_config(configs, {"m": 16, "of_another": 1}, "k") is configs[1]
    with pytest.raises(ParamsError, match=r"tune on k has no configuration with .*9.*; it has: "):
        choose_config(configs, {"m": 9}, "k")


def test_values_without_names_are_numbered():
    assert list(space_of_tuners([cutile_tuner([4, 8])]).points) == [{"config": 4}, {"config": 8}]
    pairs = [(4, 64), (8, 64), (4, 64)]
    points = list(space_of_tuners([cutile_tuner(pairs)]).points)
    assert points == [{"config_0": 4, "config_1": 64}, {"config_0": 8, "config_1": 64}]
    assert choose_config(pairs, {"config_0": 8}, "k") == (8, 64)


@pytest.fixture
def user(monkeypatch):
    """A module that keeps the choice of a search, which here would time."""

    def exhaustive_search(*_, **__):
        raise AssertionError("timed")

    tune = ModuleType("cuda.tile.tune")
    tune.exhaustive_search = exhaustive_search
    tune.Measurement = tune.TuningResult = SimpleNamespace
    monkeypatch.setitem(sys.modules, "cuda.tile.tune", tune)
    module = ModuleType("solkit_tests_user")
    text = """
def run(size):
    if size not in kept:
        kept[size] = exhaustive_search([4, 8], None, None, run, None).best.config
    return kept[size]
"""
    module.__dict__.update(exhaustive_search=exhaustive_search, kept={})
    exec(text, module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_a_search_takes_what_the_parameters_name_although_an_earlier_choice_was_kept(user):
    for config in (8, 4):
        assert restrict_cutile([user], {"config": config}) == {"config"}
        assert [user.run(1), user.run(1)] == [config] * 2


def test_without_parameters_a_search_is_the_languages_own(user):
    restrict_cutile([user], {"config": 8})
    user.run(1)
    restrict_cutile([user], {})
    with pytest.raises(AssertionError, match="timed"):
        user.run(1)


def test_a_module_that_replaces_another_is_restricted_too(user, monkeypatch):
    search = user.exhaustive_search
    restrict_cutile([user], {"config": 8})
    again = ModuleType(user.__name__)
    again.exhaustive_search = search
    monkeypatch.setitem(sys.modules, again.__name__, again)  # as many modules as before
    assert restrict_cutile([again], {"config": 8}) == {"config"}
    assert again.exhaustive_search([4, 8], None, None, None, None).best.config == 8


def test_a_file_that_does_not_search_takes_no_parameters(user, monkeypatch):
    monkeypatch.delitem(sys.modules, user.__name__)
    assert restrict_cutile([ModuleType("other")], {"config": 8}) == set()
