"""Captured features follow what a launch does, not how a library writes it or what it names."""

from __future__ import annotations

import ast
import importlib.util
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from solkit.analysis.triton.capture import capture
from solkit.core import Depth, Facts, KernelAnalysis
from solkit.kernelfiles import Workload
from solkit.roofline.devices import find
from solkit.surrogate.features import Candidates, Problem, features_of_problems

H100 = find("h100")
ROWS, COLS = 4096, 1500
BYTES = 4 * ROWS * COLS
PROBLEM = Problem(0.02, "dram", {"fp32": 5.0 * ROWS * COLS}, BYTES, BYTES, {"M": ROWS, "N": COLS})
SCALE = tl.constexpr(1.44269504)
SCALES = tl.constexpr((0.0, 1.44269504))
HOST_SIZES = [ROWS, COLS]


@triton.jit
def own(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + at, mask=at < N)
    grown = tl.exp(x * 1.44269504)
    tl.store(out_ptr + row * N + at, grown / tl.sum(grown, axis=0), mask=at < N)


@triton.jit
def strided(inp, res, stride_row, hidden_size, BLOCK_SIZE: tl.constexpr):
    inp += tl.program_id(0) * stride_row
    res += tl.program_id(0) * stride_row
    cols = tl.arange(0, BLOCK_SIZE)
    value = tl.load(inp + cols, mask=cols < hidden_size)
    value = tl.exp(value * SCALE)
    tl.store(res + cols, value / tl.sum(value, axis=0), mask=cols < hidden_size)


@triton.heuristics({"WIDTH": lambda args: triton.next_power_of_2(args["n_cols"])})
@triton.jit
def heuristic(a, b, n_cols, WIDTH: tl.constexpr):
    r = tl.program_id(0)
    j = tl.arange(0, WIDTH)
    v = tl.load(a + r * n_cols + j, mask=j < n_cols)
    v = tl.exp(v * SCALES[1])
    tl.store(b + r * n_cols + j, v / tl.sum(v, axis=0), mask=j < n_cols)


