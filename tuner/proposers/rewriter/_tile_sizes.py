"""Sizes of tiles and numbers of warps to begin with, and those to tune."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import grid_constants
from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._nodes import (
    calls_within,
    range_loop,
    render_code,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._parse import Launch, in_launcher
from solkit.tuner.proposers.rewriter._products import has_chained_products
from solkit.tuner.proposers.rewriter._shapes import block_shapes, elements_of, product_shapes
from solkit.tuner.proposers.rewriter._values import next_power_of_two

_LEAST_OF_PRODUCT = 16  # what tl.dot takes
_LINE = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
_SIDES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_PRODUCT_SIDES = (16, 32, 64, 128, 256)
_ELEMENTS = 1024
"""Elements of a block of an elementwise kernel to begin with: 8 a thread of 128."""
_TILE_ELEMENTS = 4096
_TRIP = 2048
_MOST_ELEMENTS = 1 << 14
"""Elements of any block: 64 registers a thread of 8 warps, as an accumulator of 128 x 128 has."""
_LEAST_TRIP = 1 / 8
"""Share of its elements that a trip of a loop keeps at the least: with fewer, more trips wait for
memory one after the other."""
_SUMS_OF_WARP = 1024  # 32 a thread
_PROGRAMS_OF_SM = 8
_PRODUCT_TILE = {"outer": 128, "inner": 64}
_CHAINED_TILE = {"outer": 64, "inner": 32}
"""Where a product's sums are an operand of the next, registers hold both, and what goes in.

Measured on an H200 for two causal attentions: 59.0 and 53.9 us; with 128 and 64 58.0 and 70.6.
"""
_CHAINED_WARPS = 4


@dataclass(frozen=True)
class Tile:
    """A constant that decides how much a program or a trip takes.

    Attributes:
        name: the function's parameter.
        axis: of the grid; ``None`` if it is a loop's step, or if the grid's axes are not its own.
        value: what the launcher gives.
        tiles_grid: whether the number of programs follows from it.
    """

    name: str
    axis: int | None
    value: int
    tiles_grid: bool


def is_product(launch: Launch) -> bool:
    return bool(calls_within(launch.function.node, "tl.dot"))


def least_side(launch: Launch) -> int:
    """Return the shortest side that a block of a launch may have."""
    return _LEAST_OF_PRODUCT if is_product(launch) else 1


def tile_values(launch: Launch, tile: Tile) -> tuple[int, ...]:
    """Return values to tune: those of a loop's step do not make its trips far more."""
    values = _side_values(launch)
    if tile.tiles_grid:
        return values
    least = min(tile.value * _LEAST_TRIP, max(values))
    return tuple(value for value in values if value >= least)


def _side_values(launch: Launch) -> tuple[int, ...]:
    if is_product(launch):
        return _PRODUCT_SIDES
    return _SIDES if _has_two_axes(launch) else _LINE


def _has_two_axes(launch: Launch) -> bool:
    """Tell whether its blocks have two axes."""
    text = render_code(launch.function.node)
    return any(word in text for word in ("[:, None]", "[None, :]", "tl.make_tensor_descriptor"))


def larger_defaults(launch: Launch, tiles: list[Tile], facts: Facts) -> Mapping[str, int]:
    """Return larger values for the constants that are below what they usually are.

    Those of loops are smaller where a trip would be longer than the loop.
    """
    if is_product(launch):
        steps = {render_code(loop.step) for loop in launch.function.loops}
        tile = _CHAINED_TILE if has_chained_products(launch.function) else _PRODUCT_TILE
        usual = {
            t.name: tile["outer" if t.tiles_grid and t.name not in steps else "inner"]
            for t in tiles
        }
    elif _has_two_axes(launch):
        usual = _grow_smallest(launch, tiles, facts)
    else:
        usual = {t.name: _ELEMENTS if t.tiles_grid else _TRIP for t in tiles}
    covered = covered_elements(launch, tiles, facts)
    larger = {
        t.name: max(t.value, min(usual[t.name], covered.get(t.name, usual[t.name]))) for t in tiles
    }
    steps_of_loops = [t.name for t in tiles if not t.tiles_grid and t.name in covered]
    for name in steps_of_loops:  # a trip takes no more than there is
        larger[name] = min(larger[name], max(covered[name], least_side(launch)))
    return _in_registers(launch, tiles, _still_enough(launch, tiles, larger, facts), facts)


