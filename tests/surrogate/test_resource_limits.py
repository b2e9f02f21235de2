"""Parameters that ask too much of a block: a real kernel is captured, the numbers are by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from solkit import rank
from solkit.analysis.analyser import Analyser
from solkit.core import Configuration, Depth
from solkit.roofline.devices import find
from solkit.surrogate.plan import Action
from solkit.surrogate.ranking import RankSettings, Request
from solkit.surrogate.ranking import rank as ranked
from solkit.surrogate.resource_limits import P_OVERLOAD

PLAIN = Path(__file__).parents[2] / "bench" / "naive" / "matmul_plain.py"
TUNED = """    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))"""
OPTIONS = "        num_warps=num_warps,\n        num_stages=num_stages,\n    )\n    return c"
LAUNCHER = """SPACE = {
    "BLOCK_M": [64, 128, 256],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64, 256],
    "num_warps": [1, 4, 8, 16],
    "num_stages": [1, 2, 3, 5],
}


def kernel(a, b, *, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3):"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The plain product of bf16 matrices with parameters, its operands not widened."""
    text = PLAIN.read_text()
    text = text.replace(".to(tl.float32), b.to(tl.float32))", ", b)")
    for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"):
        text = text.replace(f"{name}=32", f"{name}={name}")
    text = text.replace("def kernel(a, b):", LAUNCHER)
    text = text.replace("    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))", TUNED)
    text = text.replace("    )\n    return c", OPTIONS)
    path = tmp_path_factory.mktemp("product") / "product.py"
    path.write_text(text)
    return str(path)


def point(m, n, k, warps, stages):
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
    return dict(zip(names, (m, n, k, warps, stages), strict=True))


@pytest.mark.quick("params5-")
@pytest.mark.parametrize(
    ("params", "why"),
    [
        (point(128, 128, 64, 8, 3), ""),  # 64 sums a thread, 2 x 32 KiB
        (point(128, 256, 32, 8, 5), ""),  # 128 sums, 4 x 24 KiB
        (point(256, 128, 32, 4, 1), "256 sums of products; it has 255 registers"),
        (point(256, 128, 32, 1, 3), "1024 sums of products"),
        (point(256, 256, 32, 16, 2), "128 sums of products; it has 128 registers"),
        (point(128, 128, 256, 8, 2), ""),  # 128 KiB
        (point(128, 128, 256, 8, 3), "1.1 times the shared memory"),  # 2 x 128 KiB
        (
            point(128, 128, 256, 8, 5),
            "2.2 times the shared memory",
        ),  # 512 of the 228 that an SM has
    ],
)
def test_what_a_block_cannot_have_will_hardly_run(file, params, why):
    first = point(64, 64, 32, 4, 3)
    settings = RankSettings("captured", incumbent=first)
    configurations = [Configuration(file, "kernel", params=item) for item in (first, params)]
    (plan,) = rank(configurations, device="h100", budget=1, settings=settings)
    (selected_candidate,) = (e for e in plan.ranked if dict(e.configuration.params) == params)
    assert selected_candidate.depth is Depth.CAPTURED
    assert selected_candidate.forecast.p_fail == (P_OVERLOAD if why else 0.0)
    assert why in selected_candidate.reason


@pytest.mark.slow
def test_what_is_in_use_is_measured_all_the_same_and_the_rest_goes_deeper(file):
    used = point(256, 128, 32, 1, 3)
    settings = RankSettings("captured", incumbent=used)
    (plan,) = rank(file, device="h100", budget=20, settings=settings)
    doubted = [candidate for candidate in plan.ranked if candidate.forecast.p_fail == P_OVERLOAD]
    (own,) = (item for item in doubted if dict(item.configuration.params) == used)
    assert own.action is Action.MEASURE
    assert {item.action for item in doubted if item is not own} == {Action.SKIP}
    by_hand = [
        candidate
        for candidate in plan.ranked
        if candidate.configuration.params["BLOCK_M"] * candidate.configuration.params["BLOCK_N"]
        >= min(255 * 32 * candidate.configuration.params["num_warps"], 65536)
    ]
    assert {id(item) for item in by_hand} <= {id(item) for item in doubted}
    assert 0 < len(by_hand) < len(doubted) < len(plan.ranked)


ROWS = """
import torch, triton, triton.language as tl

SHAPES = [{"M": 4096, "N": 4096}]
SPACE = {"ROWS": [1, 4, 8, 64], "num_warps": [1, 4, 16]}

def inputs(M=4096, N=4096, device="cuda"):
    return (torch.randn(M, N, device=device),)

def reference(x):
    return torch.softmax(x, -1)

@triton.jit
def softmax(x, out, N, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    at = rows[:, None] * N + columns[None, :]
    tile = tl.load(x + at)
    tile = tl.exp(tile - tl.max(tile, 1)[:, None])
    tl.store(out + at, tile / tl.sum(tile, 1)[:, None])

def kernel(x, *, ROWS=8, num_warps=4):
    out = torch.empty_like(x)
    M, N = x.shape
    softmax[(M // ROWS,)](x, out, N, BLOCK=N, ROWS=ROWS, num_warps=num_warps)
    return out
"""


@pytest.mark.slow
@pytest.mark.parametrize("in_use", [True, False])
def test_tiles_of_many_values_a_thread_go_no_deeper_unless_in_use(tmp_path, in_use):
    text = ROWS
    if in_use:  # it is compiled: with the sums ptxas would take a minute, as it spills
        text = text.replace("tl.exp(tile - tl.max(tile, 1)[:, None])", "2 * tile")
        text = text.replace("tile / tl.sum(tile, 1)[:, None]", "tile")
    path = tmp_path / "rows.py"
    path.write_text(text)
    used = {"ROWS": 64, "num_warps": 4}
    points = {str(path): [{"ROWS": r, "num_warps": w} for r in (1, 4, 8, 64) for w in (1, 4, 16)]}
    settings = RankSettings("lowered", incumbent=used)
    with Analyser(find("h100-sxm")) as analyser:
        request = Request([str(path)], points=points, settings=settings, in_use=in_use)
        (plan,) = ranked(request, analyser, None)
    depths = {}
    for candidate in plan.ranked:
        params = dict(candidate.configuration.params)
        values = 4096 * params["ROWS"] // (32 * params["num_warps"])
        if in_use and params == used:
            assert values == 2048
            assert candidate.depth in (Depth.LOWERED, Depth.COMPILED)  # what is in use goes deeper
            continue
        assert (candidate.forecast.p_fail == P_OVERLOAD) == (values >= 2048)
        depths.setdefault(values >= 2048, set()).add(candidate.depth)
        if values == 8192:
            assert "8192 values of a tile; it has 255 registers" in candidate.reason
    assert depths == {True: {Depth.CAPTURED}, False: {Depth.LOWERED}}
