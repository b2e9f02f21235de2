"""Tune kernels of other people's packages twice each, live, and look at what both runs left behind.

    python bench/tune_twice.py --folder twice --part 1/2 --seconds 240     # needs a GPU
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

`--show` also replays peers on the measured configurations: Optuna's TPE and random choice, given as
many measurements as a run took, and all of them, which is what `triton.autotune` times. Their
shares, and the runs' own beside them, are of the single measurements.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean, median

from stops import agree
from tune import WHOLE, Asked, InOrder, Watch, in_turns, part, read, watching

from solkit.analysis.analyser import Analyser
from solkit.core import MeasureSettings, Stopped, TuneSettings, canonical
from solkit.datasets.outcomelog import OutcomeLog
from solkit.errors import SolkitError
from solkit.measure.benches.trusted import Ahead, TrustedBench
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


def stages(name, path, analyser, bench, options, clock):
    """Do what a problem's file lacks, as long as there is time; write it after each stage."""
    known_data = json.loads(path.read_text()) if path.exists() else {"problem": name, "tunes": {}}
    if "turns" in known_data:
        return
    file, shape = read(name)
    how = TuneSettings(stop_at=1.0, prior=options.prior)
    ground = live_ground(analyser, file, None, shape, how)
    known_data |= {"device": bench.device.key, "points": ground.space.size}
    for seed in SEEDS:
        if str(seed) not in known_data["tunes"] and clock.left_s > options.gpu_seconds:
            known_data["tunes"][str(seed)] = tuned(ground, seed, bench, options)
            path.write_text(json.dumps(known_data, indent=1))
    if len(known_data["tunes"]) == len(SEEDS) and "swept" not in known_data and clock.left_s > 0:
        known_data["swept"] = swept(ground, known_data, bench, options, clock)
        path.write_text(json.dumps(known_data, indent=1))
    if "swept" in known_data and clock.left_s > 0:
        known_data["turns"] = turns(ground, known_data, bench)
        path.write_text(json.dumps(known_data, indent=1))


def tuned(ground, seed, bench, options):
    """One run of the search and its final: what it chose, what it measured, and how sure it is."""
    bench.seed, begun_s, waited_s, watch = 0, time.monotonic(), bench.waited_s, Watch()
    how = TuneSettings(stop_at=1.0, seed=seed, prior=options.prior)
    with watching(watch):
        result = _Run(options.gpu_seconds, how, lambda _: None).on(bench, ground)
    if result.stopped is Stopped.INTERRUPTED:  # it says nothing about the search
        raise KeyboardInterrupt
    return {
        "chosen": dict(result.params),
        "verdict": result.verdict.value,
        "stopped": result.stopped.value,
        "better_chance": result.better_chance,
        "measured": result.measured,
        "failed": result.failed,
        "gpu_s": result.gpu_s,
        "wall_s": time.monotonic() - begun_s,
        "waited_s": bench.waited_s - waited_s,
        "equals": [dict(equal.params) for equal in result.equals],
        "notes": list(result.notes),
        "rows": rows_of(watch),
    }


def swept(ground, result, bench, options, clock):
    """Points of the space, in random order, that no run measured, until there are enough."""
    bench.seed, watch = 0, Watch()
    done = {canonical(params) for params, _ in measured(result)}
    points = [p for p in ground.space.shuffled(len(SEEDS)) if canonical(p) not in done]
    points = points[: max(options.most - len(done), 0)]
    task = TuningProblem(
        "sweep", ground.default, ground.space, settings=WHOLE, search=Asked(InOrder(points))
    )
    drive_bench(bench, [task], max(min(clock.left_s, options.sweep_s), 1.0), heard=watch.heard)
    return rows_of(watch)


def rows_of(watch):
    """A row for each outcome: point, time, GPU seconds by then, compile seconds, wall seconds."""
    return [
        (row.params, row.time_ms, row.gpu_s, row.compile_s, row.wall_s) for row in watch.course.rows
    ]


def turns(ground, result, bench):
    """Times in turns of the fastest, of both choices and of the default: a list for each draw."""
    ranked = sorted((ms, canonical(p), p) for p, ms in measured(result) if ms is not None)
    fastest = list({key: params for _, key, params in ranked}.values())[:FASTEST]
    choices = [run["chosen"] for run in result["tunes"].values()]
    entries = {canonical(p): p for p in (*choices, *fastest, dict(ground.default.params))}
    times = in_turns(bench, ground.default, list(entries.values()))
    return [(entries[key], samples_ms) for key, samples_ms in times.items()]


