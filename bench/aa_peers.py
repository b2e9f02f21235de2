"""What `aa` holds SolKit against: `triton.testing.do_bench`, and CUDA events alone.

Runs in a process of its own, with no other process of the bench on the GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

import torch

from solkit import kernelfiles
from solkit.core import Value
from solkit.kernelfiles.seeding import seed_everything

__all__ = ["METHODS", "do_bench", "events", "time_pairs"]

_WARM_UP_MS = 25.0  # do_bench's own
_SEED = 0

Call = Callable[[], Any]
Row = dict[str, Any]


def time_pairs(
    kernels: Sequence[tuple[str, str, Mapping[str, Value]]], pairs: int, budget_s: float
) -> list[Row]:
    """Time each kernel twice in a row, so many times, by each method.

    Args:
        kernels: name, file and shape of each.
        pairs: how many of each kernel and method.
        budget_s: about how long one pair may take.

    Returns:
        A row per pair, or one that names the error where a kernel failed.
    """
    rows: list[Row] = []
    for name, path, shape in kernels:
        try:
            call = _call(path, shape)
            for number in range(pairs):
                rows += [_pair(name, number, method, call, budget_s) for method in METHODS]
        except Exception as error:  # the other kernels can still be timed
            rows.append({"kernel": name, "error": f"{type(error).__name__}: {error}"})
        torch.cuda.empty_cache()
    return rows


def _call(path: str, shape: Mapping[str, Value]) -> Call:
    seed_everything(_SEED)
    workload = kernelfiles.load(path).workload(shape, {}, "cuda")
    kernel = workload.kernel
    assert kernel is not None
    return lambda: kernel(*workload.args, **workload.kwargs)


def _pair(name: str, number: int, method: str, call: Call, budget_s: float) -> Row:
    start = time.perf_counter()
    first, second = (METHODS[method](call, 1e3 * budget_s / 2) for _ in range(2))
    return {
        "kernel": name,
        "number": number,
        "method": method,
        "medians_ms": [median(first), median(second)],
        "means_ms": [fmean(first), fmean(second)],
        "samples": [len(first), len(second)],
        "seconds": time.perf_counter() - start,
    }


def do_bench(call: Call, budget_ms: float) -> list[float]:
    """Every time that `triton.testing.do_bench` takes: L2 zeroed before each call."""
    from triton import testing

    rep_ms = max(budget_ms - _WARM_UP_MS, 1.0)
    times: list[float] = testing.do_bench(call, warmup=_WARM_UP_MS, rep=rep_ms, return_mode="all")
    return times


def events(call: Call, budget_ms: float) -> list[float]:
    """The same by events around calls that follow each other, with L2 as the last one left it."""
    call()
    torch.cuda.synchronize()
    estimate_ms = _times(call, 5)
    usual_ms = max(sum(estimate_ms) / len(estimate_ms), 1e-3)
    for _ in range(max(1, int(_WARM_UP_MS / usual_ms))):
        call()
    return _times(call, max(1, int((budget_ms - _WARM_UP_MS) / usual_ms)))


def _times(call: Call, count: int) -> list[float]:
    marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
    for start, end in marks:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in marks]


METHODS: dict[str, Callable[[Call, float], list[float]]] = {"do_bench": do_bench, "events": events}
"""By the names under which their rows stand."""
