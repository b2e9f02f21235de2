from __future__ import annotations

import resource
import sys

import kernelbench
import pytest
from kernelbench import Outcome, Targets
from kernelbench_suite import Problem

PROBLEM = Problem(1, 1, "1_a", "1_a.py", "hash")
SOLAR = """
import json, sys, time
if sys.argv[1].endswith("slow.py"):
    time.sleep(600)
if sys.argv[1].endswith("bad.py"):
    raise SystemExit("no graph")
ballast = b"x" * (256 << 20)
print("chatter")
print(json.dumps({"seconds": 0.5, "fused_ms": 2.0}))
"""


@pytest.mark.parametrize(
    ("share", "value"), [(0.1, 1), (0.11, 2), (0.5, 5), (0.9, 9), (0.91, 10), (1.0, 10)]
)
def test_a_percentile_is_the_least_value_that_covers_the_share(share, value):
    assert kernelbench.percentile([3, 1, 2, 6, 5, 4, 9, 8, 7, 10], share) == value


def test_failures_count_but_have_no_time():
    outcomes = [Outcome(1.0, 1.0, memory_mb=10), Outcome(3.0, 1.0, memory_mb=30)]
    figures = kernelbench.level_figures([*outcomes, Outcome(60.0, memory_mb=99, failure="x")])
    assert figures == ["2 of 3", "2.000", "3.000", "3.000", "99"]
    assert kernelbench.level_figures([Outcome(1.0, failure="x")])[0] == "0 of 1"


def test_missed_targets_are_named():
    good = Outcome(0.1, 1.0)
    assert Targets().missed([good] * 3, 599) == []
    partial, slow = Outcome(0.1, 1.0, unmodelled=("aten.a",)), Outcome(3.5, 1.0)
    assert Targets().missed([good, partial, slow], 601) == [
        "2 of 3 bounded with nothing unmodelled",
        "slowest 3.50 s",
        "memory 601 MB",
    ]


def test_a_bound_is_had_and_a_file_that_fails_is_told(tmp_path):
    path = tmp_path / "1_a.py"
    path.write_text(
        "import torch\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x): return x + x\n"
        "def get_inputs(): return [torch.rand(1024, 1024)]\n"
    )
    result = kernelbench.solkit_bound(Problem(1, 1, "1_a", str(path), "h"), "h100")
    # 4 MiB in, 4 MiB out, at 3352 GB/s
    assert result.bound_ms == pytest.approx(2 * 4 * 1024**2 / 3.352e9, rel=1e-2)
    assert (result.limiter, result.failure, result.unmodelled) == ("dram", None, ())
    path.write_text("raise ValueError('broken')")
    failed = kernelbench.solkit_bound(Problem(1, 1, "1_a", str(path), "h"), "h100")
    assert "broken" in failed.failure


def test_solar_is_given_a_time_limit_and_its_failures_are_told(tmp_path, monkeypatch):
    script = tmp_path / "kernelbench_solar.py"
    script.write_text(SOLAR)
    monkeypatch.setattr(kernelbench, "__file__", str(tmp_path / "kernelbench.py"))

    def run(name, limit_s=300.0):
        problem = Problem(1, 1, name, f"{name}.py", "hash")
        return kernelbench.solar_bound(problem, sys.executable, tmp_path, limit_s)

    good = run("good")
    assert (good.seconds, good.bound_ms, good.failure) == (0.5, 2.0, None)
    # Linux may count what the parent held, until the child became another program
    parents_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert 256 < good.memory_mb < max(256, parents_mb) + 100
    assert run("bad").failure == "no graph"
    slow = run("slow", 0.5)
    assert slow.failure == "over 0.5 s"
    assert slow.seconds < 300


def test_tables_are_markdown(capsys):
    outcomes = [Outcome(0.25, 1.5, "dram")]
    failed = Outcome(9.0, memory_mb=800, failure="x")
    kernelbench.print_problems([PROBLEM], outcomes, {PROBLEM.label: failed})
    kernelbench.print_problems([PROBLEM], outcomes, {"1/2_b": failed})
    kernelbench.print_levels("SolKit", [PROBLEM], outcomes)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| 1/1_a | 0.250 | 1.5 | dram |  | 9.0 | 800 | x |"
    assert lines[6] == "| 1/1_a | 0.250 | 1.5 | dram |  |  |  |  |"
    assert "| level 1 | 1 of 1 | 0.250 | 0.250 | 0.250 |  |" in lines
