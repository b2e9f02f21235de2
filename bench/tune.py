"""Tune kernels under a budget, beside other tuners and an exhaustive sweep in the same run.

    python bench/tune.py --json tune_h100.json      # needs a GPU; some 85 seconds a problem
    CUDA_VISIBLE_DEVICES=0 python bench/tune.py --part 1/2 --workers 14 --json one.json  # two GPUs
    CUDA_VISIBLE_DEVICES=1 python bench/tune.py --part 2/2 --workers 14 --json two.json
    python bench/tune.py --show one.json two.json   # the table of both; no GPU
    python bench/tune.py --only moe/ --gpu-seconds 90 --random 300 --peers ""   # the fused MoE

    python bench/tune.py --device h200 --rank plans.json       # needs no GPU, but xgboost
    python bench/tune.py --plans plans.json                    # needs a GPU, and no xgboost

Each problem is searched as `solkit tune` searches it, with the surrogate's ranking before, but on
to the speed of light; its final is in turns in the same process. Then come the peers: Optuna's TPE
on the same kind of bench, and `triton.autotune` (bench/tune_autotune.py) over the same points in
the order of the file. Last the whole space is measured, in random order: the first seconds of that
are the random search. Each starts from empty caches with new processes, and has as much wall time
as the search took, ranking and start included.

What each one chose then takes turns with the fastest of the sweep, on inputs of three draws, each
twice. A share is the optimum's time over that of a choice, both from those turns, so that no method
gains from a lucky sample or from one draw. ``tune_share`` is of what the search had when its GPU
seconds and the compile seconds of its outcomes were a twentieth of the sweep's; ``tune_gpu`` when
its GPU seconds alone were; the others at equal wall time. The last four problems are of families
that the shipped surrogate has not trained on (bench/untrained).

A problem that the JSON file holds already is not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

import solkit
from solkit.analysis.analyser import Analyser
from solkit.cli import parse_settings
from solkit.core import MeasureSettings, TuneSettings, canonical
from solkit.datasets.outcomelog import OutcomeLog
from solkit.measure.benches import HANDFUL
from solkit.measure.benches.trusted import Ahead, TrustedBench
from solkit.pipeline import tuning_context
from solkit.pipeline.target import target_device
from solkit.pipeline.tuning_context import live_ground
from solkit.report.tuning import as_json
from solkit.tuner.bench_driver import drive_bench
from solkit.tuner.early_stopping import TaskSettings
from solkit.tuner.tuning_problem import TuningProblem

HERE = Path(__file__).parent
ZOO = "datasets/zoo"
PROBLEMS = (
    f"{ZOO}/moe/gathered.py T=512,E=64,TOP=6,N=704,K=2048,dtype=bfloat16",
    f"{ZOO}/moe/gathered.py T=16,E=16,TOP=2,N=2048,K=2048,dtype=bfloat16",
    "examples/matmul.py M=4096,N=4096,K=4096",
    f"{ZOO}/attention_forward/online_softmax.py B=1,H=32,KV=8,S=2048,D=128,causal=true,"
    "dtype=bfloat16",
    f"{ZOO}/softmax/whole_row.py M=8192,N=1024,dtype=float16",
    f"{ZOO}/layer_norm/two_pass_loop.py M=32768,N=768,dtype=bfloat16",
    f"{ZOO}/attention_decode/split_combine.py B=8,H=32,KV=8,S=4096,D=128,dtype=bfloat16",
    f"{ZOO}/gemm_fp8/swapped.py M=1024,N=7168,K=2048,dtype=bfloat16",
    "bench/untrained/jsd_rows.py",
    "bench/untrained/poly_norm.py",
    "bench/untrained/gaussian_sum.py",
    "bench/untrained/log_mel.py",
)
PEERS = ("tpe", "autotune")
SHARE = 0.05
DRAWS = (0, 1, 2, 0, 1, 2)
"""Seeds of the inputs in the turns; 0 is the search's."""
SWEPT = 2
"""So many of the sweep's fastest take part in the turns."""
ONE = {"value": 1.0, "low": math.nan, "high": math.nan}
WHOLE = TaskSettings(stop_at=math.inf, least_gain=0.0)


