"""`solkit.collect.inductor`: what the files compute is what the graphs do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import solkit
from solkit import pipeline
from solkit.collect import inductor_splits, inductor_templates, sources  # noqa: F401
from solkit.collect.inductor_graphs import GRAPHS, Given, Index, Mask
from solkit.collect.sources import INDUCTOR
from solkit.core import AnalysisStatus

_FILES = sorted(INDUCTOR.glob("*/*.py"))
_TEMPLATES = {
    *("pointwise", "reduction", "persistent_reduction", "cooperative_reduction"),
    *("mix_order_reduction", "split_scan", "foreach", "combo", "mm", "mm_persistent_tma"),
    *("bmm", "grouped_mm", "convolution2d"),
}


@pytest.fixture(scope="module")
def found():
    return sources(["inductor"])


def test_the_files_that_are_there_are_found_by_name(found):
    assert len(found) == len(_FILES) >= 700
    assert {kernel.kind for kernel in found} == {kernel.origin for kernel in found} == {"inductor"}
    assert {k.family for k in found} >= _TEMPLATES
    assert len({kernel.kernel_id for kernel in found}) == len(found)


def test_a_file_that_is_named_itself_is_the_same_kernel(found):
    path = next(iter((INDUCTOR / "reduction").glob("*.py")))
    (alone,) = sources([str(path)])
    assert alone in found
    assert alone.family == "reduction"


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
    for variant in graph.variants[:2]:
        with torch.device("meta"):
            shapes = graph.shapes[variant.shapes % len(graph.shapes)]
            args = [_empty(shape, variant.dtype) for shape in shapes]
        out = graph.function(*args)
        assert all(o.numel() for o in (out if isinstance(out, tuple) else (out,)))


_MAKER = """
import sys
from pathlib import Path

import torch

from solkit.adapters import inductor
from solkit.collect.inductor import LeftOut, kernel_files
from solkit.collect.inductor_graphs import Graph, Variant
from solkit.collect.inductor_splits import _COMBINED, _FORCED
from solkit.collect.inductor_templates import _TMA, _TUNED
from solkit.roofline.devices import find


def distances(x, y):
    return (x[:, None, :] - y[None, :, :]).abs().sum(dim=-1)


def product(x, w, b):
    return torch.relu(torch.addmm(b, x, w))


def sums(x):
    return x.sum(1), x.sum(0)


def total(x):
    return (x * x).sum(1)


def running(x):
    return torch.cumsum(x, dim=-1)


def together(x, y, z):
    return torch.relu(x), torch.exp(y), torch.sin(z)


def each(x, y):
    return tuple(torch._foreach_mul([x, y], 3))


MIXED = {"triton.mix_order_reduction_non_strict_mode": True}
inductor.install(find("h100"))
for function, settings, *shapes in (
    (distances, {"triton.persistent_reductions": False}, (12, 40), (20, 40)),
    (product, _TUNED, (70, 24), (24, 40), (40,)),
    (product, _TMA, (64, 64), (64, 128), (128,)),
    (sums, MIXED, (400, 30)),
    (total, _FORCED, (3, 3000)),
    (running, {}, (9000,)),
    (together, _COMBINED, (1000, 30), (700,), (800,)),
    (each, {}, (50, 30), (700,)),
):
    variant = Variant(0, torch.float32, settings)
    for found in kernel_files(function.__name__, Graph(function, (shapes,), False, (variant,))):
        assert not isinstance(found, LeftOut), (function, found)
        path = Path(sys.argv[1], f"{found.template}.py")
        path.write_text(found.text)
"""


def test_what_is_made_of_graphs_computes_them(tmp_path):
    _child("-c", _MAKER, str(tmp_path))
    made = sorted(tmp_path.glob("*.py"))
    assert [path.stem for path in made] == [
        *("combo", "cooperative_reduction", "foreach", "mix_order_reduction", "mm"),
        *("mm_persistent_tma", "reduction", "split_scan"),
    ]
    wrong = tmp_path / "wrong.py"
    text = (tmp_path / "mm.py").read_text()
    assert "aten.relu.default" in text
    wrong.write_text(text.replace("aten.relu.default", "aten.neg.default"))
    check = ("-m", "solkit.collect.inductor_check", "--programs", "3", "--configurations", "1")
    done = _run(*check, *map(str, made), str(wrong))
    found = dict(line.split(": ", 1) for line in done.stderr.splitlines() if ".py: " in line)
    assert [name for name, told in found.items() if not told.startswith("right")] == [str(wrong)]
    assert found[str(wrong)].startswith("AssertionError: output 0")
    assert done.returncode == 1


def _child(*command: str) -> None:
    """Runs Python in a process of its own: the maker has torch believe in a GPU."""
    done = _run(*command)
    assert done.returncode == 0, done.stderr


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=Path(solkit.__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=300,
    )


def _function_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return text.split("@triton.jit", 1)[1].split("\ndef valid", 1)[0]


def _empty(shape: object, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(shape, Given):
        return shape.make(dtype)
    if isinstance(shape, Index):
        return torch.empty(shape.shape, dtype=torch.int64)
    if isinstance(shape, Mask):
        return torch.empty(shape.shape, dtype=torch.bool)
    return torch.empty(shape, dtype=dtype)
