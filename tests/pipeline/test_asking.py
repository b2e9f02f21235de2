from __future__ import annotations

from pathlib import Path

import pytest

import solkit
from solkit.core import Depth
from solkit.surrogate.model import Surrogate
from solkit.surrogate.plan import Action
from solkit.surrogate.ranking import RankSettings
from solkit.surrogate.trees import Forecasts

SOFTMAX = str(Path(__file__).parents[2] / "examples" / "softmax.py")


class Believer(Surrogate):
    """Expects a millisecond a warp."""

    def forecast(self, table, depth):  # noqa: ARG002 - the surrogate's
        return Forecasts.from_times(2.0 ** table.column("geometry.warps"))

    def number(self, forecasts, depth):  # noqa: ARG002 - the surrogate's
        return len(forecasts.time_ms)

    def explain(self, table, depth, most=6):  # noqa: ARG002 - the surrogate's
        return [[] for _ in range(len(table))]


@pytest.mark.quick("shape1")
@pytest.mark.parametrize("shape", [None, {"M": 512}])
def test_a_loop_asks_and_tells(shape):
    model = Believer({"depths": ["captured"]})
    request = solkit.ask_tell(
        SOFTMAX,
        device="h100",
        budget=2,
        shape=shape,
        surrogate=model,
        settings=RankSettings(depth=Depth.CAPTURED),
    )
    assert request.plan.shape["M"] == (512 if shape else 16384)
    first = request.ask(2)
    assert [items.action for items in first] == [Action.MEASURE] * 2
    warps = [items.configuration.params["num_warps"] for items in first]
    for item, number in zip(first, warps, strict=True):
        request.tell(item.configuration, 0.5 * number)
    (third,) = request.ask()
    expected = 0.5 * third.configuration.params["num_warps"]  # half of what the model says
    assert third.forecast.time_ms == pytest.approx(expected, rel=0.3)
    assert request.best[1] == 0.5 * min(warps)
