"""What a kernel's text says of one block, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from solkit.core import Binding, Launch, TensorLayout
from solkit.surrogate.ast_interpreter import Call, interpret_block, interpret_blocks
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
    result = SIZES | tiles | {"MODE": mode} | changes
    grid = (np.array([[8.0], [4.0]]), 32.0, 1.0)
    return follow(PRODUCT, "product", result, NARROW, grid)


def of(block, kind):
    return [event for event in block.events if event.kind == kind]


def test_the_tiles_of_a_product_are_those_that_it_loads_each_trip():
    block = product()
    x, w = of(block, "load")
    np.testing.assert_array_equal(x.elements, [64 * 64, 128 * 16])  # BM x BK
    np.testing.assert_array_equal(w.elements, [64 * 32, 16 * 32])  # BK x BN
    np.testing.assert_array_equal(x.times, [4, 16])  # K / BK
    assert x.width == 2
    np.testing.assert_array_equal(x.details.run, [64, 16])  # along K
    np.testing.assert_array_equal(w.details.run, [32, 32])  # along N
    (dot,) = of(block, "dot")
    np.testing.assert_array_equal(dot.elements * dot.times, [64 * 32 * 256, 128 * 32 * 256])
    np.testing.assert_array_equal(dot.details.staged, [2 * 64 * (64 + 32), 2 * 16 * (128 + 32)])
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


def test_candidates_that_decide_differently_are_followed_apart():
    text = """
@triton.jit
def tile(x_ptr, B: tl.constexpr, ROWS: tl.constexpr):
    if ROWS > 1:
        index = tl.arange(0, ROWS)[:, None] * 512 + tl.arange(0, B)[None, :]
    else:
        index = tl.arange(0, B) * 4
    tl.load(x_ptr + index)
