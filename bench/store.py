"""What the store of measured data costs, and what becomes of it when its writer is killed.

    python bench/store.py --rows 120000     # bytes at rest; seconds to write, load and filter
    python bench/store.py --kills 50        # SIGKILL at random moments: rows lost, rows doubled

The rows are made up, but as varied as measured ones: times with noise on the clock's grid of 32 ns,
40 families, two GPUs, launches with compiler statistics, a tenth failures with a message each.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from solkit.core import Verdict
from solkit.datasets import runlog, tables
from solkit.datasets.record import (
    TimedConfiguration,
    TimedDemand,
    TimedLaunch,
    kernel_id,
    problem_id,
    source_of,
)
from solkit.datasets.store import Store

DEVICES = ("h100-sxm", "h200-sxm")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
TICK_MS = 32e-6  # of CUPTI's timestamps


def synthetic(count: int, seed: int = 0) -> Iterator[TimedConfiguration]:
    """Rows as a collector would write them."""
    chance = random.Random(seed)
    for index in range(count):
        yield _row(chance, index)


def _row(chance: random.Random, index: int) -> TimedConfiguration:
    family = f"family{chance.randrange(40)}"
    implementation = f"{family}/variant{chance.randrange(6)}.py"
    shape = {"M": 2 ** chance.randrange(6, 14), "N": chance.choice((100, 1000, 4096, 8192))}
    params = {
        "BLOCK_M": 2 ** chance.randrange(4, 9),
        "BLOCK_N": 2 ** chance.randrange(4, 9),
        "num_warps": 2 ** chance.randrange(0, 5),
        "num_stages": chance.randrange(1, 6),
    }
    failed = chance.random() < 0.1
    common = {
        "kernel_id": kernel_id(implementation, family, "kernel"),
        "family": family,
        "kind": f"kind{int(family[6:]) % 12}",
        "origin": "zoo",
        "problem_id": problem_id(family, shape | {"dtype": "bfloat16"}),
        "device": DEVICES[index % 3 == 2],
        "params": params,
        "created": START + timedelta(seconds=index / 40, microseconds=chance.randrange(10**5)),
        "chosen_by": chance.choice(("random", "latin_hypercube", "near_best")),
        "run_id": f"20260101T00000{index * 5 // 10**6}Z-synthetic",
        "sequence": index,
        "implementation": implementation,
        "entry_point": "kernel",
        "source_sha256": _sha256(implementation),
        "problem_sha256": _sha256(family),
        "shape": shape,
        "dtypes": ("bfloat16", "bfloat16"),
        "bound_ms": shape["M"] * shape["N"] * 4e-9,
        "hard_bound_ms": shape["M"] * shape["N"] * 2e-9,
        "limiter": "dram",
        "precision": "tolerance",
        "operations": {"fp32": shape["M"] * shape["N"] * 5},
        "read_bytes": shape["M"] * shape["N"] * 2,
        "write_bytes": shape["M"] * shape["N"] * 2,
        "seed": chance.randrange(2**31),
        "device_name": "NVIDIA H100 80GB HBM3",
        "driver_version": "580.1",
        "torch_version": "2.13.0",
        "triton_version": "3.7.1",
        "python_version": "3.12.1",
        "solkit_version": "0.1.0",
    }
    if failed:
        message = f"out of resource: shared memory, {chance.randrange(10**6)} of 232448 bytes"
        return TimedConfiguration(**common, verdict=Verdict.DOES_NOT_COMPILE, message=message)
    return TimedConfiguration(**common, **_measured(chance, shape, params))


def _measured(chance: random.Random, shape: dict[str, int], params: dict[str, int]) -> dict:
    median = chance.lognormvariate(0, 1) * shape["M"] * shape["N"] * 1e-8 + 0.002
    samples = tuple(
        round(median * chance.gauss(1, 0.01) / TICK_MS) * TICK_MS
        for _ in range(chance.randrange(9, 21))
    )
    launch = TimedLaunch(
        "kernel",
        (shape["M"] // 16, shape["N"] // 16 + 1, 1),
        params["num_warps"],
        params["num_stages"],
        1,
        constants=params | shape,
        signature={"x_ptr": "*bf16", "y_ptr": "*bf16", "M": "i32"},
        registers=chance.randrange(16, 256),
        spills=0,
        shared_bytes=params["BLOCK_M"] * params["BLOCK_N"] * 2,
        occupancy=chance.randrange(1, 16) / 16,
        waves=shape["M"] * shape["N"] / 256 / 132,
        tensor_cores=True,
        demand=_demand(chance, shape, median),
    )
    return {
        "verdict": Verdict.CORRECT,
        "time_ms": sorted(samples)[len(samples) // 2],
        "low_ms": min(samples),
        "high_ms": max(samples),
        "samples_ms": samples,
        "kernel_sum_ms": sorted(samples)[len(samples) // 2],
        "clock_mhz": 1980.0 - 15 * chance.randrange(10),
        "clock_low_mhz": 1900.0,
        "memory_clock_mhz": 2619.0,
        "power_w": round(chance.gauss(400, 50), 3),
        "temperature_c": float(chance.randrange(40, 70)),
        "method": "cupti",
        "protocol": "cold",
        "l2": "cold",
        "flush": "a 256 MiB buffer is read before each call",
        "launched": "eager",
        "warmup_calls": 3,
        "launches": (launch,),
        "launch_count": 1,
        "compile_s": chance.random(),
        "first_call_s": chance.random() * 0.01,
        "max_error": chance.random() * 1e-3,
    }


def _demand(chance: random.Random, shape: dict[str, int], time_ms: float) -> TimedDemand:
    numbers = {
        each.name: chance.randrange(shape["M"] * shape["N"])
        for each in fields(TimedDemand)
        if each.type == "int"
    }
    reals = {each.name: chance.random() for each in fields(TimedDemand) if each.type == "float"}
    terms = {name: time_ms * chance.random() for name in ("dram", "l2", "latency", "launch")}
    pipes = {"fp32": shape["M"] * shape["N"], "int32": chance.randrange(shape["M"])}
    return TimedDemand(
        **{**numbers, **reals}, operations=pipes, model_ms=sum(terms.values()), terms=terms
    )


def _sha256(text: str) -> str:
    return source_of(text.encode(), text).sha256


def measure(count: int, folder: Path) -> dict[str, float]:
    """Write that many rows, and see what they cost."""
    rows = tuple(synthetic(count))
    names = {str(name) for row in rows for name in (row.implementation, row.family)}
    logged = min(count, 4000)
    began = time.perf_counter()
    with runlog.RunLog(folder / "run.jsonl") as log:
        for start in range(0, logged, 20):
            log.append(rows[start : start + 20])
    found = {
        "rows": count,
        "run_rows_per_s": logged / (time.perf_counter() - began),
        "run_bytes_per_row": (folder / "run.jsonl").stat().st_size / logged,
    }
    store = Store(folder / "store", create=True)
    found |= _timed("write", lambda: store.add(rows, [source_of(n.encode(), n) for n in names]))
    sizes = [each.stat().st_size for each in (*store.parts, *store.source_parts)]
    found |= {"files": len(sizes), "megabytes": sum(sizes) / 1e6, "largest_mb": max(sizes) / 1e6}
    pl = tables.polars_module()
    chosen = (pl.col("device") == DEVICES[0]) & (pl.col("family") == "family7")
    best = pl.col("time_ms").min()
    for name, query in {
        "filter": lambda: store.scan().filter(chosen).collect(),
        "two_columns": lambda: store.scan().select("kernel_id", "time_ms").collect(),
        "group": lambda: store.scan().group_by("family").agg(best).collect(),
        "load": lambda: store.scan().collect(),
        "load_then_filter": lambda: store.scan().collect().filter(chosen),
    }.items():
        found |= _timed(name, query)
    return found


def _timed(name: str, action: Callable[[], object]) -> dict[str, float]:
    """Seconds by the wall clock, which others on the machine lengthen, and of CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return {
        f"{name}_s": time.perf_counter() - wall,
        f"{name}_cpu_s": time.process_time() - cpu,
    }


