"""Tables whose times follow a known law; and a small kernel file to rank."""

from __future__ import annotations

import contextlib
from concurrent.futures import Executor, Future
from dataclasses import replace

import numpy as np

from solkit.core import SOURCE_DEPTHS
from solkit.surrogate.evaluation.forecasters import forecaster_of_fold
from solkit.surrogate.evaluation.splits import split_into_folds
from solkit.surrogate.model import SCHEMA
from solkit.surrogate.table import Table
from solkit.surrogate.trees import Forecasts, Settings

QUICK = Settings(members=1, rounds=10, leaves=4, rate=0.2, columns=1.0)
CARD = {"schema": SCHEMA, "depths": [depth.value for depth in SOURCE_DEPTHS]}

KERNEL = """
import torch, triton, triton.language as tl

SHAPES = [{"N": 1 << 20}]
SPACE = {"BLOCK": [256, 512, 1024, 2048], "num_warps": [1, 2, 4, 8], "STORE": ["", ".cs"]}

def inputs(N=1 << 20, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2

@triton.jit
def double(x_ptr, out_ptr, N, BLOCK: tl.constexpr, STORE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 2 * tl.load(x_ptr + at, mask=at < N), mask=at < N, cache_modifier=STORE)

def kernel(x, *, BLOCK=512, STORE="", num_warps=4):
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), BLOCK),)
    double[grid](x, out, x.numel(), BLOCK, STORE, num_warps=num_warps)
    return out
"""


class Inline(Executor):
    """Makes each call at once, in this process."""

    def submit(self, function, /, *args, **kwargs):
        future = Future()
        future.set_result(function(*args, **kwargs))
        return future


@contextlib.contextmanager
def inline_pool(_number, initializer=None, args=()):
    """In place of `process_pool`, whose processes take seconds to start."""
    if initializer is not None:
        initializer(*args)
    yield Inline()


def table(rows=400, families=8, seed=0, noise=0.05, devices=("h100-sxm",)):
    """Times are the modelled ones times 2 ** (a step in one feature), and noise.

    Each family has two problems; each problem two kernels.
    """
    random = np.random.default_rng(seed)
    place = np.arange(rows)
    family = place % families
    problem = 2 * family + place // families % 2
    kernel = 2 * family + place // families // 2 % 2
    values = random.normal(size=(rows, 3)).astype(np.float32)
    modelled = 2.0 ** random.normal(size=rows) * 0.01
    truth = np.where(values[:, 0] > 0, 1.0, 0.0) + noise * random.normal(size=rows)
    repeats = np.where(place % 10 == 0, 0.01 * random.normal(size=rows), np.nan)
    about = {
        "kernel_id": np.char.add("kernel", kernel.astype(str)),
        "problem_id": np.char.add("problem", problem.astype(str)),
        "params": np.array([f'{{"POINT": {point}}}' for point in place]),
        "device": np.array(devices)[place // 2 % len(devices)],
        "family": np.char.add("family", family.astype(str)),
        "kind": np.char.add("kind", (family % 4).astype(str)),
        "origin": np.full(rows, "zoo"),
        "implementation": np.full(rows, "x"),
        "triton_version": np.full(rows, "3.6.0"),
        "shape": np.full(rows, "{}"),
    }
    names = ("model.a", "machine.b", "requests.c")
    return Table(names, values, modelled * 2.0**truth, modelled, modelled / 2, about, repeats)


def on_both(results, ratio=0.8, noise=0.0):
    """An H100's configurations, and again on an H200, where each takes `ratio` as long."""
    random = np.random.default_rng(1)
    number = len(results)
    there = ratio * results.time_ms * 2.0 ** (noise * random.normal(size=number))
    twice = results[np.concatenate([np.arange(number)] * 2)]
    devices = np.repeat(["h100-sxm", "h200"], number)
    return replace(
        twice,
        time_ms=np.concatenate([results.time_ms, there]),
        about={**twice.about, "device": devices},
    )


def forecast_left_out(rows, split, forecaster):
    """Forecast each row when it is left out; NaN for rows of no fold."""
    forecasts = Forecasts.from_times(np.full(len(rows), np.nan))
    for fold in split_into_folds(rows, split):
        if len(fold.train) and len(fold.test):
            learns = forecaster_of_fold(forecaster, fold)
            forecasts = forecasts.with_(fold.test, learns(rows[fold.train], rows[fold.test]))
    return forecasts
