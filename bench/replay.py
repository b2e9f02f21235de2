"""The search beside other tuners, on recorded spaces: no GPU.

    python bench/replay.py FOLDER [--seeds 15] [--budget 20,50,100,200] [--methods solkit,tpe]
    python bench/replay.py FOLDER --warm         # what other GPUs measured of a kernel is known
    python bench/replay.py --sets h100 h200 --spaces 40         # shipped sets, cold
    OPENBLAS_NUM_THREADS=1 python bench/replay.py --cost        # milliseconds of its own
    python bench/replay.py --own-sets --spaces 60               # and with the trees' forecasts
    python bench/replay.py --own-sets --methods random          # of all spaces, some 10 minutes
    python bench/replay.py FOLDER --ceiling 300  # what the model's choices reach that knows so many

FOLDER holds files for `solkit replay`, e.g. the AutoTuningAssociation's benchmark_hub in columns.
A figure is the best time of a space over the best found after n measurements, the median over
seeds, the mean over spaces. A method's means are printed on stderr once it is done. Peers:

- ``tpe``, ``optuna-gp``: Optuna's samplers; warm, the prior's ten best points are enqueued;
- ``plain-gp``: a textbook Gaussian process with expected improvement;
- ``forest``: like Helion's: a random forest says which neighbours of the best are measured;
- ``kt:NAME``: a strategy of Kernel Tuner's in simulation, if kernel_tuner is installed;
- ``random``.

`--own-sets` counts the measurements until the best is within 2 %, on kernels and shapes with at
least 60 configurations. Families are left out of the trees that forecast them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import norm

from solkit.core.space import point_key
from solkit.errors import SolkitError
from solkit.tuner import search_replay as replaying
from solkit.tuner.search import Recordings, Search
from solkit.tuner.search.encoding import Encoding
from solkit.tuner.search_replay import METHODS, RecordedSpace

KERNEL_TUNER = ("adaptive_tabu_greywolf", "pso", "genetic_algorithm")
WITHIN = 1.02


class Forest:
    """Rounds of ten: the neighbours of the five best that a random forest thinks are fast.

    After Helion's LFBOPatternSearch: a classifier of the fastest tenth is learned from all times,
    and ranks configurations one or two steps from the best. Its first round is 20 random ones.
    """

    START, ROUND, BEST, STEPS = 20, 10, 5, 2

    def __init__(self, space, prior, seed):
        del prior
        self.space, self.random = space, random.Random(seed)
        encoding = Encoding(space.space)
        self.places = encoding.places(space.points)
        self.features = encoding.features(self.places)
        self.at = {point_key(point): at for at, point in enumerate(space.points)}
        self.queue = self.random.sample(range(len(self.places)), min(self.START, len(self.places)))
        self.times: dict[int, float] = {}

    def ask(self, number=1):
        """The next of a round."""
        if not self.queue:
            self.queue = self.chosen()
        requested_queue, self.queue = self.queue[:number], self.queue[number:]
        return [self.space.points[at] for at in requested_queue]

    def tell(self, params, time_ms):
        """What a point took."""
        self.times[self.at[point_key(params)]] = math.inf if time_ms is None else time_ms

    def chosen(self):
        """The next round."""
        import xgboost

        seen = np.array(list(self.times))
        times = np.array(list(self.times.values()))
        remaining_setdiff1d = np.setdiff1d(np.arange(len(self.places)), seen)
        fast = times <= np.quantile(times, 0.1, method="higher")
        best = self.places[seen[np.argsort(times)[: self.BEST]]]
        steps = np.abs(self.places[remaining_setdiff1d][:, None] - best[None])
        near = ((steps > 0).sum(2).min(1) <= self.STEPS).nonzero()[0]
        pool = remaining_setdiff1d[near] if len(near) >= self.ROUND else remaining_setdiff1d
        if fast.all() or not fast.any():
            return self.random.sample(pool.tolist(), min(self.ROUND, len(pool)))
        settings = {
            **{"objective": "binary:logistic", "num_parallel_tree": 100, "learning_rate": 1.0},
            **{"subsample": 0.8, "colsample_bynode": 0.8, "nthread": 1},
            "seed": self.random.randrange(99),
        }
        matrix = xgboost.DMatrix(self.features[seen], label=fast)
        forest = xgboost.train(settings, matrix, num_boost_round=1)  # one round: a random forest
        chances = forest.predict(xgboost.DMatrix(self.features[pool])).astype(float)
        chances += 1e-6 * np.array([self.random.random() for _ in pool])
        return pool[np.argsort(-chances)[: self.ROUND]].tolist()


class PlainGaussianProcess:
    """A textbook peer: Matérn 5/2 with a length a parameter, expected improvement, eight starts.

    Parameters are numbers (logarithms of positive ones) or ranks of names, from 0 to 1. Starts are
    spread by distance. Failures count as the slowest; what is slower than the median is
    compressed. Hyperparameters are fitted every fifth time, under log-normal priors.
    """

    STARTS, REFIT, POOL, SLOW = 8, 5, 4000, 0.3
    LENGTH, NOISE = 0.6, 1e-2

    def __init__(self, space, prior, seed):
        del prior
        self.space, self.chance = space, np.random.default_rng(seed)
        self.at = {point_key(point): at for at, point in enumerate(space.points)}
        self.features = unit_columns(space.points)
        count = len(self.features)
        self.free = np.ones(count, bool)
        self.starts = self.spread(self.chance.choice(count, min(400, count), replace=False))
        self.seen: list[int] = []
        self.times: list[float] = []
        lengths = np.full(self.features.shape[1], math.log(self.LENGTH))
        self.hyper = np.r_[lengths, 0.0, math.log(self.NOISE)]

    def spread(self, places):
        """Points of which each is the farthest from those before it."""
        chosen = [int(places[0])]
        while len(chosen) < min(self.STARTS, len(places)):
            apart = self.features[places][:, None] - self.features[chosen][None]
            chosen.append(int(places[(apart**2).sum(-1).min(1).argmax()]))
        return chosen

    def ask(self, number=1):
        """One point, whatever the number."""
        del number
        if not self.free.any():
            return []
        if self.starts:
            place = self.starts.pop(0)
        elif not np.isfinite(self.times).any():
            place = int(self.chance.choice(np.flatnonzero(self.free)))
        else:
            place = self.improving()
        self.free[place] = False
        return [self.space.points[place]]

    def tell(self, params, time_ms):
        """What a point took."""
        self.seen.append(self.at[point_key(params)])
        self.times.append(math.nan if time_ms is None else math.log(time_ms))

    def targets(self):
        logs = np.array(self.times)
        logs = np.where(np.isnan(logs), np.nanmax(logs), logs)
        middle = np.median(logs)
        warped = np.where(logs > middle, middle + self.SLOW * (logs - middle), logs)
        return (warped - warped.mean()) / (warped.std() + 1e-9)

    def improving(self):
        """The free point with the largest expected improvement."""
        targets, points = self.targets(), self.features[self.seen]
        if len(targets) % self.REFIT == 0 or len(targets) == self.STARTS:
            fit = minimize(
                self.loss, self.hyper, (points, targets), "L-BFGS-B", options={"maxiter": 15}
            )
            self.hyper = fit.x if np.isfinite(fit.fun) else self.hyper
        factor = cho_factor(self.covariance(points, points, True), lower=True)
        pool = self.pool(targets)
        cross = self.covariance(self.features[pool], points)
        mean = cross @ cho_solve(factor, targets)
        held = np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T))
        sd = np.sqrt(np.maximum(math.exp(self.hyper[-2]) - held, 1e-9))
        best = targets[np.isfinite(self.times)].min()
        step = (best - mean) / sd
        return int(pool[np.argmax(sd * (step * norm.cdf(step) + norm.pdf(step)))])

    def pool(self, targets):
        """All free points, or those next to the five best and a sample."""
        free = np.flatnonzero(self.free)
        if len(free) <= self.POOL:
            return free
        best = self.features[np.array(self.seen)[np.argsort(targets)[:5]]]
        steps = (np.abs(self.features[free][:, None] - best[None]) > 1e-9).sum(-1).min(1)
        near = free[np.argsort(steps + self.chance.random(len(free)))[: self.POOL // 2]]
        drawn = self.chance.choice(free, self.POOL // 2, replace=False)
        return np.unique(np.r_[near, drawn])

    def covariance(self, a, b, noisy=False, hyper=None):
        hyper = self.hyper if hyper is None else hyper
        lengths, signal = np.exp(hyper[:-2]), math.exp(hyper[-2])
        apart = math.sqrt(5) * np.sqrt((((a[:, None] - b[None]) / lengths) ** 2).sum(-1))
        shared = signal * (1 + apart + apart**2 / 3) * np.exp(-apart)
        return shared + (math.exp(hyper[-1]) + 1e-5) * np.eye(len(a)) if noisy else shared

    def loss(self, hyper, points, targets):
        try:
            factor = cho_factor(self.covariance(points, points, True, hyper), lower=True)
        except np.linalg.LinAlgError:
            return 1e9
        fit = targets @ cho_solve(factor, targets) / 2 + np.log(np.diag(factor[0])).sum()
        lengths = ((hyper[:-2] - math.log(self.LENGTH)) ** 2).sum()
        noise = ((hyper[-1] - math.log(self.NOISE)) / 1.5) ** 2
        return fit + (lengths + hyper[-2] ** 2 + noise) / 2


def unit_columns(points):
    """A column from 0 to 1 for each parameter that varies: (points, parameters)."""
    columns = []
    for name in points[0]:
        values = [point[name] for point in points]
        distinct = sorted(set(values), key=str)
        if len(distinct) < 2:
            continue
        if any(isinstance(value, str) or value is None for value in distinct):
            column = np.array([distinct.index(value) for value in values], float)
        else:
            column = np.array(values, float)
            if column.min() > 0 and len(distinct) > 2:
                column = np.log2(column)
        columns.append((column - column.min()) / np.ptp(column))
    return np.array(columns).T


OWN_PEERS = {"forest": Forest, "plain-gp": PlainGaussianProcess}


def kernel_tuner(strategy):
    """A strategy of Kernel Tuner's, which asks for all of its configurations at once."""

    def replayed(space, prior, seed):
        del prior
        return Told(space, simulated(space, strategy, seed))

    return replayed


