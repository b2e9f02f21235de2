"""Ranks of measured matrix products, by nvMatmulHeuristics and by the surrogate: no GPU.

    pip install nvidia-matmul-heuristics
    python bench/matmul_heuristics.py                     # of the shipped sets; some 20 minutes
    python bench/matmul_heuristics.py --table FILE        # a captured table that was kept there

Both rank the configurations of plain 16-bit products (the families `gemm`, `gemm_large` and
`gemm_skinny`) before anything is compiled. nvMatmulHeuristics estimates the run time of a tile, its
stages and its share of K. The surrogate's trees have learned from no family that has products.
Printed are the rank correlations (median and tenth percentile) in pools of a kernel's
configurations at a shape, and the time that is lost if only the first one, three, five or eight are
run, on the rows that both forecast.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from solkit.core import Depth
from solkit.datasets.shipped import LEARNED_FROM, folder
from solkit.datasets.store import Store
from solkit.surrogate.evaluation.pools import draw_pools
from solkit.surrogate.evaluation.regret_metrics import ranking_figures
from solkit.surrogate.table import Table, table_of_stores
from solkit.surrogate.trees import DEFAULTS, columns_of, grow_ensemble

FAMILIES = ("gemm", "gemm_large", "gemm_skinny")
WITH_PRODUCTS = (
    *("mm", "matmul", "matvec", "syrk", "gram", "lora", "weight_gradient"),
    *("conv", "attention", "mlp", "moe"),
)
"""Parts of the names of families that the trees do not learn from."""
PRECISIONS = {"bfloat16": "TST", "float16": "HSH"}
GPUS = {"h100-sxm": "H100_SXM", "h200-sxm": "H200_SXM", "h200": "H200_SXM"}


class Heuristics:
    """nvMatmulHeuristics for one GPU."""

    def __init__(self, gpu: str) -> None:
        self.library = library = importlib.import_module("nvMatmulHeuristics")
        self.rank = library.NvMatmulHeuristicsInterfaceEx(
            backend=library.NvMatmulHeuristicsTarget.TRITON,
            gpu=library.NvMatmulHeuristicsNvidiaGpu[gpu],
        )

    def time_ms(
        self, sizes: tuple[int, int, int], dtype: str, tile: tuple[int, int, int], how: Any
    ) -> float:
        """Return the estimated run time of a configuration; NaN where it has none."""
        warps, stages, split = how
        layout = self.library.NvMatmulHeuristicsMatmulLayout.NN_ROW_MAJOR
        problem = self.rank.makeNvMatmulHeuristicsProblem(*sizes, layout)
        across = 2 ** math.ceil(math.log2(max(warps, 1)) / 2)
        warp = max(tile[0] // across, 16), max(tile[1] * across // max(warps, 1), 8), tile[2]
        config = self.rank.nvmmhKernelConfiguration()
        for name, values in (("cta", tile), ("warp", warp), ("instr", (16, 8, 16))):
            setattr(config, name, (ctypes.c_uint16 * 3)(*values))
        config.splitK, config.loadStages, config.gridSwizzle = split, stages, 1
        config.cluster = (ctypes.c_uint8 * 2)(1, 1)
        seconds = self.rank.nvMatmulHeuristicsEstimateRuntime(
            self.rank.handle,
            PRECISIONS[dtype].encode(),
            ctypes.c_int(self.rank.target),
            ctypes.byref(problem),
            ctypes.byref(config),
            self.rank.hardware_descriptor,
        )
        return seconds * 1e3 if seconds > 0 else math.nan


def configurations(table: Table) -> Iterator[tuple[int, Any]]:
    """Yield rows that are one product through tiles, with the arguments of `Heuristics.time_ms`."""
    names = ("tiles.dot_rows", "tiles.dot_columns", "tiles.dot_depth")
    tiles = np.stack([2.0 ** table.column(name) for name in names], axis=1)
    dots, blocks = table.column("tiles.dots"), 2.0 ** table.column("geometry.blocks")
    warps, stages = 2.0 ** table.column("geometry.warps"), table.column("geometry.stages")
    for row in range(len(table)):
        shape = json.loads(str(table.about["shape"][row]))
        dtype = str(shape.get("dtype", "")).removeprefix("torch.")
        if dots[row] != 1 or dtype not in PRECISIONS or not {"M", "N", "K"} <= shape.keys():
            continue
        tile = tuple(round(float(size)) for size in tiles[row])
        outputs = math.ceil(shape["M"] / tile[0]) * math.ceil(shape["N"] / tile[1])
        split = max(round(float(blocks[row]) / outputs), 1)
        how = round(float(warps[row])), max(round(float(stages[row])), 1), split
        yield row, ((shape["M"], shape["N"], shape["K"]), dtype, tile, how)


def captured_table(path: str | None) -> Table:
    if path and Path(path).exists():
        return Table.load(path)
    stores = [Store(folder("bench/matmul_heuristics.py") / name) for name in LEARNED_FROM]
    table = table_of_stores(stores, Depth.CAPTURED, to_learn=True)
    if path:
        table.save(path)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--table", help="file of the captured table; written if it is missing")
    parser.add_argument("--members", type=int, default=DEFAULTS.members)
    options = parser.parse_args()
    table = captured_table(options.table)
    families = table.about["family"].astype(str)
    products = table[np.isin(families, FAMILIES)]
    others = table[~np.array([any(part in name for part in WITH_PRODUCTS) for name in families])]
    rows, estimates = [], []
    by_device = {device: Heuristics(gpu) for device, gpu in GPUS.items()}
    for row, arguments in configurations(products):
        rows.append(row)
        estimates.append(by_device[str(products.about["device"][row])].time_ms(*arguments))
    estimate = np.array(estimates)
    ran = np.isfinite(estimate)
    print(f"{len(products)} rows, {len(rows)} are one product in tiles, {ran.sum()} estimated")
    tested = products[np.array(rows)[ran]]
    names, members = grow_ensemble(others, replace(DEFAULTS, members=options.members))
    values = columns_of(tested, names)
    forecast = tested.base_ms * 2.0 ** np.mean([one.predict(values) for one in members], axis=0)
    for pool_kind in ("kernel", "problem"):
        pools = list(draw_pools(tested, pool_kind, np.arange(len(tested))))
        for name, score in (("nvMatmulHeuristics", estimate[ran]), ("surrogate", forecast)):
            figures = ranking_figures(tested, pools, score)
            regrets = "/".join(f"{100 * lost:.1f}" for lost in figures.regrets.values())
            print(
                f"{pool_kind:8} {name:20} Spearman {figures.spearman_median:.3f}/"
                f"{figures.spearman_p10:.2f}, regret {regrets} % in {len(pools)} pools"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
