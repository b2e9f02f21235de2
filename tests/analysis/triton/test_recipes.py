"""Launchers of every kind: what their recipes give is what running them gives."""

from __future__ import annotations

import functools
from itertools import product

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.analysis.triton import recipes
from solkit.analysis.triton.capture import CaptureError, capture
from solkit.analysis.triton.recipes import Recipes, are_captures_equal
from solkit.errors import ParamsError
from solkit.kernelfiles import Workload

N = 1000


@triton.jit
def add_kernel(x, out, n, parts, BLOCK: tl.constexpr, POLICY: tl.constexpr = ""):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n, eviction_policy=POLICY) + parts, at < n)


@triton.autotune(
    [triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128, 256) for w in (2, 4)], key=["n"]
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, EVEN or at < n), at < n)


@triton.jit
def tile_kernel(x, out, BLOCK: tl.constexpr):
    corner = [tl.program_id(0) * BLOCK, 0]
    out.store(corner, x.load(corner))


def computed(x, *, BLOCK=64, PARTS=1, POLICY="", num_warps=4):
    out = torch.empty_like(x)
    grid = (triton.cdiv(N, BLOCK),)
    add_kernel[grid](x, out, N, PARTS, BLOCK, POLICY=POLICY, num_warps=num_warps)
    return out


def by_meta(x, *, BLOCK=64, num_warps=4):
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](
        x, out, N, 16, BLOCK, num_warps=num_warps
    )
    return out


def branching(x, *, BLOCK=64, FIRST=False):
    out = torch.empty_like(x)
    grid = (triton.cdiv(N, BLOCK), 1)
    add_kernel[grid[::-1] if FIRST else grid](x, out, N, 1, BLOCK)
    return out


def through_memory(x, *, BLOCK=64, PARTS=2):
    partial = torch.zeros((PARTS, N), dtype=torch.int32, device=x.device)
    add_kernel[(PARTS, 2)](x, partial, partial.shape[1], partial.stride(0), BLOCK)
    last = partial.view(-1)[N:]
    add_kernel[(triton.cdiv(last.numel(), BLOCK),)](last, partial, last.numel(), PARTS, BLOCK)
    return partial.sum(0)


def looked_up(x, *, BLOCK=64, num_warps=4):
    stages = {64: 1, 128: 2}.get(BLOCK, 3)
    add_kernel[(triton.cdiv(N, BLOCK),)](x, x, N, 1, BLOCK, num_warps=num_warps, num_stages=stages)
    return x


@functools.lru_cache
def plan(n, block):
    return triton.cdiv(n, block)


def remembered(x, *, BLOCK=64, num_warps=4):
    add_kernel[(plan(N, BLOCK),)](x, x, N, 1, BLOCK, num_warps=num_warps)
    return x


def described(x, *, BLOCK=64, num_warps=4):
    tiles = x[: N - N % 256].view(-1, 4)
    out = torch.empty_like(tiles)
    tile_kernel[(triton.cdiv(len(tiles), BLOCK),)](
        *(TensorDescriptor.from_tensor(item, [BLOCK, 4]) for item in (tiles, out)),
        BLOCK,
        num_warps=num_warps,
    )
    return out


def of_values(x, *, BLOCK=64, PARTS=2):
    starts = torch.arange(0, PARTS + 1, device=x.device, dtype=torch.int32) * BLOCK
    add_kernel[(int(starts.max()),)](starts, x, N, 1, BLOCK)
    return x


def writing(x, *, BLOCK=64, PARTS=2):
    counts = torch.empty(PARTS, dtype=torch.int32, device=x.device)
    counts.fill_(PARTS)
    add_kernel[(4,)](counts, x, N, 1, BLOCK)
    return x


def guarded(x, parts=1, *, BLOCK=64, num_warps=4):
    if x.layout is not torch.strided or type(parts) is not int or parts is True:
        return x
    add_kernel[(triton.cdiv(N, BLOCK),)](x, x, N, parts, BLOCK, num_warps=num_warps)
    return x


def autotuned(x, *, SCALE=1):
    out = torch.empty(N * SCALE, device=x.device)
    tuned_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]), SCALE)](x, out, N)
    return out


FOLLOWED = [  # with the number of recorded runs that all configurations take
    (computed, {"BLOCK": (64, 128), "PARTS": (1, 3, 16), "POLICY": ("", "evict_last")}, 1),
    (by_meta, {"BLOCK": (64, 128, 256), "num_warps": (1, 4, 8)}, 1),
    (branching, {"BLOCK": (64, 128), "FIRST": (False, True)}, 2),
    (through_memory, {"BLOCK": (64, 128), "PARTS": (2, 3, 5, 16)}, 1),
    (looked_up, {"BLOCK": (64, 128, 256), "num_warps": (1, 4)}, 3),
    (remembered, {"BLOCK": (64, 128, 256), "num_warps": (1, 4)}, 3),
    (described, {"BLOCK": (64, 128, 256), "num_warps": (1, 4)}, 1),
    (of_values, {"BLOCK": (64, 128), "PARTS": (2, 4)}, 3),
    (writing, {"BLOCK": (64, 128), "PARTS": (2, 4)}, 2),
    (guarded, {"BLOCK": (64, 128, 256), "num_warps": (1, 4)}, 1),
    (autotuned, {"BLOCK": (64, 128, 256), "num_warps": (2, 4), "SCALE": (1, 2)}, 1),
]
OWN = {"autotuned": ("SCALE",)}


