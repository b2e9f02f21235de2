"""Constants that only say which program computes an element, on IR of the real compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.driver import driver as triton_driver

from solkit.adapters import fake_triton
from solkit.adapters.live_calls import RequestedLaunch
from solkit.adapters.tilings import MOST_ELEMENTS, retiled_grid
from solkit.integrations.launch_spaces import launch_space
from solkit.integrations.launch_tiles import find_tile
from solkit.roofline import devices

N, B = 4096, 256
HAS_BLOCK_POINTERS = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9)


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    monkeypatch.setattr(triton_driver, "_active", fake_triton.fake_driver(devices.find("h200")))


@triton.jit
def index_of(BLOCK: tl.constexpr):
    return tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)


@triton.jit
def masked(x, out, n, BLOCK: tl.constexpr):
    at = index_of(BLOCK)
    tl.store(out + at, tl.exp(tl.load(x + at, mask=at < n)), mask=at < n)


@triton.jit
def strided(x, out, n, BLOCK: tl.constexpr):
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    tl.store(out + at * n, tl.load(x + at % n) + at)


@triton.jit
def in_blocks(x, out, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    source = tl.make_block_ptr(x, (n,), (1,), (start,), (BLOCK,), (0,))
    target = tl.make_block_ptr(out, (n,), (1,), (start,), (BLOCK,), (0,))
    tl.store(target, -tl.load(source, boundary_check=(0,)), boundary_check=(0,))


@triton.jit
def batched(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * n
    tl.store(out + row + at, tl.load(x + row + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def advanced(x, out, BLOCK: tl.constexpr):
    x += tl.program_id(0) * BLOCK
    out += tl.program_id(0) * BLOCK
    lanes = tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes))


@triton.jit
def in_rows(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    tl.store(out + row + lanes, tl.load(x + row + lanes))


@triton.jit
def partial_sums(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + at), axis=0))


@triton.jit
def seeded(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + tl.program_id(0))


@triton.jit
def lanes_alone(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + tl.arange(0, BLOCK))


@triton.jit
def scaled_by_block(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * BLOCK)


@triton.jit
def over_programs(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + tl.num_programs(0))


@triton.jit
def in_steps(x, out, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def counted(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + at % n, tl.load(x + at))


@triton.jit
def reversed_in_blocks(x, out, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    tl.store(
        out + start + tl.arange(0, BLOCK), tl.load(x + start + BLOCK - 1 - tl.arange(0, BLOCK))
    )


@triton.jit
def overlapping(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * (BLOCK - 2) + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def few_programs(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int8).to(tl.int32) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def rolled_in_place(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + (at + 1) % n))


@triton.jit
def counting_calls(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    calls = tl.load(x)
    tl.store(out + at, calls)
    tl.store(x, calls + 1)


@triton.jit
def one_hot(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 0.0)
    tl.store(out + tl.load(x + at).to(tl.int32), 1.0)


@triton.jit
def one_of_two(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(tl.where(at < n, x, out) + at + 1))


@triton.jit
def pairs(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real, imaginary = tl.load(x + 2 * at), tl.load(x + 2 * at + 1)
    tl.store(out + 2 * at, -imaginary)
    tl.store(out + 2 * at + 1, real)


@triton.jit
def overlapping_pairs(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + 2 * at, tl.load(x + at))
    tl.store(out + 2 * at + 2, 0.0)


@triton.jit
def positive(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) > 0)


@triton.jit
def in_place(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + (at + n).to(tl.int8), mask=at < n)


@triton.jit
def at_most_512(x, out, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 512)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def counted_blocks(x, out, blocks, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < blocks * BLOCK, other=0.0))


@triton.jit
def last_block(x, out, blocks, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at), mask=tl.program_id(0) < blocks - 1)


@triton.jit
def a_size_beside(x, out, blocks, BLOCK: tl.constexpr):
    at = tl.program_id(0) * blocks + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def a_whole_beside(x, out, blocks, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + blocks)


@triton.jit
def random_by_program(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * tl.rand(tl.program_id(0), tl.arange(0, BLOCK)))


@triton.jit
def assumed_programs(x, out, BLOCK: tl.constexpr):
    tl.assume(tl.program_id(0) < 16)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def neighbours(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + (at + 1) % n))


def launch_request(kernel, grid=(N // B,), block=B, arguments=(), **options):
    x = torch.zeros(N, dtype=torch.float32)
    out = torch.empty_like(x, dtype=torch.bool if kernel is positive else None)
    values = {"x": x, "out": out, "n": N, "blocks": N // B, "BLOCK": block, **dict(arguments)}
    values = {name: values[name] for name in kernel.arg_names}
    return RequestedLaunch(kernel, grid, values, ("BLOCK",), {"num_warps": 4}, **options)


CASES = [
    (masked, (N // B,), 0),
    (strided, (N // B, 1, 1), 0),
    *([(in_blocks, (N // B,), 0)] if HAS_BLOCK_POINTERS else []),
    (batched, (8, N // B), 1),
    (advanced, (N // B,), 0),
    (in_place, (N // B,), 0),
    (pairs, (N // B,), 0),
    (positive, (N // B,), 0),
]


def outputs_in_interpreter(kernel, grid, axis, block):
    """Run a kernel on the CPU with a block, and the grid that follows."""
    x = torch.arange(8 * N, dtype=torch.float32) / N
    out = torch.full((N * N,) if kernel is strided else (8 * N,), -1.0)
    x = out if kernel is in_place else x
    out = out > 0 if kernel is positive else out
    arguments = {"x": x, "out": out, "n": N, "BLOCK": block}
    kernel[retiled_grid(grid, axis, B, block)](**{n: arguments[n] for n in kernel.arg_names})
    return out


@pytest.mark.slow
def test_the_interpreter_computes_the_same_with_every_value():
    """Another reading of the kernels: the compiler is not asked."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import torch, test_launch_tiles as tiles\n"
        "for case in tiles.CASES:\n"
        "    want, *others = (tiles.outputs_in_interpreter(*case, b) for b in (256, 64, 2048))\n"
        "    assert (want != -1).any() and want.any()\n"
        "    assert all(torch.equal(want, out) for out in others)\n"
        "print(len(tiles.CASES))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.strip() == str(len(CASES)), ran.stderr[-2000:]


