"""The language regressor on the splits; what trains is stood in for."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic

from solkit.errors import InputError
from solkit.surrogate.ensemble import RegressorSettings
from solkit.surrogate.evaluation.language import forecast_left_out, stack_forecasts
from solkit.surrogate.evaluation.splits import split_into_folds
from solkit.surrogate.trees import Forecasts, log2_target

MADE = synthetic.table(400)


class Knows:
    """A regressor that says what the rows it learned from take in the mean, plus the row's part."""

    def __init__(self, table):
        self.mean, self.families = log2_target(table).mean(), set(table.about["family"])

    def forecast(self, table, tell):
        del tell
        assert not self.families & set(table.about["family"])
        truth = np.where(table.values[:, 0] > 0, 1.0, 0.0)
        return type("Told", (), {"mean": 0.5 * self.mean + 0.5 * truth})


@pytest.fixture
def trained(monkeypatch):
    """How often something was trained."""
    results = []

    def train(_self, table, facts, checkpoint, tell):
        del facts, tell
        results.append(checkpoint)
        return Knows(table)

    monkeypatch.setattr(RegressorSettings, "train_regressor", train)
    return results


def test_each_row_is_forecast_by_one_that_does_not_know_its_family(trained):
    result = forecast_left_out(MADE, "families", RegressorSettings())
    assert not np.isnan(result).any()
    assert len(trained) == sum(len(fold.test) > 0 for fold in split_into_folds(MADE, "families"))


def test_finished_folds_are_not_trained_again(trained, tmp_path):
    folds = [n for n, fold in enumerate(split_into_folds(MADE, "families")) if len(fold.test)]
    some = forecast_left_out(
        MADE, "families", RegressorSettings(), folds=folds[:2], folder=tmp_path
    )
    assert np.isnan(some).any()
    assert len(trained) == 2
    whole = forecast_left_out(MADE, "families", RegressorSettings(), folder=tmp_path)
    assert len(trained) == len(folds)
    np.testing.assert_allclose(
        whole, forecast_left_out(MADE, "families", RegressorSettings()), rtol=1e-6
    )
    kept = forecast_left_out(MADE, "families", RegressorSettings(), folds=(), folder=tmp_path)
    np.testing.assert_allclose(kept, whole, rtol=1e-6)
    with pytest.raises(InputError, match=r"families-\d.npy is of another run"):
        forecast_left_out(MADE[np.arange(300)], "families", RegressorSettings(), folder=tmp_path)


def test_a_stack_is_better_than_either_and_never_saw_the_fold(trained):
    assert trained == []
    chance = np.random.default_rng(0)
    expected = log2_target(MADE)
    one, two = (expected + 0.5 * chance.normal(size=len(MADE)) for _ in range(2))
    both = stack_forecasts(MADE, "families", Forecasts.from_times(MADE.base_ms * 2.0**one), two)
    assert np.std(both - expected) < 0.9 * min(np.std(one - expected), np.std(two - expected))
    fold = next(fold for fold in split_into_folds(MADE, "families") if len(fold.test))
    other = two.copy()
    other[fold.test] = -other[fold.test]  # its own weights do not follow from it
    moved = stack_forecasts(MADE, "families", Forecasts.from_times(MADE.base_ms * 2.0**one), other)
    share = (both - moved)[fold.test] / (2 * two[fold.test])
    np.testing.assert_allclose(share, share[0], rtol=1e-6)


def test_rows_of_which_one_says_nothing_have_no_word(trained):
    assert trained == []
    half = np.where(np.arange(len(MADE)) < 200, np.nan, log2_target(MADE))
    both = stack_forecasts(MADE, "families", Forecasts.from_times(MADE.time_ms), half)
    assert np.isnan(both[:200]).all()
    assert not np.isnan(both[200:]).any()
