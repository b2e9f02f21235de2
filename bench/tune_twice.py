"""Tune kernels of other people's packages twice each, live, and look at what both runs left behind.

    python bench/tune_twice.py --folder twice --part 1/2 --seconds 240     # needs a GPU
    python bench/tune_twice.py --folder twice --gpus cuda:0,cuda:1         # a run on each, at once
    python bench/tune_twice.py --folder twice --show [--replays 20]        # no GPU: the figures

Needs ``pip install --no-deps`` of liger-kernel 0.8.5, fla-core 0.6.0, flashlib 0.4.0, flash-kmeans
0.3.1, grouped-mm-bf16 0.1.7, late-interaction-kernels 0.4.5 and cut-cross-entropy 25.1.1. Kernels
are imported as the packages have them. The first five problems (bench/wheels) are of kernels that
the shipped surrogate has not trained on; on the others it has, at other shapes.

Each problem is searched as `solkit tune` searches it, by two seeds, each with a budget of its own.
Then more of its space is measured at random, until `--most` configurations have a time. The five
fastest of all meet both choices and the default in turns, on inputs of three draws, each twice. A
choice's share is the fastest's time over its own, both from those turns. Two runs agree as in
bench/stops.py. A problem's file grows by its stages, so another run goes on where one ended;
bench/data/tune_twice has what is measured so far.

Each GPU has a process of its own, which compiles by its share of the cores. With two GPUs the two
seeds search at the same time, the rest of the space is shared out, and the turns are on the first.
`--earlier FOLDER` has files of other runs: what they measured of a problem is not measured again.

`--show` also replays peers on the measured configurations: Optuna's TPE and random choice, given as
many measurements as a run took, and all of them, which is what `triton.autotune` times. Their
shares, and the runs' own beside them, are of the single measurements.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
import sys
import tempfile
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median

from stops import agree
from tune import WHOLE, Asked, InOrder, Watch, in_turns, part, read, watching

from solkit.analysis.analyser import Analyser
from solkit.core import MeasureSettings, Stopped, TuneSettings, canonical
from solkit.datasets.outcomelog import OutcomeLog
from solkit.errors import SolkitError
from solkit.measure.benches.bench_server import Trusted
from solkit.measure.benches.local import gpus_named
from solkit.measure.benches.trusted import Ahead, TimingProcess, TrustedBench
from solkit.pipeline.target import target_device
from solkit.pipeline.tuning import _Run
from solkit.pipeline.tuning_context import live_ground
from solkit.tuner.bench_driver import drive_bench
from solkit.tuner.search_replay import RecordedSpace
from solkit.tuner.tuning_problem import TuningProblem

WHEELS, LIBRARIES = "bench/wheels", "datasets/libraries"
PROBLEMS = (
    f"{WHEELS}/flashlib_gram.py N=1024,D=4096",
    f"{WHEELS}/fla_causal_conv.py B=4,T=2048,D=2048,W=4",
    f"{WHEELS}/flashlib_tsne.py N=4096",
    f"{WHEELS}/liger_dyt.py M=4096,N=4096",
    f"{WHEELS}/fla_layer_norm.py T=65536,D=256",
    f"{LIBRARIES}/gemm_batched/grouped_mm_3d.py B=24,M=384,N=640,K=512,dtype=bfloat16",
    f"{LIBRARIES}/attention_decode/fla_naive.py batch=24,HQ=32,H=8,context=1500,head_dim=128,"
    "dtype=bfloat16",
    f"{LIBRARIES}/kmeans_assign/flash_kmeans_tiles.py B=2,N=30000,K=384,D=96,dtype=bfloat16",
    f"{LIBRARIES}/maxsim/late_interaction.py Nq=4,Lq=128,Nd=300,Ld=220,d=128,dtype=float16",
    f"{LIBRARIES}/indexed_dot/cce_atomics.py B=6000,D=3072,V=50000,dtype=bfloat16",
)
SEEDS = (0, 1)
FASTEST = 5
NEAR = 0.98  # of the fastest's speed


# ---------------------------------------------------------------------------------------- live


class Clock:
    """The rest of the seconds that a run may take."""

    def __init__(self, seconds):
        self.end_s = time.monotonic() + seconds

    @property
    def left_s(self):
        """Seconds until the end."""
        return self.end_s - time.monotonic()


class Gpu:
    """A GPU, and what its process keeps open from one stage to the next.

    Args:
        place: the GPU, e.g. ``"cuda:1"``.
        workers: number of processes that compile for it.
        options: of the command.
    """

    def __init__(self, place, workers, options):
        self.options, self.bench, self._of_bench = options, None, contextlib.ExitStack()
        self._grounds = {}
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            device = target_device(None, MeasureSettings(on=place))
            self._analyser = stack.enter_context(Analyser(device, workers=workers))
            self._log = stack.enter_context(OutcomeLog(folder / "log.jsonl"))
            self._ahead = stack.enter_context(Ahead(device, workers, facts=False))
            self._studying = stack.enter_context(ThreadPoolExecutor(1))
            stack.callback(self._close_benches)
            self._ahead.load()
            self._next = self._loading()
            self._all = stack.pop_all()

    def close(self):
        """End everything."""
        self._all.close()

    def study(self, name):
        """Begin to study a problem, while others are searched."""
        if name not in self._grounds:
            self._grounds[name] = self._studying.submit(self._ground, name)

    def ground(self, name):
        """The ground of a problem's searches."""
        self.study(name)
        return self._grounds[name].result()

    def renewed(self):
        """A bench that has not held the GPU yet: a run's GPU seconds count from its start."""
        self._of_bench.close()
        process, self._next = self._next, self._loading()
        bench = TrustedBench(self._ahead, self._log, process=process)
        self.bench = self._of_bench.enter_context(bench)
        return self.bench

    def _ground(self, name):
        file, shape = read(name)
        how = TuneSettings(stop_at=1.0, prior=self.options.prior)
        return live_ground(self._analyser, file, None, shape, how)

    def _loading(self):
        """A process that has begun to load, as that of `solkit tune` does while it studies."""
        process = TimingProcess(self._ahead.device, self._ahead.environment)
        process.load()
        return process

    def _close_benches(self):
        self._of_bench.close()
        self._next.close()

    def tuned(self, name, seed):
        """One run of the search and its final: what it chose, measured, and how sure it is."""
        ground = self.ground(name)
        bench, begun_s, watch = self.renewed(), time.monotonic(), Watch()
        bench.seed = 0
        how = TuneSettings(stop_at=1.0, seed=seed, prior=self.options.prior)
        with watching(watch):
            result = _Run(self.options.gpu_seconds, how, lambda _: None).on(bench, ground)
        if result.stopped is Stopped.INTERRUPTED:  # it says nothing about the search
            raise KeyboardInterrupt
        return {
            "device": bench.device.key,
            "gpu": bench.device.uuid,
            "points": ground.space.size,
            "chosen": dict(result.params),
            "verdict": result.verdict.value,
            "stopped": result.stopped.value,
            "better_chance": result.better_chance,
            "measured": result.measured,
            "failed": result.failed,
            "gpu_s": result.gpu_s,
            "wall_s": time.monotonic() - begun_s,
            "waited_s": bench.waited_s,
            "equals": [dict(equal.params) for equal in result.equals],
            "notes": list(result.notes),
            "rows": rows_of(watch),
        }

    def swept(self, name, measured_params, share, seconds):
        """Points of the space, in random order, that no run measured, until there are enough.

        Args:
            name: the problem.
            measured_params: what has an outcome.
            share: ``(1, 2)`` is the second half of the rest.
            seconds: after which no more is measured.
        """
        ground, bench, watch = self.ground(name), self.bench or self.renewed(), Watch()
        bench.seed, done = 0, set(map(canonical, measured_params))
        points = [p for p in ground.space.shuffled(len(SEEDS)) if canonical(p) not in done]
        points = points[: max(self.options.most - len(done), 0)][share[0] :: share[1]]
        task = TuningProblem(
            "sweep", ground.default, ground.space, settings=WHOLE, search=Asked(InOrder(points))
        )
        drive_bench(bench, [task], seconds, heard=watch.heard)
        return rows_of(watch)

    def turns(self, name, result):
        """Times in turns of the fastest, of both choices and of the default, by draw."""
        ground, bench = self.ground(name), self.bench or self.renewed()
        ranked = sorted((ms, canonical(p), p) for p, ms in measured(result) if ms is not None)
        fastest = list({key: params for _, key, params in ranked}.values())[:FASTEST]
        choices = [run["chosen"] for run in result["tunes"].values()]
        entries = {canonical(p): p for p in (*choices, *fastest, dict(ground.default.params))}
        times = in_turns(bench, ground.default, list(entries.values()))
        return [(entries[key], samples_ms) for key, samples_ms in times.items()]


