"""What each depth of analysis costs, and how well lowered facts stand in for compiled ones.

    python bench/depths.py [--kernels 24] [--configurations 8] [--device h100] [--seed 0]

Kernels are drawn from the zoo's Triton kernels, one per family first. One worker analyses the same
configurations of a kernel at each depth, in bulk and from empty caches. Time is CPU time of all
processes, so that other programs of the machine do not count. Within each kernel, the modelled
times from lowered and compiled facts are compared by rank. Of each estimate the log2 of lowered
over compiled is printed (of registers and occupancy the difference): its mean, its standard
deviation in all, and that within kernels. Exits with 1 if lowered costs more than
a third of compiled in the median.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

from solkit.analysis.analyser import Analyser
from solkit.core import SOURCE_DEPTHS, Analysis, Configuration, Depth, KernelAnalysis
from solkit.datasets.kernels import ZOO
from solkit.processes.forkserver import children_of
from solkit.roofline.kernel.model import executed

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
        lowered, compiled = (ranks(pair) for pair in zip(*times, strict=True))
        return float(np.corrcoef(lowered, compiled)[0, 1]) if np.ptp(lowered) else 0.0


def ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 0; equal values share their mean rank."""
    _, places, counts = np.unique(np.round(values, 9), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[places]


def modelled_ms(analysis: Analysis) -> float | None:
    """Of all launches; ``None`` unless each has a model."""
    models = [(kernel.model, kernel.launch.count) for kernel in analysis.kernels]
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
    return [path for _, path in sorted(order, key=lambda item: item[0])][:count]


def examine(path: Path, count: int, device: str, seed: int) -> Costs | None:
    """Analyse a kernel's configurations at each depth; ``None`` if it has fewer than two."""
    with Analyser(device, cache=False, workers=1) as analyser:
        file = analyser.describe(str(path)).result()  # the worker has the file from now on
        assert file.candidate is not None
        space, shape = file.candidate.space, file.problem.shapes[0]
        params = list(itertools.islice(space.shuffled(seed), count))
        if len(params) < 2:
            return None
        configurations = [Configuration(str(path), "kernel", shape, param) for param in params]
        seconds: dict[Depth, float] = {}
        outcome: dict[Depth, dict[str, Analysis]] = {}
        for depth in (Depth.CAPTURED, Depth.LOWERED, Depth.COMPILED):
            before = family_s()
            results = list(analyser.analysed(configurations, depth))
            seconds[depth] = (family_s() - before) / len(configurations)
            outcome[depth] = {
                str(result.configuration.params): result.analysis
                for result in results
                if result.analysis
            }
    lowered, compiled = outcome[Depth.LOWERED], outcome[Depth.COMPILED]
    pairs = [(lowered[name], compiled[name]) for name in lowered if name in compiled]
    return Costs(f"{path.parent.name}/{path.stem}", seconds, pairs)


def show(results: Sequence[Costs]) -> float:
    """Print what was found; returns the median of lowered over compiled."""
    print(f"{'kernel':44} captured lowered compiled ms  ratio  spearman")
    for result in results:
        captured, lowered, compiled = (1e3 * result.seconds[depth] for depth in SOURCE_DEPTHS)
        rank = result.spearman()
        text = "-" if rank is None else f"{rank:.2f}"
        print(f"{result.name:44} {captured:8.1f} {lowered:7.0f} {compiled:8.0f}", end="    ")
        print(f"{result.ratio:5.2f}  {text:>8}")
    for depth in SOURCE_DEPTHS:
        costs = [1e3 * item.seconds[depth] for item in results]
        print(f"{depth.value}: median {statistics.median(costs):.1f} ms of CPU a configuration")
    ratio = statistics.median(item.ratio for item in results)
    print(f"lowered over compiled: median {ratio:.3f}, most {max(e.ratio for e in results):.3f}")
    spearmans = sorted(rank for item in results if (rank := item.spearman()) is not None)
    if spearmans:
        low = spearmans[len(spearmans) // 10]
        print(
            f"rank correlation of modelled times within {len(spearmans)} kernels: median "
            f"{statistics.median(spearmans):.2f}, tenth percentile {low:.2f}"
        )
    _show_estimates(results)
    _show_differences(results)
    return ratio


def _show_estimates(costs: Sequence[Costs]) -> None:
    times = [b / a for cost in costs for a, b in cost.times()]
    off = [max(time, 1 / time) for time in times]
    print(
        f"modelled time, {len(off)} configurations: off by {statistics.median(off):.2f} in the "
        f"median, {np.mean(np.array(off) < 1.5):.0%} within a factor of 1.5"
    )
    kernels = [
        (one.facts, other.facts)
        for cost in costs
        for lowered, compiled in cost.pairs
        for one, other in zip(lowered.kernels, compiled.kernels, strict=False)
        if one.facts.registers and other.facts.registers
    ]
    ratios = [one.registers / other.registers for one, other in kernels]
    off = [max(ratio, 1 / ratio) for ratio in ratios]
    print(f"registers, {len(off)} launches: off by {statistics.median(off):.2f} in the median")
    equal = sum(one.shared_bytes == other.shared_bytes for one, other in kernels)
    spills = sum(bool(one.spills) == bool(other.spills) for one, other in kernels)
    print(f"shared memory equal in {equal}, spilling or not in {spills} of {len(kernels)}")


def quantities(kernel: KernelAnalysis) -> dict[str, float]:
    """What the depths are compared by, of one launch."""
    assert kernel.model is not None
    assert kernel.demand is not None
    assert kernel.occupancy is not None
    results = {
        "modelled time": kernel.model.time_ms,
        "machine instructions": sum(executed(kernel).values()),
        "PTX instructions": kernel.demand.instructions,
        "wavefronts of shared memory": sum(access.wavefronts for access in kernel.demand.shared),
        "barriers + 1": kernel.demand.barriers + 1,
    }
    results |= {f"{term.name} term": term.time_ms for term in kernel.model.terms}
    logs = {name: math.log2(amount) for name, amount in results.items() if amount > 0}
    registers = float(kernel.facts.registers or 0)
    return logs | {"registers": registers, "occupancy": kernel.occupancy.fraction}


def _show_differences(costs: Sequence[Costs]) -> None:
    """Lowered less compiled, of all quantities: mean, deviation, and deviation within kernels."""
    differences: defaultdict[str, list[list[float]]] = defaultdict(list)
    for cost in costs:
        own: defaultdict[str, list[float]] = defaultdict(list)
        for lowered, compiled in cost.pairs:
            for one, other in zip(lowered.own, compiled.own, strict=False):
                if one.model is None or other.model is None:
                    continue
                a, b = quantities(one), quantities(other)
                for name in a.keys() & b.keys():
                    own[name].append(a[name] - b[name])
        for name, values in own.items():
            differences[name].append(values)
    print(f"{'lowered less compiled':28}    n   mean    std  within kernels")
    for name, groups in sorted(differences.items()):
        values = np.concatenate([np.array(group) for group in groups])
        inside = [np.array(g) - np.mean(g) for g in groups if len(g) > 1]
        free = sum(len(g) - 1 for g in groups if len(g) > 1)
        within = math.sqrt(sum(float((g**2).sum()) for g in inside) / free) if free else math.nan
        print(f"{name:28} {len(values):4} {values.mean():+6.2f} {values.std():6.2f} {within:6.2f}")


def is_left_out(path: Path) -> bool:
    """Tell whether a file of the zoo has no Triton kernel."""
    return path.name in ("problem.py", "__init__.py") or path.name.startswith("cuda_")


def family_s() -> float:
    """CPU time of this process, of those below it, and of those that they reaped."""
    ticks = 0
    for pid in _family():
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, stat[11:15]))  # proc(5): utime, stime, cutime, cstime
    return ticks / os.sysconf("SC_CLK_TCK")


def _family(pid: int | str = "self") -> Iterator[int | str]:
    yield pid
    for child in children_of(pid):
        yield from _family(child)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kernels", type=int, default=24)
    parser.add_argument("--configurations", type=int, default=8, help="of each kernel, at most")
    parser.add_argument("--device", default="h100")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"TRITON_CACHE_DIR": folder}),
    ):
        costs = [
            result
            for path in drawn(options.kernels, options.seed)
            if (result := examine(path, options.configurations, options.device, options.seed))
        ]
    return 0 if show(costs) <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