class Told:
    """Points in a given order."""

    def __init__(self, space, points):
        del space
        self.points = points

    def ask(self, number=1):
        """The next points."""
        requested_points, self.points = self.points[:number], self.points[number:]
        return requested_points

    def tell(self, params, time_ms):
        """Nothing is learned."""


def simulated(space, strategy, seed, budget=200):
    """The order in which Kernel Tuner measures a recorded space."""
    from kernel_tuner import tune_kernel

    # other names than the space's: Kernel Tuner adds rules of its own for block sizes
    names = {f"p{at}": name for at, name in enumerate(space.space.values)}
    cache = {}
    for point in space.points:
        time_ms = space.time_ms(point)
        row = {short: point[name] for short, name in names.items()}
        place = ",".join(map(str, row.values()))
        row |= {"time": "RuntimeFailedConfig" if time_ms is None else time_ms}
        row |= {"times": [row["time"]], "timestamp": "2025-01-01 00:00:00", "strategy_time": 0}
        row |= {f"{what}_time": 0 for what in ("compile", "verification", "benchmark", "framework")}
        cache[place] = row
    fields = {
        "device_name": space.device,
        "kernel_name": space.kernel,
        "problem_size": [1],
        "tune_params_keys": list(names),
        "tune_params": {s: list(space.space.values[name]) for s, name in names.items()},
        "objective": "time",
        "cache": cache,
    }

    def listed(**params):
        return ",".join(str(params[short]) for short in names) in cache

    random.seed(seed)
    np.random.seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.json"
        path.write_text(json.dumps(fields))
        results, _ = tune_kernel(
            space.kernel,
            "__global__ void k() {}",
            [1],
            [],
            fields["tune_params"],
            restrictions=[_accepting(listed, names)],
            lang="CUDA",
            strategy=strategy,
            strategy_options={"max_fevals": budget, "time_limit": 3600},
            cache=str(path),
            simulation_mode=True,
            quiet=True,
        )
    return [{name: row[short] for short, name in names.items()} for row in results]


