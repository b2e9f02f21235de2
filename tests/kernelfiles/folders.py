"""Folders of both benchmarks' forms, written by tests into a temporary place."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from solkit import kernelfiles
from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan
from solkit.analysis.study import study as study_of
from solkit.core import Study

SCALE = "import torch\ndef run(x, factor):\n    return x * factor\n"
DEFINITION: dict[str, Any] = {
    "name": "scale",
    "op_type": "scale",
    "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 32}},
    "inputs": {
        "x": {"shape": ["M", "N"], "dtype": "float32"},
        "factor": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["M", "N"], "dtype": "float32"}},
    "reference": SCALE,
}
SCALE_INPUTS = {"x": {"type": "random"}, "factor": {"type": "scalar", "value": 3.0}}
PYTHON_SPEC = {"languages": ["pytorch"], "language": "python", "target_hardware": ["LOCAL"]}


def workload(uuid: str, inputs: dict[str, Any] | None = None, **axes: int) -> dict[str, Any]:
    return {"uuid": uuid, "axes": axes, "inputs": SCALE_INPUTS if inputs is None else inputs}


def definition(**changes: Any) -> dict[str, Any]:
    return {**DEFINITION, **changes}


def solution(sources: dict[str, str], entry: str, **spec: Any) -> dict[str, Any]:
    return {
        "name": "mine",
        "definition": spec.pop("definition", "scale"),
        "author": "me",
        "spec": {**PYTHON_SPEC, "entry_point": entry, **spec},
        "sources": [{"path": path, "content": text} for path, text in sources.items()],
    }


def write_json(path: Path, value: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def write_lines(path: Path, values: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")


def sol_folder(folder: Path, workloads: list[Any], **changes: Any) -> str:
    """A SOL-ExecBench problem; gives its folder."""
    write_json(folder / "definition.json", definition(**changes))
    write_lines(folder / "workload.jsonl", workloads)
    return str(folder)


def flashinfer_set(root: Path, workloads: list[Any], **changes: Any) -> str:
    """A FlashInfer-Bench data set with one problem; gives the definition's file."""
    record = definition(**changes)
    name, kind = record["name"], record["op_type"]
    traces = [
        {"definition": name, "solution": None, "workload": workload} for workload in workloads
    ]
    if workloads:
        write_lines(root / "workloads" / kind / f"{name}.jsonl", traces)
    return write_json(root / "definitions" / kind / f"{name}.json", record)


def write_safetensors(path: Path, tensors: dict[str, list[int]]) -> None:
    """A safetensors file of one-dimensional int32 tensors, byte by byte as the format says."""
    header, data = {}, b""
    for name, values in tensors.items():
        packed = struct.pack(f"<{len(values)}i", *values)
        offsets = [len(data), len(data) + len(packed)]
        header[name] = {"dtype": "I32", "shape": [len(values)], "data_offsets": offsets}
        data += packed
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def study(path: str, candidate: str | None = None, shape: dict[str, Any] | None = None) -> Study:
    """What is known of a problem, and of a solution for it, at one shape or all."""
    paths = (path, None) if candidate is None else (candidate, path)
    shapes = None if shape is None else (shape,)
    with Analyser("h100") as analyser:
        return study_of(analyser, StudyPlan(*paths, shapes, analysing=candidate is not None))


def on_cpu(problem, candidate=None, shape=None):
    """The workload on real tensors, as it is measured."""
    import torch

    loaded = kernelfiles.load(candidate or problem, problem if candidate else None)
    torch.manual_seed(0)
    return loaded.workload(shape or loaded.description.problem.shapes[0], device="cpu")