def covered_elements(launch: Launch, tiles: list[Tile], facts: Facts) -> dict[str, int]:
    """Return how long a block is that covers an axis of the grid, or a loop, as far as known."""
    values, covered = {tile.name: tile.value for tile in tiles}, dict[str, int]()
    for name, axis in grid_constants(launch).items():
        size = None if launch.axes is None else facts.size(launch.axes[axis], launch)
        if name in values and size is not None:
            covered[name] = next_power_of_two(size * values[name])
    for tile in tiles:
        if tile.tiles_grid and tile.axis is None:
            total = size_under_flat_grid(launch, tile)
            size = None if total is None else facts.size(total, launch)
            covered |= {} if size is None else {tile.name: next_power_of_two(size)}
    for statement in walk_statements(launch.function.body):
        loop = range_loop(statement)
        name = "" if loop is None else render_code(loop.step)
        stop = in_launcher(loop.stop, launch) if loop is not None and name in values else None
        size = None if stop is None else facts.size(stop, launch)
        if size is not None and loop is not None and render_code(loop.start) == "0":
            covered[name] = max(covered.get(name, 1), next_power_of_two(size))
    return covered


def size_under_flat_grid(launch: Launch, tile: Tile) -> cst.BaseExpression | None:
    """Return what blocks walk over that a program finds by quotients of its index.

    The function computes how many there are, as the grid does.
    """
    argument = render_code(launch.arguments[tile.name])
    counted = {
        render_code(call.args[0].value)
        for axis in launch.axes or ()
        for call in calls_within(axis, "triton.cdiv")
        if len(call.args) == 2 and render_code(call.args[1].value) == argument
    }
    sizes = {
        render_code(call.args[0].value): in_launcher(call.args[0].value, launch)
        for call in calls_within(launch.function.node, "tl.cdiv")
        if len(call.args) == 2 and render_code(call.args[1].value) == tile.name
    }
    size = next(iter(sizes.values())) if len(sizes) == 1 else None
    return size if size is not None and render_code(size) in counted else None


def _in_registers(
    launch: Launch, tiles: list[Tile], larger: dict[str, int], facts: Facts
) -> dict[str, int]:
    """Return blocks no larger than registers hold, unless the file's own are."""
    values = {tile.name: tile.value for tile in tiles}
    fixed = facts.constants(launch)
    for shape in sorted(block_shapes(launch.function)):
        while elements_of(shape, {**fixed, **larger}) > _MOST_ELEMENTS:
            grown = [name for name in shape if larger.get(name, 0) > values.get(name, 0)]
            if not grown:
                break
            larger[max(grown, key=lambda name: larger[name] / values[name])] //= 2
    return larger


def _still_enough(
    launch: Launch, tiles: list[Tile], larger: dict[str, int], facts: Facts
) -> dict[str, int]:
    """Return blocks that leave a program for each multiprocessor, if their number is known."""
    programs = facts.programs(launch)
    for tile in tiles:
        while (
            programs is not None
            and tile.tiles_grid
            and larger[tile.name] > tile.value
            and programs * tile.value < facts.sms * larger[tile.name]
        ):
            larger[tile.name] //= 2
        if programs is not None and tile.tiles_grid:
            programs = max(programs * tile.value // larger[tile.name], 1)
    return larger


def _grow_smallest(launch: Launch, tiles: list[Tile], facts: Facts) -> dict[str, int]:
    """Grow the smallest until a block has enough elements."""
    sizes = {tile.name: tile.value for tile in tiles}
    fixed = facts.constants(launch)
    while (
        sizes
        and math.prod(sizes.values()) < _TILE_ELEMENTS
        and largest_block(launch, {**fixed, **sizes}) < _TILE_ELEMENTS
    ):
        sizes[min(sizes, key=lambda name: sizes[name])] *= 2
    return sizes


def largest_block(launch: Launch, sizes: Mapping[str, int]) -> int:
    """Return the elements of a function's largest block."""
    shapes = block_shapes(launch.function)
    return max((elements_of(shape, sizes) for shape in shapes), default=1)


def warps_of_product(launch: Launch, sizes: Mapping[str, int], facts: Facts) -> int:
    """Return 8 warps; where programs fill the device, those that have 1,024 of a tile's sums each.

    Few programs need many warps to load what they multiply. Chained products have small tiles.
    """
    if has_chained_products(launch.function):
        return _CHAINED_WARPS
    if (facts.programs(launch) or 0) < _PROGRAMS_OF_SM * facts.sms:
        return 8
    shapes = product_shapes(launch.function)
    if any(not shape or not all(s.isdigit() or s in sizes for s in shape) for shape in shapes):
        return 8
    sums = max((elements_of(shape, sizes) for shape in shapes), default=0)
    return min(max(sums // _SUMS_OF_WARP, 1), 8) if sums else 8
