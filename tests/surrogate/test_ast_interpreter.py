"""What a kernel's text says of one block, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from solkit.core import Launch
from solkit.surrogate.ast_interpreter import Call, interpret_block
from solkit.surrogate.launch_calls import calls_of_launches, program_of_text
from solkit.surrogate.program_values import Value

PRODUCT = """
import triton, triton.language as tl

STEP = tl.constexpr(2)

@triton.jit
def tile(ptr, rows, columns, stride):
    return tl.load(ptr + rows[:, None] * stride + columns[None, :])

@triton.jit
def product(x_ptr, w_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            MODE: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        depth = k + tl.arange(0, BK)
        x, w = tile(x_ptr, rows, depth, K), tile(w_ptr, depth, columns, N)
        acc = tl.dot(x, w, acc)
    if MODE == "exp":
        acc = tl.exp(acc)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], acc)
"""

GATHER = """
@triton.jit
def gather(index_ptr, x_ptr, out_ptr, begin_ptr, N, BLOCK: tl.constexpr):
    begin = tl.load(begin_ptr + tl.program_id(0))
    for at in range(begin, tl.load(begin_ptr + tl.program_id(0) + 1), BLOCK):
        lane = at + tl.arange(0, BLOCK)
        index = tl.load(index_ptr + lane)
        tl.atomic_add(out_ptr + index, tl.load(x_ptr + lane * 4), mask=lane < N)
"""

SIZES = {"M": 512.0, "N": 1024.0, "K": 256.0}
ONE = (1.0, 1.0, 1.0)
NARROW = dict.fromkeys(("x_ptr", "w_ptr", "out_ptr"), 2.0)


def follow(text, name, arguments, widths, grid=ONE):
    """Follow a function of a file; numbers of several candidates are lists."""
    values = {}
    for key, value in arguments.items():
        if isinstance(value, list):
            values[key] = Value(np.array(value, float)[:, None], is_integer=True)
        else:
            values[key] = Value(value, is_integer=True)
    pointers = {key: Value(0.0, width=width, kind="pointer") for key, width in widths.items()}
    return interpret_block(Call(program_of_text(text, name), values | pointers, grid))


def product(mode="", **changes):
    tiles = {"BM": [64, 128], "BN": [32, 32], "BK": [64, 16]}
    told = SIZES | tiles | {"MODE": mode} | changes
    grid = (np.array([[8.0], [4.0]]), 32.0, 1.0)
    return follow(PRODUCT, "product", told, NARROW, grid)


def of(block, kind):
    return [event for event in block.events if event.kind == kind]


def test_the_tiles_of_a_product_are_those_that_it_loads_each_trip():
    block = product()
    x, w = of(block, "load")
    np.testing.assert_array_equal(x.elements, [64 * 64, 128 * 16])  # BM x BK
    np.testing.assert_array_equal(w.elements, [64 * 32, 16 * 32])  # BK x BN
    np.testing.assert_array_equal(x.times, [4, 16])  # K / BK
    assert x.width == 2
    np.testing.assert_array_equal(x.run, [64, 16])  # along K
    np.testing.assert_array_equal(w.run, [32, 32])  # along N
    (dot,) = of(block, "dot")
    np.testing.assert_array_equal(dot.elements * dot.times, [64 * 32 * 256, 128 * 32 * 256])
    np.testing.assert_array_equal(dot.staged, [2 * 64 * (64 + 32), 2 * 16 * (128 + 32)])
    (store,) = of(block, "store")
    np.testing.assert_array_equal(store.elements, [64 * 32, 128 * 32])
    assert store.times == 1
    np.testing.assert_array_equal(block.largest, [64 * 64, 128 * 32])
    (carried,) = of(block, "carried")
    np.testing.assert_array_equal(carried.elements, [64 * 32, 128 * 32])  # the sums


def test_a_branch_counts_where_it_is_taken():
    assert not of(product(), "slow")
    (slow,) = of(product("exp"), "slow")
    np.testing.assert_array_equal(slow.elements, [64 * 32, 128 * 32])
    (slow,) = of(product(np.array([[""], ["exp"]], object)), "slow")
    np.testing.assert_array_equal(slow.times, [0, 1])


def test_a_size_that_is_not_known_leaves_the_trips_open():
    loads = of(product(K=np.nan), "load")
    assert all(each.unknown == 1 for each in loads)
    np.testing.assert_array_equal(loads[0].elements, [64 * 64, 128 * 16])


def test_what_data_decide_has_no_known_place():
    widths = {"index_ptr": 4.0, "x_ptr": 2.0, "out_ptr": 4.0, "begin_ptr": 4.0}
    block = follow(GATHER, "gather", {"BLOCK": 128.0}, widths, (8.0, 1.0, 1.0))
    index, x = of(block, "load")[-2:]
    assert (index.run, index.unknown) == (128, 1)  # neighbours, in a loop whose end is loaded
    assert x.run == 1  # four apart
    (atomic,) = of(block, "atomic")
    assert np.isnan(atomic.run)
    assert atomic.elements == 128


def test_a_flat_index_that_is_taken_apart_still_runs_on():
    text = """
@triton.jit
def copy(x_ptr, out_ptr, W, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at % W * 4, tl.load(x_ptr + at // W * 4096 + at % W))
"""
    widths = {"x_ptr": 4.0, "out_ptr": 4.0}
    block = follow(text, "copy", {"BLOCK": 128.0, "W": 64.0}, widths)
    assert [(event.kind, event.run) for event in block.events if event.kind != "integer"] == [
        ("load", 128),
        ("store", 1),
    ]


def test_a_sort_counts_its_rounds():
    text = "@triton.jit\ndef order(x_ptr):\n    tl.sort(tl.load(x_ptr + tl.arange(0, 256)))"
    block = follow(text, "order", {}, {"x_ptr": 4.0})
    (fast,) = of(block, "fast")
    assert fast.elements == 4 * 36 * 256  # 8 * 9 / 2 rounds


def test_a_descriptor_has_the_tile_of_its_type():
    text = (
        "@triton.jit\ndef copy(x_tiles, y_tiles):\n    y_tiles.store([0, 0], x_tiles.load([0, 0]))"
    )
    kinds = [f"tensordesc<bf16[{rows}, 64]>" for rows in (8, 16)]
    launches = [
        Launch("copy", (1, 1, 1), 4, 3, signature=dict.fromkeys(("x_tiles", "y_tiles"), kind))
        for kind in kinds
    ]
    ((_, call),) = calls_of_launches(launches, [text, text])
    block = interpret_block(call)
    assert [event.kind for event in block.events] == ["load", "store"]
    for event in block.events:
        np.testing.assert_array_equal(event.elements, [8 * 64, 16 * 64])
        np.testing.assert_array_equal(event.run, 64)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def product(): pass",  # not Triton's
        "def broken(:",
        "@triton.jit\ndef other(): pass",
    ],
)
def test_what_is_not_there_is_none(text):
    assert program_of_text(text, "product") is None


def test_a_function_that_calls_itself_ends():
    text = "@triton.jit\ndef again(n):\n    again(n)\n    again(n)\n    return again(n)"
    assert follow(text, "again", {}, {}) is not None
