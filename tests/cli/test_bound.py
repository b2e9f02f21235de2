"""``solkit bound`` from end to end, on files and shapes that may be at fault."""

from __future__ import annotations

import json
import re

import pytest
from cli_reports import solkit

PROBLEM = """
def inputs(M=1024, N=1024, device="cuda"):
    return torch.randn(M, N, device=device), torch.randn(1024, N, device=device)
def reference(x, y):
    return torch.sin(x + y)
SHAPES = [{"M": 1024}, {"M": 1}, {"M": 7}]
"""


@pytest.fixture
def path(write):
    return write(PROBLEM)


@pytest.mark.slow
def test_good_shapes_are_told_and_the_bad_one_is_named(path):
    outcome = solkit("bound", path, "--device", "h100")
    assert outcome.exit_code == 2
    assert outcome.stdout.count("limited by dram") == 2
    assert "M=7:" in outcome.stdout
    assert "broadcast" in outcome.stdout


def test_where_every_shape_fails_each_is_named(path):
    outcome = solkit("bound", path, "--device", "h100", "--shape", "M=3", "--shape", "M=5")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "every shape failed:\n  M=3: " in outcome.stderr
    assert "\n  M=5: " in outcome.stderr


def test_explain_fusion_and_json(path, tmp_path):
    file = tmp_path / "bound.json"
    outcome = solkit(
        "bound", path, "--device", "h100", "--shape", "M=1024", "--explain", "--groups", "add+sin",
        "--json", str(file),
    )  # fmt: skip
    assert outcome.exit_code == 0
    assert re.search(r"100 % +1.05 Mop +sin +L7", outcome.stdout)
    assert "0-1  add + sin" in outcome.stdout
    (result,) = json.loads(file.read_text())["results"]
    assert [part["positions"] for part in result["grouped"]] == [[0, 1]]
    assert [part["positions"] for part in result["unfused"]] == [[0], [1]]
    assert result["bound"]["resources"]["sfu"]["contributors"][0]["name"] == "aten.sin"


def test_warm_and_json_alone_on_stdout(path):
    outcome = solkit(
        "bound", path, "--device", "h100", "--shape", "M=1024", "--protocol", "warm", "--json", "-"
    )
    (result,) = json.loads(outcome.stdout)["results"]
    assert result["bound"]["limiter"] == "l2"
    assert result["bound"]["protocol"] == "warm"


def test_malformed_groups_exit_2(path):
    outcome = solkit("bound", path, "--shape", "M=1024", "--groups", "0+add")
    assert outcome.exit_code == 2
    assert "'0+add' in '0+add' is not a group" in outcome.stderr


def test_a_device_that_is_not_known_names_the_near_ones(path):
    outcome = solkit("bound", path, "--device", "RTX PRO 6000 Server Edition")
    assert outcome.exit_code == 2
    assert "rtx-pro-6000-blackwell" in outcome.stderr


STEPPED = """
def inputs(N=64, M=3, device="cuda"):
    if N % 16:
        raise ValueError("blocks of 16")
    return torch.randn(N, M, device=device)
def reference(x):
    return x + 1
"""


@pytest.mark.slow
def test_a_formula_tells_the_sizes_that_it_was_checked_at(write):
    outcome = solkit("bound", write(STEPPED), "--device", "h100", "--symbolic", "N,M")
    assert outcome.exit_code == 0, outcome.stderr
    assert "N is a multiple of 16" in outcome.stdout
    assert "M is a multiple" not in outcome.stdout
    matches = re.findall(r"^N=(\d+), M=(\d+): (\S+) ms, numeric (\S+) ms", outcome.stdout, re.M)
    assert len(matches) == 4
    for n, m, formula_ms, numeric_ms in matches:
        assert formula_ms == numeric_ms
        # 4 bytes in and 4 out for each element, at 3352 GB/s
        assert float(formula_ms) == pytest.approx(8 * int(n) * int(m) / 3.35232e9, rel=1e-4)


@pytest.mark.parametrize("option", [["--explain"], ["--fusion"], ["--groups", "0-1"]])
def test_what_a_formula_has_no_answer_to_is_refused(path, option):
    outcome = solkit("bound", path, "--symbolic", "N", *option)
    assert outcome.exit_code == 2
    assert f"excludes {option[0]}" in outcome.stderr


def test_a_formula_keeps_to_the_time_limit(write):
    body = PROBLEM.replace("    return torch.sin", "    while True: pass\n    return torch.sin")
    outcome = solkit("bound", write(body), "--symbolic", "N", "--study-limit", "0.5")
    assert outcome.exit_code == 2
    assert "ran for over 0.5 s" in outcome.stderr
