"""Times that a search leaves behind where it stops, on recorded spaces with noise: no GPU.

    python bench/stops.py FOLDER_OR_FILE ... [--seeds 30] [--noise 0.007] [--most 400]
    python bench/stops.py --sets h100 h200 --spaces 40 --skip 80 --jobs 8 --json stops.json
    python bench/stops.py --show stops.json

A run searches a recorded space as `solkit tune` does, each time multiplied by lognormal noise. It
ends where `solkit.tuner.early_stopping` ends it, at `--most` measurements or with the space. What
it chose is what is left of a race of the fastest: each of them is timed `RACED` times again.

`left` is the recorded time of the choice over the best recorded one, minus 1. Goals: of the runs
that stop by themselves at most 2 % leave over 5 %, and at most 10 % leave over 2 %; pairs of runs
of a space agree (the same choice, or times within .7 %, 2 % under 10 µs) in at least 95 %. The last
line also says how many would agree if each run chose the fastest that it measured: where these
disagree a search missed something; in the rest noise decided.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import sys
import zlib
from collections import defaultdict
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from solkit.core.space import point_key
from solkit.tuner.early_stopping import EarlyStopping, TaskSettings
from solkit.tuner.search import Search
from solkit.tuner.search_replay import read_spaces

RACED = 4
AHEAD = 0.02  # those within this share of the best take part in the race
LIKE, LIKE_SHORT, SHORT_MS = 0.007, 0.02, 0.01


def run(job):
    """One run: a row of the result."""
    space, seed, noise, most, settings = job
    chance = np.random.default_rng([seed, zlib.crc32(space.name.encode())])

    def timed(params):
        time_ms = space.time_ms(params)
        return None if time_ms is None else time_ms * float(np.exp(noise * chance.normal()))

    search, stopping = Search(space.space, seed=seed), EarlyStopping(TaskSettings(**settings))
    times, count, stopped = {}, 0, None
    while count < most and stopped is None and (requested_points := search.ask()):
        (params,) = requested_points
        time_ms = timed(params)
        search.tell(params, time_ms)
        count += 1
        if time_ms is not None:
            times[point_key(params)] = params, time_ms
        stopping.note_outcome(count, search.expected_gain, search.chance_of_better)
        stopped = stopping.stop_reason(None, search.exhausted, False, False)
    if not times:
        return None
    chosen = chosen_of_race(times.values(), timed)
    fastest = min((params for params, _ in times.values()), key=space.time_ms)
    return {
        "space": space.name,
        "points": len(space.points),
        "seed": seed,
        "stopped": "budget" if stopped is None else stopped.value,
        "measured": count,
        "chance": search.chance_of_better(),
        "left": space.time_ms(chosen) / space.best_ms - 1,
        "chosen": chosen,
        "chosen_ms": space.time_ms(chosen),
        "fastest": fastest,
        "fastest_ms": space.time_ms(fastest),
    }


def chosen_of_race(times, timed):
    """The fastest by the median of its times, after those near the best were timed again."""
    best_ms = min(time_ms for _, time_ms in times)
    near = [(params, time_ms) for params, time_ms in times if time_ms <= best_ms * (1 + AHEAD)]
    again = [
        (statistics.median([time_ms, *(timed(params) for _ in range(RACED))]), at)
        for at, (params, time_ms) in enumerate(near)
    ]
    return near[min(again)[1]][0]


def agree(one, other, which="chosen"):
    """Tell whether two runs of a space chose alike, or measured an equally fast best."""
    if one[which] == other[which]:
        return True
    low, high = sorted((one[f"{which}_ms"], other[f"{which}_ms"]))
    return high / low - 1 <= (LIKE_SHORT if high < SHORT_MS else LIKE)


def table(rows):
    """The figures of all runs, in a few lines."""
    stops = [row for row in rows if row["stopped"] == "expected_gain"]
    by_space = defaultdict(list)
    for row in rows:
        by_space[row["space"]].append(row)
    pairs = [pair for runs in by_space.values() for pair in itertools.combinations(runs, 2)]
    lines = [
        f"{len(rows)} runs of {len(by_space)} spaces; {len(stops)} stopped by themselves, after "
        f"{statistics.median([row['measured'] for row in stops] or [0])} measurements",
    ]
    for name, some in (("stops", stops), ("all runs", rows)):
        losses = np.array([row["left"] for row in some])
        shares = ", ".join(
            f"{np.mean(losses > share):.1%} leave over {share:.1%}" for share in (0.007, 0.02, 0.05)
        )
        lines.append(f"{name}: {shares}" if len(losses) else f"{name}: none")
    if stops:
        believed = statistics.mean(row["chance"] for row in stops)
        lines.append(f"stops: the chance that over 2 % is left was said to be {believed:.1%}")
    if pairs:
        alike = np.mean([agree(*pair) for pair in pairs])
        same_fastest = np.mean([agree(*pair, "fastest") for pair in pairs])
        lines.append(
            f"{alike:.1%} of {len(pairs)} pairs of runs agree; "
            f"{same_fastest:.1%} by the fastest measured"
        )
    return "\n".join(lines)


def spaces_of(options):
    """The recorded spaces that are asked for."""
    files: list[Path] = []
    for path in map(Path, options.places):
        inside = sorted(path.glob("*.json.gz")) if path.is_dir() else [path]
        files += [file for file in inside if ".T4." not in file.name]
    spaces = [space for place in (*files, *options.sets) for space in read_spaces(place)]
    order = random.Random(options.draw).sample(spaces, len(spaces))
    return order[options.skip :][: options.spaces or None]


def main() -> int:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("places", nargs="*", help="files or folders of recorded spaces")
    parser.add_argument("--sets", nargs="*", default=(), help="shipped sets")
    parser.add_argument("--spaces", type=int, default=0, help="so many, drawn at random")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many drawn ones")
    parser.add_argument("--draw", type=int, default=7, help="seed of the draw")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--noise", type=float, default=0.007)
    parser.add_argument("--most", type=int, default=400, help="measurements of a run")
    parser.add_argument("--settings", default="{}", help="of TaskSettings, as JSON")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write a row a run")
    parser.add_argument("--show", type=Path, nargs="+", help="print the figures of files, and stop")
    options = parser.parse_args()
    if options.show:
        print(table([row for path in options.show for row in json.loads(path.read_text())]))
        return 0
    settings = json.loads(options.settings)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    spaces = spaces_of(options)
    jobs = [
        (space, seed, options.noise, options.most, settings) for seed in seeds for space in spaces
    ]
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # for spawned processes
    rows: list[dict] = []
    with get_context("spawn").Pool(options.jobs) as pool:
        for row in pool.imap_unordered(run, jobs):
            if row is None:
                continue
            rows.append(row)
            line = f"{row['stopped']} after {row['measured']}, {row['left']:.1%} left"
            where = f"{row['space'][:60]} {row['seed']}"
            print(f"{len(rows)}/{len(jobs)} {where}: {line}", file=sys.stderr, flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, default=str))
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
