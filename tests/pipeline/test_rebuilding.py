"""Public timings whose kernels are launched again: what is forecast of them, and what is not."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from solkit.core import Depth
from solkit.core.judging import Judgement, Plausibility
from solkit.pipeline.judging import judge
from solkit.pipeline.public_figures import public_figures
from solkit.pipeline.rebuilding import Rebuilt, count_reasons, rebuild_rows
from solkit.surrogate.trees import Forecasts

TRITON = """
import torch
import triton
import triton.language as tl

def reference(x):
    return x + 1

def inputs(M=1024, device="cuda"):
    return torch.randn(M, 1024, device=device)

@triton.jit
def add_one(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) + 1, at < n)

def kernel(x):
    y = torch.empty_like(x)
    add_one[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), 1024)
    return y
"""
EAGER = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(8192, 8192)]
def get_init_inputs():
    return []
"""


@pytest.fixture
def judged(tmp_path):
    """One row of each kind: a kernel, an eager reference, a result alone, an unknown problem."""
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "1_Relu.py").write_text(EAGER)
    (tmp_path / "plus_one.py").write_text(TRITON)
    table = tmp_path / "t.csv"
    table.write_text("problem,device,M,time_us\nplus_one,h100-sxm,8192,50\nlost,h100-sxm,1,1\n")
    eager = tmp_path / "baseline_time_torch.json"
    times = {
        "mean": 0.25,
        "std": 0.0,
        "min": 0.25,
        "max": 0.25,
        "hardware": "NVIDIA H100 80GB HBM3",
    }
    eager.write_text(json.dumps({"level1": {"1_Relu.py": times}}))
    report = judge([table, eager], problems=tmp_path, folder=tmp_path)
    return report.judgements


def test_kernels_and_eager_references_are_launched_again(judged, tmp_path_factory):
    plus_one, lost, relu = judged
    before = sorted(Path(relu.problem.path).parent.iterdir())
    aside = tmp_path_factory.mktemp("aside")
    rows = rebuild_rows([plus_one, lost, relu], aside, Depth.CAPTURED)
    assert sorted(Path(relu.problem.path).parent.iterdir()) == before  # the user's folder
    assert rows[0].reason == "the file does not say what was launched"
    assert "no problem is called lost" in rows[1].reason
    assert rows[2].entry is not None
    assert not rows[2].is_own  # only PyTorch's operators
    assert rows[2].entry.time_ms == 0.25
    (launch,) = rows[2].entry.kernels
    assert launch.launch.name == "aten.relu"
    assert sum(count_reasons(rows).values()) == 2


def test_a_kernel_in_the_problems_file_is_what_was_timed(judged, tmp_path):
    row = replace(judged[0].row, extra={"runs": "kernel"})
    (rebuilt,) = rebuild_rows([replace(judged[0], row=row)], tmp_path, Depth.CAPTURED)
    assert rebuilt.is_own
    assert rebuilt.entry is not None
    assert rebuilt.entry.kernels[0].launch.grid == (8192, 1, 1)
    assert rebuilt.entry.time_ms == pytest.approx(0.05)


def rebuilt_row(time_ms, sol_ms, device="h100", family="f"):
    problem = SimpleNamespace(
        device=SimpleNamespace(key=device), bound=SimpleNamespace(time_ms=sol_ms)
    )
    row = SimpleNamespace(device=device, family=family)
    return Rebuilt(Judgement(row, Plausibility.POSSIBLE, time_ms, problem=problem))


def test_figures_are_those_of_a_gpu_and_of_each_operation_on_it():
    rows = [
        rebuilt_row(2.0, 1.0),
        rebuilt_row(3.0, 1.0),
        rebuilt_row(8.0, 2.0, family="g"),
        rebuilt_row(None, 1.0),
    ]
    forecasts = Forecasts.from_times(np.array([2.5, 4.0]))
    every, f, g = public_figures(rows, forecasts, [1, 2])
    assert (every.family, every.rows, every.bounded) == ("", 3, 3)
    assert every.gap_median == 3.0  # of 2, 3 and 4
    assert every.surrogate.rows == 2
    # 2.5 for 3 is off by 1.2, 4 for 8 by 2: the median of the logarithms is the root of 2.4
    assert every.surrogate.error_median == pytest.approx(math.sqrt(2.4) - 1)
    assert f.surrogate.ratio_median == pytest.approx(2.5 / 3)
    assert g.surrogate.error_median == pytest.approx(1.0)
    assert math.isnan(g.surrogate.spearman)  # one row
    assert every.model.rows == 0