def _accepting(test, names):
    """A restriction with a parameter of each name, by which Kernel Tuner finds them."""
    scope = {"test": test}
    text = ", ".join(names)
    exec(f"def restriction({text}): return test({', '.join(f'{n}={n}' for n in names)})", scope)
    return scope["restriction"]


def methods(names):
    """Each method by name; those that cannot run here are named on stderr."""
    installed = importlib.util.find_spec("kernel_tuner") is not None
    results = {}
    for name in names:
        if name.startswith("kt:"):
            if installed:
                results[name] = kernel_tuner(name[3:])
            else:
                print(f"{name} is left out: pip install kernel_tuner", file=sys.stderr)
        else:
            results[name] = OWN_PEERS.get(name) or METHODS[name]
    return results


def run(job):
    """One run: a space, a method and a seed."""
    space, name, prior, budgets, seed = job
    start = time.perf_counter()
    method = methods([name])[name]

    def seeded(inputs, result, _):
        return method(inputs, result, seed)

    results = replaying.replay_method(space, budgets, 1, (name, seeded), prior)
    values = {budget: fraction[0] for budget, fraction in results.fractions.items()}
    return space.name, name, values, time.perf_counter() - start


def prior_of(space, spaces):
    """What the same kernel took on other GPUs."""
    others = [o for o in spaces if o.kernel == space.kernel and o.device != space.device]
    return Recordings([other.times_ms for other in others]) if others else None


