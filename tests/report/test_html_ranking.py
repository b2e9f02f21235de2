"""The page of `solkit rank`."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="the pages need solkit[report]")

sys.path.append(str(Path(__file__).parent))
from test_html import Parsed

from solkit.core import Configuration, Depth, Forecast
from solkit.report.html import ranking_page
from solkit.report.ranking import as_json
from solkit.surrogate.model import Contribution
from solkit.surrogate.plan import Action, Plan, Ranked

NOW = datetime(2026, 11, 24, 3, tzinfo=timezone.utc)
NASTY = "</style><script>alert(1)</script>"


def ranked(block, action, *, pushes=(), forecast=None, path="k.py", reason="It is fast."):
    reported_forecast = forecast or Forecast(0.1 * block, 0.05 * block, 0.2 * block, 0.0, False)
    it = Configuration(path, "kernel", {"N": 8}, {"BLOCK": block})
    return Ranked(it, Depth.LOWERED, reported_forecast, action, reason, pushes)


def parsed(*candidates, top=1, **plan):
    plans = [Plan({"N": 8}, candidates, 0.01, **plan)]
    return Parsed(ranking_page(as_json(plans), top, written=NOW))


def test_what_moves_a_forecast_is_shown_beside_it():
    pushes = (Contribution("machine.registers", 7.0, 1.5), Contribution("params.BLOCK", None, 0.8))
    result = parsed(ranked(1, Action.MEASURE, pushes=pushes), ranked(2, Action.SKIP))
    assert "What moves the forecast of BLOCK=1" in result.words
    assert "registers in the machine code 7 × 1.50" in result.words
    assert "BLOCK unknown × 0.80" in result.words
    assert "1 more are skipped." in result.words
    bars = [at for tag, at in result.elements if tag == "span" and "bar" in at.get("class", "")]
    assert [(at["class"], at["style"]) for at in bars] == [
        ("bar loss", "width: 100.0%"),
        ("bar sol", "width: 55.0%"),  # log 0.8 is 0.55 of log 1.5, the other way
    ]
    assert not result.mismatched


def test_intervals_share_a_logarithmic_axis():
    result = parsed(ranked(1, Action.MEASURE), ranked(4, Action.EXPLORE))
    lines = [at["style"] for tag, at in result.elements if tag == "i"]
    # 0.05 to 0.2 and 0.2 to 0.8 on an axis from 0.05 to 0.8: four octaves
    assert lines == ["left: 0.0%; width: 50.0%", "left: 50.0%; width: 50.0%"]
    marks = [at["style"] for tag, at in result.elements if tag == "b"]
    assert marks == ["left: 25.0%", "left: 75.0%"]


def test_what_is_unknown_or_doubted_is_said():
    nothing = Forecast(None, None, None, 0.0, False)
    doubted = Forecast(0.1, 0.05, 0.2, 0.0, True)
    result = parsed(
        ranked(1, Action.MEASURE, forecast=doubted),
        ranked(2, Action.EXPLORE, forecast=nothing),
        notes=("Ranked by the kernel model alone.",),
        enough=1,
    )
    assert "The surrogate does not trust itself" in result.words
    assert "Ranked by the kernel model alone." in result.words
    assert "Measuring the first finds one" in result.words
    assert "unknown" in result.words


def test_names_are_text():
    result = parsed(ranked(1, Action.MEASURE, path=NASTY, reason=NASTY))
    assert result.scripts == []
    assert NASTY in result.words
