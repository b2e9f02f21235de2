"""`solkit.collect.inductor`: what the files compute is what the graphs do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from solkit import pipeline
from solkit.collect import sources
from solkit.collect.inductor_graphs import GRAPHS, Index, Mask
from solkit.collect.sources import INDUCTOR

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


@pytest.mark.parametrize("name", sorted({path.parent.name for path in _FILES}))
def test_a_file_of_each_template_can_be_analysed_with_no_gpu(name):
    path = min((INDUCTOR / name).glob("*.py"), key=lambda p: (p.stat().st_size, p.name))
    report = pipeline.score_file(str(path), device="h100")
    (case,) = report.cases
    assert case.work.dram_bytes > 0
    assert case.analysis.launches


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_graphs_are_functions_of_what_they_say(name):
    graph = GRAPHS[name]
    for shapes in graph.shapes:
        with torch.device("meta"):
            args = [_empty(shape) for shape in shapes]
        out = graph.function(*args)
        assert all(o.numel() for o in (out if isinstance(out, tuple) else (out,)))


_INTERPRETED = """
import importlib.util, sys
import torch
spec = importlib.util.spec_from_file_location("made", sys.argv[1])
made = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made)
args = made.inputs(device="cpu")
torch.testing.assert_close(
    made.kernel(*args, **eval(sys.argv[2])), made.reference(*args), **made.TOLERANCE
)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a child process writes: it has torch believe in a GPU."""
    folder = tmp_path_factory.mktemp("inductor")
    command = [sys.executable, "-m", "solkit.collect.inductor", str(folder), "small_matmul_by_hand"]
    subprocess.run(command, check=True, timeout=300)
    return folder


def _function_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return text.split("@triton.jit", 1)[1].split("\ndef valid", 1)[0]


def _empty(shape: object) -> torch.Tensor:
    if isinstance(shape, Index):
        return torch.empty(shape.shape, dtype=torch.int64)
    if isinstance(shape, Mask):
        return torch.empty(shape.shape, dtype=torch.bool)
    return torch.empty(shape)


def test_what_is_made_of_a_graph_computes_it(made):
    files = sorted(made.glob("*/*.py"))
    assert {path.parent.name for path in files} == {"persistent_reduction", "reduction"}
    for path in files:
        params = {"XBLOCK": 64, "num_warps": 4, "num_stages": 1}
        if path.parent.name == "reduction":
            params["R0_BLOCK"] = 512
        done = subprocess.run(
            [sys.executable, "-c", _INTERPRETED, str(path), repr(params)],
            env={**os.environ, "TRITON_INTERPRET": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