def compare(spaces, names, budgets, seeds, warm, jobs):
    """Every method on every space: rows of (method, space) with the median at each budget."""
    known_methods = list(methods(names))
    work = [
        (space, name, prior_of(space, spaces) if warm else None, budgets, seed)
        for name in known_methods
        for space in spaces
        for seed in range(seeds)
    ]
    groups, took, remaining_counts = (
        defaultdict(list),
        defaultdict(float),
        Counter(job[1] for job in work),
    )
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # for spawned processes
    with get_context("spawn").Pool(jobs) as pool:
        for space, name, values, seconds in pool.imap_unordered(run, work):
            groups[name, space].append(values)
            took[name] += seconds
            remaining_counts[name] -= 1
            if not remaining_counts[name]:
                rows = [medians(groups[name, space.name], budgets) for space in spaces]
                means = " ".join(f"{value:.3f}" for value in np.mean(rows, axis=0))
                print(f"{name}: {means}", file=sys.stderr, flush=True)
    return known_methods, {key: medians(curves, budgets) for key, curves in groups.items()}, took


def medians(curves, budgets):
    """The median over seeds at each budget."""
    return [statistics.median(curve[budget] for curve in curves) for budget in budgets]


def show(spaces, known_values, median, took, budgets, seeds, item):
    table = Table(title=f"{len(spaces)} spaces, {seeds} seeds", title_justify="left")
    table.add_column("method")
    for budget in budgets:
        table.add_column(f"@{budget}", justify="right")
    table.add_column("ms a measurement", justify="right")
    for name in known_values:
        rows = [median[name, space.name] for space in spaces]
        if item:
            for space, row in zip(spaces, rows, strict=True):
                table.add_row(f"  {space.name}", *(f"{value:.3f}" for value in row), "")
        means = np.mean(rows, axis=0)
        runs = sum(min(max(budgets), len(space.points)) for space in spaces) * seeds
        own = 1e3 * took[name] / runs
        table.add_row(name, *(f"{value:.3f}" for value in means), f"{own:.1f}")
    Console(width=110).print(table)


# ------------------------------------------------------------------------------------- own sets


