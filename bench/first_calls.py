"""Time the first calls of autotuned libraries with and without `solkit.integrations.triton`.

    python bench/first_calls.py --json first_calls.json          # needs a GPU, fla and flag_gems
    python bench/first_calls.py --cases pooling --seconds 60

A case is some operators of a library with the library's own lists. Each side of a case runs in a
process of its own, with empty caches of Triton and of the library. Wall time begins when the inputs
are there, before SolKit is imported: the import, the model, ranking, compiling and timing count. It
is told apart by autotuner, and the import counts for the lists of 16 configurations or more.
SolKit's own parts are listed as spans (`solkit.spans`). A last process runs each case with what
either side chose, alternating, and compares the GPU times of its kernels. What stands in the JSON
is not run again. Files of SolKit should be compiled, as `pip install` does: `python -m compileall
-q solkit surrogate roofline tuner datasets`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from record_programs import gated_delta_net

LONG = 16
"""Configurations of a list from which on the first call must be shorter."""
ROUNDS, STEPS = 5, 30
BEGUN_S = time.monotonic()
SIDES = ("without", "with")


# ------------------------------------------------------------------------------------------ cases


def pooling() -> Callable[[], Any]:
    import torch
    from fla.ops.utils.pooling import mean_pooling

    x = torch.randn(2, 4096, 8, 128, dtype=torch.bfloat16, device="cuda")
    return lambda: mean_pooling(x, 64)


def cumulated() -> Callable[[], Any]:
    import torch
    from fla.ops.utils.cumsum import chunk_global_cumsum

    x = torch.randn(4, 4096, 16, 64, device="cuda")
    return lambda: chunk_global_cumsum(x)


def pooling_and_sums() -> Callable[[], Any]:
    steps = pooling(), cumulated()
    return lambda: [step() for step in steps]


def gated_linear_attention() -> Callable[[], Any]:
    import torch
    from fla.ops.gla import chunk_gla

    shape = 2, 2048, 8, 128
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    gate = torch.nn.functional.logsigmoid(torch.randn(shape, device="cuda"))
    return lambda: chunk_gla(q, k, v, gate)


def gems_mv() -> Callable[[], Any]:
    import flag_gems
    import torch

    matrix = torch.randn(4096, 4096, dtype=torch.bfloat16, device="cuda")
    vector = torch.randn(4096, dtype=torch.bfloat16, device="cuda")
    return lambda: flag_gems.mv(matrix, vector)


def gems_reductions() -> Callable[[], Any]:
    import flag_gems
    import torch

    x = torch.randn(4096, 4096, dtype=torch.bfloat16, device="cuda")
    product = gems_mv()
    return lambda: (product(), flag_gems.var_mean(x, dim=[1]))


CASES: dict[str, Callable[[], Callable[[], Any]]] = {
    "pooling_and_sums": pooling_and_sums,
    "gems_reductions": gems_reductions,
    "gated_delta_net": gated_delta_net,
    "gated_linear_attention": gated_linear_attention,
}


# ------------------------------------------------------------------------- what a process measures


def tuner_classes() -> Iterator[type]:
    """Yield Triton's autotuner and all that derive from it."""
    from triton.runtime.autotuner import Autotuner

    waiting: list[type] = [Autotuner]
    while waiting:
        waiting += waiting[0].__subclasses__()
        yield waiting.pop(0)


def watch_tuners(rows: list[dict[str, Any]]) -> None:
    """Note each tuning: its kernel, the list's length, what was chosen, s within and of pruning."""
    import torch

    def watched(original: Any) -> Any:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            if vars(self).get("_is_watched"):  # a subclass calls its base
                return original(self, *args, **kwargs)
            self._is_watched, self._pruned_s = True, None
            torch.cuda.synchronize()
            begun_s = time.perf_counter()
            try:
                return original(self, *args, **kwargs)
            finally:
                torch.cuda.synchronize()
                self._is_watched = False
                if self._pruned_s is not None:  # it was tuned
                    row = {"kernel": self.base_fn.__name__, "listed": len(self.configs)}
                    row |= {"wall_s": time.perf_counter() - begun_s, "pruning_s": self._pruned_s}
                    rows.append({**row, "timed": self._timed, "chosen": str(self.best_config)})

        return run

    def pruned(original: Any) -> Any:
        def prune_configs(self: Any, kwargs: Any) -> Any:
            begun_s = time.perf_counter()
            configs = original(self, kwargs)
            self._pruned_s, self._timed = time.perf_counter() - begun_s, len(configs)
            return configs

        return prune_configs

    for form in tuner_classes():
        for name, around in (("run", watched), ("prune_configs", pruned)):
            if name in vars(form):
                setattr(form, name, around(vars(form)[name]))


def measure_first_call(name: str, side: str) -> dict[str, Any]:
    """Make a case's first call; the import is the time until SolKit is installed."""
    import torch

    step = CASES[name]()
    torch.cuda.synchronize()
    rows: list[dict[str, Any]] = []
    begun_s = time.perf_counter()
    if side == "with":
        from solkit.integrations import triton as solkit_triton

        solkit_triton.install()
    installed_s = time.perf_counter() - begun_s
    watch_tuners(rows)
    begun_s = time.perf_counter()
    step()
    torch.cuda.synchronize()
    call_s = time.perf_counter() - begun_s
    return {"import_s": installed_s, "call_s": call_s, "tuners": rows}


