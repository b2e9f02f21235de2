"""Ops that move, select, convert or invent data, and those that only ask or check."""

from __future__ import annotations

from solkit.roofline.work.costs._base import FREE, Cost, rule
from solkit.roofline.work.program import TracedOp


@rule("free")
def _move(op: TracedOp) -> Cost:
    """Count bytes, if any, and no arithmetic; how random numbers are made is not said."""
    del op
    return FREE
