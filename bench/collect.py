"""How many configurations a second `solkit data collect` checks and times, and how idle the GPU is.

    python bench/collect.py --seconds 120 [--family softmax ...] [--out RUN.jsonl]

Idle is the share of NVML's sampling periods in which no kernel ran. Checking a configuration (one
call, its outputs compared with the reference) is part of its cost; so is compiling what Triton's
cache lacks, on the other cores.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml

from solkit.collect import Limits, Progress, collect, survey_kernels
from solkit.datasets.kernels import select_kernels
from solkit.datasets.outcomelog import OutcomeLog
from solkit.datasets.store import RIGHT
from solkit.errors import SolkitError
from solkit.measure.benches.trusted import Ahead, TrustedBench
from solkit.roofline.nvml import live_device

TARGET = 40.0
_PERIOD_S = 0.1


@contextmanager
def utilisation(uuid: str) -> Iterator[list[float]]:
    """Shares of time, 0 to 1, in which the GPU ran some kernel, as NVML samples it meanwhile."""
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    seen: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(_PERIOD_S):
            seen.append(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def main() -> int:
    """Collect for a while and report; returns 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--family", action="append", default=[])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, help="keep the run's file there")
    options = parser.parse_args()
    try:
        device = live_device()
    except SolkitError as error:
        print(f"collect: {error}", file=sys.stderr)
        return 2
    kernels = select_kernels(["zoo"], options.family)
    shares: list[tuple[float, int]] = []

    def show(progress: Progress) -> None:
        shares.append((progress.gpu_s, len(seen)))

    with tempfile.TemporaryDirectory() as folder, utilisation(str(device.uuid)) as seen:
        path = options.out or Path(folder) / "run.jsonl"
        limits = Limits(options.seconds)
        with (
            OutcomeLog(path, resume=True) as log,
            Ahead(device, options.workers) as ahead,
            TrustedBench(ahead, log, kernels, print) as bench,
        ):
            cells = survey_kernels(kernels, ahead, print)
            progress = collect(cells, bench, limits, run_id=log.run_id, show=show)
    if not shares:
        print("nothing was timed")
        return 1
    count, right = sum(progress.rows.values()), sum(progress.rows[verdict] for verdict in RIGHT)
    rate = count / progress.gpu_s
    busy = statistics.fmean(seen[shares[0][1] : shares[-1][1]] or [0.0])
    print(
        f"{device.name}: {count} configurations ({right} right) in {progress.gpu_s:.0f} s: "
        f"{rate:.1f} a second (target {TARGET:g}); the GPU idled {1 - busy:.0%} of the time, "
        f"{bench.waited_s / progress.gpu_s:.0%} of it for want of something compiled"
    )
    return 0 if rate >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