@dataclass(frozen=True)
class Row:
    """An outcome, with what it took until then."""

    params: dict
    time_ms: float | None  # of a correct one
    gpu_s: float
    compile_s: float  # of this one
    wall_s: float  # since the method began


@dataclass(frozen=True)
class Course:
    """What a method measured, in order."""

    rows: Sequence[Row]

    def best(self, reached):
        """The fastest parameters of the rows before the first that has not `reached`."""
        result = None
        for row, compile_s in zip(self.rows, np.cumsum([r.compile_s for r in self.rows])):
            if not reached(row, compile_s):
                break
            if row.time_ms is not None and (result is None or row.time_ms < result.time_ms):
                result = row
        return None if result is None else result.params

    def cost_s(self):
        """GPU and compile seconds of all."""
        return max(row.gpu_s for row in self.rows) + sum(row.compile_s for row in self.rows)


class Watch:
    """Notes each outcome with the time since it was made."""

    def __init__(self):
        self.begun_s, self.rows = time.monotonic(), []

    def heard(self, _task, configuration, row, gpu_s):
        """An outcome."""
        right = row.verdict.is_right
        self.rows.append(
            Row(
                dict(configuration.params),
                row.time_ms if right else None,
                gpu_s,
                row.compile_s or 0.0,
                time.monotonic() - self.begun_s,
            )
        )

    @property
    def course(self):
        """All of them."""
        return Course(tuple(self.rows))


class Asked:
    """Another tuner's ask and tell, as a task's search; it asks for nothing after some seconds."""

    def __init__(self, asks, seconds=math.inf):
        self.asks, self.until_s, self.is_empty = asks, time.monotonic() + seconds, False

    def ask(self, number):
        """The next points."""
        request = [] if time.monotonic() > self.until_s else self.asks.ask(number)
        self.is_empty = not request
        return request

    def tell(self, params, time_ms, cost_s=None):
        """What a point took."""
        del cost_s
        self.asks.tell(params, time_ms)

    def expected_gain(self):
        """Unknown."""
        return math.nan

    def chance_of_better(self):
        """Unknown."""
        return math.nan

    @property
    def exhausted(self):
        """True if it asks for nothing more."""
        return self.is_empty


class InOrder:
    """Asks for the points of a list, one after the other."""

    def __init__(self, points):
        self.left = list(points)

    def ask(self, number):
        """The next ones."""
        request, self.left = self.left[:number], self.left[number:]
        return request

    def tell(self, params, time_ms):
        """Times change nothing."""


