"""What the store of measured data costs: bytes at rest, and seconds to write, load and filter.

    python bench/store.py --rows 120000

The rows are made up, but as varied as measured ones: times with noise on the clock's grid of 32 ns,
40 families, two GPUs, launches with compiler statistics, a tenth failures with a message each.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from solkit.core import Verdict
from solkit.datasets import runlog, tables
from solkit.datasets.record import (
    TimedConfiguration,
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
        "kind": f"kind{hash(family) % 12}",
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


def _sha256(text: str) -> str:
    return source_of(text.encode(), text).sha256


def measure(count: int, folder: Path) -> dict[str, float]:
    """Write that many rows, and see what they cost."""
    rows = tuple(synthetic(count))
    names = {each.implementation for each in rows} | {each.family for each in rows}
    sources = [source_of(str(name).encode(), str(name)) for name in names]
    found: dict[str, float] = {"rows": count}
    began = time.perf_counter()
    with runlog.RunLog(folder / "run.jsonl") as log:
        for start in range(0, min(count, 4000), 20):
            log.append(rows[start : start + 20])
    found["run_rows_per_s"] = min(count, 4000) / (time.perf_counter() - began)
    began = time.perf_counter()
    store = Store(folder / "store", create=True)
    store.add(rows, sources)
    found["write_s"] = time.perf_counter() - began
    sizes = [each.stat().st_size for each in (*store.parts, *store.source_parts)]
    found |= {"files": len(sizes), "megabytes": sum(sizes) / 1e6, "largest_mb": max(sizes) / 1e6}
    pl = tables.polars_module()
    chosen = (pl.col("device") == "h100-sxm") & (pl.col("family") == "family7")
    for name, query in {
        "filter_s": lambda: store.scan().filter(chosen).collect(),
        "column_s": lambda: store.scan().select("kernel_id", "time_ms").collect(),
        "load_s": lambda: store.scan().collect(),
        "load_and_filter_s": lambda: store.scan().collect().filter(chosen),
        "group_s": lambda: store.scan().group_by("family").agg(pl.col("time_ms").min()).collect(),
    }.items():
        began = time.perf_counter()
        query()
        found[name] = time.perf_counter() - began
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=120_000)
    count = options.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(count, Path(folder)), indent=2))


if __name__ == "__main__":
    main()
