"""Errors of forecasts that the variants of one search have in common."""

from __future__ import annotations

import json
import sys

import errors_in_common as bench
import numpy as np
import pytest


def test_an_error_is_predicted_from_the_other_of_two():
    kernel = np.array([[1.0, 0.5], [0.5, 1.0]]) * bench.SD**2
    remaining = bench.remaining_errors(kernel, np.array([0.4, 0.2]))
    share = 0.5 * bench.SD**2 / (bench.SD**2 + bench.NOISE**2)
    assert remaining == pytest.approx([0.4 - share * 0.2, 0.2 - share * 0.4])


def test_a_report_of_variants_that_miss_alike(tmp_path, monkeypatch, capsys):
    variants = [
        {"id": f"{n}", "params": {"B": n}, "forecast_ms": 1.0, "time_ms": 2.0, "measured": 1}
        for n in range(5)
    ]
    variants += [{**variants[0], "id": "x", "time_ms": None}, {**variants[0], "forecast_ms": None}]
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"variants": variants}))
    monkeypatch.setattr(sys, "argv", ["errors_in_common", str(report)])
    bench.main()
    first, *rows = capsys.readouterr().out.splitlines()
    assert first == "1 searches, 5 variants"
    medians = [float(row.split("median ")[1].split()[0]) for row in rows]
    assert medians[0] == 1.0
    assert 0 < medians[2] < medians[1] < 1.0
