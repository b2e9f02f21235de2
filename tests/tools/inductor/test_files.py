"""`tools.inductor`: what the files compute is what the graphs do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import solkit
from solkit import pipeline
from solkit.core import AnalysisStatus
from solkit.datasets.kernels import INDUCTOR, select_kernels
from tools.inductor import splits, templates  # noqa: F401 - they add graphs
from tools.inductor.graphs import GRAPHS, Given, Index, Mask

_FILES = sorted(INDUCTOR.glob("*/*.py"))
_TEMPLATES = {
    *("pointwise", "reduction", "persistent_reduction", "cooperative_reduction"),
    *("mix_order_reduction", "split_scan", "foreach", "combo", "mm", "mm_persistent_tma"),
    *("bmm", "grouped_mm", "convolution2d"),
}


@pytest.fixture(scope="module")
def selected():
    return select_kernels(["inductor"])


def test_the_files_that_are_there_are_found_by_name(selected):
    assert len(selected) == len(_FILES) >= 700
    assert (
        {kernel.kind for kernel in selected}
        == {kernel.origin for kernel in selected}
        == {"inductor"}
    )
    assert {k.family for k in selected} >= _TEMPLATES
    assert len({kernel.kernel_id for kernel in selected}) == len(selected)


def test_a_file_that_is_named_itself_is_the_same_kernel(selected):
    path = next(iter((INDUCTOR / "reduction").glob("*.py")))
    (alone,) = select_kernels([str(path)])
    assert alone in selected
    assert alone.family == "reduction"


def test_no_two_files_are_alike_but_for_numbers():
    bodies = {re.sub(r"\d+", "0", _function_of(path)) for path in _FILES}
    assert len(bodies) == len(_FILES)


def test_a_file_can_be_analysed_with_no_gpu():
    path = min((INDUCTOR / "reduction").glob("row_sum_*.py"), key=lambda p: p.name)
    analysis = pipeline.analyse(path, "h100")
    assert analysis.status is AnalysisStatus.COMPLETE
    assert [kernel.launch.name for kernel in analysis.kernels] == ["fused_kernel"]


@pytest.mark.quick("cooperative_softmax")
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
from tools.inductor.files import LeftOut, kernel_files
from tools.inductor.graphs import _BLOCK_POINTERS, Graph, Variant
from tools.inductor.splits import _COMBINED, _FORCED
from tools.inductor.templates import _TMA, _TUNED
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


def decayed(x):
    return torch.cumsum(-torch.exp(x) * 0.1, dim=-1).exp() * x


def coded(x):
    scale = x.float().abs().amax(dim=1, keepdim=True) / 127
    return scale, torch.round(x / scale).to(torch.int8)


def centred(x):
    high = x + 1000
    low = high - high.mean(1, keepdim=True)
    return low, low.sum(1)


def gated(x, w, b):
    out = x @ w
    return torch.tanh(out * 0.3) * b


def outer(x):
    return torch.exp(x).sum((0, 2))


MIXED = {"triton.mix_order_reduction_non_strict_mode": True}
inductor.install(find("h100"))
NARROW = (decayed, coded, gated)
for function, settings, *shapes in (
    (decayed, {}, (40, 100)),
    (coded, {}, (4, 20)),
    (centred, {}, (40, 100)),
    (gated, _TUNED, (64, 48), (48, 40), (40,)),
    (outer, _BLOCK_POINTERS, (64, 32, 256)),
    (distances, {"triton.persistent_reductions": False}, (12, 40), (20, 40)),
    (product, _TUNED, (70, 24), (24, 40), (40,)),
    (product, _TMA, (64, 64), (64, 128), (128,)),
    (sums, MIXED, (400, 30)),
    (total, _FORCED, (3, 3000)),
    (running, {}, (9000,)),
    (together, _COMBINED, (1000, 30), (700,), (800,)),
    (each, {}, (50, 30), (700,)),
):
    dtype = torch.bfloat16 if function in NARROW else torch.float32
    variant = Variant(0, dtype, settings)
    for found in kernel_files(function.__name__, Graph(function, (shapes,), False, (variant,))):
        assert not isinstance(found, LeftOut), (function, found)
        path = Path(sys.argv[1], f"{function.__name__}_{found.template}.py")
        path.write_text(found.text)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files by the function and the template that they are of."""
    folder = tmp_path_factory.mktemp("made")
    _child("-c", _MAKER, str(folder))
    return {path.stem: path for path in sorted(folder.glob("*.py"))}