def maker(launcher):
    def make(params):
        own = {k: params[k] for k in OWN.get(launcher.__name__, params) if k in params}
        x = torch.randn(N, device="cuda")
        return Workload((x,), {}, None, functools.partial(launcher, **own))

    return make


def choices(space):
    return [dict(zip(space, values)) for values in product(*space.values())]


def run(launcher, params):
    torch.manual_seed(0)
    return capture(maker(launcher)(params), params)


@pytest.mark.quick("described-space6-1")
@pytest.mark.parametrize(("launcher", "space", "recorded"), FOLLOWED)
def test_a_recipe_gives_what_a_run_gives(in_child, launcher, space, recorded):
    def compare():
        kept = Recipes(maker(launcher))
        wrong = [
            p for p in choices(space) if not are_captures_equal(kept.capture(p), run(launcher, p))
        ]
        again = [
            p for p in choices(space) if not are_captures_equal(kept.capture(p), run(launcher, p))
        ]
        return wrong, again, kept.recipes, kept.why

    assert in_child(compare) == ([], [], recorded, "")


@pytest.mark.slow
def test_a_recipe_saves_runs(in_child):
    def count():
        kept = Recipes(maker(computed))
        for params in choices({"BLOCK": tuple(range(1, 257)), "PARTS": (1, 2, 3, 4)}):
            kept.capture(params)
        return kept.runs

    assert in_child(count) < 16  # of 1024: two to begin with, and the comparisons


LASTING = []


def counting(x, *, BLOCK=64):
    LASTING.append(None)
    add_kernel[(len(LASTING),)](x, x, N, 1, BLOCK)
    return x


def identity(x, *, BLOCK=64):
    size = BLOCK
    add_kernel[(2 if size is N else 4,)](x, x, N, 1, BLOCK)
    return x


def kept_in_a_list(x, *, BLOCK=64):
    LASTING.append(BLOCK)
    add_kernel[(4,)](x, x, N, 1, LASTING[-2:][0])
    return x


def warmed_up(x, *, BLOCK=64):
    compiled = add_kernel.warmup(x, x, N, 1, BLOCK, grid=(1,))
    compiled[(4, 1, 1)](x, x, N, 1, BLOCK)
    return x


NOT_FOLLOWED = [
    (counting, "other launches"),
    (identity, "compares by `is`"),
    (kept_in_a_list, "other launches"),
    (warmed_up, "compiled"),
]


@pytest.mark.quick("identity-compares by `is`")
@pytest.mark.parametrize(("launcher", "why"), NOT_FOLLOWED)
def test_what_cannot_be_followed_is_run_each_time(in_child, launcher, why):
    def captures():
        kept = Recipes(maker(launcher))
        results = [kept.capture({"BLOCK": block}).launches for block in (64, 128, 256)]
        constants = [item[0].launch.constants["BLOCK"] for item in results]
        return constants, [type(c) for c in constants], kept.why, kept.recipes

    constants, kinds, result, recorded = in_child(captures)
    assert kinds == [int] * 3
    assert constants == ([64, 64, 128] if launcher is kept_in_a_list else [64, 128, 256])
    assert why in result
    assert recorded == 0


@pytest.mark.slow
def test_what_raises_at_one_configuration_raises_there_alone(in_child):
    def outcome(kept, block):
        try:
            return kept.capture({"BLOCK": block}).launches[0].launch.grid
        except CaptureError:
            return None

    def captures():
        kept = Recipes(maker(computed))
        return [outcome(kept, block) for block in (64, 0, 128)]

    assert in_child(captures) == [(16, 1, 1), None, (8, 1, 1)]


@pytest.mark.slow
def test_a_configuration_that_an_autotuner_lacks_is_refused(in_child):
    def captures():
        kept = Recipes(maker(autotuned))
        kept.capture({"BLOCK": 64, "num_warps": 2, "SCALE": 1})
        try:
            kept.capture({"BLOCK": 32, "num_warps": 2, "SCALE": 1})
        except ParamsError:
            return True

    assert in_child(captures)


def test_recorded_runs_are_few_enough_to_look_through(in_child, monkeypatch):
    monkeypatch.setattr(recipes, "_MOST_RECIPES", 2)

    def captures():
        kept = Recipes(maker(looked_up))
        for block in (64, 128, 256, 512):
            assert kept.capture({"BLOCK": block}).launches[0].launch.constants["BLOCK"] == block
        return kept.recipes, bool(kept.why)

    assert in_child(captures) == (2, True)