def measured(result):
    """Every point that has an outcome, with its time; ``None`` if it failed."""
    runs = [run["rows"] for run in result["tunes"].values()]
    return [row[:2] for rows in (*runs, result.get("swept", ())) for row in rows]


def measure_all(options):
    """Do all stages of the problems; return how many failed."""
    clock, failed = Clock(options.seconds), 0
    options.folder.mkdir(parents=True, exist_ok=True)
    device = target_device(None, MeasureSettings())
    with (
        tempfile.TemporaryDirectory() as place,
        Analyser(device) as analyser,
        OutcomeLog(Path(place) / "log.jsonl") as log,
        Ahead(device, options.workers, facts=False) as ahead,
        TrustedBench(ahead, log) as bench,
    ):
        for name in options.problems:
            if clock.left_s <= 0:
                print(f"no time left for {name}", flush=True)
                continue
            try:
                stages(name, file_of(name, options), analyser, bench, options, clock)
            except Exception as error:  # the other problems do not wait for another run
                failed += 1
                print(f"{name} failed: {type(error).__name__}: {error}", flush=True)
    return failed


def file_of(name, options):
    """The JSON file of a problem."""
    file, _, shape = name.partition(" ")
    sizes = re.sub(r"\W+", "_", shape)[:60]
    return options.folder / f"{Path(file).stem}_{sizes}.json"


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
        {"chosen": run["chosen"], "chosen_ms": middle[canonical(run["chosen"])]}
        for run in result["tunes"].values()
    ]
    return {
        "best_ms": best_ms,
        "shares": [best_ms / run["chosen_ms"] for run in runs],
        "same": runs[0]["chosen"] == runs[1]["chosen"],
        "agree": agree(*runs),
    }


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
    """Print a line for each finished problem, and the table."""
    finished = [
        known_result
        for known_result in map(
            json.loads, map(Path.read_text, sorted(options.folder.glob("*.json")))
        )
        if "turns" in known_result
    ]
    verdicts = [verdict_of(known_values) for known_values in finished]
    for result, verdict in zip(finished, verdicts, strict=True):
        print(
            line(
                result,
                verdict,
                peers_of(result, options.replays) if options.replays else {},
            )
        )
    if verdicts:
        print(table(verdicts))


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
        lines.append(
            f"  seed {seed}: {share:.1%}; {run['measured']} measured, {run['failed']} failed, "
            f"{run['gpu_s']:.1f} GPU s, {run['wall_s']:.0f} s; {run['stopped']}, chance that over "
            f"2 % is left {chance}; {run['chosen']}"
        )
    text = ", ".join(f"{peer} {share:.1%}" for peer, share in peers.items())
    return "\n".join([*lines, f"  by single measurements: {text}"] if peers else lines)


def table(verdicts):
    """Counts over all problems."""
    runs = [share for verdict in verdicts for share in verdict["shares"]]
    near = sum(min(verdict["shares"]) >= NEAR for verdict in verdicts)
    return (
        f"{len(verdicts)} problems: both runs within 2 % of the fastest in {near}; of {len(runs)} "
        f"runs {sum(share >= NEAR for share in runs)} within 2 %, {sum(s >= 0.95 for s in runs)} "
        f"within 5 %, the worst {min(runs):.1%}; "
        f"{sum(verdict['agree'] for verdict in verdicts)} pairs agree, "
        f"{sum(verdict['same'] for verdict in verdicts)} of them by the same choice"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("problems", nargs="*", default=PROBLEMS, metavar="'FILE SHAPE'")
    parser.add_argument("--folder", type=Path, required=True, help="a file for each problem")
    parser.add_argument("--part", type=part, default=(0, 1), metavar="I/N", help="of the problems")
    parser.add_argument("--gpu-seconds", type=float, default=20.0, help="of a run")
    parser.add_argument("--most", type=int, default=300, help="configurations measured of a space")
    parser.add_argument("--sweep-s", type=float, default=60.0, help="GPU seconds of the rest")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no stage after so long")
    parser.add_argument("--workers", type=int, default=0, help="processes that compile")
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
