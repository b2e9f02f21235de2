"""Recordings made up for tests: a small space with every kind of outcome."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from solkit.core import Outcome, Verdict
from solkit.datasets.identifiers import problem_id

BEGUN = datetime(2026, 11, 1, tzinfo=timezone.utc)


def outcome(number, **fields):
    """One that costs a core 2 s and the GPU 0.5 s, of a kernel ``softmax/rows`` at M=64."""
    shape = fields.pop("shape", {"M": 64, "N": 32})
    values = {
        "kernel_id": "k" * 16,
        "family": "softmax",
        "kind": "norm",
        "origin": "file",
        "problem_id": problem_id("softmax", shape),
        "device": "h100-sxm",
        "params": {"BLOCK": number},
        "verdict": Verdict.CORRECT,
        "created": BEGUN + timedelta(seconds=number),
        "chosen_by": "random",
        "time_ms": 10.0,
        "low_ms": 9.0,
        "high_ms": 11.0,
        "samples_ms": (9.0, 10.0, 11.0),
        "warmup_calls": 2,
        "first_call_s": 0.45,
        "compile_s": 2.0,
        "run_id": "r",
        "sequence": number,
        "implementation": "softmax/rows",
        "entry_point": "kernel",
        "shape": shape,
    }
    return Outcome(**{**values, **fields})


def failed(number, verdict, **fields):
    """A failure."""
    never = {"time_ms": None, "low_ms": None, "high_ms": None, "samples_ms": (), "message": "no"}
    return replace(outcome(number), verdict=verdict, **never, **fields)


def recording():
    """Twelve configurations, four of which fail, at two shapes, the first of them three times."""
    rows = [outcome(n) for n in range(8)]
    rows += [failed(8, Verdict.DOES_NOT_COMPILE, first_call_s=None), failed(9, Verdict.WRONG)]
    rows += [outcome(n, shape={"M": 128, "N": 32}) for n in (10, 11)]
    return [*rows, outcome(0, created=BEGUN + timedelta(days=1), sequence=90, time_ms=8.0),
            outcome(0, created=BEGUN + timedelta(days=2), sequence=91, time_ms=7.0)]  # fmt: skip
