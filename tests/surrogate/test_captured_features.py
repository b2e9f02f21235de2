"""Features of a block's tiles, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthetic import KERNEL

from solkit.core import Binding, Facts, KernelAnalysis, KernelModel, Launch, TensorLayout, Term
from solkit.roofline.devices import find
from solkit.surrogate.features import (
    Candidates,
    Problem,
    features_of_problems,
)

H100 = find("h100")
SIZE = 1 << 20
PROBLEM = Problem(1e-3, "dram", {"fp32": SIZE}, 4 * SIZE, 4 * SIZE, {"N": SIZE})
TYPES = {"x_ptr": "*fp32", "out_ptr": "*fp32", "N": "i32", "BLOCK": "constexpr"}


def kernel(block, warps, name="double", store=""):
    return [KernelAnalysis(Facts(recorded(block, SIZE // block, warps, name, store)))]


def recorded(block, blocks, warps=4, name="double", store=""):
    """A launch with all of its arguments."""
    row = TensorLayout("fp32", 4, (SIZE,), (1,))
    arguments = {
        "x_ptr": Binding("tensor", tensor=row),
        "out_ptr": Binding("tensor", tensor=row),
        "N": Binding("scalar", SIZE),
        "BLOCK": Binding("constant", block),
        "STORE": Binding("constant", store),
    }
    return Launch(name, (blocks, 1, 1), warps, 3, signature=TYPES, arguments=arguments)


def tile_features(kernels, sources):
    features = features_of_problems([(PROBLEM, H100, Candidates(kernels, sources))])[0]
    return {
        name.partition(".")[2]: col for name, col in features.items() if name.startswith("tiles.")
    }


def test_a_copy_moves_what_it_must_in_whole_runs():
    result = tile_features([kernel(512, 4), kernel(1024, 2)], [KERNEL] * 2)
    np.testing.assert_allclose(result["load_traffic"], 0, atol=1e-6)
    np.testing.assert_allclose(result["store_traffic"], 0, atol=1e-6)
    np.testing.assert_allclose(result["load_run"], 9)  # 512 bytes: a warp's widest access
    np.testing.assert_allclose(result["loaded_per_trip"], np.log2([16, 64]))  # bytes of a thread
    np.testing.assert_allclose(result["largest_per_thread"], np.log2([4, 16]))
    # an SM's 2,048 threads hold 16 blocks of 4 warps; its 65,536 registers 25 of 2 warps, if 16
    # elements take a register each of a thread, and all else 24
    np.testing.assert_allclose(result["waves"], np.log2([2048 / 132 / 16, 1024 / 132 / 25]))


def test_a_partly_filled_last_tile_moves_what_its_mask_lets_through():
    result = tile_features([[KernelAnalysis(Facts(recorded(2 * SIZE, 1)))]], [KERNEL])
    np.testing.assert_allclose(result["load_traffic"], 0)


def test_candidates_of_several_files_keep_their_own():
    other = KERNEL.replace("tl.load(x_ptr + at,", "tl.load(x_ptr + at * 16,").replace(
        "double", "spread"
    )
    kernels = [kernel(512, 4), kernel(512, 4, "spread"), kernel(512, 4), kernel(512, 4)]
    result = tile_features(kernels, [KERNEL, other, "", "#include <cuda.h>"])
    np.testing.assert_allclose(result["load_run"], [9, 2, np.nan, np.nan])
    np.testing.assert_allclose(result["load_sectors"][:2], [0, 3])  # a sector of 32 bytes for 4


def test_launches_of_a_call_count_together():
    twice = [*kernel(512, 4), *kernel(512, 4)]
    often = [KernelAnalysis(Facts(replace(kernel(512, 4)[0].launch, count=3)))]
    result = tile_features([kernel(512, 4), twice, often], [KERNEL] * 3)
    np.testing.assert_allclose(result["load_traffic"], 0, atol=1e-6)  # of the main launch, once
    np.testing.assert_allclose(result["all_traffic"], np.log2([1, 2, 3]), atol=1e-6)
    # a wave of blocks waits 0.7 us for its load; 2 us lie between launches; the speed of light is
    # 1 us, and nothing is faster
    np.testing.assert_allclose(2 ** result["all_gap"], [1, 2 * 0.7 + 2, 3 * 0.7 + 2 * 2])


def test_without_sources_there_are_no_tiles():
    assert tile_features([kernel(512, 4)], []) == {}


@pytest.mark.parametrize("number", [1, 100])
def test_many_candidates_are_followed_together(number):
    blocks = [256 << (place % 4) for place in range(number)]
    result = tile_features([kernel(block, 4) for block in blocks], [KERNEL] * number)
    np.testing.assert_allclose(result["largest_per_thread"], np.log2(np.array(blocks) / 128))


TILED = """
@triton.jit
def tiled(x_ptr, out_ptr, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, WAYS: tl.constexpr):
    if WAYS == 2:
        at = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, BLOCK)[None, :]
    else:
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for step in tl.range(0, N, BLOCK, num_stages=WAYS):
        x = tl.load(x_ptr + at + step, mask=at < N, other=0.0)
        if WAYS == 3:
            tl.atomic_add(out_ptr + at, tl.exp(x))
        else:
            tl.store(out_ptr + at, x)
