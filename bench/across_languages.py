"""Predicted times and rankings of kernels in several languages, next to measured ones.

    python bench/across_languages.py [h200_languages | STORE ...]
    python bench/across_languages.py --seconds [KERNEL.py | languages ...]

Over correct configurations, by the kernel model and by the shipped surrogate, which has seen no
row of these sets: the share within a factor of 2 of the measured time; Spearman's correlation
within each problem (mean, median, lowest), all languages together and each alone; and of the pairs
of a problem whose times are over 20 % apart, the share whose order is right. Pairs of two languages
are counted apart, too. Configurations of which only the machine code is known have no modelled
time: they are counted, and left out of all figures. Exits with 1 if a goal is missed.

``--seconds`` tells what facts cost, without a GPU: it analyses the default configuration of each
kernel in a process of its own, from empty caches. It prints the processor seconds of the language's
own compile, of running the host code on the fake GPU, and of facts: reading IR, PTX and machine
code, interpreting, and the kernel model. Languages are loaded before. The last two together must
take at most one second, or twice the compile's if that is more.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import math
import os
import resource
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table as Printed

from solkit.core import Depth, Device
from solkit.datasets.kernels import Kernel, select_kernels
from solkit.datasets.store import Store, shipped
from solkit.errors import SolkitError
from solkit.processes.parallel_calls import call_in_forks
from solkit.roofline import devices
from solkit.surrogate.model import Surrogate
from solkit.surrogate.table import Table, table_of_stores

FACTOR, APART = 2.0, 1.2
GOALS = {"within 2x": 0.85, "rank correlation": 0.80, "pairs right": 0.85}
ALL = "all together"
_FEWEST = 3
"""Configurations of a problem that have a rank correlation."""
LEAST_S, TIMES_COMPILE = 1.0, 2.0
"""Facts may take the first, or the second times the compile's time if that is more."""
COMPILERS = (
    "solkit.adapters.triton_compiler:compile_kernel",  # Triton's, Gluon's and Helion's
    "solkit.adapters.nvrtc:_ask_process",  # TileLang's CUDA C++
    "tilelang.jit:JITImpl.compile",
    "cutlass.base_dsl.compiler:CompileCallable._compile",
    "cutlass.base_dsl.dsl:BaseDSL.generate_mlir",
    "cuda.tile._compile:compile_tile",
    "helion.runtime.kernel:Kernel.bind",
    "helion.runtime.kernel:BoundKernel.compile_config",
)
"""Functions of the languages that compile, as ``module:name``."""
HOST_CODE = "solkit.analysis.candidate:_attempted"
_LIMIT_S = 300.0

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """Figures of one group of configurations; NaN where nothing is counted.

    Attributes:
        configurations: that have a predicted time.
        unknown: that have none.
        within: share of predictions within `FACTOR` of the time.
        rank: mean over problems of Spearman's correlation.
        median: of them.
        lowest: of them.
        right: share of pairs over `APART` apart in the right order; equal predictions count half.
        pairs: how many they are.
    """

    configurations: int
    unknown: int
    within: float
    rank: float
    median: float
    lowest: float
    right: float
    pairs: int


def languages_of(table: Table) -> npt.NDArray[np.str_]:
    """Return the language of each row: the first word of its file's name."""
    names = [
        str(name).rpartition("/")[2].partition("_")[0] for name in table.about["implementation"]
    ]
    return np.array(names)


def spearman(one: Numbers, other: Numbers) -> float:
    """Return the rank correlation; ties share the mean of their ranks."""
    first, second = ranks(one), ranks(other)
    if len(one) < _FEWEST or first.std() == 0 or second.std() == 0:
        return math.nan
    return float(np.corrcoef(first, second)[0, 1])


