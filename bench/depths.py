"""What each depth of analysis costs, and how well lowered facts stand in for compiled ones.

    python bench/depths.py [--kernels 24] [--configurations 8] [--device h100] [--seed 0]

Kernels are drawn from the zoo's Triton kernels, one per family first. One worker analyses the same
configurations of a kernel at each depth, in bulk and from empty caches. Time is CPU time of all
processes, so that other programs of the machine do not count. Within each kernel, the modelled
times from lowered and compiled facts are compared by rank. Exits with 1 if lowered costs more than
a third of compiled in the median.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from analyser import environment, family_s, is_left_out

from solkit.analysis.analyser import Analyser
from solkit.core import Analysis, Configuration, Depth
from solkit.datasets.kernels import ZOO

TARGET = 1 / 3
_LEAST_RANKED = 4
"""Configurations with different compiled times that a rank correlation needs."""


@dataclass(frozen=True)
class Costs:
    """One kernel: CPU seconds per configuration by depth, and pairs of analyses."""

    name: str
    seconds: dict[Depth, float]
    pairs: list[tuple[Analysis, Analysis]]

    @property
    def ratio(self) -> float:
        """Lowered over compiled."""
        return self.seconds[Depth.LOWERED] / self.seconds[Depth.COMPILED]

    def times(self) -> list[tuple[float, float]]:
        """Modelled times in ms, lowered and compiled, where both are known."""
        both = [(modelled_ms(one), modelled_ms(other)) for one, other in self.pairs]
        return [(a, b) for a, b in both if a is not None and b is not None]

    def spearman(self) -> float | None:
        """The rank correlation of those; ``None`` with too few different times."""
        times = self.times()
        if len({round(compiled, 9) for _, compiled in times}) < _LEAST_RANKED:
            return None
        lowered, compiled = (ranks(each) for each in zip(*times, strict=True))
        return float(np.corrcoef(lowered, compiled)[0, 1]) if np.ptp(lowered) else 0.0


def ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 0; equal values share their mean rank."""
    _, places, counts = np.unique(np.round(values, 9), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[places]


def modelled_ms(analysis: Analysis) -> float | None:
    """Of all launches; ``None`` unless each has a model."""
    models = [(each.model, each.launch.count) for each in analysis.kernels]
    if not models or any(model is None for model, _ in models):
        return None
    return sum(model.time_ms * count for model, count in models if model is not None)


def drawn(count: int, seed: int) -> list[Path]:
    """Kernels of as many families as possible."""
    files = sorted(path for path in ZOO.glob("*/*.py") if not is_left_out(path))
    random.Random(seed).shuffle(files)
    seen: dict[Path, int] = {}
    order = []
    for path in files:
        order.append((seen.setdefault(path.parent, 0), path))
        seen[path.parent] += 1
    return [path for _, path in sorted(order, key=lambda each: each[0])][:count]


def examine(path: Path, count: int, device: str, seed: int) -> Costs | None:
    """Analyse a kernel's configurations at each depth; ``None`` if it has fewer than two."""
    with Analyser(device, cache=False, workers=1) as analyser:
        file = analyser.describe(str(path)).result()  # the worker has the file from now on
        assert file.candidate is not None
        space, shape = file.candidate.space, file.problem.shapes[0]
        params = space.sample(min(count, space.size), seed)
        if len(params) < 2:
            return None
        asked = [Configuration(str(path), "kernel", shape, each) for each in params]
        seconds: dict[Depth, float] = {}
        found: dict[Depth, dict[str, Analysis]] = {}
        for depth in (Depth.CAPTURED, Depth.LOWERED, Depth.COMPILED):
            before = family_s()
            results = list(analyser.analysed(asked, depth))
            seconds[depth] = (family_s() - before) / len(asked)
            found[depth] = {
                str(each.configuration.params): each.analysis for each in results if each.analysis
            }
    lowered, compiled = found[Depth.LOWERED], found[Depth.COMPILED]
    pairs = [(lowered[name], compiled[name]) for name in lowered if name in compiled]
    return Costs(f"{path.parent.name}/{path.stem}", seconds, pairs)


def show(found: Sequence[Costs]) -> float:
    """Print what was found; returns the median of lowered over compiled."""
    print(f"{'kernel':44} captured lowered compiled ms  ratio  spearman")
    for each in found:
        captured, lowered, compiled = (1e3 * each.seconds[depth] for depth in Depth)
        rank = each.spearman()
        told = "-" if rank is None else f"{rank:.2f}"
        print(f"{each.name:44} {captured:8.1f} {lowered:7.0f} {compiled:8.0f}", end="    ")
        print(f"{each.ratio:5.2f}  {told:>8}")
    for depth in Depth:
        costs = [1e3 * each.seconds[depth] for each in found]
        print(f"{depth.value}: median {statistics.median(costs):.1f} ms of CPU a configuration")
    ratio = statistics.median(each.ratio for each in found)
    print(f"lowered over compiled: median {ratio:.3f}, most {max(e.ratio for e in found):.3f}")
    spearmans = sorted(rank for each in found if (rank := each.spearman()) is not None)
    if spearmans:
        low = spearmans[len(spearmans) // 10]
        print(
            f"rank correlation of modelled times within {len(spearmans)} kernels: median "
            f"{statistics.median(spearmans):.2f}, tenth percentile {low:.2f}"
        )
    _show_estimates(found)
    return ratio


def _show_estimates(found: Sequence[Costs]) -> None:
    times = [b / a for each in found for a, b in each.times()]
    off = [max(each, 1 / each) for each in times]
    print(
        f"modelled time, {len(off)} configurations: off by {statistics.median(off):.2f} in the "
        f"median, {np.mean(np.array(off) < 1.5):.0%} within a factor of 1.5"
    )
    kernels = [
        (one.facts, other.facts)
        for each in found
        for lowered, compiled in each.pairs
        for one, other in zip(lowered.kernels, compiled.kernels, strict=False)
        if one.facts.registers and other.facts.registers
    ]
    ratios = [one.registers / other.registers for one, other in kernels]
    off = [max(each, 1 / each) for each in ratios]
    print(f"registers, {len(off)} launches: off by {statistics.median(off):.2f} in the median")
    equal = sum(one.shared_bytes == other.shared_bytes for one, other in kernels)
    spills = sum(bool(one.spills) == bool(other.spills) for one, other in kernels)
    print(f"shared memory equal in {equal}, spilling or not in {spills} of {len(kernels)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kernels", type=int, default=24)
    parser.add_argument("--configurations", type=int, default=8, help="of each kernel, at most")
    parser.add_argument("--device", default="h100")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, environment(folder):
        costs = [
            found
            for path in drawn(options.kernels, options.seed)
            if (found := examine(path, options.configurations, options.device, options.seed))
        ]
    return 0 if show(costs) <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
