"""Weights of several models' forecasts."""

from __future__ import annotations

import numpy as np
import pytest

from solkit.errors import InputError
from solkit.surrogate.ensemble import Stack

CHANCE = np.random.default_rng(0)
TRUTH = CHANCE.normal(size=2000)


def off_by(spread, seed):
    return TRUTH + spread * np.random.default_rng(seed).normal(size=len(TRUTH))


def test_members_count_by_what_they_are_worth():
    fields = {"trees": off_by(0.3, 1), "language": off_by(0.6, 2)}
    stack = Stack.fit(TRUTH, fields)
    # independent errors: weights as 1 / variance, 1 / 0.09 and 1 / 0.36 beside the truth's own 1
    total = 1 / 0.09 + 1 / 0.36 + 1
    assert stack.weights["trees"] == pytest.approx(1 / 0.09 / total, abs=0.03)
    assert stack.weights["language"] == pytest.approx(1 / 0.36 / total, abs=0.03)
    error = np.std(stack.mean(fields) - TRUTH)
    assert error < 0.29  # less than the best member's


def test_a_member_that_is_worse_than_nothing_does_not_count():
    fields = {"trees": off_by(0.2, 1), "language": -TRUTH}
    assert Stack.fit(TRUTH, fields).weights["language"] == 0


def test_rows_that_a_member_cannot_tell_do_not_count():
    broken = off_by(0.1, 1)
    broken[:1000] = np.nan
    wrong = np.where(np.arange(2000) < 1000, -5.0, TRUTH)
    assert Stack.fit(TRUTH, {"a": broken, "b": wrong}).weights["b"] > 0.9
    with pytest.raises(InputError, match="no row was forecast by all of a, b"):
        Stack.fit(TRUTH, {"a": broken, "b": np.full(2000, np.nan)})


def test_rows_count_by_their_weight():
    half = np.where(np.arange(2000) < 1000, TRUTH, 0.0)
    other = np.where(np.arange(2000) < 1000, 0.0, TRUTH)
    first = np.where(np.arange(2000) < 1000, 1.0, 0.0)
    results = Stack.fit(TRUTH, {"half": half}, first), Stack.fit(TRUTH, {"half": half}, 1 - first)
    assert [result.weights["half"] for result in results] == [pytest.approx(1), 0]
    assert Stack.fit(TRUTH, {"a": half, "b": other}).weights == pytest.approx({"a": 1, "b": 1})