_GPUS = {}
"""The `Gpu` of this process, by place."""


def ask(place, workers, options, method, arguments):
    """Call a method of this process's `Gpu`, which the first call opens."""
    if method == "close":
        return _GPUS.pop(place).close() if place in _GPUS else None
    if place not in _GPUS:
        _GPUS[place] = Gpu(place, workers, options)
    return getattr(_GPUS[place], method)(*arguments)


class GpuProcess:
    """A process with a `Gpu`; it does one thing at a time."""

    def __init__(self, place, workers, options):
        self._pool = ProcessPoolExecutor(1, get_context("spawn"))
        self._first = place, workers, options

    def submit(self, method, *arguments):
        """A future of what the method of `Gpu` gives."""
        return self._pool.submit(ask, *self._first, method, arguments)

    def close(self):
        """End the process."""
        with contextlib.suppress(Exception):
            self.submit("close").result()
        self._pool.shutdown()


def stages(name, path, gpus, options, clock, following=None):
    """Do what a problem's file lacks, as long as there is time; write it after each stage.

    Args:
        name: the problem.
        path: its file.
        gpus: a `GpuProcess` for each GPU.
        options: of the command.
        clock: the time left.
        following: the problem that is studied while this one is swept.
    """
    result = json.loads(path.read_text()) if path.exists() else {"problem": name, "tunes": {}}
    if "turns" in result:
        return
    lacking = [seed for seed in SEEDS if str(seed) not in result["tunes"]]
    for first in range(0, len(lacking), len(gpus)):
        if clock.left_s > options.gpu_seconds:
            tune_at_once(name, lacking[first : first + len(gpus)], gpus, result, path)
    for gpu in gpus if following else ():
        gpu.submit("study", following)
    if len(result["tunes"]) == len(SEEDS) and "swept" not in result and clock.left_s > 0:
        result["swept"] = rest_of(name, gpus, result, options, clock)
        write(result, path)
    if "swept" in result and clock.left_s > 0:
        result["turns"] = gpus[0].submit("turns", name, result).result()
        write(result, path)


