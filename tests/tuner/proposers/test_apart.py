"""A proposer in a process of its own gives what it gives in this one."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from solkit.core import Brief, Proposal
from solkit.errors import UnsupportedError, WorkerError
from solkit.roofline.devices import find
from solkit.tuner.proposers.apart import Apart


class Counting:
    """Gives its process and a number; then it fails, dies or ends."""

    name = "counting"

    def __init__(self, end=""):
        self.end = end

    def propose(self, brief):
        for number in range(2):
            yield Proposal(f"{brief.source} {number}", "count", str(os.getpid()))
        if self.end == "fails":
            raise UnsupportedError("no key")
        if self.end == "has a fault":
            raise KeyError("axis")
        if self.end == "dies":
            os._exit(1)


@pytest.fixture(scope="module")
def brief():
    return Brief("source", "k.py", find("h100"), {"M": 3}, None)


@pytest.fixture(scope="module")
def apart():
    first = Apart(Counting())

    def make(end=""):
        own = Apart(Counting(end))
        own._server = first._server  # which takes a second to start
        return own

    yield make
    first.close()


def test_variants_come_from_a_process_of_their_own(apart, brief):
    proposals = list(apart().propose(brief))
    assert [proposal.source for proposal in proposals] == ["source 0", "source 1"]
    (pid,) = {int(proposal.intent) for proposal in proposals}
    assert pid != os.getpid()


@pytest.mark.parametrize(
    ("end", "error", "text"),
    [
        ("fails", UnsupportedError, "^no key$"),
        ("has a fault", WorkerError, "KeyError: 'axis'"),
        ("dies", WorkerError, "ended with exit code 1"),
    ],
)
def test_what_ends_a_proposer_is_raised_here_behind_what_it_gave(apart, brief, end, error, text):
    proposals = apart(end).propose(brief)
    assert [next(proposals).source for _ in range(2)] == ["source 0", "source 1"]
    with pytest.raises(error, match=text):
        next(proposals)


def test_a_proposer_runs_here_where_no_process_can_be_forked(apart, brief, monkeypatch):
    def refuse(*_, **__):
        raise WorkerError("no process")

    own = apart()
    monkeypatch.setattr(own, "_server", SimpleNamespace(fork=refuse))
    assert {int(proposal.intent) for proposal in own.propose(brief)} == {os.getpid()}


def test_what_is_left_before_its_end_ends_the_process(apart, brief):
    proposals = apart().propose(brief)
    pid = int(next(proposals).intent)
    proposals.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