@triton.jit
def load_row(pointer, row, sizes, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    return tl.load(pointer + row * sizes[1] + at, mask=at < sizes[1]), at


@triton.jit
def grow(x):
    return tl.exp(x * 1.44269504)


@triton.jit
def composed(src, dst, sizes, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x, at = load_row(src, row, sizes, BLOCK)
    grown = FUNCTION(x)
    if sizes[0] > 0:
        tl.store(dst + row * sizes[1] + at, grown / tl.sum(grown, axis=0), mask=at < sizes[1])


@triton.jit
def guarded(x_ptr, bias_ptr, out_ptr, n_rows, n_cols, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if row >= n_rows:
        return
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + at, mask=at < n_cols)
    if HAS_BIAS:
        x += tl.load(bias_ptr + at, mask=at < n_cols)
    grown = tl.exp(x * SCALE)
    tl.store(out_ptr + row * n_cols + at, grown / tl.sum(grown, axis=0), mask=at < n_cols)


@triton.jit
def while_strided(x_ptr, out_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    while row < n_rows:
        at = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + at, mask=at < n_cols)
        grown = tl.exp(x * SCALE)
        tl.store(out_ptr + row * n_cols + at, grown / tl.sum(grown, axis=0), mask=at < n_cols)
        row += tl.num_programs(0)


@triton.jit
def for_strided(a, b, rows, cols, B: tl.constexpr):
    for r in range(tl.program_id(0), rows, tl.num_programs(0)):
        i = tl.arange(0, B)
        v = tl.load(a + r * cols + i, mask=i < cols)
        v = tl.exp(v * SCALE)
        tl.store(b + r * cols + i, v / tl.sum(v, axis=0), mask=i < cols)


def by_own(x):
    out = torch.empty_like(x)
    own[(ROWS,)](x, out, COLS, 2048)
    return out


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.width = 2048

    def forward(self, hidden_states):
        result = torch.empty_like(hidden_states)
        width = hidden_states.shape[-1]
        own[lambda meta: (meta["N"] // width * ROWS,)](
            hidden_states, result, width, BLOCK=self.width
        )
        return result


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # noqa: ARG004
        flat = x.view(-1, x.shape[-1])
        return run_strided(flat, torch.empty_like(flat)).view(x.shape)


def run_strided(x, y):
    settings = {"BLOCK_SIZE": triton.next_power_of_2(x.shape[1]), "num_warps": 4}
    strided[(x.shape[0],)](x, y, x.stride(0), x.shape[1], **settings)
    return y


def by_heuristics(x):
    out = torch.empty_like(x)
    heuristic[(x.size(0),)](x, out, x.size(1))
    return out


def by_functions(x):
    out = torch.empty_like(x)
    composed[(HOST_SIZES[0],)](x, out, tuple(HOST_SIZES), grow, 2048)
    return out


def by_optional(x):
    out = torch.empty_like(x)
    guarded[(ROWS, 1, 1)](x, None, out, x.shape[0], x.shape[1], HAS_BIAS=False, BLOCK=2048)
    return out


def in_place(x):
    own[(ROWS,)](x, x, COLS, 2048)
    return x


def by_closure(x):
    scale = tl.constexpr(1.44269504)

    @triton.jit
    def inner(p, q, n, B: tl.constexpr):
        r = tl.program_id(axis=0)
        k = tl.arange(0, B)
        v = tl.load(p + r * n + k, k < n)
        v = tl.exp(v * scale)
        tl.store(q + r * n + k, v / tl.sum(v, 0), k < n)

    out = torch.empty_like(x)
    inner[(ROWS,)](x, out, COLS, B=2048)
    return out


def by_package(x):
    """Launch a kernel of a module that is nowhere near, whose helpers are in a further one."""
    with tempfile.TemporaryDirectory() as folder:
        loaded = [_module_of_text(name, text, folder) for name, text in PACKAGE.items()]
        return loaded[-1].softmax(x)


PACKAGE = {
    "styles_helpers": """
import triton
import triton.language as tl

LOG2E = tl.constexpr(1.44269504)

@triton.jit
def raised(value):
    return tl.math.exp(value * LOG2E)
""",
    "styles_kernels": """
import torch
import triton
from triton import language as T
from styles_helpers import raised as lifted

@triton.jit
def kernel(In, Out, cols, TILE: T.constexpr):
    line = T.program_id(0).to(T.int32)
    offsets = T.arange(0, TILE)
    valid = offsets < cols
    data = lifted(T.load(In + line * cols + offsets, valid))
    T.store(Out + line * cols + offsets, data / T.sum(data, axis=0), valid)

def softmax(x):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, y, x.shape[1], TILE=2048)
    return y
""",
}


def _module_of_text(name, text, folder):
    path = Path(folder) / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def by_sms(kernel):
    def launch(x):
        sms = torch.cuda.get_device_properties(x.device).multi_processor_count
        out = torch.empty_like(x)
        kernel[(2 * sms,)](x, out, x.shape[0], x.shape[1], 2048)
        return out

    return launch


STYLES = {
    "module": lambda x: Module()(x),
    "autograd": lambda x: Function.forward(None, x.view(64, -1, COLS)),
    "heuristics": by_heuristics,
    "functions": by_functions,
    "optional": by_optional,
    "in place": in_place,
    "closure": by_closure,
    "package": by_package,
}


def captured_launches(run):
    x = torch.empty(ROWS, COLS, device="cuda")
    captured = capture(Workload((x,), {}, None, partial(run)), {})
    return [launch.launch for launch in captured.launches]


def features(launches):
    kernels = [KernelAnalysis(Facts(launch, Depth.CAPTURED)) for launch in launches]
    columns = features_of_problems([(PROBLEM, H100, Candidates([kernels], [""]))])[0]
    return {name: float(column[0]) for name, column in columns.items()}


@pytest.fixture(scope="module")
def all_styles(in_child):
    runs = {"own": by_own, "while": by_sms(while_strided), "for": by_sms(for_strided)} | STYLES

    def run_all():
        return {name: captured_launches(run) for name, run in runs.items()}

    return {name: features(launches) for name, launches in in_child(run_all).items()}


LOOSE = {"tiles.integer", "params.flags", "tiles.branches"}


@pytest.mark.parametrize("style", STYLES)
def test_a_librarys_launcher_has_the_features_of_our_own(all_styles, style):
    own_features, others = all_styles["own"], all_styles[style]
    assert own_features.keys() == others.keys()
    for name, value in own_features.items():
        if name not in LOOSE and not name.startswith("params.constant"):
            assert others[name] == pytest.approx(value, abs=1e-9, nan_ok=True), name


def test_rows_that_blocks_share_out_are_counted_whichever_loop_does(all_styles):
    own_features = all_styles["own"]
    for style in ("while", "for"):
        for name in ("tiles.load_traffic", "tiles.store_traffic", "tiles.load_run", "tiles.slow"):
            # 4,096 rows among 264 blocks: 15 or 16 each
            assert all_styles[style][name] == pytest.approx(own_features[name], abs=0.02), name
        assert all_styles[style]["tiles.guessed"] == 0
        assert all_styles[style]["tiles.trips"] == pytest.approx(np.log2(4096 / 264), abs=0.01)


def test_traffic_counts_what_masks_let_through(all_styles):
    for name in ("load", "store"):  # 1,500 of 2,048 columns: all that must be moved, no more
        assert all_styles["own"][f"tiles.{name}_traffic"] == pytest.approx(0, abs=1e-9)


class _Renamer(ast.NodeTransformer):
    """Renames every argument, variable, constant and function of a file."""

    def __init__(self, names):
        self.names = {name: f"q{place}_{name[::-1]}" for place, name in enumerate(sorted(names))}

    def visit_Name(self, node):
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node):
        node.arg = self.names.get(node.arg, node.arg)
        return self.generic_visit(node)

    def visit_keyword(self, node):
        node.arg = self.names.get(node.arg, node.arg)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node):
        node.name = self.names.get(node.name, node.name)
        return self.generic_visit(node)


def renamed(text, kept):
    tree = ast.parse(text)
    names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} | {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return ast.unparse(_Renamer(names - set(kept)).visit(tree))


KEPT = ("kernel", "num_warps", "num_stages")
"""Names that are no choice of a kernel's author: SolKit's and Triton's own."""


@pytest.mark.parametrize(
    "file", ["gemm/naive.py", "gemm/split_k_atomic.py", "softmax/whole_row.py"]
)
def test_renaming_everything_changes_no_feature(in_child, tmp_path, file):
    import solkit

    text = (Path(solkit.__file__).parent / "datasets" / "zoo" / file).read_text()

    def run_both():
        results = []
        for name, source in (("zoo_own", text), ("zoo_renamed", renamed(text, KEPT))):
            module = _module_of_text(name, source, tmp_path)
            pair = [torch.empty(512, 512, device="cuda", dtype=torch.float16) for _ in range(2)]
            function = module.kernel
            parameters = function.__code__.co_argcount
            workload = Workload(tuple(pair[:parameters]), {}, None, partial(function))
            launches = capture(workload, {}).launches
            results.append([launch.launch for launch in launches])
        return results

    ours, theirs = in_child(run_both)
    assert ours[0].signature.keys().isdisjoint(theirs[0].signature)
    one, other = features(ours), features(theirs)
    np.testing.assert_equal(one, other)  # bit by bit
    assert one["tiles.guessed"] == 0
