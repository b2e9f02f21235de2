"""What is known of a kernel file before anything runs."""

from __future__ import annotations

import json

import pytest

from solkit import worker
from solkit.roofline import devices

SCALE = """
import torch

SHAPES = [{"N": 1024}, {"N": 64, "dtype": "float16"}, {"N": 4096}]
SPACE = {"BLOCK": [32, 64, 2048], "num_warps": [1, 2]}

def inputs(N=1024, dtype=torch.float32, device="cuda"):
    return torch.randn(N, dtype=dtype, device=device)

def reference(x):
    if len(x) == 4096:
        raise ValueError("not so many")
    return x * 2

def valid(params, shape):
    return params["BLOCK"] <= shape["N"] and shape["dtype"] == "float32"

def kernel(x, *, BLOCK=64, num_warps=2):
    return x * 2
"""

DOUBLE = """
import torch, triton
import triton.language as tl

SHAPES = [{"N": 4096}]
SPACE = {"BLOCK": [1024, 3]}

def inputs(N=4096, device="cuda"):
    return torch.randn(N, device=device)

def reference(x):
    return x * 2

@triton.jit
def double(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * 2)

def kernel(x, *, BLOCK=1024):
    y = torch.empty_like(x)
    double[(x.numel() // BLOCK,)](x, y, BLOCK)
    return y
"""


@pytest.fixture
def survey(tmp_path):
    def survey(function):
        path, answer = tmp_path / "scale.py", tmp_path / "answer"
        path.write_text(SCALE)
        given = str(path), devices.find("h100-sxm"), str(answer)
        worker.call(f"solkit.collect.survey:{function}", *given)
        return json.loads(answer.read_text())

    return survey


def test_the_valid_configurations_of_each_shape(survey):
    small, half, large = survey("survey_space")
    assert (small["shape"], small["default"]) == (
        {"N": 1024, "dtype": "float32"},
        {"BLOCK": 64, "num_warps": 2},
    )
    assert small["valid"] == [{"BLOCK": b, "num_warps": w} for b in (32, 64) for w in (1, 2)]
    assert half["valid"] == []
    assert len(large["valid"]) == 6


def test_the_bound_of_each_shape_and_why_there_is_none(survey):
    small, half, large = survey("survey_bounds")
    assert (small["read_bytes"], small["write_bytes"]) == (4096, 4096)
    assert (half["read_bytes"], half["write_bytes"]) == (128, 128)
    assert small["operations"] == {"fp32": 1024}
    assert 0 < small["hard_bound_ms"] <= small["bound_ms"]
    assert "not so many" in large["error"]


def test_what_compiling_ahead_tells(tmp_path):
    path, answer = tmp_path / "double.py", tmp_path / "answer"
    path.write_text(DOUBLE)
    given = [{"BLOCK": 1024}, {"BLOCK": 3}], devices.find("h100-sxm"), 100.0, str(answer)
    worker.call("solkit.collect.survey:compile_ahead", str(path), {"N": 4096}, *given)
    right, wrong = map(json.loads, answer.read_text().splitlines())
    (launch,) = right[2]
    assert (right[1], launch["name"], launch["grid"]) == ("", "double", [4, 1, 1])
    assert launch["registers"] > 0
    assert launch["demand"]["load_bytes"] == launch["demand"]["store_bytes"] == 4 * 4096
    assert launch["demand"]["model_ms"] > 0
    assert "power of 2" in wrong[1]
    assert wrong[2] == []