@pytest.mark.slow
def test_what_is_made_of_graphs_computes_them(files, tmp_path):
    assert list(files) == [
        *("centred_persistent_reduction", "coded_persistent_reduction"),
        "decayed_persistent_reduction",
        *("distances_reduction", "each_foreach", "gated_mm", "outer_reduction"),
        *("product_mm", "product_mm_persistent_tma", "running_split_scan"),
        *("sums_mix_order_reduction", "together_combo", "total_cooperative_reduction"),
    ]
    wrong = tmp_path / "wrong.py"
    text = files["product_mm"].read_text()
    assert "aten.relu.default" in text
    wrong.write_text(text.replace("aten.relu.default", "aten.neg.default"))
    off = tmp_path / "off.py"
    text = files["coded_persistent_reduction"].read_text()
    off.write_text(text.replace("aten.round.default(div_1)", "aten.round.default(div_1) + 2"))
    check = ("-m", "tools.inductor.check", "--programs", "3", "--configurations", "1")
    done = _run(*check, *map(str, files.values()), str(wrong), str(off))
    fields = dict(line.split(": ", 1) for line in done.stderr.splitlines() if ".py: " in line)
    bad = [name for name, field in fields.items() if not field.startswith("right")]
    assert bad == [str(wrong), str(off)]
    assert fields[str(wrong)].startswith("AssertionError: output 0")
    assert done.returncode == 1


@pytest.mark.slow
def test_a_narrow_reference_rounds_once(files):
    part = _problem(files["decayed_persistent_reduction"])
    (x,) = part["inputs"](device="cpu")
    wide = x.float()
    want = (torch.cumsum(-torch.exp(wide) * 0.1, dim=-1).exp() * wide).bfloat16()
    assert torch.equal(part["reference"](x), want)


@pytest.mark.slow
def test_a_narrow_product_keeps_its_operands(files):
    part = _problem(files["gated_mm"])
    x, w, b = part["inputs"](device="cpu")
    want = (torch.tanh((x @ w).float() * 0.3) * b).bfloat16()
    assert torch.equal(part["reference"](x, w, b), want)
    text = files["gated_mm"].read_text()
    assert "mm = aten.mm.default(x_1, w_1)" in text


@pytest.mark.slow
def test_codes_may_be_off_by_one_but_seldom(files):
    check = _problem(files["coded_persistent_reduction"])["check"]
    scale, codes = torch.rand(40, 1), torch.zeros(40, 100, dtype=torch.int8)
    check((scale, codes), (scale, codes))
    moved = codes.clone()
    moved.view(-1)[:30] = 1
    check((scale, moved), (scale, codes))
    for bad in (torch.ones_like(codes), moved * 2):
        with pytest.raises(AssertionError):
            check((scale, bad), (scale, codes))
    with pytest.raises(AssertionError):
        check((scale * 1.01, codes), (scale, codes))


@pytest.mark.slow
def test_what_cancels_is_held_to_the_rounding_of_what_cancels(files):
    part = _problem(files["centred_persistent_reduction"])
    ulp = 2.0**-14  # of 1000
    assert 2 * ulp < part["TOLERANCE"]["atol"] < 20 * ulp
    torch.manual_seed(1)
    low, nothing = part["reference"](*part["inputs"](device="cpu"))
    assert 0 < nothing.abs().max() < 100 * 4 * ulp  # of 100 terms
    check = part["check"]
    check((low, -nothing), (low, nothing))
    for bad in ((low, nothing + 1), (low + 0.01, nothing)):
        with pytest.raises(AssertionError):
            check(bad, (low, nothing))


@pytest.mark.slow
def test_a_check_holds_each_output_to_its_own():
    from tools.inductor.tolerance import Permitted, check_text  # loads Inductor

    passes = Permitted(1e-4, 1e-5, {2: 3e-9})
    assert check_text([], Permitted(1e-4, 1e-5), 3) == ""
    names: dict[str, Any] = {
        "torch": torch,
        "TOLERANCE": {"rtol": passes.rtol, "atol": passes.atol},
    }
    exec(check_text([0], passes, 3), names)
    want = torch.zeros(200, dtype=torch.int8), torch.ones(200), torch.zeros(200)
    seldom = torch.zeros(200, dtype=torch.int8)
    seldom[7] = 1
    names["check"]((seldom, want[1] + 1e-5, want[2] + 2e-9), want)
    for place, bad in enumerate((seldom * 2, want[1] + 1e-3, want[2] + 1e-6)):
        with pytest.raises(AssertionError):
            names["check"]((*want[:place], bad, *want[place + 1 :]), want)


@pytest.mark.slow
def test_what_inductor_would_never_launch_is_left_out(files):
    scan = _problem(files["running_split_scan"])  # its workspace is for blocks of 256
    assert min(scan["SPACE"]["R0_BLOCK"]) == 256
    valid = _problem(files["outer_reduction"])["valid"]
    wrapped = {"XBLOCK": 1, "num_warps": 1}  # its rows have 256 columns
    assert valid({"R0_BLOCK": 512, **wrapped}, {})
    assert not valid({"R0_BLOCK": 128, **wrapped}, {})


def _problem(path: Path) -> dict[str, Any]:
    """A file's names but for its kernel."""
    head, rest = path.read_text().split("@triton.jit", 1)
    names: dict[str, Any] = {}
    exec(f"{head}\ndef valid{rest.split(chr(10) + 'def valid', 1)[1]}", names)
    return names


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
