"""Small recordings for the tuner's tests: a space whose times follow from a formula."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import numpy as np

from solkit.core import Outcome, Verdict
from solkit.datasets.identifiers import problem_id

BEGUN = datetime(2026, 11, 1, tzinfo=timezone.utc)
BLOCKS, WARPS, STAGES = (16, 32, 64, 128, 256), (1, 2, 4, 8), (1, 2, 3)
SHAPE = {"M": 64, "N": 32}
SOL_MS = 0.5
DEFAULT = {"BLOCK": 16, "num_warps": 1, "num_stages": 1}
BEST = {"BLOCK": 128, "num_warps": 4, "num_stages": 3}


def true_ms(params):
    """1 ms at the best; the more steps away, the slower."""
    away = abs(np.log2(params["BLOCK"] / 128)) + abs(np.log2(params["num_warps"] / 4))
    return float(2.0 ** (0.3 * away) * (1 + 0.05 * (3 - params["num_stages"])))


def fails(params):
    """Where shared memory would not suffice."""
    return params["BLOCK"] * params["num_stages"] > 600


def points():
    """All of the space."""
    for block, warps, stages in itertools.product(BLOCKS, WARPS, STAGES):
        yield {"BLOCK": block, "num_warps": warps, "num_stages": stages}


def row(number, params, time_ms, chance, **fields):
    """A correct outcome: nine samples around its time; 2 s of a core and 0.1 s of the GPU."""
    samples = tuple(float(time_ms * (1 + 0.005 * chance.standard_normal())) for _ in range(9))
    ordered = sorted(samples)
    values = {
        "kernel_id": "k" * 16,
        "family": "softmax",
        "kind": "norm",
        "origin": "file",
        "problem_id": problem_id("softmax", SHAPE),
        "device": "h100-sxm",
        "params": params,
        "verdict": Verdict.CORRECT,
        "created": BEGUN + timedelta(seconds=number),
        "chosen_by": "default" if params == DEFAULT else "exhaustive",
        "time_ms": ordered[4],
        "low_ms": ordered[1],
        "high_ms": ordered[7],
        "samples_ms": samples,
        "method": "cupti",
        "bound_ms": SOL_MS,
        "compile_s": 2.0,
        "gpu_s": 0.1,
        "run_id": "r",
        "sequence": number,
        "implementation": "softmax/rows",
        "entry_point": "kernel",
        "shape": SHAPE,
    }
    return Outcome(**{**values, **fields})


def failed(outcome: Outcome, verdict=Verdict.DOES_NOT_COMPILE) -> Outcome:
    """The same configuration, but it failed."""
    return replace(outcome, verdict=verdict, time_ms=None, low_ms=None, high_ms=None, samples_ms=(),
                   message="too much shared memory")  # fmt: skip


def recording(time_of=true_ms, repeats=2, seed=0, wrong=fails):
    """Each point measured `repeats` times; those of `wrong` fail."""
    chance, rows = np.random.default_rng(seed), []
    for _ in range(repeats):
        for params in points():
            new_row = row(len(rows), params, time_of(params), chance)
            rows.append(failed(new_row) if wrong(params) else new_row)
    return rows