def tune_at_once(name, seeds, gpus, result, path):
    """Run the search by each of these seeds on a GPU of its own; write each result when done."""
    runs = {gpu.submit("tuned", name, seed): seed for gpu, seed in zip(gpus, seeds, strict=False)}
    for future in as_completed(runs):
        if future.exception() is None:
            run = future.result()
            result |= {"device": run.pop("device"), "points": run.pop("points")}
            result["tunes"] = dict(sorted({**result["tunes"], str(runs[future]): run}.items()))
            write(result, path)
    for future in runs:
        future.result()  # if it failed, the other's result is kept


def rest_of(name, gpus, result, options, clock):
    """Rows of what no run measured, from an earlier file of the problem or all GPUs at once."""
    earlier = options.earlier and file_of(name, options.earlier)
    if earlier and earlier.exists():
        return measured(json.loads(earlier.read_text()))
    seconds = max(min(clock.left_s, options.sweep_s), 1.0)
    done = [params for params, _ in measured(result)]
    shares: list[Future[list]] = [
        gpu.submit("swept", name, done, (number, len(gpus)), seconds)
        for number, gpu in enumerate(gpus)
    ]
    return [row for share in shares for row in share.result()]


def write(result, path):
    """Write a problem's file, whole or not at all."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(result, indent=1))
    draft.replace(path)


def rows_of(watch):
    """A row for each outcome: point, time, GPU seconds by then, compile seconds, wall seconds."""
    return [
        (row.params, row.time_ms, row.gpu_s, row.compile_s, row.wall_s) for row in watch.course.rows
    ]


def measured(result):
    """Every point that has an outcome, with its time; ``None`` if it failed."""
    runs = [run["rows"] for run in result["tunes"].values()]
    return [row[:2] for rows in (*runs, result.get("swept", ())) for row in rows]


def measure_all(options):
    """Do all stages of the problems; return how many failed."""
    clock, failed = Clock(options.seconds), 0
    options.folder.mkdir(parents=True, exist_ok=True)
    kinds, _ = gpus_named(Trusted(workers=options.workers), options.gpus)
    places = options.gpus.split(",")
    with contextlib.ExitStack() as stack:
        gpus = [
            stack.enter_context(contextlib.closing(GpuProcess(place, kind.workers, options)))
            for place, kind in zip(places, kinds, strict=True)
        ]
        for name, following in zip(options.problems, [*options.problems[1:], None], strict=True):
            if clock.left_s <= 0:
                print(f"no time left for {name}", flush=True)
                continue
            try:
                stages(name, file_of(name, options.folder), gpus, options, clock, following)
            except Exception as error:  # the other problems do not wait for another run
                failed += 1
                print(f"{name} failed: {type(error).__name__}: {error}", flush=True)
            else:
                print(f"{name}: {clock.left_s:.0f} s are left", flush=True)
    return failed


def file_of(name, folder):
    """The JSON file of a problem in a folder."""
    file, _, shape = name.partition(" ")
    sizes = re.sub(r"\W+", "_", shape)[:60]
    return folder / f"{Path(file).stem}_{sizes}.json"


# ---------------------------------------------------------------------------------------- figures


def verdict_of(result):
    """Shares of both runs, whether they agree, and the default's share."""
    middle = {
        canonical(params): median(samples_ms)
        for params, samples_ms in result["turns"]
        if samples_ms and None not in samples_ms
    }
    best_ms = min(middle.values())
    runs = [
        {"chosen": run["chosen"], "chosen_ms": middle.get(canonical(run["chosen"]), math.inf)}
        for run in result["tunes"].values()
    ]
    return {
        "best_ms": best_ms,
        "shares": [best_ms / run["chosen_ms"] for run in runs],
        "same": runs[0]["chosen"] == runs[1]["chosen"],
        "agree": agree(*runs),
        "gpus": gpus_of(result),
    }


