"""The language regressor on the splits; what trains is stood in for."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic

from solkit.errors import InputError
from solkit.surrogate.ensemble import Reading
from solkit.surrogate.evaluation import language
from solkit.surrogate.evaluation.language import left_out, stacked
from solkit.surrogate.evaluation.splits import folds_of
from solkit.surrogate.trees import Forecasts, target

MADE = synthetic.table(400)


class Knows:
    """A regressor that says what the rows it learned from take in the mean, plus the row's part."""

    def __init__(self, table):
        self.mean, self.families = target(table).mean(), set(table.about["family"])

    def forecast(self, table, tell):
        del tell
        assert not self.families & set(table.about["family"])
        truth = np.where(table.values[:, 0] > 0, 1.0, 0.0)
        return type("Told", (), {"mean": 0.5 * self.mean + 0.5 * truth})


@pytest.fixture
def trained(monkeypatch):
    """How often something was trained."""
    found = []

    def train(_self, table, facts, checkpoint, tell):
        del facts, tell
        found.append(checkpoint)
        return Knows(table)

    monkeypatch.setattr(Reading, "trained", train)
    return found


def test_each_row_is_forecast_by_one_that_does_not_know_its_family(trained):
    told = left_out(MADE, "families", Reading())
    assert not np.isnan(told).any()
    assert len(trained) == sum(len(fold.test) > 0 for fold in folds_of(MADE, "families"))


def test_finished_folds_are_not_trained_again(trained, tmp_path):
    folds = [n for n, fold in enumerate(folds_of(MADE, "families")) if len(fold.test)]
    some = left_out(MADE, "families", Reading(), folds=folds[:2], folder=tmp_path)
    assert np.isnan(some).any()
    assert len(trained) == 2
    whole = left_out(MADE, "families", Reading(), folder=tmp_path)
    assert len(trained) == len(folds)
    np.testing.assert_allclose(whole, left_out(MADE, "families", Reading()), rtol=1e-6)
    kept = language.folds_kept(MADE, "families", tmp_path)
    np.testing.assert_allclose(kept, whole, rtol=1e-6)
    with pytest.raises(InputError, match=r"families-\d.npy is of another run"):
        left_out(MADE[np.arange(300)], "families", Reading(), folder=tmp_path)


def test_a_stack_is_better_than_either_and_never_saw_the_fold(trained):
    assert trained == []
    chance = np.random.default_rng(0)
    wanted = target(MADE)
    one, two = (wanted + 0.5 * chance.normal(size=len(MADE)) for _ in range(2))
    both = stacked(MADE, "families", Forecasts.of(MADE.base_ms * 2.0**one), two)
    assert np.std(both - wanted) < 0.9 * min(np.std(one - wanted), np.std(two - wanted))
    fold = next(fold for fold in folds_of(MADE, "families") if len(fold.test))
    other = two.copy()
    other[fold.test] = -other[fold.test]  # its own weights do not follow from it
    moved = stacked(MADE, "families", Forecasts.of(MADE.base_ms * 2.0**one), other)
    share = (both - moved)[fold.test] / (2 * two[fold.test])
    np.testing.assert_allclose(share, share[0], rtol=1e-6)


def test_rows_of_which_one_says_nothing_have_no_word(trained):
    assert trained == []
    half = np.where(np.arange(len(MADE)) < 200, np.nan, target(MADE))
    both = stacked(MADE, "families", Forecasts.of(MADE.time_ms), half)
    assert np.isnan(both[:200]).all()
    assert not np.isnan(both[200:]).any()
