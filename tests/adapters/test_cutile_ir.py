"""cuTile's IR as Triton's: the bytes, products and trips of kernels whose figures are plain."""

from __future__ import annotations

import math

import numpy as np
import pytest

from solkit.adapters.cutile_exits import TileIrError
from solkit.adapters.cutile_ir import Machine, loop_tile_bytes, triton_ir
from solkit.adapters.launch_recording import TensorArgument
from solkit.analysis.triton.requests import requests_of
from solkit.core import Occupancy
from solkit.roofline.devices import find
from tests.adapters.cutile_blocks import (
    Block,
    array,
    constant,
    loop,
    operation,
    tiles_of,
    var,
    view,
)

WHOLE = Occupancy(1.0, "warps", 8, 1.0, 1.0)


def tensor(number, shape, element_bytes, contents=None):
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    size = math.prod(shape) * element_bytes
    return TensorArgument(number, size, 0, tuple(shape), tuple(strides), element_bytes, contents)


def flat(*shapes):
    """Values of the flat parameters of arrays in row-major order."""
    values = []
    for shape in shapes:
        values += [None, *shape, *(math.prod(shape[d + 1 :]) for d in range(len(shape)))]
    return values


def follow(body, values, tensors, grid, machine=Machine(4, 9), widths=None):  # noqa: B008 - frozen
    text = triton_ir("k", body, values, machine)
    return requests_of(text, "", tensors, (*grid, 1, 1)[:3], find("h100"), WHOLE, 0, widths)


def copy_block(elements, tile, line=7):
    px, x, make_x = array("x", "float32", 1)
    py, y, make_y = array("y", "float32", 1)
    (vx, tile_x), (vy, tile_y) = tiles_of(x, (tile,)), tiles_of(y, (tile,))
    block, loaded = var(), var("float32", (tile,))
    body = [
        make_x,
        make_y,
        operation("tile_bid", block, axis=0),
        tile_x,
        tile_y,
        operation("tile_load", loaded, view=vx, index=(block,), line=line),
        operation("tile_store", view=vy, index=(block,), tile=loaded, line=line + 1),
        operation("return"),
    ]
    return Block(body, (*px, *py)), flat((elements,), (elements,))


@pytest.mark.parametrize("is_bulk", [False, True])
def test_a_tile_that_reaches_past_the_end_moves_what_is_inside(is_bulk):
    body, values = copy_block(1000, 256)
    lines = frozenset({("k.py", 7), ("k.py", 8)}) if is_bulk else frozenset()
    tensors = {"x": tensor(1, (1000,), 4), "y": tensor(2, (1000,), 4)}
    requests = follow(body, values, tensors, (4,), Machine(4, 9, lines))
    load, store = requests.accesses
    assert (load.kind, load.argument, load.line) == ("load", "x", "k.py:7")
    assert (store.kind, store.argument, store.line) == ("store", "y", "k.py:8")
    assert {load.path, store.path} == {"tma" if is_bulk else "global"}
    assert load.requested_bytes == store.requested_bytes == 4000
    assert load.unique_bytes == 4000


def matmul_block(m, n, k, tile):
    parameters, results, seen = [], [], {}
    for name, shape in (("a", (tile, tile)), ("b", (tile, tile)), ("c", (tile, tile))):
        own, whole, make = array(name, "float16", 2)
        seen[name], by_tiles = tiles_of(whole, shape)
        parameters += own
        results += [make, by_tiles]
    row, column, step = var(), var(), var()
    sizes = [var(), var()]
    (zero, make_zero), (one, make_one) = constant(0), constant(1)
    start, fill = constant(0.0, "float32", (tile, tile))
    left, right = var("float16", (tile, tile)), var("float16", (tile, tile))
    inside, summed, result = (var("float32", (tile, tile)) for _ in range(3))
    narrow = var("float16", (tile, tile))
    steps = [
        operation("tile_load", left, view=seen["a"], index=(row, step)),
        operation("tile_load", right, view=seen["b"], index=(step, column)),
        operation("tile_mma", summed, x=left, y=right, acc=inside),
        operation("continue", values=(summed,)),
    ]
    body = [
        *results,
        make_zero,
        make_one,
        fill,
        operation("tile_bid", row, axis=0),
        operation("tile_bid", column, axis=1),
        operation("num_tiles", *sizes, view=seen["a"]),
        loop(step, (zero, sizes[1], one), [(inside, start)], [result], steps),
        operation("tile_astype", narrow, x=result),
        operation("tile_store", view=seen["c"], index=(row, column), tile=narrow),
        operation("return"),
    ]
    return Block(body, parameters), flat((m, k), (k, n), (m, n))


