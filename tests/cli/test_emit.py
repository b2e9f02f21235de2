"""``solkit emit``, and ``solkit score --params-file``, as a user runs them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from solkit.cli import app
from solkit.datasets.outcomelog import OutcomeLog

sys.path.append(str(Path(__file__).parents[1] / "tuner"))
from tuning_rows import row

RUN = CliRunner()
PARAMS = {
    "BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128,
    "GROUP_SIZE_M": 8, "num_warps": 4, "num_stages": 3,
}  # fmt: skip


@pytest.fixture
def log(tmp_path):
    """A fused MoE, tuned at two batch sizes on an H200; and a softmax on an H100."""
    with OutcomeLog(tmp_path / "run.jsonl") as log:
        log.append(
            [
                row({**PARAMS, "num_warps": warps}, 1.0, shape={"T": m, "E": 8, "I": 512},
                    kernel="moe", implementation="moe.py", device="h200",
                    device_name="NVIDIA H200")
                for m, warps in ((1, 4), (64, 8))
            ]
            + [row({"BLOCK": 1024}, 1.0)]
        )  # fmt: skip
    return str(log.path)


def run_emit(*words):
    return RUN.invoke(app, ["emit", *map(str, words)])


def test_a_kernel_of_a_log_becomes_a_file_of_vllm(log, tmp_path):
    out = tmp_path / "configs"
    more = "--map", "N=I", "--set", "block_shape=[128,128]", "--set", "dtype=fp8_w8a8"
    result = run_emit(
        log, "--kernel", "moe.py", "--format", "vllm-moe", "--out", out, *more, "--json", "-"
    )
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["schema"] == "solkit.emit/1"
    assert data["format"] == "vllm-moe"
    (path,) = map(Path, data["files"])
    assert path.parent == out
    assert path.name == (
        "E=8,N=512,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
    )
    held = json.loads(path.read_text())
    assert held == {"triton_version": "3.6.0", "1": PARAMS, "64": {**PARAMS, "num_warps": 8}}


def test_the_files_are_told(log, tmp_path):
    out = tmp_path / "best.json"
    result = run_emit(log, "--device", "h100", "--format", "best-config", "--out", out)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"wrote {out}\n"
    assert json.loads(out.read_text())["configs"][0]["params"] == {"BLOCK": 1024}


@pytest.mark.quick("words0-unknown", "no result is of", "words5---map: 'N' is not NAME=VALUE")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--format", "toml"], "unknown format 'toml'; choose one of: vllm-moe, vllm-fp8"),
        (["--format", "vllm-moe"], "holds one kernel, and there are 2: moe.py, softmax"),
        (["--format", "vllm-moe", "--kernel", "k"], "vllm-moe needs E; the sizes of softmax"),
        (["--format", "vllm-moe", "--kernel", "x"], "no result is of that kernel, shape and GPU"),
        (["--format", "vllm-moe", "--shape", "T=5"], "there are: moe.py: softmax/E=8,I=512,T=1"),
        (["--format", "vllm-moe", "--map", "N"], "--map: 'N' is not NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_written(log, tmp_path, words, why):
    result = run_emit(log, "--out", tmp_path / "out", *words)
    assert result.exit_code == 2
    assert why in result.stderr
    assert not (tmp_path / "out").exists()


KERNEL = """
import torch, triton, triton.language as tl

SHAPES = [{"N": 4096}]

def inputs(N=4096, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2

@triton.jit
def double(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < N) * 2, i < N)

def kernel(x, BLOCK=512, num_warps=4):
    out = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK, num_warps=num_warps)
    return out
"""


def test_score_takes_its_parameters_from_a_best_config(tmp_path):
    (tmp_path / "double.py").write_text(KERNEL)
    best = {
        "schema": "solkit.best_config/1", "kernel": "double.py", "kernel_id": "k",
        "configs": [
            {"shape": {"N": 4096}, "params": {"BLOCK": 1024, "num_warps": 8}, "device": "h100-sxm"}
        ],
    }  # fmt: skip
    (tmp_path / "best.json").write_text(json.dumps(best))
    words = ["score", str(tmp_path / "double.py"), "--device", "h100", "--no-measure",
             "--params-file", str(tmp_path / "best.json"), "--params", "num_warps=2",
             "--json", "-"]  # fmt: skip
    results = RUN.invoke(app, words)
    assert results.exit_code == 0, results.output
    (result,) = json.loads(results.stdout)["results"]
    assert result["params"] == {"BLOCK": 1024, "num_warps": 2}