class Forecast:
    """Forecasts of the trees that did not know the family; NaN of what has no facts."""

    def __init__(self, log2_ms, size):
        self.known = {key: (log2_ms[key], size[key]) for key in log2_ms}

    def log2_ms(self, points):
        """Mean and sd."""
        unknown = (math.nan, math.nan)
        results = [self.known.get(point_key(point), unknown) for point in points]
        mean, sd = np.array(results, float).reshape(-1, 2).T
        return mean, sd

    def fails(self, points):
        """Never, as far as is known."""
        return np.zeros(len(points))


def forecasts(depth):
    """Of every row with facts, by kernel, problem and GPU: the trees' forecast, family left out."""
    from solkit.core import Depth
    from solkit.datasets.store import shipped
    from solkit.surrogate.table import table_of_stores
    from solkit.surrogate.trees import (
        DEFAULTS,
        Calibration,
        columns_of,
        expect_out_of_family,
        useful_features,
    )

    table = table_of_stores([shipped("h100"), shipped("h200")], Depth(depth))
    values = columns_of(table, useful_features(table, DEFAULTS))
    result = expect_out_of_family(table)
    size = Calibration.from_left_out(table, values, result).interval.size(result.beside(values))
    log_ms = np.log2(table.base_ms) + result.mean
    groups = defaultdict(lambda: ({}, {}))
    for row in range(len(table)):
        about = {name: str(column[row]) for name, column in table.about.items()}
        space = f"{about['problem_id']} {about['kernel_id'][:8]} on {about['device']}"
        key = point_key(json.loads(about["params"]))
        groups[space][0][key] = float(log_ms[row])
        groups[space][1][key] = float(size[row])
    return groups


def needed(space, asks):
    """Measurements until the best is within 2 %."""
    count = 0
    while points := asks.ask():
        for params in points:
            count += 1
            time_ms = space.time_ms(params)
            asks.tell(params, time_ms)
            if time_ms is not None and time_ms <= WITHIN * space.best_ms:
                return count
    return count


def own_sets(count, depth, names, seed=0):
    spaces = [space for name in ("h100", "h200") for space in replaying.read_spaces(name)]
    spaces = random.Random(seed).sample(spaces, min(count or len(spaces), len(spaces)))
    known_forecasts = forecasts(depth)
    groups = defaultdict(list)
    shares = []
    for space in spaces:
        result = known_forecasts.get(space.name)
        shares.append(len(result[0]) / len(space.points) if result else 0.0)
        prior = Forecast(*result) if result else None
        groups["solkit, forecasts"].append(
            needed(space, Search(space.space, prior=prior, seed=seed))
        )
        for name in names:
            groups[name].append(needed(space, METHODS[name](space, None, seed)))
    table = Table(
        title=f"{len(spaces)} spaces of shipped sets: measurements until within 2 % of the best",
        title_justify="left",
    )
    for head in ("method", "median", "90 %", "mean"):
        table.add_column(head, justify="left" if head == "method" else "right")
    for name, counts in groups.items():
        figures = np.median(counts), np.quantile(counts, 0.9), np.mean(counts)
        table.add_row(name, *(f"{figure:.1f}" for figure in figures))
    Console(width=110).print(table)
    print(f"{np.mean(shares):.0%} of a space's configurations have a forecast.")


# --------------------------------------------------------------------------------------- ceiling


def best_forecasts(space, learnt, seed, counts):
    """Fraction of the optimum in the lowest forecasts of a model that knows `learnt` other points.

    The model is the search's. Its points are random and cost nothing.
    """
    points = random.Random(seed).sample(space.points, len(space.points))
    search = Search(space.space, seed=seed)
    for params in points[:learnt]:
        search.tell(params, space.time_ms(params))
    order = np.argsort(search.forecast(points[learnt:])[0])
    times = [space.time_ms(points[learnt + at]) or math.inf for at in order[: max(counts)]]
    return [space.best_ms / min(times[:count]) for count in counts]


