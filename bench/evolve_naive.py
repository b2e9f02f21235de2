"""How much of the gap of plain kernels `solkit evolve` closes, on this machine's GPU.

    python bench/evolve_naive.py bench/naive/*.py --out results
    python bench/evolve_naive.py bench/naive/*.py --no-compiled               # the rewriter alone
    python bench/evolve_naive.py K.py --order surrogate random --seeds 5 --gpu-seconds 30

For each kernel: the gap before and after the gate, and whether it held at held-out shapes. Then
the share of the summed log gaps that was closed. With several seeds each kernel is searched once a
seed. With two orders, both start from the same kernel and seed one after the other. Shapes are not
held out then, so all GPU seconds go to the search. The summary gives the ratio of their best times
in the search, the geometric mean over kernels and seeds, with an interval from a bootstrap over
these pairs of one GPU: at equal GPU seconds, up to the budget. A result is in the folder of
`--out`, as ``NAME-ORDER-SEED.json``, before the next one starts, and is not searched again; what
was cut short goes on from its log. So a folder serves one set of options.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solkit.core import EvolveSettings, Order, Stopped, TuneVerdict
from solkit.errors import SolkitError
from solkit.pipeline.evolving import EvolveParts, evolve
from solkit.report import evolution
from solkit.report.advice import advise

Result = dict[str, Any]
"""What `solkit evolve --json` writes, ``solkit.evolve/1``."""


@dataclass(frozen=True)
class Closed:
    """The gap of one kernel before and after."""

    before: float
    after: float


def closed(result: Result) -> Closed | None:
    """The gaps; what was not shown at the gate does not count."""
    before_ms, sol_ms = result["original"]["time_ms"], result["sol_ms"]
    if before_ms is None or not sol_ms:
        return None
    before = before_ms / sol_ms
    faster = result["verdict"] == TuneVerdict.FASTER
    return Closed(before, before / result["speedup"]["value"] if faster else before)


def line(path: str, result: Result, gaps: Closed | None) -> str:
    gap_text = "no gap" if gaps is None else f"gap {gaps.before:7.2f} to {gaps.after:6.2f}"
    gate = result["gate"]
    held_out = "" if gate is None else f"{len(gate['held_out'])} held out"
    kind = "kept"
    if result["verdict"] == TuneVerdict.FASTER:
        best = result["best"]["id"]
        kind = next(variant["kind"] for variant in result["variants"] if variant["id"] == best)
    counts = f"{result['measured']} measured ({result['failed']} failed) in {result['gpu_s']:.0f} s"
    return f"{Path(path).stem:28} {gap_text}  {held_out:11} {counts}  {kind}"


@dataclass(frozen=True)
class Search:
    """One search of a kernel."""

    path: str
    seed: int
    order: str
    result: Result


def searched(options: argparse.Namespace) -> Iterator[Search]:
    held_out = () if len(options.order) > 1 else None  # None: those that the file names
    for path in options.kernels:
        for seed, order in itertools.product(range(options.seeds), options.order):
            file = options.out and options.out / f"{Path(path).stem}-{order}-{seed}.json"
            if file is not None and file.exists():
                yield Search(path, seed, order, json.loads(file.read_text()))
                continue
            log = None if file is None else file.with_suffix(".jsonl")
            how = EvolveSettings(
                seed=seed,
                order=order,
                stop_at=options.stop_at,
                held_out=held_out,
                compiled=not options.no_compiled,
                log=log,
                resume=log is not None and log.exists(),
            )
            parts = EvolveParts(
                advise=advise,
                show=lambda status: print(evolution.status_line(status), file=sys.stderr),
            )
            try:
                result = evolve(path, gpu_seconds=options.gpu_seconds, settings=how, parts=parts)
            except SolkitError as error:
                print(f"{Path(path).stem:28} {error}", flush=True)
                continue
            text = evolution.dumps(result)
            if result.stopped is Stopped.INTERRUPTED:
                yield Search(path, seed, order, json.loads(text))
                return
            if file is not None:
                part = file.with_suffix(".part")
                part.write_text(text)
                part.replace(file)  # a run that ends while it writes leaves no half of it
            yield Search(path, seed, order, json.loads(text))


def best_after(result: Result, gpu_s: float) -> float | None:
    """Milliseconds of the best that a search had after so many GPU seconds."""
    original: float | None = result["original"]["time_ms"]
    times = [point["best_ms"] for point in result["trajectory"] if point["gpu_s"] <= gpu_s]
    return min(times, default=original)


def paired(searches: Sequence[Search], first: str, second: str, gpu_s: float) -> str:
    """The best time of one order over the other's after so many seconds, and a 95 % interval."""
    best: dict[tuple[str, str, int, str], float | None] = {}
    for search in searches:
        place = search.path, search.seed, search.result["device"]
        best[(search.order, *place)] = best_after(search.result, gpu_s)
    logs = [
        math.log(time_ms / other)
        for (order, *place), time_ms in best.items()
        if order == first and time_ms and (other := best.get((second, *place)))
    ]
    if not logs:
        return "no pairs"
    chance = random.Random(0)
    means = sorted(statistics.fmean(chance.choices(logs, k=len(logs))) for _ in range(10_000))
    low, high = math.exp(means[250]), math.exp(means[9750])
    ratio = math.exp(statistics.fmean(logs))
    return (
        f"best time of {first} over that of {second} after {gpu_s:g} GPU s: {ratio:.3f} "
        f"({low:.3f} to {high:.3f}), {len(logs)} pairs"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernels", nargs="+", help="kernel files")
    parser.add_argument("--gpu-seconds", type=float, default=120.0)
    orders = [order.value for order in Order]
    parser.add_argument("--order", nargs="+", choices=orders, default=["surrogate"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--no-compiled", action="store_true", help="leave references out")
    parser.add_argument("--stop-at", type=float, default=0.95)
    parser.add_argument("--out", type=Path, default=None, help="a folder for the results")
    options = parser.parse_args()
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    all_gaps, searches = [], []
    for search in searched(options):
        gaps = closed(search.result)
        print(
            f"{search.order:9} {search.seed} {line(search.path, search.result, gaps)}", flush=True
        )
        searches.append(search)
        all_gaps += [gaps] if gaps is not None and search.order == options.order[0] else []
    whole = sum(math.log(gap.before) for gap in all_gaps)
    if whole > 0:
        won = sum(math.log(gap.before / gap.after) for gap in all_gaps)
        print(f"closed {won / whole:.2f} of the summed log gaps of {len(all_gaps)} searches")
    if len(options.order) == 2:
        for share in (1 / 3, 1 / 2, 2 / 3, 1.0):
            print(paired(searches, options.order[0], options.order[1], share * options.gpu_seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
