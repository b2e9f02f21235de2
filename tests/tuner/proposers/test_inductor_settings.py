"""Which programs of Inductor's are proposed for a reference."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from solkit.errors import InputError
from solkit.tuner.proposers.inductor_settings import CHOICES, InductorSettings

LAYOUT, TILES = "layout_optimization", "triton.prefer_nd_tiling"


def brief(source):
    return SimpleNamespace(source=source, result=None)


def proposer_of(*changing, broken=(), sms=132):
    """A proposer whose programs differ by these settings only, and what it compiled."""
    requests = []

    def compiled(settings):
        requests.append(dict(settings))
        if settings.keys() & set(broken):
            raise InputError("it cannot be lowered")
        return " ".join(sorted(settings.keys() & set(changing))) or "first"

    return InductorSettings("first", compiled, sms), requests


def test_each_decision_is_taken_the_other_way():
    names = [name for choice in CHOICES for name in choice.settings]
    proposer, requests = proposer_of(*names)
    proposals = list(proposer.propose(brief("first")))
    assert [proposal.kind for proposal in proposals] == [choice.kind for choice in CHOICES]
    assert len(requests) == len(CHOICES)
    assert all(proposal.intent.endswith(".") for proposal in proposals)


def test_what_changes_nothing_or_cannot_be_written_is_left_out():
    proposer, _ = proposer_of(LAYOUT, broken=[TILES])
    assert [proposal.source for proposal in proposer.propose(brief("first"))] == [LAYOUT]


def test_it_is_asked_again_without_compiling_again():
    proposer, requests = proposer_of(LAYOUT, broken=[TILES])
    first = list(proposer.propose(brief("first")))
    assert list(proposer.propose(brief("first"))) == first
    assert len(requests) == len(CHOICES)


def test_programs_that_wait_for_each_other_need_a_gpu_that_holds_them():
    names = [name for choice in CHOICES for name in choice.settings]
    proposer, _ = proposer_of(*names, sms=108)
    kinds = [proposal.kind for proposal in proposer.propose(brief("first"))]
    assert kinds == [choice.kind for choice in CHOICES if choice.kind != "cooperative reduction"]


def test_decisions_add_up():
    proposer, requests = proposer_of(LAYOUT, TILES)
    list(proposer.propose(brief("first")))
    requests.clear()
    (proposal,) = proposer.propose(brief(LAYOUT))
    assert proposal.source == f"{LAYOUT} {TILES}"
    assert all(request[LAYOUT] is False for request in requests)
    assert len(requests) == len(CHOICES) - 1


def test_it_has_nothing_to_say_of_files_that_others_wrote():
    proposer, request = proposer_of(LAYOUT)
    assert list(proposer.propose(brief("a rewrite"))) == []
    assert request == []


def test_settings_are_known_to_inductor():
    config = pytest.importorskip("torch._inductor.config")
    for choice in CHOICES:
        own = {name for name in choice.settings if name.startswith("solkit.")}
        for name in choice.settings.keys() - own:
            assert config.get_config_copy()[name] != choice.settings[name]


@pytest.mark.slow
def test_as_many_programs_wait_for_each_other_as_the_kernel_files_let_run():
    space = pytest.importorskip("solkit.adapters.inductor_space")
    assert max(choice.least_sms for choice in CHOICES) == space.PROCESSORS
