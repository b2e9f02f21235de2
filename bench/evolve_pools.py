"""The search over variants with the surrogate, and in random order, on recorded pools: no GPU.

    python bench/evolve_pools.py                      # 30 problems, 5 seeds; learning takes minutes
    python bench/evolve_pools.py --forecasts F.npz    # keeps the forecasts, or takes them from F

A pool is all that was measured for one problem on one GPU: its kernels, each with its
configurations. The proposer gives the kernels' sources in random order, eight a round, and each
measurement costs the same. The same loop runs twice: what is measured next follows the surrogate,
whose models have not seen the problem's family, or is drawn at random. A figure is the number of
measurements until one within 5 % of the pool's best was measured, the original's own included; its
median over seeds, and then the median over problems.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from solkit.core import (
    Brief,
    Configuration,
    Depth,
    EvolveSettings,
    Forecast,
    Order,
    Proposal,
    Result,
    Tried,
    Variant,
    Verdict,
    variant_id,
)
from solkit.datasets.shipped import LEARNED_FROM
from solkit.datasets.store import shipped
from solkit.roofline.devices import find
from solkit.surrogate.evaluation.evaluate import EvaluationRequest, forecast_splits
from solkit.surrogate.table import Table, table_of_stores
from solkit.surrogate.trees import Forecasts
from solkit.tuner.evolution import Point
from solkit.tuner.evolution.evolution_search import EvolutionSearch
from solkit.tuner.evolution.variant_evaluator import Ranking, Study, VariantOutcome

T = TypeVar("T")
WITHIN = 1.05
LEAST_KERNELS, LEAST_POINTS = 4, 24


@dataclass
class Pool:
    """The rows of one problem on one GPU, as the loop's world."""

    name: str
    rows: Sequence[int]
    table: Table
    told: Forecasts
    kernels: dict[str, list[int]] = field(default_factory=dict)  # rows by the text of a variant
    counted: int = 0

    def __post_init__(self) -> None:
        for row in self.rows:
            self.kernels.setdefault(str(self.table.about["kernel_id"][row]), []).append(row)
        self._row = {
            (variant_id(text), str(self.table.about["params"][row])): row
            for text, rows in self.kernels.items()
            for row in rows
        }

    @property
    def best_ms(self) -> float:
        return float(min(self.table.time_ms[row] for row in self.rows))

    def rank(self, variants: Sequence[Variant], otherwise_ms: float) -> Ranking:
        points = [
            self.point(variant, place, otherwise_ms)
            for variant in variants
            for place in range(len(self.kernels[variant.source]))
        ]
        return Ranking(points)

    def point(self, variant: Variant, place: int, otherwise_ms: float = 1.0) -> Point:
        row = self.kernels[variant.source][place]
        results = [
            float(item[row]) for item in (self.told.time_ms, self.told.low_ms, self.told.high_ms)
        ]
        known_values = [result if np.isfinite(result) else None for result in results]
        forecast = Forecast(*known_values, 0.0, bool(self.told.abstains[row]))
        params = json.loads(str(self.table.about["params"][row]))
        where = Configuration(variant.id, "kernel", {}, params)
        return Point.of(variant.id, where, forecast, otherwise_ms)

    def measure(self, point: Point, variant: Variant) -> VariantOutcome:
        del variant
        self.counted += 1
        row = self._row[point.key]
        kind = str(self.table.about["implementation"][row])
        return VariantOutcome(Verdict.CORRECT, float(self.table.time_ms[row]), (kind,))

    overlaps = False

    def begin(self, work: Callable[[], T]) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(work())
        return done

    def foresee(self, points: Sequence[Point]) -> None:
        """Nothing is studied: all rows are compiled."""

    def studied(self) -> Sequence[Study]:
        return ()

    def is_late(self, point: Point) -> bool:
        del point
        return False

    def is_ready(self, point: Point) -> bool:
        del point
        return True

    def await_any(self, others: Sequence[Future[Any]], timeout_s: float | None) -> bool:
        del timeout_s  # what was begun has ended
        return bool(others)

    def idle_s(self) -> float:
        return 0.0

    def expect_parent(self, brief: Brief) -> None:
        """Nothing is checked here."""

    def expect(self, variants: Sequence[tuple[Variant, Brief]]) -> None:
        """Nothing is checked here."""

    def check(self, variant: Variant, brief: Brief) -> Variant:
        del brief
        return variant

    def checked_late(self) -> Sequence[Variant]:
        return ()

    def await_checks(self, variants: Collection[str]) -> None:
        """Nothing is checked here."""

    def brief(self, bred: object, result: Result | None, tried: Sequence[Tried]) -> Brief:
        del bred, result
        return Brief("", self.name, find("h100"), {}, tried=tuple(tried))

    def spent_s(self) -> float:
        return float(self.counted)