@pytest.mark.parametrize(("kernel", "grid", "axis"), CASES)
def test_a_constant_that_only_cuts_the_elements_is_found_with_its_axis(kernel, grid, axis):
    tile = find_tile(launch_request(kernel, grid), None)
    assert (tile.name, tile.axis) == ("BLOCK", axis)
    assert tile.values == (256, 64, 128, 512, 1024, 2048, 4096)  # each divides 4,096


@pytest.mark.parametrize(
    "kernel",
    [
        *(in_rows, partial_sums, seeded, lanes_alone, scaled_by_block, over_programs, in_steps),
        *(counted, reversed_in_blocks, overlapping, few_programs),
        *(rolled_in_place, counting_calls, one_hot, one_of_two, overlapping_pairs),
        *(counted_blocks, last_block, a_size_beside, random_by_program, assumed_programs),
    ],
)
def test_what_depends_on_borders_between_programs_is_no_tile(kernel):
    assert find_tile(launch_request(kernel), None) is None


def test_a_number_of_blocks_that_only_counts_as_a_number_changes_nothing():
    assert find_tile(launch_request(a_whole_beside), None).values[:3] == (256, 64, 128)


@triton.jit
def as_long_as_its_square(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK * BLOCK + tl.arange(0, BLOCK * BLOCK)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def at_most_256_of_them(x, out, BLOCK: tl.constexpr):
    LANES: tl.constexpr = min(BLOCK, 256)
    at = tl.program_id(0) * LANES + tl.arange(0, LANES)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def two_blocks(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
    tl.store(out + at, tl.load(x + at))


def test_elements_of_a_program_are_as_many_times_more_as_the_constant():
    """The grid is divided by what the constant is multiplied by."""
    assert find_tile(launch_request(as_long_as_its_square, block=32), None) is None
    assert find_tile(launch_request(at_most_256_of_them), None).values == (256, 64, 128)
    assert find_tile(launch_request(two_blocks), None).values[:3] == (256, 64, 128)


POOL = torch.zeros(N + 1)


@pytest.mark.parametrize("kernel", [masked, strided, neighbours])
def test_an_output_that_overlaps_an_input_leaves_the_order_to_the_blocks(kernel):
    """The borders decide whether an element is read before its neighbour is written."""
    shifted = {"x": POOL[:N], "out": POOL[1:]}
    assert find_tile(launch_request(kernel, arguments=shifted), None) is None


HALVES = torch.zeros(2 * N)


@pytest.mark.parametrize("kernel", [masked, strided, neighbours])
def test_views_of_one_buffer_are_apart_if_the_elements_keep_them_apart(kernel):
    halves = {"x": HALVES[:N], "out": HALVES[N:]}
    assert find_tile(launch_request(kernel, arguments=halves), None).axis == 0
    less = {"x": HALVES[1:], "out": HALVES[N:]}
    assert find_tile(launch_request(kernel, arguments=less), None) is None


def test_views_that_the_grid_reaches_beyond_are_not_apart():
    halves = {"x": HALVES[:N], "out": HALVES[N:]}
    more = (N // B + 1,)
    assert find_tile(launch_request(masked, more, arguments=halves), None).axis == 0  # masked off
    assert find_tile(launch_request(advanced, arguments=halves), None).axis == 0
    assert find_tile(launch_request(advanced, more, arguments=halves), None) is None


def test_what_works_in_place_is_proved_as_one_buffer():
    same = {"x": POOL, "out": POOL}
    assert find_tile(launch_request(masked, arguments=same), None).axis == 0
    assert find_tile(launch_request(neighbours), None).axis == 0
    assert find_tile(launch_request(neighbours, arguments=same), None) is None


def test_a_value_that_the_kernel_refuses_leaves_the_others():
    assert find_tile(launch_request(at_most_512), None).values == (256, 64, 128, 512)


def test_only_grids_that_compute_the_same_elements_are_offered():
    answers = launch_space(launch_request(masked, (6,))).answers  # 1,536 elements
    assert {answer.choice[0]: answer.grid for answer in answers} == {
        **{256: (6,), 64: (24,), 128: (12,), 512: (3,)}
    }


def test_a_grid_that_is_a_function_is_only_asked_about_the_constant_in_use():
    seen = []

    def grid(meta):
        seen.append(meta["BLOCK"])
        return (triton.cdiv(meta["n"], meta["BLOCK"]),)

    space = launch_space(launch_request(masked, grid))
    assert set(seen) == {B}
    assert space.tiles == ("BLOCK",)
    assert {e.choice: e.grid for e in space.answers}[(1024,)] == (4,)


@pytest.mark.parametrize("changes", [{"launcher": "inductor"}, {"heuristics": {"BLOCK": abs}}])
def test_constants_of_others_stay(changes):
    assert find_tile(launch_request(masked, **changes), None) is None


def test_a_users_kernel_in_inductors_program_keeps_its_list():
    listed = ({"BLOCK": 256, "num_warps": 4}, {"BLOCK": 512, "num_warps": 8})
    space = launch_space(launch_request(masked, launcher="inductor", configs=listed))
    assert list(space.space) == ["BLOCK", "num_warps"]
    assert set(space.configs) == {(256, 4), (512, 8)}


def test_inductors_blocks_are_no_smaller_than_its_text_takes():
    @triton.jit
    def kernel(x, out, xnumel, XBLOCK: tl.constexpr):
        at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < xnumel), mask=at < xnumel)

    x = torch.zeros(N)
    values = {"x": x, "out": x, "xnumel": N, "XBLOCK": B}
    grid = lambda meta: (N // meta["XBLOCK"],)  # noqa: E731
    launch = RequestedLaunch(kernel, grid, values, ("XBLOCK",), launcher="inductor")
    assert min(launch_space(launch).space["XBLOCK"]) == 64
    least = replace(launch, least={"XBLOCK": 128})
    assert min(launch_space(least).space["XBLOCK"]) == 128


def test_a_grid_follows_only_if_the_elements_stay_the_same_number():
    assert retiled_grid((8, 3), 0, 128, 256) == (4, 3)
    assert retiled_grid((8,), 2, 64, 32) == (8, 1, 2)
    assert retiled_grid((7,), 0, 128, 256) is None
    assert retiled_grid((2**24,), 0, 128, 64) is None  # 2**31 elements
    assert retiled_grid((MOST_ELEMENTS,), 0, 1, 1) == (MOST_ELEMENTS,)
    assert retiled_grid((1, 40_000), 1, 128, 64) is None  # CUDA takes 65,535 programs in y
    assert retiled_grid((40_000, 1), 0, 128, 64) == (80_000, 1)