# ---------------------------------------------------------------------------------------- kills


def kill(times: int, folder: Path) -> dict[str, float]:
    """Kill a writer of a run, which also puts it into a store, at random moments."""
    chance = random.Random(0)
    logged = stored = unfinished = 0
    for _ in range(times):
        command = [sys.executable, __file__, "--write-into", str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()  # it is loaded
            time.sleep(chance.uniform(0, 1.0))
            writer.kill()
            told = [line.split() for line in writer.stdout.read().splitlines()]
        logged = max([logged, *(int(n) for name, n in told if name == "logged")])
        stored = max([stored, *(int(n) for name, n in told if name == "stored")])
        unfinished += len(list(folder.rglob(".part-*")))
    store = Store(folder / "store")
    store.merge([folder / "run.jsonl"])
    found = store.scan().select("seed").collect()["seed"]
    return {
        "kills": times,
        "parts_cut_off": unfinished,
        "lines_cut_off": len(runlog.read(folder / "run.jsonl").faults),
        "committed_to_the_run": logged,
        "committed_to_the_store": stored,
        "rows_found": len(found),
        "lost": len(set(range(max(logged, stored))) - set(found)),
        "doubled": len(found) - found.n_unique(),
    }


def write_forever(folder: Path) -> None:
    """Log rows numbered by their seed, and merge them into a store; tell what is on disk."""
    store = Store(folder / "store", create=True)
    store.add(())
    with runlog.RunLog(folder / "run.jsonl") as log:
        number = max((row.seed or 0 for row in runlog.read(log.path).rows), default=-1) + 1
        print("ready", flush=True)
        while True:
            for _ in range(5):
                log.append([replace(row, seed=number + i) for i, row in enumerate(synthetic(4))])
                number += 4
                print("logged", number, flush=True)
            store.merge([log.path])
            print("stored", number, flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=120_000)
    options.add_argument("--kills", type=int, help="instead: kill a writer that often")
    options.add_argument("--write-into", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.write_into is not None:
        write_forever(chosen.write_into)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = kill(chosen.kills, folder) if chosen.kills else measure(chosen.rows, folder)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