"""
    numbers = {"B": [64, 64, 32], "ROWS": [4, 1, 4]}
    values = {key: Value(np.array(n, float)[:, None]) for key, n in numbers.items()}
    pointer = Value(0.0, width=4.0, kind="pointer")
    call = Call(program_of_text(text, "tile"), values | {"x_ptr": pointer}, ONE)
    parts = list(interpret_blocks(call, 3))
    by_rows = {tuple(rows): of(block, "load")[0] for rows, block in parts}
    assert sorted(by_rows) == [(0, 2), (1,)]
    np.testing.assert_array_equal(by_rows[0, 2].elements, [4 * 64, 4 * 32])
    np.testing.assert_array_equal(by_rows[0, 2].details.run, [64, 32])
    assert (by_rows[1,].elements, by_rows[1,].details.run) == (64, 1)


def test_a_size_that_is_not_known_leaves_the_trips_open():
    loads = of(product(K=np.nan), "load")
    assert all(np.all(load.unknown == 1) for load in loads)
    np.testing.assert_array_equal(loads[0].elements, [64 * 64, 128 * 16])


def test_what_data_decide_has_no_known_place():
    widths = {"index_ptr": 4.0, "x_ptr": 2.0, "out_ptr": 4.0, "begin_ptr": 4.0}
    block = follow(GATHER, "gather", {"BLOCK": 128.0}, widths, (8.0, 1.0, 1.0))
    index, x = of(block, "load")[-2:]
    assert (index.details.run, index.unknown) == (
        128,
        1,
    )  # neighbours, in a loop whose end is loaded
    assert x.details.run == 1  # four apart
    (atomic,) = of(block, "atomic")
    assert np.isnan(atomic.details.run)
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
    assert [
        (event.kind, event.details.run) for event in block.events if event.kind != "integer"
    ] == [
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
        np.testing.assert_array_equal(event.details.run, 64)


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


HEAD = "import triton\nimport triton.language as tl\n\n@triton.jit\n"


def loads(body, widths=None, grid=ONE, **arguments):
    """Elements and times of the loads of a kernel ``work(x_ptr, y_ptr, N, B)``."""
    text = HEAD + "def work(x_ptr, y_ptr, N, B: tl.constexpr):\n"
    text += "".join(f"    {line}\n" for line in body.strip().splitlines())
    block = follow(text, "work", arguments, widths or {"x_ptr": 4.0, "y_ptr": 4.0}, grid)
    return of(block, "load"), block


def test_the_last_trip_of_a_loop_counts_what_its_mask_lets_through():
    (load,), _ = loads(
        "for k in range(0, N, B):\n"
        "    tl.load(x_ptr + k + tl.arange(0, B), k + tl.arange(0, B) < N)",
        N=700,
        B=512,
    )
    assert load.times == 2
    assert load.elements * load.times == pytest.approx(700)  # 512 and 188


def test_a_causal_loop_is_longer_for_later_programs():
    (load,), _ = loads(
        "for k in range(0, (tl.program_id(0) + 1) * B, B):\n    tl.load(x_ptr + tl.arange(0, B))",
        grid=(8.0, 1.0, 1.0),
        B=64,
    )
    assert load.times == pytest.approx(4.5)  # 1 to 8


def test_programs_that_return_early_do_nothing():
    (load,), _ = loads(
        "if tl.program_id(0) * B >= N:\n    return\ntl.load(x_ptr + tl.arange(0, B))",
        grid=(16.0, 1.0, 1.0),
        N=12 * 64,
        B=64,
    )
    assert load.times == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("change", "start", "test", "trips"),
    [
        ("//= 2", 16, "step > 0", 5),  # 16, 8, 4, 2, 1
        ("*= 2", 1, "step < 100", 7),  # 1 to 64
        ("+= 3", 0, "step <= 9", 4),  # 0, 3, 6, 9
        ("-= 4", 10, "step > 0", 3),  # 10, 6, 2
        ("-= 1", 0, "step > 0", 0),
    ],
)
def test_a_while_loop_ends_when_its_condition_fails(change, start, test, trips):
    body = f"step = {start}\nwhile {test}:\n    tl.load(x_ptr + tl.arange(0, B))\n    step {change}"
    every, _ = loads(body, B=32)
    assert sum(float(load.times) for load in every) == trips


def test_masks_of_both_sides_leave_what_lies_between():
    (load,), _ = loads(
        "at = tl.arange(0, B)\ntl.load(x_ptr + at, (at <= 10) & (at > 10 - 4))", B=16
    )
    assert load.elements == pytest.approx(4)  # 7, 8, 9, 10


def test_a_triangle_lets_half_through():
    (load,), _ = loads(
        "i = tl.arange(0, B)\n"
        "tl.load(x_ptr + i[:, None] * B + i[None, :], i[:, None] >= i[None, :])",
        B=64,
    )
    assert load.elements == pytest.approx(64 * 65 / 2, rel=0.02)


def test_integers_that_are_known_bound_loops():
    offsets = TensorLayout("i32", 4, (5,), (1,), contents=(0, 3, 8, 8, 16))
    bindings = {"x_ptr": Binding("tensor", tensor=TensorLayout("fp32", 4, (16,), (1,)))}
    bindings |= {"y_ptr": Binding("tensor", tensor=offsets), "B": Binding("constant", 1)}
    text = HEAD + (
        "def work(x_ptr, y_ptr, B: tl.constexpr):\n"
        "    begin = tl.load(y_ptr + tl.program_id(0))\n"
        "    for at in range(begin, tl.load(y_ptr + tl.program_id(0) + 1), B):\n"
        "        tl.load(x_ptr + at + tl.arange(0, 32))\n"
    )
    launch = Launch("work", (4, 1, 1), 4, 3, arguments=bindings)
    ((_, call),) = calls_of_launches([launch], [text])
    load = of(interpret_block(call), "load")[-1]
    assert load.times == pytest.approx(4)  # 3, 5, 0 and 8 trips
    assert load.unknown == 0


def test_a_block_pointer_checks_its_bounds():
    (load,), _ = loads(
        "tile = tl.make_block_ptr(x_ptr, (100,), (1,), (tl.program_id(0) * B,), (B,), (0,))\n"
        "tl.load(tile, boundary_check=(0,))",
        grid=(2.0, 1.0, 1.0),
        B=64,
    )
    assert load.elements == pytest.approx(50)  # 64 and 36
    assert load.details.run == pytest.approx(50)


def test_rows_that_are_not_aligned_touch_a_sector_more():
    def sectors(width):
        (load,), _ = loads(
            f"tl.load(x_ptr + tl.program_id(0) * {width} + tl.arange(0, B))",
            grid=(16.0, 1.0, 1.0),
            B=1024,
        )
        return load.details.sectors

    assert sectors(1024) == 1
    assert sectors(1025) == pytest.approx((128 + 28) / 128)  # requests of 32 floats, 4 bytes off


def test_hints_and_stages_are_seen_where_they_are_written():
    (load,), block = loads(
        "for k in tl.range(0, N, B, num_stages=4, flatten=True):\n"
        "    tl.load(x_ptr + k + tl.arange(0, B), eviction_policy='evict_first')",
        N=1024,
        B=256,
    )
    assert load.details.hint == "evict_first"
    assert block.stages == 4
    assert block.options == {"flatten": 1}
