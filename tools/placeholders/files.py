"""A file for each placeholder of the documentation, made without a GPU."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

from solkit.datasets.outcomelog import OutcomeLog
from solkit.datasets.store import Store, shipped
from tools.blocks import ROOT

EXAMPLES = ROOT / "examples"
KERNELS = {
    "kernel.py": "softmax.py",
    "softmax.py": "softmax.py",
    "rmsnorm.py": "rmsnorm.py",
    "problem.py": "softmax.py",
    "mine.py": "softmax.py",
    "a.py": "softmax.py",
    "b.py": "softmax.py",
    "reference.py": "kernelbench/reference.py",
}
_RECORDED = "implementation = 'softmax/whole_row'"
_BESIDE = ("gelu", "gemm", "layer_norm", "log_softmax", "rms_norm")
"""Further families: training needs five, and 200 configurations."""
_ROWS = 60  # of each


def make(folder: Path) -> None:
    """Make a folder, and fill it."""
    folder.mkdir()
    for name, example in KERNELS.items():
        shutil.copy(EXAMPLES / example, folder / name)
    shutil.copytree(EXAMPLES, folder / "examples")
    shutil.copytree(EXAMPLES / "kernelbench", folder, dirs_exist_ok=True)
    _measured(folder)
    _recorded_space(folder / "conv_A100.json.gz")
    _trace(folder / "trace.json.gz")
    shutil.copy(ROOT / "surrogate/surrogate.solkit", folder / "my.solkit")
    for name in ("manifest.toml", "batch.toml"):
        (folder / name).write_text('device = "h100"\n[[kernels]]\npath = "kernel.py"\n')
    configs = [{"shape": {"M": 4096}, "params": {"num_warps": 8}}]
    (folder / "best_config.json").write_text(json.dumps({"configs": configs}))
    _solved(folder)


def _solved(folder: Path) -> None:
    """``problems/rmsnorm``, a problem of SOL-ExecBench's form, and ``mine.json``, a solution."""
    problem = ROOT / "bench/solutions/add_rmsnorm"
    shutil.copytree(problem, folder / "problems" / "rmsnorm")
    source = {"path": "main.py", "content": (problem / "solution.py").read_text(encoding="utf-8")}
    spec = {
        "languages": ["triton"],
        "entry_point": "main.py::run",
        "target_hardware": ["H100"],
        "destination_passing_style": False,
    }
    head = {"name": "mine", "definition": "add_rmsnorm", "author": "me"}
    (folder / "mine.json").write_text(json.dumps({**head, "spec": spec, "sources": [source]}))


def _measured(folder: Path) -> None:
    """``my-data``, a store of measured rows, and ``run.jsonl`` and ``runs.jsonl``, logs of some."""
    import polars as pl

    from solkit.core.outcomes import StoredFacts

    whole = shipped("h100")
    filters = [_RECORDED, *(f"family = '{family}'" for family in _BESIDE)]
    correct = "verdict = 'correct' and facts_id is not null"
    frames = [whole.where(f"{correct} and {which}").head(_ROWS) for which in filters]
    rows = [row for frame in frames for row in whole.rows(frame)]
    ids = {row.facts_id for row in rows}
    stored = whole.facts().filter(pl.col("id").is_in(list(ids))).collect()
    facts = [StoredFacts(**row) for row in stored.iter_rows(named=True)]
    Store(folder / "my-data", create=True).add(rows, facts=facts)
    for name in ("run.jsonl", "runs.jsonl"):
        with OutcomeLog(folder / name, about={"command": "my search"}) as log:
            log.append([replace(row, facts_id=None) for row in rows[:5]])


def _recorded_space(path: Path) -> None:
    """Times of 64 configurations, as columns."""
    rows = [[x, y, 1 + abs(x - 5) + abs(y - 3) / 4] for x in range(8) for y in range(8)]
    header = {"kernel": "conv", "device": "A100", "params": {}, "columns": ["X", "Y", "time_ms"]}
    path.write_bytes(gzip.compress(json.dumps({**header, "rows": rows}).encode()))


def _trace(path: Path) -> None:
    """An element-wise op with one kernel, as Kineto writes it; times in microseconds."""
    gpu = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "totalGlobalMem": 85018279936}
    about = {
        "External id": 1,
        "Input Dims": [[4096, 4096]],
        "Input type": ["float"],
        "Input Strides": [[4096, 1]],
        "Concrete Inputs": [""],
    }
    host = {"ph": "X", "pid": 100, "tid": 100}
    device = {"device": 0, "stream": 7, "correlation": 9, "External id": 1}
    launch = {"correlation": 9, "External id": 1}
    events = [
        {**host, "cat": "user_annotation", "name": "ProfilerStep#3", "ts": 0, "dur": 200},
        {**host, "cat": "cpu_op", "name": "aten::relu", "ts": 1, "dur": 20, "args": about},
        {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 5, "dur": 2}
        | {"args": launch},
        {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "relu", "ts": 10, "dur": 90}
        | {"args": device},
    ]
    text = json.dumps({"deviceProperties": [gpu], "traceEvents": events})
    path.write_bytes(gzip.compress(text.encode()))
