"""Tuned rows of a fused MoE and of a softmax, to emit."""

from __future__ import annotations

from tuning_rows import row

from solkit.tuner.tuning_results import results_of_runs

BEST = {
    "BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128,
    "GROUP_SIZE_M": 8, "num_warps": 4, "num_stages": 3,
}  # fmt: skip
SHAPE = {"M": 16, "E": 8, "N": 7168, "K": 4096, "dtype": "bfloat16"}
H200 = {"device": "h200", "device_name": "NVIDIA H200"}


def tuned(times, run="run", shape=SHAPE, **fields):
    """Findings at batch sizes; `times`: by M, the time in ms by BLOCK_SIZE_M."""
    rows = [
        row({**BEST, "BLOCK_SIZE_M": block}, time_ms, place=1000 * m + block, run=run,
            shape={**shape, "M": m}, **{**H200, **fields})
        for m, blocks in times.items()
        for block, time_ms in blocks.items()
    ]  # fmt: skip
    return results_of_runs(rows)


def three_sizes():
    """Three batch sizes with configurations of their own."""
    return tuned({1: {16: 1.0, 64: 2.0}, 32: {16: 3.0, 32: 1.5}, 1024: {32: 9.0, 128: 5.0}})
