"""Tune kernels under a budget, beside random search and an exhaustive sweep in the same run.

    python bench/tune.py --json tune_h200.json      # needs a GPU; some 2 minutes a problem
    python bench/tune.py --minutes 7 --gpu-seconds 10 "examples/matmul.py M=4096,N=4096,K=4096"

    python bench/tune.py --device h200 --rank plans.json       # needs no GPU, but xgboost
    python bench/tune.py --plans plans.json                    # needs a GPU, and no xgboost

Each problem is tuned as `solkit tune` does it, with the surrogate's ranking before and the final
after, from an empty compile cache. Then its whole space is measured on the same kind of bench,
again from an empty cache, in random order: the first seconds of that are the random search. The
best of all three then take turns with each other: shares of the optimum are of those times, so no
method gains from a lucky sample. Printed for each method: its best time's share of the optimum
(optimum over it) after a twentieth of the sweep's GPU seconds, and after the whole budget.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

import solkit
from solkit.analysis.analyser import Analyser
from solkit.cli import parse_settings
from solkit.core import TuneSettings, canonical
from solkit.datasets import outcomelog
from solkit.datasets.outcomelog import OutcomeLog
from solkit.measure.benches import HANDFUL
from solkit.measure.benches.trusted import Ahead, TrustedBench
from solkit.pipeline import grounds
from solkit.pipeline.grounds import live_ground
from solkit.pipeline.target import target
from solkit.pipeline.tuning import SPENT
from solkit.report.tuning import as_json
from solkit.tuner.driver import drive
from solkit.tuner.task import Task, TaskSettings

PROBLEMS = (
    "datasets/zoo/moe/gathered.py T=512,E=64,TOP=6,N=704,K=2048,dtype=bfloat16",
    "datasets/zoo/moe/gathered.py T=16,E=16,TOP=2,N=2048,K=2048,dtype=bfloat16",
    "examples/matmul.py M=4096,N=4096,K=4096",
    "datasets/zoo/attention_forward/online_softmax.py B=1,H=32,KV=8,S=2048,D=128,causal=true,"
    "dtype=bfloat16",
    "datasets/zoo/softmax/whole_row.py M=8192,N=1024,dtype=float16",
    "examples/bias_gelu.py M=16384,N=4096",
)
SHARE = 0.05
TURNS = 3
WHOLE = TaskSettings(stop_at=math.inf, least_gain=0.0)


class InOrder:
    """Asks for the points of a list, one after the other."""

    def __init__(self, points):
        self.left = list(points)

    def ask(self, number):
        """The next ones."""
        asked, self.left = self.left[:number], self.left[number:]
        return asked

    def tell(self, params, time_ms, cost_s=None):
        """Times change nothing."""

    def expected_gain(self):
        """Unknown."""
        return math.nan

    @property
    def exhausted(self):
        """Whether the list is at its end."""
        return not self.left


@contextlib.contextmanager
def empty_caches():
    """Compiles and analyses start from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {name: os.environ.get(name) for name in ("TRITON_CACHE_DIR", "SOLKIT_CACHE")}
        os.environ.update(TRITON_CACHE_DIR=f"{folder}/triton", SOLKIT_CACHE=f"{folder}/solkit")
        try:
            yield Path(folder)
        finally:
            for name, value in kept.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def found(rows):
    """What a run had after how many GPU seconds: (seconds, time, parameters), each a new best."""
    best, steps = math.inf, []
    for spent_s, row in rows:
        if row.verdict.is_right and row.time_ms is not None and row.time_ms < best:
            best = row.time_ms
            steps.append((spent_s, best, row.params))
    return steps


def by(steps, seconds):
    """The parameters it had by then; ``None`` before the first."""
    return next((params for spent_s, _, params in reversed(steps) if spent_s <= seconds), None)


def tune(path, shape, options):
    with empty_caches() as folder:
        log, begun_s = folder / "tune.jsonl", time.monotonic()
        told = solkit.tune(
            path,
            gpu_seconds=options.gpu_seconds,
            shape=shape,
            settings=TuneSettings(log=log, seed=options.seed, prior=options.prior),
        )
        wall_s = time.monotonic() - begun_s
        rows = [(row.extra[SPENT], row) for row in outcomelog.read(log).rows if SPENT in row.extra]
    return told, found(rows), wall_s


def sweep(path, shape, options):
    """The whole space in random order; and a function that times some in turns."""
    how = TuneSettings(prior=False)
    device = target(None)
    with empty_caches() as folder, Analyser(device) as analyser:
        ground = live_ground(analyser, path, None, shape, how)
        order = InOrder(ground.space.shuffled(options.seed))
        task = Task(path, ground.default, ground.space, settings=WHOLE, search=order)
        rows = []
        with (
            OutcomeLog(folder / "sweep.jsonl") as log,
            Ahead(device, facts=False) as ahead,
            TrustedBench(ahead, log) as bench,
        ):
            heard = lambda _, __, row, spent_s: rows.append((spent_s, row))  # noqa: E731
            spent_s = drive(bench, [task], 1e9, heard=heard)
            waited_s = bench.waited_s

            def turns(chosen):
                return in_turns(bench, ground.default, chosen)

            yield task, rows, spent_s, waited_s
            yield turns