@dataclass
class Recorded:
    """Proposes the pool's kernels in random order, none twice."""

    texts: list[str]
    name: str = "recorded"

    def propose(self, brief: Brief) -> Iterator[Proposal]:
        del brief
        taken, self.texts = self.texts[:8], self.texts[8:]
        for text in taken:
            yield Proposal(text, text, "")


def needed(pool: Pool, order: Order, seed: int) -> int:
    """Measurements until one within 5 % of the best."""
    pool.counted, draw = 0, random.Random(seed)
    texts = draw.sample(list(pool.kernels), len(pool.kernels))
    variant = Variant(variant_id(texts[0]), texts[0])
    first = pool.point(variant, draw.randrange(len(pool.kernels[texts[0]])))
    how = EvolveSettings(stop_at=2.0, least_gain=0.0, seed=seed, order=order, depth=Depth.COMPILED)
    enough = WITHIN * pool.best_ms
    reached: list[int] = []

    class Watched(EvolutionSearch):
        def _measure_point(self, point: Point) -> None:
            super()._measure_point(point)
            best_ms = self.archive.best.time_ms
            if not reached and best_ms is not None and best_ms <= enough:
                reached.append(self.measured)
                raise KeyboardInterrupt

    Watched(pool, [Recorded(texts[1:])], (variant, first), 1e9, how).run()
    return reached[0] if reached else len(pool.rows)


def pools(table: Table, forecasts: Forecasts, number: int, seed: int) -> list[Pool]:
    """Problems drawn by seed, of those with enough kernels and configurations."""
    rows = defaultdict(list)
    for row in range(len(table)):
        if np.isfinite(forecasts.time_ms[row]):
            about = (table.about[name][row] for name in ("problem_id", "device", "triton_version"))
            rows[" ".join(map(str, about))].append(row)
    fit = []
    for name, item in sorted(rows.items()):
        kernels = {str(table.about["kernel_id"][row]) for row in item}
        times = table.time_ms[item]
        spread = np.quantile(times, 0.75) > WITHIN * times.min()
        if len(kernels) >= LEAST_KERNELS and len(item) >= LEAST_POINTS and spread:
            fit.append(Pool(name, item, table, forecasts))
    return random.Random(seed).sample(fit, min(number, len(fit)))


def forecast(table: Table, path: str | None) -> Forecasts:
    """Of each row by models that have not seen its family."""
    if path is not None and Path(path).exists():
        kept = np.load(path)
        return Forecasts(*(kept[name] for name in ("time", "low", "high", "size", "abstains")))
    options = EvaluationRequest(["families"], baselines=False)
    families = forecast_splits(table, options, lambda result: print(result, file=sys.stderr))[""][
        "families"
    ]
    if path is not None:
        parts = (
            families.time_ms,
            families.low_ms,
            families.high_ms,
            families.size,
            families.abstains,
        )
        np.savez_compressed(path, **dict(zip(("time", "low", "high", "size", "abstains"), parts)))
    return families


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draw", type=int, default=0, help="seed of the draw of problems")
    parser.add_argument("--forecasts", default=None, help="keep forecasts here, or take them")
    options = parser.parse_args()
    table = table_of_stores([shipped(name) for name in LEARNED_FROM], Depth.COMPILED)
    reported_forecast = forecast(table, options.forecasts)
    results: dict[Order, list[float]] = {order: [] for order in Order}
    for pool in pools(table, reported_forecast, options.problems, options.draw):
        counts = {
            order: [needed(pool, order, seed) for seed in range(options.seeds)] for order in Order
        }
        for order, count in counts.items():
            results[order].append(statistics.median(count))
        shown = "  ".join(f"{order.value} {results[order][-1]:5g}" for order in Order)
        print(f"{shown}  of {len(pool.rows):4d} in {len(pool.kernels):2d} kernels  {pool.name}")
    ours, theirs = (statistics.median(results[order]) for order in (Order.SURROGATE, Order.RANDOM))
    print(f"median: surrogate {ours:g}, random {theirs:g}: {ours / theirs:.2f} of it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