@contextlib.contextmanager
def empty_caches():
    """Compiles and analyses start from nothing."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        kept = {name: os.environ.get(name) for name in ("TRITON_CACHE_DIR", "SOLKIT_CACHE")}
        os.environ.update(TRITON_CACHE_DIR=f"{folder}/triton", SOLKIT_CACHE=f"{folder}/solkit")
        try:
            yield Path(folder)
        finally:
            for name, value in kept.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


@contextlib.contextmanager
def opened(options):
    """A new bench with empty caches."""
    with (
        empty_caches() as folder,
        OutcomeLog(folder / "log.jsonl") as log,
        Ahead(target_device(None), options.workers, facts=False) as ahead,
        TrustedBench(ahead, log) as bench,
    ):
        yield bench


def tune(path, shape, options):
    """As `solkit tune`: what it found, its course, and the wall seconds until its search ended."""
    watch, ended_s = Watch(), [math.nan]

    def show(status):
        if status.stage == "final":
            ended_s[0] = time.monotonic() - watch.begun_s

    with opened(options) as bench, watching(watch):
        result = solkit.tune(
            path,
            gpu_seconds=options.gpu_seconds,
            shape=shape,
            bench=bench,
            settings=TuneSettings(
                stop_at=options.stop_at,
                seed=options.seed,
                prior=options.prior,
                workers=options.workers,
            ),
            show=show,
        )
    return result, watch.course, ended_s[0]


@contextlib.contextmanager
def watching(watch):
    """Note what tasks are told meanwhile."""
    kept = TuningProblem.tell

    def tell(task, configuration, outcome, gpu_s=0.0):
        kept(task, configuration, outcome, gpu_s)
        watch.heard(task, configuration, outcome, gpu_s)

    TuningProblem.tell = tell
    try:
        yield
    finally:
        TuningProblem.tell = kept


@contextlib.contextmanager
def swept(ground, options):
    """The course of the sweep; and a function that times some choices in turns."""
    points = list(ground.space.shuffled(options.seed))[: options.random or None]
    watch = Watch()
    with opened(options) as bench:
        task = TuningProblem("sweep", ground.default, ground.space, settings=WHOLE,
                    search=Asked(InOrder(points)))  # fmt: skip
        drive_bench(bench, [task], 1e9, heard=watch.heard)
        waited_s = bench.waited_s
        yield watch.course, waited_s, lambda chosen: in_turns(bench, ground.default, chosen)


def in_turns(bench, default, chosen):
    """Times in ms of at most a handful, called in turns: by choice, a list for each draw."""
    times = {canonical(params): [] for params in chosen}
    for seed in DRAWS:
        bench.seed = seed
        bench.submit([replace(default, params=params, chosen_by="repeat") for params in chosen])
        for configuration, outcome in bench.outcomes():
            samples = outcome.samples_ms or ()
            times[canonical(configuration.params)].append(median(samples) if samples else None)
    return times


def by_tpe(ground, wall_s, options):
    """Optuna's TPE on a bench of its own."""
    from solkit.tuner.optuna_samplers import OptunaSearch

    watch = Watch()
    with opened(options) as bench:
        asks = Asked(OptunaSearch.tpe_sampler(ground.space, None, options.seed), wall_s)
        task = TuningProblem("tpe", ground.default, ground.space, settings=WHOLE, search=asks)
        drive_bench(bench, [task], 1e9, heard=watch.heard)
    return watch.course


def by_autotune(ground, wall_s, options):
    """Triton's autotuner in a process of its own, over the points in the order of the file."""
    del options
    inputs = ",".join(f"{name}={_told(value)}" for name, value in ground.default.shape.items())
    with empty_caches() as folder:
        points = folder / "points.json"
        points.write_text(json.dumps(list(ground.space.walk())))
        command = [sys.executable, HERE / "tune_autotune.py", ground.default.path, inputs]
        command += ["--seconds", str(wall_s), "--points", points]
        ran = subprocess.run(command, text=True, capture_output=True, timeout=wall_s + 120)
    tried = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
    if not tried:
        print(f"triton.autotune tried nothing: {ran.stderr[-500:]}", file=sys.stderr, flush=True)
    return Course(tuple(Row(params, ms, 0.0, 0.0, after_s) for after_s, ms, params in tried))


def _told(value):
    """A size as the command line reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value).removeprefix("torch.")


BY = {"tpe": by_tpe, "autotune": by_autotune}


class Told:
    """A prior that was made elsewhere: by point, mean and deviation in log2 ms, and p_fail."""

    def __init__(self, listed):
        self.of = {canonical(point): result for point, result in listed}

    def log2_ms(self, points):
        """As a `Prior`."""
        known_results = [self.of.get(canonical(point), (math.nan,) * 3) for point in points]
        return np.array([k[0] for k in known_results]), np.array([k[1] for k in known_results])

    def fails(self, points):
        """As a `Prior`."""
        return np.array([self.of.get(canonical(point), (0.0, 0.0, 0.0))[2] for point in points])


def read(name):
    """A problem's file and shape."""
    path, _, shape = name.partition(" ")
    return path, parse_settings(shape, "--shape") if shape else None


