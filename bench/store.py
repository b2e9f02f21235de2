"""What the store of measured data costs, and what becomes of it when its writer is killed.

    python bench/store.py --rows 120000     # bytes at rest; seconds to write, load and filter
    python bench/store.py --kills 50        # SIGKILL at random moments: rows lost, rows doubled

The rows are made up, but as varied as measured ones: times with noise on the clock's grid of 32 ns,
40 families, two GPUs, a tenth failures with a message each. Each configuration has facts, on
whichever GPU it was timed, about half as large as a real launch's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from solkit.core import Outcome, StoredFacts, Verdict, canonical
from solkit.datasets import outcomelog, tables
from solkit.datasets.identifiers import kernel_id, problem_id, source_of
from solkit.datasets.store import Store

DEVICES = ("h100-sxm", "h200-sxm")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
TICK_MS = 32e-6  # of CUPTI's timestamps


def synthetic(count: int, seed: int = 0) -> Iterator[Outcome]:
    """Rows as a collector would write them."""
    chance = random.Random(seed)
    for index in range(count):
        yield _row(chance, index)


def _row(chance: random.Random, index: int) -> Outcome:
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
        return Outcome(**common, verdict=Verdict.DOES_NOT_COMPILE, message=message)
    return Outcome(**common, **_measured(chance, shape))


def _measured(chance: random.Random, shape: dict[str, int]) -> dict:
    median = chance.lognormvariate(0, 1) * shape["M"] * shape["N"] * 1e-8 + 0.002
    samples = tuple(
        round(median * chance.gauss(1, 0.01) / TICK_MS) * TICK_MS
        for _ in range(chance.randrange(9, 21))
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
        "launch_count": 1,
        "compile_s": chance.random(),
        "first_call_s": chance.random() * 0.01,
        "max_error": chance.random() * 1e-3,
    }


def facts_of(row: Outcome) -> StoredFacts:
    """Facts as varied as real ones, the same for equal configurations."""
    name = canonical([row.kernel_id, row.problem_id, dict(row.params)])
    chance = random.Random(name)
    size = int(row.shape["M"]) * int(row.shape["N"])
    access = {
        "line": [chance.randrange(20, 60) for _ in range(6)],
        "kind": ["load", "load", "load", "store", "load", "store"],
        "requests": [size // 2 ** chance.randrange(5, 9) for _ in range(6)],
        "sectors": [size // 2 ** chance.randrange(3, 6) for _ in range(6)],
    }
    distances = sorted(chance.randrange(size) for _ in range(12))
    launch = {
        "launch": {
            "name": "kernel",
            "constants": dict(row.params),
            "signature": {"x_ptr": "*bf16"},
        },
        "registers": chance.randrange(16, 256),
        "shared_bytes": 2 ** chance.randrange(10, 18),
        "instructions": {f"op{n}": chance.randrange(1, 400) for n in range(40)},
        "requests": {"accesses": access, "reuse": {"distances_bytes": distances}},
    }
    text = json.dumps({"version": 1, "launches": [launch]}, separators=(",", ":"))
    return StoredFacts(hashlib.sha256(name.encode()).hexdigest(), text)


def _sha256(text: str) -> str:
    return source_of(text.encode(), text).sha256


def measure(count: int, folder: Path) -> dict[str, float]:
    """Write that many rows, and see what they cost."""
    rows = tuple(synthetic(count))
    facts = {result.id: result for result in map(facts_of, rows)}
    rows = tuple(replace(row, facts_id=facts_of(row).id) for row in rows)
    names = {str(name) for row in rows for name in (row.implementation, row.family)}
    logged = min(count, 4000)
    began = time.perf_counter()
    with outcomelog.OutcomeLog(folder / "run.jsonl", resume=True) as log:
        for start in range(0, logged, 20):
            batch = rows[start : start + 20]
            log.append(batch, (), [facts[str(row.facts_id)] for row in batch])
    results = {
        "rows": count,
        "run_rows_per_s": logged / (time.perf_counter() - began),
        "run_bytes_per_row": (folder / "run.jsonl").stat().st_size / logged,
    }
    store = Store(folder / "store", create=True)
    sources = [source_of(name.encode(), name) for name in names]
    results |= _timed("write", lambda: store.add(rows, sources, facts.values()))
    sizes = [file.stat().st_size for file in store.files()]
    results |= {"files": len(sizes), "megabytes": sum(sizes) / 1e6, "largest_mb": max(sizes) / 1e6}
    facts_bytes = sum(file.stat().st_size for file in store.files(StoredFacts))
    results |= {"facts": len(facts), "facts_bytes_each": facts_bytes / len(facts)}
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
        results |= _timed(name, query)
    return results


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
            parts = [line.split() for line in writer.stdout.read().splitlines()]
        logged = max([logged, *(int(n) for name, n in parts if name == "logged")])
        stored = max([stored, *(int(n) for name, n in parts if name == "stored")])
        unfinished += len(list(folder.rglob(".part-*")))
    store = Store(folder / "store")
    store.merge([folder / "run.jsonl"])
    seed = store.scan().select("seed").collect()["seed"]
    return {
        "kills": times,
        "parts_cut_off": unfinished,
        "lines_cut_off": len(outcomelog.read(folder / "run.jsonl").faults),
        "committed_to_the_run": logged,
        "committed_to_the_store": stored,
        "rows_found": len(seed),
        "lost": len(set(range(max(logged, stored))) - set(seed)),
        "doubled": len(seed) - seed.n_unique(),
    }


def write_forever(folder: Path) -> None:
    """Log rows numbered by their seed, and merge them into a store; tell what is on disk."""
    store = Store(folder / "store", create=True)
    store.add(())
    with outcomelog.OutcomeLog(folder / "run.jsonl", resume=True) as log:
        number = max((row.seed or 0 for row in outcomelog.read(log.path).rows), default=-1) + 1
        print("ready", flush=True)
        while True:
            for _ in range(5):
                rows = [replace(row, seed=number + i) for i, row in enumerate(synthetic(4))]
                log.append(rows, facts=map(facts_of, rows))
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
        result = kill(chosen.kills, folder) if chosen.kills else measure(chosen.rows, folder)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
