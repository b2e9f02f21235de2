"""Trees that are read from a model's file, compared with XGBoost's own forecasts."""

from __future__ import annotations

import json

import numpy as np
import pytest

from solkit.surrogate.stored_trees import StoredTrees, parse_ubjson
from solkit.surrogate.trees import BoostedTrees

xgboost = pytest.importorskip("xgboost")


@pytest.fixture(scope="module")
def grown():
    chance = np.random.default_rng(0)
    values = chance.normal(size=(500, 6)).astype(np.float32)
    values[chance.random(values.shape) < 0.2] = np.nan
    targets = np.nan_to_num(values[:, 0] * values[:, 1]) + 3.0
    options = {"max_depth": 0, "max_leaves": 16, "grow_policy": "lossguide", "nthread": 1}
    options |= {"tree_method": "hist", "seed": 0}
    booster = xgboost.train(options, xgboost.QuantileDMatrix(values, targets), 30)
    return booster, values


def test_forecasts_and_leaves_are_xgboosts_bit_by_bit(grown):
    booster, values = grown
    trees = StoredTrees.parse(bytes(booster.save_raw("ubj")))
    edges = np.where(np.isnan(values), np.inf, values)[:50]
    for rows in (values, values[:1], values[:0], edges, -edges):
        np.testing.assert_array_equal(trees.predict(rows), booster.inplace_predict(rows))
    expected = booster.predict(xgboost.DMatrix(values), pred_leaf=True)
    np.testing.assert_array_equal(trees.leaves(values), expected)


def test_few_rows_need_no_xgboost_and_many_get_it(grown):
    booster, values = grown
    trees = BoostedTrees(content=bytes(booster.save_raw("ubj")))
    for _ in range(2):
        np.testing.assert_array_equal(trees.predict(values), booster.inplace_predict(values))
    assert "booster" not in vars(trees)
    np.testing.assert_array_equal(trees.predict(values[:1]), booster.inplace_predict(values[:1]))
    assert "booster" in vars(trees)  # a thousand rows were forecast before


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{U\x01ai\x05}", b"nothing of the kind"])
def test_what_is_no_model_is_refused(content):
    with pytest.raises(ValueError, match=r"no model of XGBoost's|unknown marker"):
        StoredTrees.parse(content)


def test_all_forms_of_numbers_and_arrays_are_read():
    text = b"{i\x01aTi\x01b[i\xffU\xffI\x01\x00]"
    text += b"i\x01c[$l#i\x02" + b"\0\0\0\x07" * 2
    text += b"i\x01dSi\x02xyi\x01e[#i\x01Zi\x01fd\x3f\x80\0\0}"
    read = parse_ubjson(text)
    read["c"] = read["c"].tolist()
    expected = {"a": True, "b": [-1, 255, 256], "c": [7, 7], "d": "xy", "e": [None], "f": 1.0}
    assert json.dumps(read) == json.dumps(expected)
