"""The files that a user brings in the first hour: ``python .ci/first_hour_files.py FOLDER``."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from solkit.core import canonical
from solkit.datasets.kernels import ZOO
from solkit.datasets.outcomelog import OutcomeLog
from solkit.datasets.store import shipped

CUDA = '''
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void scaled(const float* x, float* y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
torch::Tensor scale(torch::Tensor x, double factor) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    scaled<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), factor, n);
    return y;
}
"""
made = load_inline("first_hour", "torch::Tensor scale(torch::Tensor, double);", SOURCE, ["scale"])


def reference(x, factor):
    return x * factor


def inputs(N=1 << 24, device="cuda"):
    return torch.randn(N, device=device), 3.0


def kernel(x, factor):
    return made.scale(x, factor)
'''
BARE = """
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)
"""
DEFINITION = {
    "name": "scale",
    "op_type": "scale",
    "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 4096}},
    "inputs": {"x": {"shape": ["M", "N"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["M", "N"], "dtype": "float32"}},
    "reference": "import torch\ndef run(x):\n    return x * 3\n",
}
SOLUTION = {
    "name": "plain",
    "definition": "scale",
    "author": "a user",
    "spec": {
        "languages": ["pytorch"],
        "language": "python",
        "target_hardware": ["LOCAL"],
        "entry_point": "main.py::run",
    },
    "sources": [{"path": "main.py", "content": "def run(x):\n    return x + x + x\n"}],
}
SHAPE = {"M": 8192, "N": 1024, "dtype": "float16"}
"""Of the recording."""
_MOST = 3  # configurations of it

folder = Path(sys.argv[1])
(folder / "cuda_scale.py").write_text(CUDA, encoding="utf-8")
(folder / "bare.py").write_text(BARE, encoding="utf-8")
problem = folder / "sol_execbench"
problem.mkdir()
(problem / "definition.json").write_text(json.dumps(DEFINITION), encoding="utf-8")
(problem / "solution.json").write_text(json.dumps(SOLUTION), encoding="utf-8")
workload = {"uuid": "a", "axes": {"M": 4096}, "inputs": {"x": {"type": "random"}}}
(problem / "workload.jsonl").write_text(json.dumps(workload) + "\n", encoding="utf-8")

kept = []
store = shipped("h100")
where = "implementation = 'softmax/three_pass' and verdict = 'correct'"
for row in store.rows(store.where(where)):
    known = {canonical(each.params) for each in kept}
    is_there = canonical(row.shape) == canonical(SHAPE)
    if is_there and (len(known) < _MOST or canonical(row.params) in known):
        kept.append(row)
with OutcomeLog(folder / "recorded.jsonl") as log:
    log.append(kept)
shutil.copytree(ZOO / "softmax", folder / "zoo_softmax")
