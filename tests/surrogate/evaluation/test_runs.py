"""Evaluation on several processes gives what one process gives."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("xgboost")

from synthetic import QUICK, forecast_left_out, inline_pool, on_both, table

from solkit.errors import InputError
from solkit.surrogate.evaluation import evaluate
from solkit.surrogate.evaluation.evaluate import (
    UPDATED,
    EvaluationRequest,
    forecast_splits,
)
from solkit.surrogate.evaluation.forecasters import (
    BASELINES,
    OnTrees,
    forecast_by_kernel_model,
)
from solkit.surrogate.trees import expect_out_of_family

MADE = table(300)


@pytest.mark.slow
def test_processes_change_nothing():
    request = EvaluationRequest(["kinds", "families"], points=5, settings=QUICK, processes=2)
    splits = forecast_splits(MADE, request)
    assert list(splits[""]) == ["kinds", "families"]
    assert next(iter(splits)) == ""
    ours = OnTrees(QUICK, 0, expect_out_of_family(MADE, QUICK))
    for split, result in splits[""].items():
        here = forecast_left_out(MADE, split, ours)
        assert np.array_equal(result.time_ms, here.time_ms)
        assert np.array_equal(result.low_ms, here.low_ms)
    same = splits["kernel_model"]["families"].time_ms
    assert np.array_equal(
        same, forecast_left_out(MADE, "families", forecast_by_kernel_model).time_ms
    )
    assert np.isnan(splits[UPDATED]["families"].time_ms).sum() == 5 * 8  # of eight families


@pytest.mark.slow
def test_transfer_is_beside_the_lookup(monkeypatch):
    monkeypatch.setattr(evaluate, "process_pool", inline_pool)
    monkeypatch.setitem(BASELINES, "knobs", forecast_by_kernel_model)  # it trains for seconds
    splits = forecast_splits(
        on_both(table(80)), EvaluationRequest(["transfer"], settings=QUICK, processes=1)
    )
    assert {"", "lookup", "kernel_model", "knobs"} <= set(splits)
    without = EvaluationRequest(["transfer"], baselines=False, settings=QUICK, processes=1)
    assert list(forecast_splits(on_both(table(80)), without)) == [""]


def test_an_unknown_split_is_named():
    with pytest.raises(InputError, match=r"'months' is no split: choose one of configurations"):
        forecast_splits(MADE, EvaluationRequest(["months"]))
