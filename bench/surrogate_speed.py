"""How fast the surrogate is: candidates a second, seconds to load, seconds to rank a space.

    python bench/surrogate_speed.py [MODEL]

Captured candidates are given as arrays of launches of a matrix product in the zoo, whose text is
followed; the time covers features and forecasts.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from solkit import Surrogate
from solkit.core import Depth
from solkit.datasets.kernels import ZOO
from solkit.roofline.devices import find
from solkit.surrogate.ast_interpreter import Code
from solkit.surrogate.features import Launches, Problem

CANDIDATES = 20_000


def main() -> None:
    start = time.perf_counter()
    import xgboost  # noqa: F401 - its own import is not the model's

    imported = time.perf_counter()
    print(f"import xgboost: {imported - start:.2f} s")
    model = Surrogate.load(sys.argv[1] if len(sys.argv) > 1 else None)
    for depth in model.depths:
        start = time.perf_counter()
        model.trees(depth)
        print(f"load {depth.value}: {time.perf_counter() - start:.2f} s")
    problem, device = (
        Problem(0.05, "dram", {"fp32": 1e9}, 1e8, 1e8, {"M": 4096, "N": 8192, "K": 4096}),
        find("h100"),
    )
    launches, params = space(CANDIDATES)
    for single in (False, True):
        model.forecast_captured(problem, device, launches, params, single)
        start = time.perf_counter()
        model.forecast_captured(problem, device, launches, params, single)
        rate = CANDIDATES / (time.perf_counter() - start)
        members = len(model.trees(Depth.CAPTURED).members)
        name = "single model" if single else f"ensemble of {members}, with intervals"
        print(f"captured, {name}: {rate:,.0f} candidates a second")


def space(number: int) -> tuple[Launches, dict[str, np.ndarray]]:
    """Launches of a matrix product, drawn at random."""
    random = np.random.default_rng(0)
    names = ("TILE_M", "TILE_N", "TILE_K")
    tiles = {name: 2.0 ** random.integers(4, 9, number) for name in names}
    warps, stages = 2 ** random.integers(0, 5, number), random.integers(1, 6, number)
    grid = np.stack([4096 // tiles["TILE_M"], 8192 // tiles["TILE_N"], np.ones(number)], axis=1)
    one = np.ones(number)
    params = {**tiles, "num_warps": warps, "num_stages": stages}
    types = {name: np.full(number, "*fp16", object) for name in ("a", "b", "c")}
    source = (ZOO / "gemm" / "naive.py").read_text()
    code = np.full(number, Code(source, "naive_kernel"), object)
    flags = {"ROWS_FIRST": np.full(number, False, object)}
    widths = (2 * one, 2 * one)
    launches = Launches(grid, warps, stages, one, one, one, *widths, tiles, flags, types, code)
    return launches, params


if __name__ == "__main__":
    main()
