"""Kinds of rewrite that paid are tried more often."""

from __future__ import annotations

from collections import Counter

from solkit.core import Proposal
from solkit.tuner.evolution import Bandit


def proposals(*kinds):
    return [Proposal(f"{kind} {number}", kind, "") for number, kind in enumerate(kinds)]


def test_what_paid_is_chosen_more_often_than_what_failed():
    bandit = Bandit(seed=4)
    for _ in range(12):
        bandit.tell("pays", 2.0)
        bandit.tell("fails", None)
    chosen = Counter(
        item.kind for _ in range(50) for item in bandit.chosen(proposals("fails", "pays"), 1)
    )
    assert chosen["pays"] >= 48


def test_nothing_is_ruled_out_for_good():
    bandit = Bandit(seed=0)
    bandit.tell("fails", None)
    bandit.tell("pays", 2.0)
    chosen = {item.kind for _ in range(60) for item in bandit.chosen(proposals("fails", "pays"), 1)}
    assert chosen == {"fails", "pays"}


def test_those_chosen_stay_in_their_order():
    reported_proposals = proposals(*"abcdefgh")
    chosen = Bandit(seed=2).chosen(reported_proposals, 4)
    assert len(chosen) == 4
    assert [reported_proposals.index(choice) for choice in chosen] == sorted(
        reported_proposals.index(choice) for choice in chosen
    )


def test_what_a_proposer_puts_first_is_chosen_more_often():
    bandit = Bandit(seed=5)
    chosen = Counter(
        item.kind for _ in range(300) for item in bandit.chosen(proposals(*map(str, range(20))), 5)
    )
    assert chosen["0"] > 2 * chosen["19"]
