"""Several rows, or single elements, a program."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    axis_name,
    block_constants,
    grid_constants,
    group_divisors,
    lifted_axis,
)
from solkit.tuner.proposers.rewriter._lift_expressions import CannotLiftError
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    assigned_names,
    calls_within,
    parse_expression,
    render_code,
    render_module,
    statements_of,
)
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    in_launcher,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._places import OtherFormError, tile_accesses
from solkit.tuner.proposers.rewriter.flat_grids import separated_axes
from solkit.tuner.proposers.rewriter.operands import with_products
from solkit.tuner.proposers.rewriter.vectorise import vectorised, vectorised_nests

_ROWS = (1, 2, 4, 8, 16, 32, 64)
_FEW_ROWS = 4
_STRIDED_ROWS = 32  # a line of 128 bytes of fp32
_ELEMENTS = (128, 256, 512, 1024, 2048, 4096)
_MANY = 1024
_SIDES = (16, 32, 64, 128, 256)
_SIDE = 64
_GROUP_SIDE = 16  # the least that a product takes; groups are small
_WIDE_GROUP = 64  # of fewer, blocks would hold little else than what their masks leave out
_SHAPE = re.compile(r"[\w.]+\.shape(\[-?\d+\])?")
"""A tensor's sizes, or one of them, as a launcher reads them."""


class Rows:
    """A program takes several rows, as the leading axis of its blocks.

    Applies along an axis of the grid where a program has one index, no constant tiles it but one
    that a tensor's shape gives, and all that depends on the index is elementwise, a reduction along
    other axes, a load or a store. A branch on the index becomes a mask. Where programs have no
    block at all, they become one. Where the index is divided by a size that is large enough, the
    rows of a program have one quotient: they follow each other in memory.
    """

    kind = "rows"
    helps = ("dispatch", "latency", "tail", "extra traffic")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            yield from _several_rows(text, launch, facts)


def _several_rows(text: KernelText, launch: Launch, facts: Facts) -> Iterator[Variant]:
    """Yield variants with several rows a program, else along the axes of a flat grid."""
    scalar = not calls_within(launch.function.node, "tl.arange")
    what, any_rows = "one element" if scalar else "one row", False
    why = facts.explain_factors("latency", "dispatch", "extra traffic")
    for form, name in _forms(text, launch):
        if any_rows:
            return
        own = form.launches_of(name)[0]
        for axis in sorted({*range(len(own.axes or ()))} - _tiled_axes(own)):
            groups = _wide_groups(own, axis, facts)
            width = _width_parameter(form, scalar, _is_strided(own.function, axis, groups))
            for rewritten in _lifted_rows(form, own, axis, width, groups):
                any_rows = True
                yield Variant(
                    rewritten,
                    f"A program of {launch.function.name} takes {what} along axis {axis}; with "
                    f"several, fewer programs start and each has more under way{why}.",
                )


def _forms(text: KernelText, launch: Launch) -> Iterator[tuple[KernelText, str]]:
    """Yield the file and the launch's function, and with its grid's axes apart, if they can be."""
    yield text, launch.function.name
    if (apart := separated_axes(text, launch)) is not None:
        yield apart


class Tile:
    """A program that computes one element, or one row, of a matrix computes a tile of it.

    Applies to grids of programs without blocks: two axes are lifted, and loops over single elements
    too. Sums of products become ``tl.dot``; of three axes, only pairs that give one are taken.
    Where a program has blocks, as in attention of one query, one axis is lifted, if that gives
    products: all of the axis, or those of one group, such as query heads that share their keys.
    A flat grid's quotients and remainders are axes, too.
    """

    kind = "tile"
    helps = ("extra traffic", "wrong pipe", "scalar product", "instructions", "extra work")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        why = facts.explain_factors("wrong pipe", "extra traffic", "instructions")
        for launch in text.single:
            name = launch.function.name
            what = "row" if calls_within(launch.function.node, "tl.arange") else "element"
            for rewritten in _tiled_sources(text, launch, what, facts):
                yield Variant(
                    rewritten,
                    f"A program of {name} computes one {what}; a tile of them uses "
                    f"each loaded value many times{why}.",
                )


def _tiled_sources(text: KernelText, launch: Launch, what: str, facts: Facts) -> Iterator[str]:
    """Yield files with tiles of a function; of a flat grid's indices, once its axes are apart."""
    for form, name in _forms(text, launch):
        own = form.launches_of(name)[0]
        axes, count = range(len(own.axes or ())), len(own.axes or ())
        if what == "row":
            ordered = sorted(axes, key=lambda axis: _is_short_axis(own, axis, facts))
            groups = ((a, g) for a in ordered for g in (*group_divisors(own.function, a), ""))
            tall = (source for a, g in groups for source in _tall_blocks(form, own, (a,), g))
            if first := next(tall, ""):
                yield from (first, *tall)
                continue
            for pair in itertools.combinations(axes, 2):  # an element is a row's sum of products
                yield from _tall_blocks(form, own, pair, "")
            continue
        for pair in itertools.combinations(axes, 2):
            rewritten = _tile_axes(form, name, pair)
            if rewritten and (_multiplies(rewritten, name) or count == 2):
                yield rewritten


def _is_short_axis(launch: Launch, axis: int, facts: Facts) -> bool:
    """Tell whether an axis of the grid has too few indices to fill the side of a tile."""
    size = facts.size((launch.axes or ())[axis], launch)
    return size is not None and size < _GROUP_SIDE


def _tiled_axes(launch: Launch) -> set[int]:
    """Return axes of the grid that a constant tiles which could be another."""
    own = {
        axis
        for constant, axis in grid_constants(launch).items()
        if not _is_tensor_size(launch, constant)
    }
    return own | _computed_tiles(launch)


