"""Time that `triton.testing.do_bench` adds to a kernel's own. Needs a CUDA GPU; one minute.

    python -m bench.do_bench_times [--json FILE]

Public tables are mostly timed by ``do_bench``: events around the call, after a buffer was zeroed.
Each kernel here is timed so, and by CUPTI (through PyTorch's profiler) after the same zeroing and
after a buffer was read. The first difference is what the events and the gap before the kernel take,
the second what dirty lines of L2 take.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import triton

FLUSHED_BYTES = 256 << 20  # as do_bench
SAMPLES = 40


def calls() -> Iterator[tuple[str, int, Callable[[], object]]]:
    """Yield names, kernels a call, and calls, from an empty one to 1 GiB."""
    word = torch.zeros(1, device="cuda")
    yield "one word", 1, lambda: word.add_(1)
    yield "one word, three kernels", 3, lambda: [word.add_(1) for _ in range(3)]
    for mib in (1, 8, 32, 64, 128, 512):
        x = torch.zeros(mib << 19, device="cuda", dtype=torch.bfloat16)
        out = torch.empty_like(x)
        yield f"copy of {mib} MiB", 1, functools.partial(torch.neg, x, out=out)


def kernel_us(call: Callable[[], object], kernels: int, flush: Callable[[], object]) -> float:
    """Return the median, in us, from the start of a call's first kernel to the end of its last."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(SAMPLES):
            flush()
            call()
        torch.cuda.synchronize()
    events = sorted(
        (event.time_range.start, event.time_range.end)
        for event in profile.events()
        if event.device_type.name == "CUDA"
    )
    size = len(events) // SAMPLES
    groups = [events[n * size : (n + 1) * size][-kernels:] for n in range(SAMPLES)]
    return float(statistics.median(group[-1][1] - group[0][0] for group in groups))


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    buffer = torch.empty(FLUSHED_BYTES // 4, dtype=torch.int32, device="cuda")
    rows = []
    for name, kernels, call in calls():
        call()
        rows.append(
            {
                "call": name,
                "do_bench_us": 1e3 * triton.testing.do_bench(call, return_mode="median"),
                "zeroed_us": kernel_us(call, kernels, buffer.zero_),
                "read_us": kernel_us(call, kernels, buffer.sum),
            }
        )
        print(rows[-1], flush=True)
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