def ranks(values: Numbers) -> Numbers:
    """Return the rank of each value, from 0."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts + 1) / 2)[places], np.float64)


def pairs_right(
    times: Numbers, predicted: Numbers, groups: Sequence[str], apart: bool = False
) -> tuple[float, int]:
    """Return how many pairs over `APART` apart are in the right order, and how many there are.

    Args:
        times: of the configurations of one problem.
        predicted: of the same.
        groups: of each.
        apart: count only pairs of two groups.
    """
    right, count = 0.0, 0
    for one, other in itertools.combinations(range(len(times)), 2):
        ratio = times[one] / times[other]
        if (apart and groups[one] == groups[other]) or 1 / APART <= ratio <= APART:
            continue
        count += 1
        difference = predicted[one] - predicted[other]
        right += 0.5 if difference == 0 else float((difference > 0) == (ratio > 1))
    return right, count


def figures(
    times: Numbers, predicted: Numbers, problems: Sequence[str], groups: Sequence[str], apart: bool
) -> Figures:
    """Return the figures of some configurations; for `apart` see `pairs_right`."""
    has = np.isfinite(predicted)
    ratios = predicted[has] / times[has]
    within = np.mean((ratios >= 1 / FACTOR) & (ratios <= FACTOR)) if has.any() else math.nan
    correlations, right, count = [], 0.0, 0
    names, kinds = np.array(problems), np.array(groups)
    for problem in sorted(set(problems)):
        own = has & (names == problem)
        correlations.append(spearman(times[own], predicted[own]))
        one, total = pairs_right(times[own], predicted[own], list(kinds[own]), apart)
        right, count = right + one, count + total
    known_ranks = [value for value in correlations if math.isfinite(value)]
    return Figures(
        int(has.sum()),
        int((~has).sum()),
        float(within),
        float(np.mean(known_ranks)) if known_ranks else math.nan,
        float(np.median(known_ranks)) if known_ranks else math.nan,
        min(known_ranks, default=math.nan),
        right / count if count else math.nan,
        count,
    )


def by_language(
    times: Numbers, predicted: Numbers, problems: Sequence[str], languages: Sequence[str]
) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of each language, of all together, and of pairs of two languages."""
    kinds, names = np.array(languages), np.array(problems)
    for language in sorted(set(languages)):
        own = kinds == language
        rows = times[own], predicted[own], list(names[own]), list(kinds[own])
        yield language, figures(*rows, apart=False)
    yield ALL, figures(times, predicted, problems, languages, apart=False)
    yield "pairs of two languages", figures(times, predicted, problems, languages, apart=True)


def predictions(table: Table) -> Mapping[str, Numbers]:
    """Return predicted times in ms by what predicts them; NaN where only machine code is known."""
    forecasts = Surrogate.load().forecast(table, Depth.COMPILED)
    modelled = np.asarray(table.modelled_ms, np.float64)
    # of machine code alone half of the features are missing: a ranking does not mix the two
    forecast = np.where(np.isnan(modelled), np.nan, forecasts.time_ms)
    return {"kernel model": modelled, "surrogate": forecast}


# ------------------------------------------------------------------------------- what facts cost


@dataclass(frozen=True)
class Cost:
    """Processor seconds of one analysis.

    Attributes:
        compile_s: of the language's compiler.
        host_s: of running the kernel's host code on the fake GPU.
        facts_s: of the rest.
        why: there are no facts; empty if there are.
    """

    compile_s: float = 0.0
    host_s: float = 0.0
    facts_s: float = 0.0
    why: str = ""

    @property
    def added_s(self) -> float:
        """Processor seconds that SolKit adds to the compile."""
        return self.host_s + self.facts_s

    @property
    def limit_s(self) -> float:
        """Processor seconds that it may add."""
        return max(LEAST_S, TIMES_COMPILE * self.compile_s)

    @property
    def is_reached(self) -> bool:
        """True if there are facts, within the limit."""
        return not self.why and self.added_s <= self.limit_s


class Stopwatch:
    """Processor seconds by activity, each without those of activities inside it.

    Attributes:
        spent_s: by name.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.spent_s: defaultdict[str, float] = defaultdict(float)
        self._clock = clock
        self._inside_s = [0.0]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed as `name`."""

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            self._inside_s.append(0.0)
            start = self._clock()
            try:
                return function(*args, **named)
            finally:
                elapsed = self._clock() - start
                self.spent_s[name] += elapsed - self._inside_s.pop()
                self._inside_s[-1] += elapsed

        return call

    def replace(self, name: str, place: str) -> None:
        """Time a function, ``module:name``, where it stands; skips packages not loaded."""
        module, _, path = place.partition(":")
        if module.partition(".")[0] not in sys.modules:
            return
        try:
            owner: Any = importlib.import_module(module)
        except ImportError:  # `cuda` is the package of several distributions
            return
        *outer, last = path.split(".")
        owner = attrgetter(".".join(outer))(owner) if outer else owner
        setattr(owner, last, self.timed(name, getattr(owner, last)))