def rank(options):
    """Write what is believed of each problem before the first measurement."""
    plans = {}
    with Analyser(target_device(options.device)) as analyser:
        for name in options.problems:
            ground = live_ground(analyser, read(name)[0], None, read(name)[1], TuneSettings())
            points = list(ground.space.walk())
            pairs = zip(*ground.prior.log2_ms(points), ground.prior.fails(points), strict=True)
            listed = [[round(float(item), 4) for item in one] for one in pairs]
            plans[name] = list(zip(points, listed, strict=True))
            options.rank.write_text(json.dumps(plans))
            print(f"{name}: {len(points)} points", flush=True)


@contextlib.contextmanager
def planned(listed):
    """Tune with a prior that was made elsewhere."""
    kept = tuning_context._plan_prior
    if listed is not None:
        tuning_context._plan_prior = lambda *_: Told(listed)
    try:
        yield
    finally:
        tuning_context._plan_prior = kept


def compared(name, analyser, options):
    """Everything about one problem."""
    path, shape = read(name)
    ground = live_ground(analyser, path, None, shape, TuneSettings(prior=False))
    with planned(options.plans.get(name)):
        result, tuned, wall_s = tune(path, shape, options)
    peers = {peer: BY[peer](ground, wall_s, options) for peer in options.peers}
    with swept(ground, options) as (whole, waited_s, turns):
        gpu_s, cost_s = max(row.gpu_s for row in whole.rows), whole.cost_s()
        marks = {
            "tune_share": tuned.best(lambda row, c_s: row.gpu_s + c_s <= SHARE * cost_s),
            "tune_gpu": tuned.best(lambda row, _: row.gpu_s <= SHARE * gpu_s),
            "tune_wall": dict(result.best.params) if result.best else None,
            "random_wall": whole.best(lambda row, _: row.wall_s <= wall_s),
            **{
                f"{peer}_wall": course.best(lambda row, _: row.wall_s <= wall_s)
                for peer, course in peers.items()
            },
            "default": dict(ground.default.params),
        }
        ranked = sorted((r for r in whole.rows if r.time_ms is not None), key=lambda r: r.time_ms)
        fastest = [row.params for row in ranked[:SWEPT]]
        expected = {canonical(p): p for p in (*fastest, *marks.values()) if p is not None}
        times = turns(list(expected.values())[:HANDFUL])
    middle = {key: median(time) for key, time in times.items() if time and None not in time}
    best_ms = min(middle.values())
    return {
        "problem": name,
        "device": result.device,
        "points": len(whole.rows),
        "failed": sum(row.time_ms is None for row in whole.rows),
        "sweep_gpu_s": gpu_s,
        "sweep_compile_s": cost_s - gpu_s,
        "sweep_waited_s": waited_s,
        "best_ms": best_ms,
        "first_s": next((row.gpu_s for row in tuned.rows if row.time_ms is not None), None),
        "wall_s": wall_s,
        "share_of_best": {
            mark: None if params is None else best_ms / middle.get(canonical(params), math.inf)
            for mark, params in marks.items()
        },
        "measured": {"tune": result.measured, "random": sum(r.wall_s <= wall_s for r in whole.rows)}
        | {peer: len(course.rows) for peer, course in peers.items()},
        "draws": list(DRAWS),
        "draws_ms": {
            mark: times.get(canonical(params))
            for mark, params in {**marks, "sweep": fastest[0]}.items()
            if params is not None
        },
        "tune": as_json(result),
    }


