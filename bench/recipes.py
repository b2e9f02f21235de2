"""How many launchers one recorded run serves, whether its answers are right, and how fast it is.

    python bench/recipes.py [zoo inductor | FILES ...] [--configurations 30] [--every 1]

For each launcher, at a random shape, the same configurations are captured from recipes
(`solkit.analysis.triton.recipes`) and by running it, and compared. CUDA C++ is left out, since it
runs each time. If one run serves all, the rate is measured on other configurations, up to nine
times as many, in CPU time: without the comparisons that recipes make now and then, and with them.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import warnings
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch

from solkit import kernelfiles
from solkit.adapters import fake_cuda
from solkit.analysis.triton.capture import Captured, CaptureError, capture
from solkit.analysis.triton.recipes import Recipes, are_captures_equal
from solkit.analysis.worker import fake_device
from solkit.core import Value
from solkit.datasets.kernels import Kernel, select_kernels
from solkit.errors import SolkitError
from solkit.roofline import devices

Params = dict[str, Value]


@dataclass
class Found:
    """The result for one launcher."""

    name: str
    compared: int
    unlike: int
    recipes: int
    runs: int
    per_s: float | None
    compared_per_s: float | None
    why: str


def examine(kernel: Kernel, count: int) -> Found:
    loaded = kernelfiles.load(str(kernel.path))
    make, seen, fresh = _drawn(loaded, count, kernel.name)
    recipes = Recipes(make)
    unlike = sum(not _same(recipes, make, params) for params in seen)
    per_s = compared_per_s = None
    if recipes.recipes == 1 and len(fresh) >= 10:
        half = len(fresh) // 2
        per_s = _rate(recipes.replay, fresh[:half])
        compared_per_s = _rate(recipes.capture, fresh[half:])
    return Found(
        kernel.name,
        len(seen),
        unlike,
        recipes.recipes,
        recipes.runs,
        per_s,
        compared_per_s,
        recipes.why,
    )


def _rate(function: Any, configurations: list[Params]) -> float:
    start = time.process_time()
    for params in configurations:
        function(params)
    return len(configurations) / (time.process_time() - start)


def _drawn(loaded: Any, count: int, seed: str) -> tuple[Any, list[Params], list[Params]]:
    """A maker of workloads at a shape, and two sets of configurations that are legal there."""
    shapes = list(loaded.description.problem.shapes)
    random.Random(seed).shuffle(shapes)
    for shape in shapes:
        try:
            drawn = list(islice(loaded.space(shape).shuffled(seed), 10 * count))
        except SolkitError:  # too few are legal
            continue
        if not drawn:
            continue
        own = loaded.description.candidate.params
        whole = [{**own, **params} for params in drawn]
        return partial(loaded.workload, shape), whole[:count], whole[count:]
    return None, [], []


def _same(recipes: Recipes, make: Any, params: Params) -> bool:
    def run() -> Captured:
        torch.manual_seed(0)
        return capture(make(params), params)

    outcomes: list[Captured | None] = []
    for way in (lambda: recipes.capture(params), run):
        try:
            outcomes.append(way())
        except CaptureError:
            outcomes.append(None)
    one, other = outcomes
    return one is other if one is None or other is None else are_captures_equal(one, other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wanted", nargs="*", default=["zoo", "inductor"])
    parser.add_argument("--configurations", type=int, default=30)
    parser.add_argument("--every", type=int, default=1, help="take every n-th launcher")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    fake_device(devices.find("h100"))
    kernels = [k for k in select_kernels(options.wanted) if not k.builds_extension][
        :: options.every
    ]
    with fake_cuda.fake_tensors():
        results = [examine(kernel, options.configurations) for kernel in kernels]
    for result in results:
        if result.unlike or result.why:
            print(f"{result.name}: {result.unlike} of {result.compared} differ; {result.why}")
    _summarise([item for item in results if item.compared])


def _summarise(results: list[Found]) -> None:
    one = sum(item.recipes == 1 and not item.why for item in results)
    several = sum(item.recipes > 1 and not item.why for item in results)
    print(f"{len(results)} launchers: one recorded run serves {one}, several serve {several}")
    compared, unlike = (sum(getattr(item, n) for item in results) for n in ("compared", "unlike"))
    print(f"{compared} configurations compared with a run: {unlike} differ")
    for name, result in (("per_s", "alone"), ("compared_per_s", "with comparisons")):
        rates = [rate for item in results if (rate := getattr(item, name)) is not None]
        if len(rates) > 1:
            low = statistics.quantiles(rates, n=20)[0]
            print(
                f"captured a second of a core, {result}, {len(rates)} launchers: median "
                f"{statistics.median(rates):,.0f}, 5 % under {low:,.0f}, "
                f"{sum(rate < 2000 for rate in rates)} under 2,000"
            )


if __name__ == "__main__":
    main()
