"""The first choice that SolKit makes with no GPU time, against what a library would run.

    python bench/first_choices.py OUT.json FILE... [--depth compiled] [--device h200] [--time]

FILEs are kernel files whose default parameters are the library's own choice: Helion's untuned seeds
(bench/helion_seeds.py), or Liger-Kernel's rules (bench/liger/*.py, which need ``pip install
liger-kernel``). Their configurations are ranked without a GPU; with ``--time`` the first choice is
timed in turns with the library's, and with what was pretuned, where the file says so. Printed are
the ratios library / first choice and pretuned / first choice of times: above 1, SolKit is faster.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROUNDS, REPEATS_MS = 5, 25


def load(path: Path) -> Any:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(f"first_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def own_params(loaded: Any) -> dict[str, Any]:
    """Return the parameters that the library would run."""
    return dict(loaded.kernel.__kwdefaults__ or {})


def pretuned_params(loaded: Any, shape: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what was pretuned for a shape; ``None`` where nothing was."""
    pretuned = getattr(loaded, "PRETUNED", None)
    return None if pretuned is None else {"config": pretuned[shape["case"]]}


def ranked(path: Path, shape: Mapping[str, Any], loaded: Any, options: Any) -> dict[str, Any]:
    """Rank the configurations at a shape; what was pretuned is left out."""
    from solkit.pipeline.ranking import rank
    from solkit.surrogate.ranking import RankSettings

    began = time.time()
    settings = RankSettings(depth=options.depth, everything=True, explained=0)
    (plan,) = rank(str(path), device=options.device, shapes=[shape], settings=settings)
    left_out = pretuned_params(loaded, shape)
    forecasts = {
        json.dumps(dict(row.configuration.params), sort_keys=True): row.forecast.time_ms
        for row in plan.ranked
        if row.configuration.params != left_out
    }
    usable = {params: time_ms for params, time_ms in forecasts.items() if time_ms is not None}
    first = min(usable, key=usable.__getitem__)
    return {
        "kernel": path.parent.name if path.stem == "kernel" else path.stem,
        "shape": dict(shape),
        "configurations": len(forecasts),
        "first": json.loads(first),
        "own": own_params(loaded),
        "pretuned": left_out,
        "rank_s": time.time() - began,
        "forecast_ms": usable,
        "notes": list(plan.notes),
    }


def timed(
    loaded: Any, shape: Mapping[str, Any], params: Sequence[Mapping[str, Any]]
) -> list[float]:
    """Return median times in ms, measured in turns with L2 flushed; NaN for what fails."""
    import torch
    from triton.testing import do_bench

    arguments = loaded.inputs(**shape, device="cuda")
    arguments = arguments if isinstance(arguments, tuple) else (arguments,)
    calls: list[Callable[[], Any] | None] = []
    for choice in params:
        try:
            loaded.kernel(*arguments, **choice)
            torch.cuda.synchronize()
            calls.append(lambda choice=choice: loaded.kernel(*arguments, **choice))
        except Exception as error:  # a configuration that does not run costs no other
            print(f"    {type(error).__name__}: {error}"[:200], file=sys.stderr)
            calls.append(None)
    times: list[list[float]] = [[] for _ in params]
    for _ in range(ROUNDS):
        for samples, call in zip(times, calls, strict=True):
            if call is not None:
                samples.append(do_bench(call, warmup=5, rep=REPEATS_MS, return_mode="median"))
    return [statistics.median(samples) if samples else math.nan for samples in times]


def with_times(row: dict[str, Any], loaded: Any) -> dict[str, Any]:
    tried = [row["own"], row["first"], *([row["pretuned"]] if row["pretuned"] else [])]
    own_ms, first_ms, *tuned_ms = timed(loaded, row["shape"], tried)
    row |= {"own_ms": own_ms, "first_ms": first_ms}
    if tuned_ms:
        row["pretuned_ms"] = tuned_ms[0]
    return row


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def print_ratios(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a line for each kernel, and the geometric means over all shapes."""
    for other in ("own_ms", "pretuned_ms"):
        ratios: dict[str, list[float]] = {}
        for row in rows:
            ratio = row.get(other, math.nan) / row.get("first_ms", math.nan)
            if math.isfinite(ratio):
                ratios.setdefault(row["kernel"], []).append(ratio)
        for kernel, values in ratios.items():
            print(f"{other} / first_ms  {kernel:40} {geometric_mean(values):.3f}  {len(values)}")
        every = [value for values in ratios.values() for value in values]
        if every:
            mean, median = geometric_mean(every), statistics.median(every)
            print(
                f"{other} / first_ms  {len(ratios)} kernels, {len(every)} shapes: "
                f"geometric mean {mean:.3f}, median {median:.3f}, least {min(every):.3f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--depth", default="compiled")
    parser.add_argument("--device", default="h200")
    parser.add_argument("--time", action="store_true", help="on this machine's GPU")
    parser.add_argument("--limit-s", type=float, default=math.inf, help="begin no shape after it")
    options = parser.parse_args()
    began, rows = time.time(), []
    if options.out.exists():
        rows = json.loads(options.out.read_text())
    done = {(row["kernel"], json.dumps(row["shape"])) for row in rows}
    for path in options.files:
        loaded = load(path.absolute())
        for shape in loaded.SHAPES:
            name = path.parent.name if path.stem == "kernel" else path.stem
            if (name, json.dumps(shape)) in done or time.time() - began > options.limit_s:
                continue
            try:
                rows.append(ranked(path, shape, loaded, options))
            except Exception as error:  # what this torch cannot run costs no other kernel
                print(f"{path} {shape}: {type(error).__name__}: {error}"[:400], file=sys.stderr)
                continue
            print(name, shape, f"{rows[-1]['rank_s']:.1f} s", flush=True)
            options.out.write_text(json.dumps(rows))
    if options.time:
        by_name = {(p.parent.name if p.stem == "kernel" else p.stem): p for p in options.files}
        for row in rows:
            if "first_ms" not in row and row["kernel"] in by_name:
                with_times(row, load(by_name[row["kernel"]].absolute()))
                options.out.write_text(json.dumps(rows))
    print_ratios(rows)


if __name__ == "__main__":
    main()