def line(item):
    """A result in a few lines."""
    tuned, shares = item["tune"], item["share_of_best"]
    text = ", ".join(f"{m} {'none' if v is None else f'{v:.1%}'}" for m, v in shares.items())
    speedup = {n: v or math.nan for n, v in (tuned["speedup"] or ONE).items()}
    first = "never" if item["first_s"] is None else f"after {item['first_s']:.2f} GPU s"
    return "\n".join(
        (
            f"{item['problem']}: {item['points']} points, {item['failed']} of them fail; a sweep "
            f"takes {item['sweep_gpu_s']:.1f} GPU s and compiles {item['sweep_compile_s']:.0f} s",
            f"  {text}",
            f"  {tuned['verdict']}: {speedup['value']:.3f} times as fast ({speedup['low']:.3f} to "
            f"{speedup['high']:.3f}); measured {item['measured']}; {tuned['stopped']} after "
            f"{tuned['gpu_s']:.1f} GPU s; the first time {first}; wall time {item['wall_s']:.0f} s",
            *(f"  {note}" for note in tuned["notes"]),
        )
    )


def table(results):
    """The median and the worst share of each method."""
    lines = [f"{len(results)} problems{'':<16}median    worst"]
    for mark in results[0]["share_of_best"] if results else ():
        shares = [result["share_of_best"].get(mark) or 0.0 for result in results]
        lines.append(f"{mark:<24}{median(shares):>10.1%}{min(shares):>9.1%}")
    return "\n".join(lines)


def part(result):
    """``"2/3"``: the second of three."""
    number, _, parts = result.partition("/")
    if not (number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{result!r}; expected a part such as 1/2")
    return int(number) - 1, int(parts)


def names(result):
    results = tuple(filter(None, result.split(",")))
    if unknown := set(results) - set(PEERS):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}; choose of {', '.join(PEERS)}")
    return results


def known(path):
    """The results that a file holds."""
    return json.loads(path.read_text()) if path and path.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("problems", nargs="*", default=PROBLEMS, metavar="'FILE SHAPE'")
    parser.add_argument("--only", help="problems whose name holds this")
    parser.add_argument("--part", type=part, default=(0, 1), metavar="I/N", help="of the problems")
    parser.add_argument("--gpu-seconds", type=float, default=3.0)
    parser.add_argument("--stop-at", type=float, default=1.0, help="share of the speed of light")
    parser.add_argument("--random", type=int, default=0, help="so many instead of the whole space")
    parser.add_argument("--peers", type=names, default=PEERS, help="by comma")
    parser.add_argument("--workers", type=int, default=0, help="processes that compile")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin none after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-prior", dest="prior", action="store_false")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", type=Path, nargs="+", help="print the table of files, and stop")
    parser.add_argument("--device", help="to rank for; default: this machine's GPU")
    parser.add_argument("--rank", type=Path, help="write what is believed, and stop")
    parser.add_argument("--plans", type=Path, help="use what was written so")
    options = parser.parse_args()
    if options.show:
        print(table([item for path in options.show for item in known(path)]))
        return 0
    options.problems = [p for p in options.problems if (options.only or "") in p]
    options.problems = options.problems[options.part[0] :: options.part[1]]
    if options.rank:
        rank(options)
        return 0
    options.plans = json.loads(options.plans.read_text()) if options.plans else {}
    results, failed = known(options.json), 0
    with Analyser(target_device(None, MeasureSettings())) as analyser:
        failed = run(analyser, options, results)
    print(table(results), flush=True)
    return 1 if failed else 0


def run(analyser, options, results):
    """Compare each problem; the number of those that failed. `results` grows."""
    begun_s, failed, done = time.monotonic(), 0, {result["problem"] for result in results}
    for name in options.problems:
        if name in done:
            continue
        if time.monotonic() - begun_s > 60 * options.minutes:
            print(f"no time left for {name}", flush=True)
            continue
        try:
            results.append(compared(name, analyser, options))
        except Exception as error:  # the other problems do not wait for another run
            failed += 1
            print(f"{name} failed: {type(error).__name__}: {error}", flush=True)
            continue
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
        print(line(results[-1]), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
