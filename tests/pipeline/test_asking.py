from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import solkit
from solkit.core import Depth
from solkit.surrogate.model import Surrogate
from solkit.surrogate.plan import Action
from solkit.surrogate.ranking import RankSettings
from solkit.surrogate.trees import Forecasts

SOFTMAX = str(Path(__file__).parents[2] / "examples" / "softmax.py")


@dataclass(frozen=True)
class Learner(Surrogate):
    """Expects the mean of the told times per warp; keeps what it was told."""

    per_warp_ms: float = 1.0

    def update(self, table, depth, stale=0.0):  # noqa: ARG002 - the surrogate's
        told = ~np.isnan(table.time_ms)
        self.card["told"].append((depth, sorted(table.time_ms[told])))
        warps = 2.0 ** table.column("geometry.warps")[told]
        return Learner(self.card, per_warp_ms=float(np.mean(table.time_ms[told] / warps)))

    def forecast(self, table, depth):  # noqa: ARG002 - the surrogate's
        return Forecasts.of(self.per_warp_ms * 2.0 ** table.column("geometry.warps"))

    def number(self, forecasts, depth):  # noqa: ARG002 - the surrogate's
        return len(forecasts.time_ms)

    def explain(self, table, depth, most=6):  # noqa: ARG002 - the surrogate's
        return [[] for _ in range(len(table))]


@pytest.mark.parametrize("shape", [None, {"M": 512}])
def test_a_loop_asks_and_tells(shape):
    model = Learner({"told": [], "depths": ["captured"]})
    asked = solkit.ask_tell(
        SOFTMAX,
        device="h100",
        budget=2,
        shape=shape,
        surrogate=model,
        settings=RankSettings(depth=Depth.CAPTURED),
    )
    assert asked.plan.shape["M"] == (512 if shape else 16384)
    first = asked.ask(2)
    assert [each.action for each in first] == [Action.MEASURE] * 2
    warps = [each.configuration.params["num_warps"] for each in first]
    for each, number in zip(first, warps, strict=True):
        asked.tell(each.configuration, 0.5 * number)
    (third,) = asked.ask()
    assert model.card["told"] == [(Depth.CAPTURED, sorted(0.5 * each for each in warps))]
    assert third.forecast.time_ms == pytest.approx(0.5 * third.configuration.params["num_warps"])
    assert asked.best[1] == 0.5 * min(warps)