def in_turns(bench, default, chosen):
    """The median time of each of at most a handful, called in turns."""
    samples = {canonical(params): [] for params in chosen}
    for _ in range(TURNS):
        bench.submit([replace(default, params=params, chosen_by="repeat") for params in chosen])
    for configuration, outcome in bench.outcomes():
        samples[canonical(configuration.params)] += outcome.samples_ms
    return {name: median(each) for name, each in samples.items() if each}


class Told:
    """A prior that was made elsewhere: by point, mean and deviation in log2 ms, and p_fail."""

    def __init__(self, listed):
        self.of = {canonical(point): told for point, told in listed}

    def log2_ms(self, points):
        """As a `Prior`."""
        known = [self.of.get(canonical(each), (math.nan,) * 3) for each in points]
        return np.array([k[0] for k in known]), np.array([k[1] for k in known])

    def fails(self, points):
        """As a `Prior`."""
        return np.array([self.of.get(canonical(each), (0.0, 0.0, 0.0))[2] for each in points])


def read(name):
    """A problem's file and shape."""
    path, _, shape = name.partition(" ")
    return path, parse_settings(shape, "--shape") if shape else None


def rank(options):
    """Write what is believed of each problem before the first measurement."""
    plans = {}
    with Analyser(target(options.device)) as analyser:
        for name in options.problems:
            ground = live_ground(analyser, read(name)[0], None, read(name)[1], TuneSettings())
            points = list(ground.space.walk())
            told = zip(*ground.prior.log2_ms(points), ground.prior.fails(points), strict=True)
            listed = [[round(float(each), 4) for each in one] for one in told]
            plans[name] = list(zip(points, listed, strict=True))
            options.rank.write_text(json.dumps(plans))
            print(f"{name}: {len(points)} points", flush=True)


@contextlib.contextmanager
def planned(listed):
    """Tune with a prior that was made elsewhere."""
    kept = grounds._planned
    if listed is not None:
        grounds._planned = lambda *_: Told(listed)
    try:
        yield
    finally:
        grounds._planned = kept


def compared(name, options):
    path, shape = read(name)
    with planned(options.plans.get(name)):
        told, tuned_steps, wall_s = tune(path, shape, options)
    swept = sweep(path, shape, options)
    task, rows, sweep_s, waited_s = next(swept)
    random_steps = found(rows)
    marks = {"twentieth": SHARE * sweep_s, "budget": told.gpu_s}
    picks = {
        f"{method}_{mark}": by(steps, seconds)
        for method, steps in (("tune", tuned_steps), ("random", random_steps))
        for mark, seconds in marks.items()
    }
    picks |= {"default": task.default.params}
    wanted = {canonical(p): p for p in picks.values() if p is not None}
    for each in task.ranked():
        if len(wanted) < HANDFUL:
            wanted.setdefault(canonical(each.configuration.params), each.configuration.params)
    times_ms = next(swept)(list(wanted.values()))
    swept.close()
    best_ms = min(times_ms.values())
    shares = {
        pick: None if params is None else best_ms / times_ms.get(canonical(params), math.inf)
        for pick, params in picks.items()
    }
    return {
        "problem": name,
        "device": told.device,
        "points": task.measured,
        "failed": task.failed,
        "sweep_gpu_s": sweep_s,
        "sweep_waited_s": waited_s,
        "best_ms": best_ms,
        "marks_s": marks,
        "share_of_best": shares,
        "wall_s": wall_s,
        "tune": as_json(told),
    }


def line(each):
    """A result in a few lines."""
    tuned, shares = each["tune"], each["share_of_best"]
    told = {name: "none" if v is None else f"{v:.1%}" for name, v in shares.items()}
    speedup = tuned["speedup"] or {"value": 1.0, "low": math.nan, "high": math.nan}
    after = [
        f"  after {s:5.1f} GPU s: tune {told[f'tune_{mark}']}, random {told[f'random_{mark}']}"
        for mark, s in each["marks_s"].items()
    ]
    return "\n".join(
        (
            f"{each['problem']}: {each['points']} points, {each['failed']} of them fail; a sweep "
            f"takes {each['sweep_gpu_s']:.1f} GPU s; the default reaches {told['default']}",
            *after,
            f"  {tuned['verdict']}: {speedup['value']:.3f} times as fast ({speedup['low']:.3f} to "
            f"{speedup['high']:.3f}); {tuned['measured']} measured; {tuned['stopped']}; wall time "
            f"{each['wall_s']:.0f} s, of which the final {tuned['final_s']:.0f} s",
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("problems", nargs="*", default=PROBLEMS, metavar="'FILE SHAPE'")
    parser.add_argument("--gpu-seconds", type=float, default=10.0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin none after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-prior", dest="prior", action="store_false")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--device", help="to rank for; default: this machine's GPU")
    parser.add_argument("--rank", type=Path, help="write what is believed, and stop")
    parser.add_argument("--plans", type=Path, help="use what was written so")
    options = parser.parse_args()
    if options.rank:
        rank(options)
        return 0
    options.plans = json.loads(options.plans.read_text()) if options.plans else {}
    begun_s, results = time.monotonic(), []
    for name in options.problems:
        if time.monotonic() - begun_s > 60 * options.minutes:
            print(f"no time left for {name}", flush=True)
            continue
        results.append(compared(name, options))
        print(line(results[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
