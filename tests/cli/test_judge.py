"""``solkit judge`` from the command line."""

from __future__ import annotations

import json

import pytest
from cli_reports import solkit

from solkit.report.judging import JudgeReportJson

ADDITION = """
import torch
def reference(x):
    return x + 1
def inputs(M=65536, device="cuda"):
    return torch.randn(M, 1024, device=device)
"""


@pytest.fixture(autouse=True)
def problem(tmp_path):
    (tmp_path / "addition.py").write_text(ADDITION)
    return tmp_path / "addition.py"


def test_an_impossible_time_ends_with_4_and_is_in_json_and_html(tmp_path):
    times = tmp_path / "times.csv"
    times.write_text("problem,device,time_us,solution\naddition,h100-sxm,50,<b>fast</b>\n")
    outcome = solkit(
        "judge", str(times), "--problems", str(tmp_path), "--json", str(tmp_path / "out.json"),
        "--html", str(tmp_path / "out.html"),
    )  # fmt: skip
    assert outcome.exit_code == 4, outcome.output
    assert "2.53 times under the hard bound" in " ".join(outcome.stdout.split())
    report = JudgeReportJson.model_validate(json.loads((tmp_path / "out.json").read_text()))
    assert report.schema_ == "solkit.judge/1"
    assert report.counts == {"impossible": 1}
    assert report.judgements[0].bound_ms == pytest.approx(0.1602, rel=2e-3)
    page = (tmp_path / "out.html").read_text()
    assert "impossible (dram)" in page
    assert "&lt;b&gt;fast&lt;/b&gt;" in page


def test_one_time(problem):
    slow = solkit("judge", str(problem), "--time", "2 ms", "--device", "h100")
    assert slow.exit_code == 0, slow.output
    assert "possible" in slow.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--time", "12"), "'12' is no time above 0 with a unit"),
        (("--time", "0us"), "'0us' is no time above 0"),
        (("--time", "1ms", "--problems", "."), "--problems .: does not go with --time"),
        (("--shape", "M=1"), "--shape M=1: goes with --time"),
    ],
)
def test_bad_options_are_named(problem, options, message):
    outcome = solkit("judge", str(problem), *options)
    assert outcome.exit_code == 2
    assert message in " ".join(outcome.stderr.split())
