"""Checks against cheating: replaced functions, work left running, delegated work."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """Something about a candidate that a reader of its time should know."""

    trick: str  # its name in a few words, e.g. ``"patched function"``
    evidence: str  # one sentence: what was seen, and where
    # whether no honest kernel does this, so the verdict is ``cheating``; otherwise it is only
    # reported
    is_proof: bool
