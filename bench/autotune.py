"""Autotune five kernels exhaustively and under `solkit.integrations.triton`, and compare.

    python bench/autotune.py                          # the shipped model; needs a GPU
    python bench/autotune.py --model my.solkit --json autotune.json

Each kernel is tuned twice in this process, from a fresh import and with an empty Triton cache: with
all of its configurations, then with those that the surrogate keeps. Wall time is of the first call:
ranking, compiling, timing, and the launch. Reading the model's trees counts for the first kernel.
Time lost is of the configuration that was found, over the best: in the exhaustive run's own
timings, and again with both timed in turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
import triton
import triton.language as tl

from solkit.integrations import triton as solkit_triton
from solkit.surrogate.model import Surrogate

HERE = Path(__file__).parent
ROUNDS = 5


@triton.jit
def nothing(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 0.0)


def fresh(name):
    """The kernels' module, imported anew: nothing of it is compiled or tuned."""
    spec = importlib.util.spec_from_file_location(name, HERE / "autotune_kernels.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def tuned(kernel, case, folder):
    """Wall time in s of the first call, with an empty cache."""
    os.environ["TRITON_CACHE_DIR"] = folder
    args, grid, kwargs = case
    torch.cuda.synchronize()
    start = time.perf_counter()
    kernel[grid](*args, **kwargs)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def time_ms(kernel, case, config):
    args, grid, kwargs = case
    return triton.testing.do_bench(
        lambda: kernel.fn[grid](*args, **kwargs, **config.all_kwargs()),
        warmup=10,
        rep=50,
        return_mode="median",
    )


def compared(name, top_k, model, folder):
    """Tune one kernel both ways."""
    every, few = fresh(f"{name}_every"), fresh(f"{name}_few")
    case = every.CASES[name]("cuda")
    kernel, pruned = getattr(every, name), getattr(few, name)
    solkit_triton.uninstall()
    exhaustive_s = tuned(kernel, case, f"{folder}/{name}-every")
    solkit_triton.install(top_k, model)
    ranked_s = tuned(pruned, case, f"{folder}/{name}-few")
    solkit_triton.uninstall()
    timings = {config: times[0] for config, times in kernel.configs_timings.items()}
    best, result = kernel.best_config, pruned.best_config
    turns = [
        (time_ms(kernel, case, best), time_ms(kernel, case, result))
        for _ in range(1 if result == best else ROUNDS)
    ]
    best_ms, found_ms = (min(turn[side] for turn in turns) for side in (0, 1))
    return {
        "kernel": name,
        "configurations": len(kernel.configs),
        "timed": len(pruned.configs_timings),
        "exhaustive_s": exhaustive_s,
        "ranked_s": ranked_s,
        "wall_ratio": ranked_s / exhaustive_s,
        "best_ms": best_ms,
        "found_ms": found_ms,
        "lost": timings[result] / timings[best] - 1,
        "lost_in_turns": 0.0 if result == best else found_ms / best_ms - 1,
        "best": str(best),
        "found": str(result),
    }


def printed(row):
    print(
        f"{row['kernel']:<11}{row['configurations']:>5}{row['timed']:>7}"
        f"{row['exhaustive_s']:>11.1f} s{row['ranked_s']:>8.1f} s{1 / row['wall_ratio']:>9.1f} x"
        f"{row['best_ms'] * 1e3:>11.1f} us{row['lost']:>8.1%}{row['lost_in_turns']:>9.1%}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels", nargs="*", help="of the five; all by default")
    parser.add_argument("--model", help="a file of a surrogate; the shipped one by default")
    parser.add_argument("--top-k", type=int, default=solkit_triton.TOP_K)
    parser.add_argument("--limit", type=float, default=140, help="s: begin no kernel after")
    parser.add_argument("--json", help="file for the results, - for standard output alone")
    options = parser.parse_args()
    start = time.perf_counter()
    known_values = list(fresh("autotune_kernels_listed").CASES)
    if unknown := set(options.kernels) - set(known_values):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose of {', '.join(known_values)}")
    model = Surrogate.load(options.model)
    rows, outcome = [], []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = f"{folder}/first"
        nothing[(1,)](torch.empty(16, device="cuda"), BLOCK=16)  # hashes Triton, starts CUDA
        if options.json != "-":
            print(torch.cuda.get_device_name(), "Triton", triton.__version__)
            print(
                "kernel     configs  timed   exhaustive    ranked   faster        best    lost"
                " in turns",
                flush=True,
            )
        for name in options.kernels or known_values:
            if time.perf_counter() - start > options.limit:
                outcome.append(name)
                continue
            rows.append(compared(name, options.top_k, model, folder))
            if options.json != "-":
                printed(rows[-1])
    fields = {
        "schema": "solkit.bench.autotune/1",
        "device": torch.cuda.get_device_name(),
        "triton": triton.__version__,
        "torch": torch.__version__,
        "top_k": options.top_k,
        "wall_s": time.perf_counter() - start,
        "rows": rows,
        "not_tuned_for_lack_of_time": outcome,
    }
    if options.json == "-":
        print(json.dumps(fields, indent=1))
        return
    print(
        f"{fields['wall_s']:.0f} s in all."
        + (f" No time for {', '.join(outcome)}." if outcome else "")
    )
    if options.json:
        Path(options.json).write_text(json.dumps(fields, indent=1) + "\n")


if __name__ == "__main__":
    main()
