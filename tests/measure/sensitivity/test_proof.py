"""Random problems with kernels that skip all they may: no hard bound is above what they touch.

`bench/fuzz_needs.py` tries thousands.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # conftest.py is all that pytest can import here

import proof
import pytest
import skipping

PROBLEMS, SAMPLES = 16, 16


@pytest.fixture(scope="module")
def examined():
    return list(proof.examine([skipping.problem(seed) for seed in range(PROBLEMS)], SAMPLES))


@pytest.mark.slow
def test_no_hard_bound_is_above_what_a_skipper_touches(examined):
    assert [item.error for item in examined if item.error] == []
    assert [item for item in examined if item.is_unsound] == []


def test_the_problems_have_something_to_skip_and_something_to_read(examined):
    """Or nothing would be shown."""
    assert sum(0 < item.touched < item.total for item in examined) > PROBLEMS // 4
    assert sum(item.read > 0 for item in examined) > PROBLEMS // 4


def test_a_change_that_breaks_a_relation_is_noticed(monkeypatch):
    """The proof fails where relations are not kept: it can tell."""
    monkeypatch.setattr("solkit.measure.sensitivity.changes.Changes._related_elements", alone)
    kinds = [seed for seed in range(300) if "symmetric(R" in skipping.problem(seed).source][:3]
    broken = list(proof.examine([skipping.problem(seed) for seed in kinds], SAMPLES))
    assert [item.error for item in broken if item.error] == []
    assert any(item.is_unsound for item in broken)


def alone(*_):
    return None, 1.0


@pytest.mark.slow
def test_dense_problems_keep_nine_tenths():
    kept = list(proof.dense([*skipping.WHOLE][::3], samples=256))
    assert [item.error for item in kept if item.error] == []
    assert [item for item in kept if item.read < 0.9 * item.static] == []
    assert [item for item in kept if item.flops < 0.9 * item.multiplied] == []