def ceiling(spaces, learnt, seeds, counts=(1, 5, 20)):
    """Print how many points are good, and what a model reaches that learnt many others first."""
    table = Table(title=f"{learnt} random points known, {seeds} draws", title_justify="left")
    heads = ("space", "points", "within 2 %", "5 %", *(f"best of {count}" for count in counts))
    for head in heads:
        table.add_column(head, justify="left" if head == "space" else "right")
    for space in spaces:
        times = np.array([time for time in space.times_ms.values() if time is not None])
        near = [str((times <= space.best_ms * share).sum()) for share in (1.02, 1.05)]
        rows = [best_forecasts(space, learnt, seed, counts) for seed in range(seeds)]
        shares = [f"{value:.3f}" for value in np.mean(rows, axis=0)]
        table.add_row(space.name, str(len(space.points)), *near, *shares)
    Console(width=110).print(table)


# ------------------------------------------------------------------------------------------ cost


def cost(measurements=200):
    """What the search itself takes for a measurement, in spaces of 20,000 and of 10⁸ points."""
    from solkit.core import Space

    sizes = {"20,000": [20, 10, 5, 5, 4], "10⁸": [10] * 8}
    table = Table(title=f"own CPU time, {measurements} measurements", title_justify="left")
    for head in ("points", "mean ms", "the last 20: ms", "longest ms"):
        table.add_column(head, justify="right")
    for points, counts in sizes.items():
        values = {
            f"p{at}": [2**number for number in range(count)] for at, count in enumerate(counts)
        }
        search, took = Search(Space(values)), []
        for _ in range(measurements):
            start = time.process_time()
            (params,) = search.ask()
            size = sum((math.log2(value) - 3) ** 2 for value in params.values())
            search.tell(params, 2.0 ** (size / 16))
            took.append(1e3 * (time.process_time() - start))
        figures = np.mean(took), np.mean(took[-20:]), max(took)
        table.add_row(points, *(f"{figure:.1f}" for figure in figures))
    Console(width=110).print(table)


# ------------------------------------------------------------------------------------------ main


def read(paths, sets, count):
    """The spaces of files, folders and shipped sets."""
    files: list[Path] = []
    for path in map(Path, paths):
        inside = sorted(path.glob("*.json*")) if path.is_dir() else [path]
        files += [item for item in inside if ".T4." not in item.name or not path.is_dir()]
    results: list[RecordedSpace] = []
    for file in files:
        try:
            results += replaying.read_spaces(file)
        except SolkitError as error:
            print(f"left out: {error}", file=sys.stderr)
    for name in sets:
        spaces = replaying.read_spaces(name)
        results += random.Random(0).sample(spaces, min(count or len(spaces), len(spaces)))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", help="files and folders of recorded spaces")
    parser.add_argument("--sets", nargs="*", default=[], help="shipped sets")
    parser.add_argument("--spaces", type=int, default=0, help="how many of each set; 0: all")
    parser.add_argument("--budget", default="20,50,100,200")
    parser.add_argument("--seeds", type=int, default=15)
    parser.add_argument("--methods", default=None, help="by comma")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--each", action="store_true", help="show every space")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--own-sets", action="store_true")
    parser.add_argument("--depth", default="compiled", help="of the facts, for --own-sets")
    parser.add_argument("--ceiling", type=int, default=0, help="points that the model knows")
    parser.add_argument("--cost", action="store_true", help="of the search itself")
    options = parser.parse_args()
    if options.cost:
        cost()
        return
    if options.own_sets:
        names = options.methods.split(",") if options.methods else ("solkit", "tpe", "random")
        own_sets(options.spaces, options.depth, names)
        return
    every = (
        "solkit",
        "plain-gp",
        "tpe",
        "optuna-gp",
        "forest",
        *(f"kt:{n}" for n in KERNEL_TUNER),
        "random",
    )
    names = options.methods.split(",") if options.methods else every
    budgets = [int(part) for part in options.budget.split(",")]
    spaces = read(options.paths, options.sets, options.spaces)
    if not spaces:
        parser.error("no recorded spaces: name files, a folder, or --sets h100")
    if options.ceiling:
        ceiling(spaces, options.ceiling, options.seeds)
        return
    known_value, median, took = compare(
        spaces, names, budgets, options.seeds, options.warm, options.jobs
    )
    show(spaces, known_value, median, took, budgets, options.seeds, options.each)


if __name__ == "__main__":
    main()