def gpus_of(result):
    """The GPUs on which the runs were, if they say it."""
    return sorted({run["gpu"] for run in result["tunes"].values() if run.get("gpu")})


def peers_of(result, replays):
    """Mean shares, by single measurements, of peers with as many as each run measured."""
    times = {}
    for params, time_ms in measured(result):
        times.setdefault(canonical(params), (params, time_ms))
    space = replayed_space(result, times)
    best_ms = min(ms for _, ms in times.values() if ms is not None)
    shares = {"runs": [], "tpe": [], "random": []}
    for run in result["tunes"].values():
        own_ms = times[canonical(run["chosen"])][1]
        shares["runs"].append(best_ms / own_ms)
        count = run["measured"] + run["failed"]
        for seed in range(replays):
            for peer in ("tpe", "random"):
                shares[peer].append(replayed(peer, space, times, count, seed))
    return {peer: fmean(listed) for peer, listed in shares.items() if listed}


def replayed_space(result, times):
    """The measured points as a recorded space."""
    points = tuple(params for params, _ in times.values())
    by_key = {canonical(params): time_ms for params, time_ms in times.values()}
    return RecordedSpace(result["problem"], result["device"], by_key, points).space


def replayed(peer, space, times, count, seed):
    """Share of the fastest that a peer finds with `count` measurements."""
    if peer == "random":
        asks = InOrder(space.shuffled(seed))
    else:
        from solkit.tuner.optuna_samplers import OptunaSearch

        asks = OptunaSearch.tpe_sampler(space, None, seed)
    results = []
    for _ in range(count):
        for params in asks.ask(1):
            time_ms = times[canonical(params)][1]
            asks.tell(params, time_ms)
            results += [time_ms] if time_ms is not None else []
    best_ms = min(ms for _, ms in times.values() if ms is not None)
    return best_ms / min(results) if results else 0.0


def show(options):
    """Print a few lines for each problem, and the table of those that are finished."""
    results = [json.loads(path.read_text()) for path in sorted(options.folder.glob("*.json"))]
    verdicts = []
    for result in results:
        if "turns" not in result:
            print(unfinished(result))
            continue
        verdicts.append(verdict_of(result))
        peers = peers_of(result, options.replays) if options.replays else {}
        print(line(result, verdicts[-1], peers))
    if verdicts:
        print(table(verdicts))