def choose_again(chosen: list[dict[str, Any]]) -> None:
    """Let each tuner have the one configuration that a side chose for its kernel."""
    from triton.runtime.autotuner import Autotuner

    waiting = list(chosen)

    def prune_configs(self: Any, _: Any) -> Any:
        rows = [row for row in waiting if row["kernel"] == self.base_fn.__name__]
        if rows:
            waiting.remove(rows[0])  # one for each tuning, in the order of the first call
        same = [c for c in self.configs if rows and str(c) == rows[0]["chosen"]]
        return same[:1] or list(self.configs)

    Autotuner.prune_configs = prune_configs


def measure_steady(name: str, first: dict[str, Any]) -> dict[str, Any]:
    """Time a case with what either side chose, alternating."""
    import gc

    from triton.runtime.autotuner import Autotuner

    step = CASES[name]()
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    for turn in range(ROUNDS):
        for side in SIDES if turn % 2 else reversed(SIDES):
            choose_again(first[side]["tuners"])
            forget_choices([o for o in gc.get_objects() if isinstance(o, Autotuner)])
            step()
            times[side].append(kernels_ms(step))
    ratio = statistics.median(times["with"]) / statistics.median(times["without"])
    return {"ratio": ratio, "times_ms": times}


def kernels_ms(step: Callable[[], Any]) -> float:
    """Return the GPU ms of a step's kernels; the host's own time is not theirs."""
    import torch
    from torch.autograd import DeviceType

    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    events = [e for e in profiler.events() if e.device_type == DeviceType.CUDA]
    return sum(e.time_range.elapsed_us() for e in events) / 1e3 / STEPS


def forget_choices(tuners: list[Any]) -> None:
    """Empty what tuners have chosen, and launchers that were built on it."""
    import gc

    for tuner in tuners:
        tuner.cache.clear() if type(tuner.cache) is dict else setattr(tuner, "cache", {})
    for held in gc.get_objects():
        if type(held).__name__ == "LibEntry":
            for kept in held.kernel_cache:
                kept.clear()


# ------------------------------------------------------------------------------------------- main


def run_child(part: str, name: str, side: str, first: dict[str, Any]) -> dict[str, Any]:
    """Run a part in a process of its own, with empty caches; return what it measured.

    Raises:
        RuntimeError: it failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        names = ("TRITON_CACHE_DIR", "FLAGGEMS_CACHE_DIR", "FLAGGEMS_DB_URL")
        caches = {names[0]: f"{folder}/triton", names[1]: f"{folder}/gems"}
        out = Path(folder, "out.json")
        Path(folder, "first.json").write_text(json.dumps(first))
        command = [sys.executable, __file__, "--part", part, "--cases", name, "--side", side]
        spans = Path(folder, "spans.jsonl")
        ended = subprocess.run(
            [*command, "--json", str(out)],
            env={**os.environ, **caches, "SOLKIT_SPANS": str(spans)},
            check=False,
            capture_output=True,
            text=True,
        )
        if not out.exists():
            raise RuntimeError(" | ".join(ended.stderr.strip().splitlines()[-3:]))
        answer: dict[str, Any] = json.loads(out.read_text())
        if spans.exists():
            answer["spans"] = [json.loads(line) for line in spans.read_text().splitlines()]
    warned = [line for line in ended.stderr.splitlines() if "SolKit ranked nothing" in line]
    return answer | ({"warned": warned} if warned else {})


def of_lists(first: dict[str, Any], is_long: bool) -> float:
    """Return the seconds of a side's tuners with long or short lists; long ones have the import."""
    rows = [row for row in first["tuners"] if (row["listed"] >= LONG) == is_long]
    import_s = first["import_s"] if is_long and rows else 0.0
    return float(sum(row["wall_s"] for row in rows) + import_s)


def summarise(name: str, case: dict[str, Any]) -> str:
    parts = [name]
    for is_long, what in ((True, f"lists of {LONG} and more"), (False, "shorter lists")):
        without, with_ = (of_lists(case[side], is_long) for side in SIDES)
        if without:
            parts.append(f"{what} {without:.2f} s, with {with_:.2f} s ({with_ / without:.2f})")
    calls = {side: case[side]["import_s"] + case[side]["call_s"] for side in SIDES}
    parts.append(f"the call {calls['without']:.2f} s, with {calls['with']:.2f} s")
    parts.append(f"import {case['with']['import_s']:.2f} s")
    for span in case["with"].get("spans", []):
        parts.append(f"{span['name']} {span['end_s'] - span['start_s']:.2f} s")
    if "steady" in case:
        parts.append(f"steady time {case['steady']['ratio']:.3f}")
    return "; ".join(parts)


def run_case(name: str, results: dict[str, Any], save: Callable[[], None], seconds: float) -> None:
    """Measure what a case lacks, as long as there is time."""
    case = results.setdefault(name, {})
    for part in (*SIDES, "steady"):
        if part in case or time.monotonic() - BEGUN_S > seconds:
            continue
        kind = "steady" if part == "steady" else "first"
        case[part] = run_child(kind, name, part, case if kind == "steady" else {})
        save()
    if all(side in case for side in SIDES):
        print(summarise(name, case), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--json", type=Path, help="results; what stands in it is not run again")
    parser.add_argument("--seconds", type=float, default=120.0, help="begin no process after these")
    parser.add_argument("--part", choices=["first", "steady"], help=argparse.SUPPRESS)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        (name,) = options.cases
        first = json.loads((options.json.parent / "first.json").read_text())
        part = options.part == "first"
        answer = measure_first_call(name, options.side) if part else measure_steady(name, first)
        options.json.write_text(json.dumps(answer))
        return 0
    held = options.json and options.json.exists()
    results: dict[str, Any] = json.loads(options.json.read_text()) if held else {}

    def save() -> None:
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))

    for name in options.cases:
        try:
            run_case(name, results, save, options.seconds)
        except RuntimeError as error:
            print(f"{name}: {error}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
