"""What candidates cost: learned, stored, and what the cascade makes of it."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("xgboost")
pytest.importorskip("polars")

import polars as pl
from synthetic import CARD, QUICK, table

from solkit.core import Depth
from solkit.surrogate.costs import CostModel, Costs, cost_fields_at, costs_of_rows, evaluate_costs
from solkit.surrogate.model import Surrogate

MADE, ASKED = table(800), table(400, seed=1)


def spent(results):
    """Compiling takes four times as long where one feature is high; measuring, always as long."""
    random = np.random.default_rng(3)
    compile_s = np.where(results.values[:, 1] > 0, 0.8, 0.2) * 2 ** (
        0.1 * random.normal(size=len(results))
    )
    return Costs(compile_s, np.full(len(results), 0.05))


MODEL = CostModel.fit(MADE, spent(MADE))


def test_costs_are_learned():
    reported_costs, true = MODEL.costs(ASKED), spent(ASKED)
    assert np.median(np.abs(np.log2(reported_costs.compile_s / true.compile_s))) < 0.15
    np.testing.assert_allclose(reported_costs.gpu_s, 0.05, rtol=0.01)
    assert MODEL.parts["compile_s"].typical_s == pytest.approx(np.median(spent(MADE).compile_s))


def test_what_few_rows_tell_of_is_not_learned():
    few = Costs(spent(MADE).compile_s, np.where(np.arange(800) < 150, 0.05, np.nan))
    model = CostModel.fit(MADE, few)
    assert list(model.parts) == ["compile_s"]
    assert np.isnan(model.costs(ASKED).gpu_s).all()


def test_the_card_compares_with_a_constant():
    result = evaluate_costs(MADE, spent(MADE), cost_fields_at(Depth.LOWERED))["compile_s"]
    assert result["rows"] == 800
    assert result["error_median"] < 0.2 < result["error_of_a_constant"]
    assert result["spearman"] > 0.7
    assert list(evaluate_costs(MADE, spent(MADE), cost_fields_at(Depth.COMPILED))) == ["gpu_s"]


@pytest.mark.slow
def test_a_file_keeps_them_and_an_older_one_has_none(tmp_path):
    trees = Surrogate.fit(dict.fromkeys(Depth, MADE), CARD, QUICK)
    trees.save(tmp_path / "old.solkit")
    assert np.isnan(Surrogate.load(tmp_path / "old.solkit").costs(ASKED, Depth.LOWERED).gpu_s).all()
    Surrogate(CARD, {}, trees.trees, lambda _: MODEL).save(tmp_path / "new.solkit")
    again = Surrogate.load(tmp_path / "new.solkit")
    reported_costs = again.costs(ASKED, Depth.LOWERED)
    np.testing.assert_allclose(reported_costs.compile_s, MODEL.costs(ASKED).compile_s, rtol=1e-3)
    assert again.cost_model(Depth.LOWERED).parts["gpu_s"].typical_s == pytest.approx(0.05)
    with zipfile.ZipFile(tmp_path / "new.solkit") as file:
        assert json.loads(file.read("card.json")) == CARD
    again = again.update(ASKED, Depth.LOWERED)  # what is learned on the job keeps the costs
    np.testing.assert_array_equal(
        again.costs(ASKED, Depth.LOWERED).compile_s, reported_costs.compile_s
    )


@dataclass
class Rows:
    """A store of a few rows."""

    rows: dict

    def scan(self):
        return pl.DataFrame(self.rows).lazy()


def test_seconds_are_medians_of_repeats_and_a_cache_does_not_count():
    about = {name: [str(MADE.about[name][0])] * 4 for name in ("kernel_id", "problem_id", "params")}
    seconds = {"compile_s": [0.2, 0.4, 0.0, 9.0], "gpu_s": [None, None, None, 0.5]}
    verdicts = ["correct", "correct", "correct", "wrong"]
    rows = {**about, "device": ["h100-sxm"] * 4, "verdict": verdicts, **seconds}
    costs = costs_of_rows([Rows(rows)], MADE[np.array([0, 1])])
    np.testing.assert_allclose(costs.compile_s, [0.3, np.nan])
    assert np.isnan(costs.gpu_s).all()
