"""`solkit.collect.inductor`: what the files compute is what the graphs do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import solkit
from solkit import pipeline
from solkit.collect import sources
from solkit.collect.inductor_graphs import GRAPHS, Index, Mask
from solkit.collect.sources import INDUCTOR
from solkit.core import AnalysisStatus

_FILES = sorted(INDUCTOR.glob("*/*.py"))


def test_the_files_that_are_there_are_found_by_name():
    found = sources(["inductor"])
    assert len(found) == len(_FILES) >= 300
    assert {kernel.kind for kernel in found} == {kernel.origin for kernel in found} == {"inductor"}
    assert {"pointwise", "reduction", "persistent_reduction"} <= {k.family for k in found}
    assert len({kernel.kernel_id for kernel in found}) == len(found)


def test_a_file_that_is_named_itself_is_the_same_kernel():
    path = next(iter((INDUCTOR / "reduction").glob("*.py")))
    (alone,) = sources([str(path)])
    assert alone in sources(["inductor"], ["reduction"])


def test_no_two_files_are_alike_but_for_numbers():
    bodies = {re.sub(r"\d+", "0", _function_of(path)) for path in _FILES}
    assert len(bodies) == len(_FILES)


def test_a_file_can_be_analysed_with_no_gpu():
    path = min((INDUCTOR / "reduction").glob("row_sum_*.py"), key=lambda p: p.name)
    analysis = pipeline.analyse(path, "h100")
    assert analysis.status is AnalysisStatus.COMPLETE
    assert [kernel.launch.name for kernel in analysis.kernels] == ["fused_kernel"]


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_graphs_are_functions_of_what_they_say(name):
    graph = GRAPHS[name]
    for shapes in graph.shapes:
        with torch.device("meta"):
            args = [_empty(shape) for shape in shapes]
        out = graph.function(*args)
        assert all(o.numel() for o in (out if isinstance(out, tuple) else (out,)))


_INTERPRETED = """
import importlib.util, json, sys
import torch
for path, params in json.loads(sys.argv[1]):
    spec = importlib.util.spec_from_file_location("made", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    args = made.inputs(device="cpu")
    got, want = made.kernel(*args, **params), made.reference(*args)
    assert float(want.abs().max()) > 1, want
    torch.testing.assert_close(got, want, **made.TOLERANCE)
"""


def test_what_is_made_of_a_graph_computes_it(tmp_path):
    _child("-m", "solkit.collect.inductor", str(tmp_path), "manhattan_distances")
    cases = [(path, _large(path)) for path in sorted(tmp_path.glob("*/*.py"))]
    assert {path.parent.name for path, _ in cases} == {"persistent_reduction", "reduction"}
    _child("-c", _INTERPRETED, json.dumps([(str(path), params) for path, params in cases]))


def _large(path: Path) -> dict[str, int]:
    """Blocks as large as may be: the interpreter takes one program after the other."""
    params = {"XBLOCK": 128, "num_warps": 4, "num_stages": 1}
    return params if path.parent.name == "persistent_reduction" else {**params, "R0_BLOCK": 512}


def _child(*command: str) -> None:
    """Runs Python in a process of its own: the maker has torch believe in a GPU."""
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        cwd=Path(solkit.__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def _function_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return text.split("@triton.jit", 1)[1].split("\ndef valid", 1)[0]


def _empty(shape: object) -> torch.Tensor:
    if isinstance(shape, Index):
        return torch.empty(shape.shape, dtype=torch.int64)
    if isinstance(shape, Mask):
        return torch.empty(shape.shape, dtype=torch.bool)
    return torch.empty(shape)
