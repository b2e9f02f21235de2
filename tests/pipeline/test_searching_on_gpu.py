"""Searches on a real GPU: failures in common, equals, what a variant costs, memory at the gate."""

from __future__ import annotations

import pytest
import torch

from solkit.core import EvolveSettings, Proposal, Stopped, TuneSettings, TuneVerdict
from solkit.pipeline.evolving import EvolveParts, evolve
from solkit.pipeline.practice import SIZE_GUARD
from solkit.pipeline.tuning import tune

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

DOUBLE = """
import torch, triton
import triton.language as tl

def inputs(N=1 << 22, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2

@triton.jit
def double(x, y, n, BLOCK: tl.constexpr, SPARE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

def kernel(x, *, BLOCK=1024, num_warps=4, SPARE=0):
    y = torch.empty_like(x, dtype=torch.float32)
    grid = (triton.cdiv(x.numel(), BLOCK),)
    double[grid](x, y, x.numel(), BLOCK, SPARE, num_warps=num_warps)
    return y

SPACE = {"BLOCK": [256, 512, 1024, 2048, 4096], "num_warps": [1, 2, 4, 8], "SPARE": [0, 1, 2, 3]}
"""

STAGED = """
import torch, triton
import triton.language as tl

def inputs(N=256, device="cuda"):
    return torch.randn(N, N, device=device), torch.randn(N, N, device=device)

def reference(a, b):
    return a @ b

@triton.jit
def product(a, b, c, n, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, n, TILE):
        inner = start + tl.arange(0, TILE)
        left = tl.load(a + rows[:, None] * n + inner)
        right = tl.load(b + inner[:, None] * n + columns)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + rows[:, None] * n + columns, total)

def kernel(a, b, *, TILE=128, num_stages=5, num_warps=8):
    c = torch.empty_like(a)
    n = a.shape[0]
    product[n // TILE, n // TILE](a, b, c, n, TILE, num_stages=num_stages, num_warps=num_warps)
    return c

SPACE = {"TILE": [32, 64, 128], "num_stages": [2, 5], "num_warps": [4, 8]}
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}
"""


@pytest.fixture
def tuned(tmp_path):
    def tuned(text, seconds=5.0, final="turns", **settings):
        path = tmp_path / "kernel.py"
        path.write_text(text)
        how = TuneSettings(log=tmp_path / "log.jsonl", final=final, **settings)
        result = tune(path, gpu_seconds=seconds, settings=how)
        print(result.stopped, result.measured, result.failed, result.notes)
        return result

    return tuned


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("dtype=torch.float32)\n    grid", "dtype=torch.float16)\n    grid"), "float16"),
        (("    return y\n", "    return y[:-1]\n"), "4194303"),
        (("    grid =", "    raise ValueError('not today')\n    grid ="), "not today"),
    ],
)
def test_what_no_parameter_changes_ends_the_search_early(tuned, change, why):
    result = tuned(DOUBLE.replace(*change))
    assert (result.stopped, result.best) == (Stopped.FAILS_ALIKE, None)
    assert 6 <= result.measured <= 24  # of 80
    assert any("fail alike" in note and why in note for note in result.notes)


def test_too_much_shared_memory_proves_nothing(tuned):
    result = tuned(STAGED)
    assert result.best is not None
    assert result.best.params["TILE"] < 128
    assert result.verdict is TuneVerdict.FASTER


def test_the_guarded_final_shows_what_the_search_found(tuned):
    repeated = DOUBLE.replace("    tl.store(", "    for _ in range(SPARE):\n      tl.store(")
    slow = repeated.replace("SPARE=0", "SPARE=8").replace("[0, 1, 2, 3]", "[1, 8]")
    result = tuned(slow, stop_at=2.0, final="guarded")
    assert result.best.params["SPARE"] == 1
    assert (result.verdict, result.final.how) == (TuneVerdict.FASTER, "guarded")
    assert result.final.ratio.high < 1.0


def test_equal_configurations_are_listed_and_chosen_alike(tuned):
    """`SPARE` changes nothing, so each configuration has three that are as fast."""
    first, second = (tuned(DOUBLE, seed=seed, stop_at=2.0) for seed in (0, 1))
    assert first.equals
    assert second.equals
    results = [[run.best.params, *(one.params for one in run.equals)] for run in (first, second)]
    assert any(params in results[1] for params in results[0])


NAIVE = """
import torch, triton
import triton.language as tl

SHAPES = [{"M": 4096, "N": 1000}]
HELD_OUT_SHAPES = [{"M": 64, "N": 777}, {"M": 1 << 24, "N": 4096}]

def inputs(M=4096, N=1000, device="cuda"):
    return (torch.randn(M, N, device=device),)

def reference(x):
    return x.sum(1)

@triton.jit
def sums(x, y, n):
    row = tl.program_id(0).to(tl.int64)
    total = 0.0
    for at in range(0, n):
        total += tl.load(x + row * n + at)
    tl.store(y + row, total)

def kernel(x):
    y = torch.empty(x.shape[0], device=x.device)
    sums[(x.shape[0],)](x, y, x.shape[1])
    return y
"""


@pytest.mark.slow
def test_the_gate_holds_within_the_memory(tmp_path):
    """The second held-out shape needs 550 GB; an eighth of the memory is enough to hold there."""
    path = tmp_path / "sums.py"
    path.write_text(NAIVE)
    how = EvolveSettings(log=tmp_path / "log.jsonl")
    result = evolve(path, gpu_seconds=6.0, settings=how)
    assert result.verdict is TuneVerdict.FASTER
    assert any("does not fit into the GPU's memory" in note for note in result.notes)


class Written:
    """Proposes one text."""

    name = "written"

    def __init__(self, text):
        self.text = text

    def propose(self, _brief):
        yield Proposal(self.text, "text", "")


UNEVEN = """
@triton.jit
def row_sums(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.sum(tl.load(x + row * n + at, mask=at < n, other=0.0)))

def kernel(x):
    y = torch.empty(x.shape[0], device=x.device)
    m, n = x.shape
    for _ in range(1 if m < 20000 else 300):
        row_sums[(m,)](x, y, n, BLOCK=triton.next_power_of_2(n))
    return y
"""


@pytest.mark.slow
def test_a_winner_leaves_shapes_to_the_original_where_it_is_slower(tmp_path):
    """It launches 300 times at the second held-out shape."""
    path = tmp_path / "sums.py"
    large = '{"M": 32768, "N": 1000}'
    path.write_text(NAIVE.replace('{"M": 1 << 24, "N": 4096}', large))
    parts = EvolveParts([Written(path.read_text().split("@triton.jit")[0] + UNEVEN)])
    how = EvolveSettings(log=tmp_path / "log.jsonl")
    result = evolve(path, gpu_seconds=6.0, settings=how, parts=parts)
    assert result.verdict is TuneVerdict.FASTER, result.gate
    assert result.winner.variant.kind == SIZE_GUARD
    assert "x.numel() >" in result.winner.variant.source
    assert [held.passed for held in result.gate.held_out] == [True, True]