@pytest.mark.parametrize("is_warp_group", [False, True])
def test_a_product_has_its_operations_and_reads_its_factors_once_a_tile(is_warp_group):
    m, n, k, tile = 256, 512, 384, 64
    body, values = matmul_block(m, n, k, tile)
    tensors = {
        name: tensor(number, shape, 2)
        for number, (name, shape) in enumerate({"a": (m, k), "b": (k, n), "c": (m, n)}.items())
    }
    machine = Machine(4, 9, is_warp_group=is_warp_group)
    requests = follow(body, values, tensors, (m // tile, n // tile), machine)
    assert requests.operations == {"tensor.fp16": 2 * m * n * k}
    by_argument = {access.argument: access.requested_bytes for access in requests.accesses}
    assert by_argument == {"a": 2 * m * k * n // tile, "b": 2 * k * n * m // tile, "c": 2 * m * n}
    assert requests.steps == k / tile
    assert (requests.tensor_shared_bytes > 0) is is_warp_group
    assert not requests.guesses


def test_products_of_a_kernel_without_tensor_cores_are_on_the_scalar_pipe():
    body, values = matmul_block(64, 64, 64, 64)
    tensors = {name: tensor(number, (64, 64), 2) for number, name in enumerate("abc")}
    requests = follow(body, values, tensors, (1, 1), Machine(4, 8, has_tensor_cores=False))
    assert requests.operations == {"fp32": 2 * 64**3}


def test_bytes_of_a_loops_tiles_are_those_of_one_iteration():
    body, _ = matmul_block(64, 64, 64, 32)
    assert loop_tile_bytes(body) == 2 * 32 * 32 * 2
    assert loop_tile_bytes(copy_block(1000, 256)[0]) == 0


def gather_block(rows, width):
    """out = table[index], rows at a time."""
    pi, index, make_index = array("index", "int32", 1)
    pt = [var("pointer[float32]", name="table_0")]
    by_rows, tile_index = tiles_of(index, (rows,))
    block, places = var(), var("int32", (rows,))
    (wide, make_wide), column = constant(width, shape=(rows, 1)), var("int32", (width,))
    upright, across = var("int32", (rows, 1)), var("int32", (1, width))
    starts, offset = var("int32", (rows, 1)), var("int32", (rows, width))
    pointer, loaded = var("pointer[float32]", (rows, width)), var("float32", (rows, width))
    body = [
        make_index,
        tile_index,
        make_wide,
        operation("tile_bid", block, axis=0),
        operation("tile_load", places, view=by_rows, index=(block,)),
        operation("tile_reshape", upright, x=places),
        operation("raw_binary_arith", starts, fn="mul", lhs=upright, rhs=wide),
        operation("tile_arange", column),
        operation("tile_reshape", across, x=column),
        operation("raw_binary_arith", offset, fn="add", lhs=starts, rhs=across),
        operation("pointer_offset", pointer, pointer=pt[0], offset=offset),
        operation("load_pointer", loaded, pointer=pointer, mask=None, padding_value=None),
        operation("return"),
    ]
    return Block(body, (*pi, *pt))


def test_a_gather_follows_the_indices_in_memory():
    contents = np.array([0, 5, 5, 2, 7, 5, 1, 0], np.int32)
    tensors = {"index": tensor(1, (8,), 4, contents), "table": tensor(2, (8, 32), 4)}
    values = [*flat((8,)), None]
    requests = follow(gather_block(4, 32), values, tensors, (2,))
    gathered = next(a for a in requests.accesses if a.argument == "table")
    assert gathered.requested_bytes == 8 * 32 * 4
    assert gathered.sectors == 8 * 32 * 4 // 32
    assert gathered.block_sectors == (3 + 4) * 32 * 4 // 32  # the first block has row 5 twice


def while_block(tile):
    """A block takes every `blocks`-th tile: ``while i < n: ...; i += blocks``."""
    px, x, make_x = array("x", "float32", 1)
    seen, by_tiles = tiles_of(x, (tile,))
    block, blocks, count = var(), var(), var()
    inside, later, flag = var(), var(), var("bool_")
    loaded = var("float32", (tile,))
    go_on = Block([operation("end_branch", outputs=())])
    leave = Block([operation("break", values=(inside,))])
    branch = operation(
        "ifelse", cond=flag, then_block=go_on, else_block=leave, blocks=(go_on, leave)
    )
    inner = Block(
        [
            operation("raw_cmp", flag, fn="lt", lhs=inside, rhs=count),
            branch,
            operation("tile_load", loaded, view=seen, index=(inside,)),
            operation("raw_binary_arith", later, fn="add", lhs=inside, rhs=blocks),
            operation("continue", values=(later,)),
        ],
        (inside,),
    )
    body = [
        make_x,
        by_tiles,
        operation("tile_bid", block, axis=0),
        operation("tile_num_blocks", blocks, axis=0),
        operation("num_tiles", count, view=seen),
        operation(
            "loop",
            var(),
            blocks=(inner,),
            is_for_loop=False,
            body_vars=(inside,),
            initial_values=(block,),
            body=inner,
        ),
        operation("return"),
    ]
    return Block(body, px)


def test_a_persistent_kernels_loop_runs_to_the_end_of_its_tiles():
    requests = follow(while_block(64), flat((640,)), {"x": tensor(1, (640,), 4)}, (3,))
    (load,) = requests.accesses
    assert load.requested_bytes == 640 * 4
    assert requests.steps == pytest.approx(10 / 3)
    assert not requests.guesses


def test_tiles_of_a_transposed_array_are_read_along_its_memory():
    parameters, x, make = array("x", "float32", 2)
    seen, by_tiles = tiles_of(x, (32, 8))
    loaded, (zero, make_zero) = var("float32", (32, 8)), constant(0)
    body = [
        make,
        by_tiles,
        make_zero,
        operation("tile_load", loaded, view=seen, index=(zero, zero)),
        operation("return"),
    ]
    values = [None, 32, 8, 1, 32]  # sizes and strides
    tensors, widths = {"x": tensor(1, (32, 8), 4)}, {("k.py", 1, 0, "load"): 8}
    requests = follow(Block(body, parameters), values, tensors, (1,), widths=widths)
    (load,) = requests.accesses
    assert load.vector_bytes == 8
    assert load.sectors == 32 * 8 * 4 // 32


def test_an_access_that_is_not_known_is_an_error():
    body = Block([operation("tile_load", var()), operation("return")])
    body[0].op = "tile_load_of_tomorrow"
    with pytest.raises(TileIrError, match="tile_load_of_tomorrow is an access"):
        triton_ir("k", body, (), Machine(4, 9))


def test_other_parameters_than_the_launchs_are_an_error():
    body, values = copy_block(1000, 256)
    with pytest.raises(TileIrError, match="6 parameters, its launch 5"):
        triton_ir("k", body, values[:-1], Machine(4, 9))


def test_an_unknown_computation_leaves_its_result_unknown():
    body, values = copy_block(1000, 256)
    seen = view((256,))
    odd = var("int32")
    body[-1:-1] = [
        operation("make_partition_view", seen, array=body[0].result_vars[0]),
        operation("tile_of_tomorrow", odd),
        operation("tile_load", var("float32", (256,)), view=seen, index=(odd,)),
    ]
    tensors = {"x": tensor(1, (1000,), 4), "y": tensor(2, (1000,), 4)}
    assert follow(body, values, tensors, (4,)).guesses