def _computed_tiles(launch: Launch) -> set[int]:
    """Return axes whose length follows from the size of a block at a place that is computed.

    As of ``pid // tiles * BLOCK + tl.arange(0, BLOCK)``, where a program has a tile already.
    """
    blocks = {
        render_code(launch.arguments[constant])
        for constant in block_constants(launch.function)
        if constant in launch.arguments and not _is_tensor_size(launch, constant)
    }
    divided = {
        axis: {render_code(call.args[1].value) for call in calls_within(size, "triton.cdiv")}
        for axis, size in enumerate(launch.axes or ())
    }
    return {axis for axis, sizes in divided.items() if sizes & blocks}


def _is_tensor_size(launch: Launch, constant: str) -> bool:
    """Tell whether a function's constant is a size of a tensor, as the launcher reads it."""
    argument = launch.arguments.get(constant)
    if not isinstance(argument, cst.Name):
        return False
    for statement in statements_of(launch.launcher):
        if argument.value in assigned_names(statement):
            return bool(_SHAPE.fullmatch(render_code(statement).split("=", 1)[-1].strip()))
    return False


def _width_parameter(text: KernelText, scalar: bool, strided: bool) -> Parameter:
    if scalar:
        return Parameter(text.fresh("BLOCK"), _MANY, _ELEMENTS)
    return Parameter(text.fresh("ROWS"), _STRIDED_ROWS if strided else _FEW_ROWS, _ROWS)


def _is_strided(function: JitFunction, axis: int, groups: Sequence[str]) -> bool:
    """Tell whether neighbours along an axis of the grid, and not along blocks, meet in memory.

    So it is with a reduction along rows of a matrix that is stored row by row.
    """
    index = f"tl.program_id({axis})"
    names = {index, axis_name(function, axis)}
    own = {(name,) for name in names} | {(f"({name} % {g})",) for name in names for g in groups}
    for call, scope in tile_accesses(function):
        try:
            terms = scope.expanded(scope.terms(call.args[0].value)).terms
        except OtherFormError:
            continue
        if any(t.block and t.factors for t in terms) and own & {t.factors for t in terms}:
            return True
    return False


def _wide_groups(launch: Launch, axis: int, facts: Facts) -> list[str]:
    """Return divisors of an axis's index whose groups are wide, at the shape at hand.

    Indices of one quotient are neighbours in memory, as the columns of a matrix in a stack.
    """
    sizes = {
        group: in_launcher(parse_expression(group), launch)
        for group in group_divisors(launch.function, axis)
    }
    widths = {g: facts.size(size, launch) for g, size in sizes.items() if size is not None}
    return [group for group, width in widths.items() if (width or 0) >= _WIDE_GROUP]


def _lifted_rows(
    text: KernelText, launch: Launch, axis: int, width: Parameter, groups: Sequence[str]
) -> Iterator[str]:
    """Yield files with several rows a program: of one quotient first, since these lie together."""
    for group in (*groups, ""):
        if source := _lift_axis(text, launch, axis, width, group):
            yield source
            return


def _lift_axis(
    text: KernelText, launch: Launch, axis: int, width: Parameter, group: str = ""
) -> str:
    try:
        return lifted_axis(text, launch, axis, width, group)
    except CannotLiftError:
        return ""


def _multiplies(source: str, name: str) -> bool:
    """Tell whether a function of a file has a product of tiles."""
    parsed = parse_kernel(source)
    return parsed is not None and bool(calls_within(parsed.functions[name].node, "tl.dot"))


def _tall_blocks(
    text: KernelText, launch: Launch, axes: Sequence[int], group: str
) -> Iterator[str]:
    """Yield files with axes of a grid in blocks, and element loops if need be, as products.

    Loops within each other may be one loop over blocks, or the outermost of them that can be. With
    a group, a block has only indices of one.
    """
    if set(axes) & _tiled_axes(launch) or calls_within(launch.function.node, "tl.dot"):
        return
    flat, blocks = vectorised_nests(text, launch), vectorised(text, launch)
    forms = [parse_kernel(source) for source in (flat, blocks) if source]
    name, is_plain = launch.function.name, True
    for form in (*forms, text):
        if form is not None and (form is not text or is_plain):
            source = _tall_block(form, name, axes, group)
            is_plain = is_plain and not source
            yield from filter(None, (source,))


def _tall_block(text: KernelText, name: str, axes: Sequence[int], group: str) -> str:
    tiles = _lift_axes(text, name, axes, group)
    if tiles is None:
        return ""
    source = with_products(tiles) or render_module(tiles.tree)
    return source if _multiplies(source, name) else ""


def _tile_axes(text: KernelText, name: str, axes: tuple[int, int]) -> str:
    tiles = _lift_axes(text, name, axes)
    if tiles is None:
        return ""
    return vectorised(tiles, tiles.launches_of(name)[0]) or render_module(tiles.tree)


def _lift_axes(
    text: KernelText, name: str, axes: Sequence[int], group: str = ""
) -> KernelText | None:
    """Return a file with one or two axes of a function's grid in blocks, of which the first leads.

    ``None`` if that cannot be.
    """
    side, tiles = _GROUP_SIDE if group else _SIDE, text
    for axis, width in reversed(list(zip(axes, ("BLOCK_M", "BLOCK_N"), strict=False))):
        launch = tiles.launches_of(name)[0]
        block = Parameter(tiles.fresh(width), side, _SIDES)
        lifted = parse_kernel(_lift_axis(tiles, launch, axis, block, group))
        if lifted is None:
            return None
        tiles = lifted
    return tiles
