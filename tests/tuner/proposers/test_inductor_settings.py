"""Which programs of Inductor's are proposed for a reference."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from solkit.errors import InputError
from solkit.tuner.proposers.inductor_settings import CHOICES, InductorSettings

LAYOUT, TILES = "layout_optimization", "triton.prefer_nd_tiling"


def brief(source):
    return SimpleNamespace(source=source)


def made(*changing, broken=(), sms=132):
    """A proposer whose programs differ by these settings only, and what it compiled."""
    asked = []

    def compiled(settings):
        asked.append(dict(settings))
        if settings.keys() & set(broken):
            raise InputError("it cannot be lowered")
        return " ".join(sorted(settings.keys() & set(changing))) or "first"

    return InductorSettings("first", compiled, sms), asked


def test_each_decision_is_taken_the_other_way():
    names = [name for each in CHOICES for name in each.settings]
    proposer, asked = made(*names)
    found = list(proposer.propose(brief("first")))
    assert [each.kind for each in found] == [each.kind for each in CHOICES]
    assert len(asked) == len(CHOICES)
    assert all(each.intent.endswith(".") for each in found)


def test_what_changes_nothing_or_cannot_be_written_is_left_out():
    proposer, _ = made(LAYOUT, broken=[TILES])
    assert [each.source for each in proposer.propose(brief("first"))] == [LAYOUT]


def test_it_is_asked_again_without_compiling_again():
    proposer, asked = made(LAYOUT, broken=[TILES])
    first = list(proposer.propose(brief("first")))
    assert list(proposer.propose(brief("first"))) == first
    assert len(asked) == len(CHOICES)


def test_programs_that_wait_for_each_other_need_a_gpu_that_holds_them():
    names = [name for each in CHOICES for name in each.settings]
    proposer, _ = made(*names, sms=108)
    found = [each.kind for each in proposer.propose(brief("first"))]
    assert found == [each.kind for each in CHOICES if each.kind != "cooperative reduction"]


def test_decisions_add_up():
    proposer, asked = made(LAYOUT, TILES)
    list(proposer.propose(brief("first")))
    asked.clear()
    (found,) = proposer.propose(brief(LAYOUT))
    assert found.source == f"{LAYOUT} {TILES}"
    assert all(each[LAYOUT] is False for each in asked)
    assert len(asked) == len(CHOICES) - 1


def test_it_has_nothing_to_say_of_files_that_others_wrote():
    proposer, asked = made(LAYOUT)
    assert list(proposer.propose(brief("a rewrite"))) == []
    assert asked == []


def test_settings_are_known_to_inductor():
    config = pytest.importorskip("torch._inductor.config")
    for each in CHOICES:
        for name, value in each.settings.items():
            assert config.get_config_copy()[name] != value


@pytest.mark.slow
def test_as_many_programs_wait_for_each_other_as_the_kernel_files_let_run():
    space = pytest.importorskip("solkit.adapters.inductor_space")
    assert max(each.least_sms for each in CHOICES) == space.PROCESSORS
