"""The speed-up in wall time of two GPUs of one machine over one of them, in one run.

    python bench/two_gpus.py                              # needs two GPUs; some 3 minutes
    python bench/two_gpus.py --gpus cuda:0,cuda:1 --configurations 48 --rounds 3
    python bench/two_gpus.py --recorded                   # no GPU: a recording, in real time

The same configurations of kernels of the zoo are measured on one GPU and on both, in turns: one,
both, both, one, ... Each time new worker processes are started, and each of them measures
everything once before. So neither starting, nor compiling, nor loading kernels and their inputs is
what is compared. The clock runs from the first submission after that to the last outcome. Printed:
the median ratio of the wall times, one GPU's over both GPUs'; how many GPU seconds both ways took;
and whether each way measured every configuration once.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from statistics import median

from solkit.core import Configuration, Outcome, Verdict, canonical
from solkit.datasets.kernels import select_kernels
from solkit.datasets.outcomelog import OutcomeLog, read
from solkit.errors import SolkitError
from solkit.measure.benches import Bench
from solkit.measure.benches.bench_server import Kind, Recorded, Trusted
from solkit.measure.benches.local import gpus_named, local_bench
from solkit.measure.benches.remote import Trade
from solkit.measure.benches.trusted import Ahead
from solkit.roofline.nvml import live_device

FAMILIES = ("softmax", "gemm", "rms_norm")
TARGET = 1.8


@dataclass(frozen=True)
class Run:
    """One way through all configurations."""

    gpus: int
    wall_s: float
    gpu_s: float
    counts: Counter[str]  # outcomes, by configuration


def chosen(families: Sequence[str], count: int) -> list[Configuration]:
    """So many configurations of each family's first kernel, spread over its space."""
    results = []
    with Ahead(live_device()) as ahead:
        for family in families:
            kernel = select_kernels(["zoo"], [family])[0]
            survey = ahead.space(kernel).result()[0]
            valid = survey["valid"]
            step = max(len(valid) // count, 1)
            results += [
                Configuration(str(kernel.path), kernel.entry_point, survey["shape"], params)
                for params in valid[::step][:count]
            ]
    return results


def recording(count: int) -> tuple[list[Configuration], tuple[Outcome, ...]]:
    """A made-up kernel whose configurations take the GPU 20 to 60 ms each."""
    base = Outcome(
        *("k" * 16, "made_up", "other", "file", "made_up/N=1", "h200", {}, Verdict.CORRECT),
        *(datetime.now(timezone.utc), "random"),
        shape={"N": 1},
        compile_s=0.0,
    )
    rows = tuple(
        replace(base, params={"BLOCK": n}, time_ms=1.0, gpu_s=0.02 + 0.04 * (n % 5) / 4, sequence=n)
        for n in range(count)
    )
    configurations = [Configuration(row.kernel_id, "kernel", row.shape, row.params) for row in rows]
    return configurations, rows


def measured(kinds: Sequence[Kind], configurations: Sequence[Configuration], folder: Path) -> Run:
    """Measure everything on these GPUs."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "log.jsonl"
        with OutcomeLog(path) as log, local_bench(kinds, Trade(log)) as bench:
            with ThreadPoolExecutor(len(kinds)) as threads:
                list(threads.map(partial(_everything, configurations), bench.benches))
            begun_s, held_s = bench.clock.now_s(), bench.clock.gpu_s()
            for configuration in configurations:
                bench.submit([configuration])
            for _ in bench.outcomes():
                pass
            wall_s = bench.clock.now_s() - begun_s
            gpu_s = bench.clock.gpu_s() - held_s
        rows = read(path).rows[len(kinds) * len(configurations) :]
    return Run(len(kinds), wall_s, gpu_s, Counter(map(name, rows)))


def _everything(configurations: Sequence[Configuration], member: Bench) -> None:
    """Have a worker measure all, so that it has loaded and compiled all that it will need."""
    for configuration in configurations:
        member.submit([replace(configuration)])
    assert len(list(member.outcomes())) == len(configurations)


def name(row: Outcome | Configuration) -> str:
    path = row.path or row.kernel_id if isinstance(row, Outcome) else row.path
    return canonical([path, dict(row.params)])


def report(runs: Sequence[Run], configurations: Sequence[Configuration]) -> dict[str, object]:
    """What the runs show."""
    one = [run for run in runs if run.gpus == 1]
    both = [run for run in runs if run.gpus > 1]
    expected = Counter(map(name, configurations))
    return {
        "configurations": len(configurations),
        "one_gpu_s": [round(run.wall_s, 2) for run in one],
        "two_gpus_s": [round(run.wall_s, 2) for run in both],
        "speed_up": round(median(r.wall_s for r in one) / median(r.wall_s for r in both), 3),
        "gpu_seconds_of_one": round(median(run.gpu_s for run in one), 2),
        "gpu_seconds_of_two": round(median(run.gpu_s for run in both), 2),
        "each_once": all(run.counts == expected for run in runs),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the speed-up; returns 1 if it is under 1.8 or anything was lost, 2 without two GPUs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gpus", default="2", help="'2', or two places: cuda:0,cuda:1")
    parser.add_argument("--family", action="append", help="of the zoo; default: some")
    parser.add_argument("--configurations", type=int, default=64, help="of each family")
    parser.add_argument("--rounds", type=int, default=2, help="times both ways")
    parser.add_argument("--recorded", action="store_true", help="a recording instead of GPUs")
    options = parser.parse_args(arguments)
    try:
        if options.recorded:
            requests, rows = recording(options.configurations)
            kinds: list[Kind] = [Recorded(rows, pace=1.0)] * 2
        else:
            kinds = gpus_named(Trusted(), options.gpus)[0]
            requests = chosen(options.family or FAMILIES, options.configurations)
        if len(kinds) != 2:
            raise SystemExit(f"two_gpus: {options.gpus} names {len(kinds)} GPUs, expected two")
        runs = []
        with tempfile.TemporaryDirectory() as folder:
            for number in range(options.rounds):
                ways = (kinds[:1], kinds) if number % 2 == 0 else (kinds, kinds[:1])
                for way in ways:
                    begun = time.monotonic()
                    runs.append(measured(way, requests, Path(folder)))
                    whole_s = time.monotonic() - begun
                    print(
                        f"{len(way)} GPU(s): {len(requests)} configurations in "
                        f"{runs[-1].wall_s:.2f} s; {whole_s:.1f} s with starting the workers",
                        file=sys.stderr,
                    )
    except SolkitError as error:
        print(f"two_gpus: {error}", file=sys.stderr)
        return 2
    result = report(runs, requests)
    print(json.dumps(result, indent=1))
    return 0 if result["each_once"] and float(str(result["speed_up"])) >= TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