def unfinished(result):
    """A problem whose choices have not met the fastest."""
    choices = [run["chosen"] for run in result["tunes"].values()]
    same = "the same choice" if len(choices) > 1 and choices[0] == choices[1] else "no verdict"
    on = ", ".join(gpus_of(result)) or "an unknown GPU"
    return f"{result['problem']}: {len(choices)} runs, on {on}, no turns yet; {same}"


def line(result, verdict, peers):
    """A problem in a few lines."""
    count = len({canonical(params) for params, _ in measured(result)})
    head = (
        f"{result['problem']}: {count} of {result['points']} points measured, the fastest "
        f"{1e3 * verdict['best_ms']:.2f} µs; "
        f"{'the same choice' if verdict['same'] else 'other choices'}"
        f"{'' if verdict['agree'] else ', apart'}"
    )
    lines = [head]
    for (seed, run), share in zip(result["tunes"].items(), verdict["shares"], strict=True):
        sure = run["better_chance"]
        chance = "unknown" if sure is None else f"{abs(sure):.1%}"
        on = f" on {run['gpu']}" if run.get("gpu") else ""
        lines.append(
            f"  seed {seed}{on}: {share:.1%}; {run['measured']} measured, {run['failed']} failed, "
            f"{run['gpu_s']:.1f} GPU s, {run['wall_s']:.0f} s; {run['stopped']}, chance that over "
            f"2 % is left {chance}; {run['chosen']}"
        )
    text = ", ".join(f"{peer} {share:.1%}" for peer, share in peers.items())
    return "\n".join([*lines, f"  by single measurements: {text}"] if peers else lines)


def table(verdicts):
    """Counts over all problems."""
    runs = [share for verdict in verdicts for share in verdict["shares"]]
    near = sum(min(verdict["shares"]) >= NEAR for verdict in verdicts)
    lines = [
        f"{len(verdicts)} problems: both runs within 2 % of the fastest in {near}; of {len(runs)} "
        f"runs {sum(share >= NEAR for share in runs)} within 2 %, {sum(s >= 0.95 for s in runs)} "
        f"within 5 %, the worst {min(runs):.1%}",
        f"both runs chose the same, or within .7 % (2 % under 10 µs): {agreeing(verdicts)}",
    ]
    by_gpus = {}
    for verdict in verdicts:
        by_gpus.setdefault(tuple(verdict["gpus"]), []).append(verdict)
    lines += [
        f"  on {' and '.join(gpus) or 'a GPU that was not noted'}: {agreeing(some)}"
        for gpus, some in by_gpus.items()
    ]
    return "\n".join(lines)


def agreeing(verdicts):
    """The number of problems in which both runs chose alike."""
    alike = sum(verdict["agree"] for verdict in verdicts)
    same = sum(verdict["same"] for verdict in verdicts)
    return f"{alike} of {len(verdicts)}, {same} of them the same configuration"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("problems", nargs="*", default=PROBLEMS, metavar="'FILE SHAPE'")
    parser.add_argument("--folder", type=Path, required=True, help="a file for each problem")
    parser.add_argument("--gpus", default="cuda:0", help="one, or two: cuda:0,cuda:1")
    parser.add_argument("--earlier", type=Path, help="a folder of files: measure no rest of theirs")
    parser.add_argument("--part", type=part, default=(0, 1), metavar="I/N", help="of the problems")
    parser.add_argument("--gpu-seconds", type=float, default=20.0, help="of a run")
    parser.add_argument("--most", type=int, default=300, help="configurations measured of a space")
    parser.add_argument("--sweep-s", type=float, default=60.0, help="GPU seconds of the rest")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no stage after so long")
    parser.add_argument("--workers", type=int, default=0, help="processes that compile, of a GPU")
    parser.add_argument("--no-prior", dest="prior", action="store_false")
    parser.add_argument("--show", action="store_true", help="print the figures, and stop")
    parser.add_argument("--replays", type=int, default=0, help="seeds of each peer")
    options = parser.parse_args()
    failed = 0
    if not options.show:
        size = -(-len(options.problems) // options.part[1])
        options.problems = options.problems[options.part[0] * size :][:size]
        with contextlib.suppress(KeyboardInterrupt):
            try:
                failed = measure_all(options)
            except SolkitError as error:
                print(f"tune_twice: {error}", file=sys.stderr)
                return 2
    show(options)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