"""


def tiled(rows, block, ways, size):
    tensor = TensorLayout("fp32", 4, (size,), (1,))
    numbers = {"ROWS": rows, "BLOCK": block, "WAYS": ways}
    arguments = {name: Binding("tensor", tensor=tensor) for name in ("x_ptr", "out_ptr")}
    arguments |= {"N": Binding("scalar", size)}
    arguments |= {name: Binding("constant", number) for name, number in numbers.items()}
    launch = Launch("tiled", (64, 1, 1), 4, 3, signature=TYPES, arguments=arguments)
    return [KernelAnalysis(Facts(launch))]


def test_a_candidates_features_are_its_own_whatever_else_is_asked():
    cases = [
        (tiled(rows, block, ways, size), replace(PROBLEM, sol_ms=sol_ms), device)
        for rows, block, ways in ((1, 256, 1), (4, 64, 2), (8, 64, 2), (1, 512, 3), (1, 64, 1))
        for size, sol_ms, device in ((4096, 1e-3, H100), (4100, 2e-3, find("h200")))
    ]
    tasks = [
        (problem, device, Candidates([kernels, tiled(1, 128, 1, 4096)], [TILED] * 2))
        for kernels, problem, device in cases
    ]
    for columns, (kernels, problem, device) in zip(features_of_problems(tasks), cases, strict=True):
        alone = features_of_problems([(problem, device, Candidates([kernels], [TILED]))])[0]
        for name in columns.keys() | alone.keys():
            np.testing.assert_array_equal(
                columns.get(name, [np.nan])[0], alone.get(name, [np.nan])[0], name
            )


def test_the_main_launch_is_the_one_whose_program_takes_longest():
    many = KERNEL + KERNEL.replace("double", "strided").replace("at,", "at * 64,")
    small = kernel(512, 4, "double")[0]  # 2,048 blocks that touch each byte once
    slow = kernel(1024, 2, "strided")[0]  # 1,024 blocks; each element in a sector of its own
    modelled = replace(small, model=KernelModel(1.0, (Term("dram", 1.0, ""),)))
    candidates = Candidates([[small, slow], [slow, small], [small], [modelled, slow]], [many] * 4)
    columns = features_of_problems([(PROBLEM, H100, candidates)])[0]
    np.testing.assert_allclose(columns["geometry.warps"], [1, 1, 2, 2])
    np.testing.assert_allclose(columns["geometry.blocks"], [10, 10, 11, 11])
    np.testing.assert_allclose(columns["tiles.load_sectors"], [3, 3, 0, 0], atol=1e-6)
    np.testing.assert_allclose(columns["tiles.all_traffic"], [1, 1, 0, 1], atol=1e-6)