def processor_s() -> float:
    """Return the processor seconds of this process and of the processes that it waited for."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(item.ru_utime + item.ru_stime for item in used)


def cost_of(kernel: Kernel, device: Device) -> Cost:
    """Analyse a kernel's default configuration; for a process of its own."""
    from solkit import kernelfiles
    from solkit.adapters import fake_cuda
    from solkit.analysis import candidate, worker
    from solkit.kernelfiles.seeding import seeded_workload

    worker.fake_device(device)
    with tempfile.TemporaryDirectory() as folder, fake_cuda.fake_tensors():
        os.environ |= {"TRITON_CACHE_DIR": folder, "CUDA_TILE_CACHE_DIR": folder}
        try:
            loaded = kernelfiles.load(str(kernel.path), None)
        except SolkitError as error:
            return Cost(why=str(error).partition("\n")[0])
        shape, watch = loaded.description.problem.shapes[0], Stopwatch(processor_s)
        for place in COMPILERS:
            watch.replace("compile", place)
        watch.replace("host", HOST_CODE)
        make = partial(seeded_workload, loaded, shape, {})
        (result,) = watch.timed("facts", candidate.analyse_all)([(make, {})], device)
    spent = watch.spent_s
    return Cost(spent["compile"], spent["host"], spent["facts"], without_facts(result))


def without_facts(result: Any) -> str:
    """Say why an analysis has no modelled time; empty if it has."""
    if isinstance(result, SolkitError):
        return str(result)
    modelled = [kernel.model is not None for kernel in result.kernels]
    return "" if modelled and all(modelled) else "; ".join(result.notes) or "no modelled time"


def costs(kernels: Sequence[Kernel], device: Device) -> list[Cost]:
    """Return the cost of each kernel, one after the other."""
    from solkit.analysis import warming

    warming.warm_up()  # as an analyser's server
    calls = [partial(cost_of, kernel, device) for kernel in kernels]
    return call_in_forks(calls, lambda reason: Cost(why=reason), 1, _LIMIT_S)


def printed_costs(rows: Sequence[tuple[str, Cost]]) -> Printed:
    """Return the table of costs."""
    table = Printed(title="processor seconds of an analysis", title_justify="left")
    for head in ("kernel", "compile", "host code", "facts", "both", "limit", "reached"):
        table.add_column(head, justify="left" if head == "kernel" else "right")
    for name, cost in rows:
        seconds = cost.compile_s, cost.host_s, cost.facts_s, cost.added_s, cost.limit_s
        verdict = cost.why or ("yes" if cost.is_reached else "no")
        table.add_row(name, *(f"{value:.2f}" for value in seconds), verdict)
    return table


def show_costs(names: Sequence[str], console: Console) -> int:
    """Print what facts of kernels cost; returns 1 if one takes too long, or has none."""
    kernels = select_kernels(names or ["languages"])
    rows = list(zip([k.name for k in kernels], costs(kernels, devices.find("h200")), strict=True))
    console.print(printed_costs(rows))
    return 0 if all(cost.is_reached for _, cost in rows) else 1


def main() -> int:
    """Print the figures; returns 1 if a goal is missed, 2 if a set or file cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="*", default=["h200_languages"], metavar="SET")
    parser.add_argument("--seconds", nargs="*", metavar="KERNEL", help="what facts cost")
    options = parser.parse_args()
    console, missed = Console(width=140), 0
    if options.seconds is not None:
        try:
            return show_costs(options.seconds, console)
        except SolkitError as error:
            print(f"across_languages: {error}", file=sys.stderr)
            return 2
    for name in options.sets:
        try:
            store = Store(name) if Path(name).is_dir() else shipped(name)
            table = table_of_stores([store])
        except SolkitError as error:
            print(f"across_languages: {error}", file=sys.stderr)
            return 2
        problems, languages = list(map(str, table.about["problem_id"])), list(languages_of(table))
        for by, predicted in predictions(table).items():
            rows = list(by_language(table.time_ms, predicted, problems, languages))
            console.print(printed(f"{name}, {len(set(problems))} problems, by the {by}", rows))
            missed += shortfalls(dict(rows)[ALL])
    return 1 if missed else 0


def shortfalls(reached: Figures) -> int:
    """Return how many goals are missed."""
    values = reached.within, reached.rank, reached.right
    return sum(not value >= goal for value, goal in zip(values, GOALS.values(), strict=True))


def printed(title: str, rows: Sequence[tuple[str, Figures]]) -> Printed:
    """Return the table of one predictor."""
    table = Printed(title=title, title_justify="left")
    heads = ("language", "configurations", "machine code only", *GOALS, "median", "lowest", "pairs")
    for head in heads:
        table.add_column(head, justify="left" if head == "language" else "right")
    for name, row in rows:
        shares = f"{row.within:.1%}", f"{row.rank:.3f}", f"{row.right:.1%}"
        ranks = f"{row.median:.3f}", f"{row.lowest:.3f}"
        counts = str(row.configurations), str(row.unknown)
        table.add_row(name, *counts, *shares, *ranks, f"{row.pairs:,}")
    goals = [f"{goal:.0%}" if "rank" not in name else f"{goal:.2f}" for name, goal in GOALS.items()]
    table.add_row("goal", "", "", *goals, "", "", "")
    return table


if __name__ == "__main__":
    sys.exit(main())
