"""How fast the surrogate is: candidates a second, seconds to load, seconds to rank a space.

    python bench/surrogate_speed.py [MODEL]
    python bench/surrogate_speed.py rank [--depth captured|lowered]

Captured candidates are launches of a matrix product in the zoo, whose text is followed; the time
covers features and forecasts. `rank` times the whole command, twice with a fresh
cache and twice with what the run before left there, on `examples/matmul.py` with a larger space:
1,698 valid configurations at each of three shapes.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from solkit import Surrogate
from solkit.core import Binding, Depth, Facts, KernelAnalysis, Launch, TensorLayout
from solkit.datasets.kernels import ZOO
from solkit.roofline.devices import find
from solkit.surrogate.features import (
    ROUGH_GAP,
    Candidates,
    Problem,
    feature_matrix,
    features_of_problems,
    rough_log2_factor,
)
from solkit.surrogate.launch_calls import program_of_text

CANDIDATES = 20_000

_LARGER = {
    '"BLOCK_M": [64, 128, 256]': '"BLOCK_M": [32, 64, 128, 256]',
    '"BLOCK_N": [64, 128, 256]': '"BLOCK_N": [32, 64, 128, 256]',
    '"BLOCK_K": [32, 64, 128]': '"BLOCK_K": [16, 32, 64, 128]',
    '"num_warps": [4, 8]': '"num_warps": [2, 4, 8]',
}
"""Parts of the example's space, and what takes their place."""


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
    candidates = space(CANDIDATES)
    trees = model.trees(Depth.CAPTURED)
    for _ in range(2):  # the text is followed once
        start = time.perf_counter()
        (columns,) = features_of_problems([(problem, device, candidates)])
        values = feature_matrix(columns, trees.names)
        base_ms = problem.sol_ms * 2.0 ** rough_log2_factor(columns[ROUGH_GAP])
        trees.forecasts_of(values, trees.believed(values, np.zeros(CANDIDATES, bool)), base_ms)
        rate = CANDIDATES / (time.perf_counter() - start)
    members = f"ensemble of {len(trees.members)}, with intervals"
    print(f"captured, {members}: {rate:,.0f} candidates a second")


def space(number: int) -> Candidates:
    """Launches of a matrix product, drawn at random."""
    random = np.random.default_rng(0)
    tiles = 2 ** random.integers(4, 9, (number, 3))
    warps, stages = 2 ** random.integers(0, 5, number), random.integers(1, 6, number)
    grid = np.stack([4096 // tiles[:, 0], 8192 // tiles[:, 1], np.ones(number)], axis=1)
    source = (ZOO / "gemm" / "naive.py").read_text()
    program = program_of_text(source, "naive_kernel")
    tensor = Binding("tensor", tensor=TensorLayout("fp16", 2, (4096, 4096), (4096, 1)))
    rows, columns = Binding("scalar", 4096), Binding("scalar", 8192)
    shared = dict.fromkeys(("a", "b", "c"), tensor) | {"M": rows, "N": columns, "K": rows}
    shared |= dict.fromkeys(("stride_am", "stride_bk", "stride_cm"), columns)
    shared |= dict.fromkeys(("stride_ak", "stride_bn", "stride_cn"), Binding("constant", 1))
    shared |= {"ROWS_FIRST": Binding("constant", False)}
    records = [
        Launch(
            "naive_kernel",
            (int(blocks[0]), int(blocks[1]), 1),
            int(w),
            int(s),
            program=program,
            arguments=shared
            | {
                name: Binding("constant", int(size))
                for name, size in zip(("TILE_M", "TILE_N", "TILE_K"), tile, strict=True)
            },
        )
        for blocks, w, s, tile in zip(grid, warps, stages, tiles, strict=True)
    ]
    return Candidates([[KernelAnalysis(Facts(launch))] for launch in records])


def time_command(options: list[str]) -> None:
    """Time `solkit rank` of the larger space with a fresh and with a filled cache."""
    with tempfile.TemporaryDirectory() as folder:
        text = (Path(__file__).parents[1] / "examples" / "matmul.py").read_text()
        for part, larger in _LARGER.items():
            assert part in text, part
            text = text.replace(part, larger)
        kernel = Path(folder, "matmul.py")
        kernel.write_text(text)
        command = [
            sys.executable,
            "-m",
            "solkit",
            "rank",
            str(kernel),
            "--device",
            "h200",
            *options,
        ]
        for cache in ("one", "one", "two", "two"):
            environment = {**os.environ, "SOLKIT_CACHE": str(Path(folder, cache))}
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
            wall_s = time.perf_counter() - start
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"cache {cache}: {wall_s:.1f} s, {cpu_s:.1f} CPU s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        time_command(sys.argv[2:])
    else:
        main()
