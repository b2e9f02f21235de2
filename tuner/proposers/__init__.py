"""Proposers: what writes variants of a kernel file."""

from __future__ import annotations

from solkit.tuner.proposers._base import Proposer

__all__ = ["Proposer"]
