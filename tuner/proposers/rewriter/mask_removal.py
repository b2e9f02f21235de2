"""Masks that sizes make redundant are left out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in, written_out
from solkit.tuner.proposers.rewriter._edit import (
    own_grid,
    renamed_function,
    tile_constants,
)
from solkit.tuner.proposers.rewriter._masks import without_mask
from solkit.tuner.proposers.rewriter._memory import mask_of
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    Values,
    argument_of,
    called_name,
    calls_within,
    compact_code,
    integer_literal,
    names_within,
    parenthesized,
    parse_expression,
    plain_code,
    product_factors,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._operations import (
    HALVES,
    call_args,
    compared_sides,
    conjuncts,
    converted_value,
    is_fp32,
    is_operation,
)
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    in_launcher,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._shapes import broadcast_shapes, operand_shapes
from solkit.tuner.proposers.rewriter._variants import launch_variants
from solkit.tuner.proposers.rewriter.tile_constants import lifted_constants


class EvenSizes:
    """Sizes that blocks divide need no masks; the original launch stays for others.

    Applies to masks ``offsets < size``, also next to others that stay, where the offsets are
    ``tl.arange(0, BLOCK)`` plus a program's index times ``BLOCK``, or plus a loop's variable with
    that step, and the size is a parameter. The loop must end with the size, and the grid must have
    as many programs as blocks: masks of others leave whole blocks out. Choices by such masks go,
    too. Blocks of one number get names first, as a test of a number does not say which it is of.
    """

    kind = "even sizes"
    helps = ("instructions", "index arithmetic", "arithmetic instructions", "wide product")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        intent = "Blocks of {} that divide the sizes need no masks"
        text = _with_names_of_blocks(text)
        without_masks = partial(_without_masks, text)
        return launch_variants(text, facts, without_masks, intent, "instructions")


def _with_names_of_blocks(text: KernelText) -> KernelText:
    """Return the file with its blocks as parameters, if a launch has two of one number."""
    for launch in text.single:
        numbers = [
            integer_literal(launch.arguments.get(name)) for name in launch.function.constants
        ]
        sizes = [number for number in numbers if number is not None]
        if len(set(sizes)) < len(sizes):
            return parse_kernel(lifted_constants(text)) or text
    return text


def covers_masks(launch: Launch) -> bool:
    """Tell whether a launch's programs store all elements that the masks of its stores let pass."""
    values = _single_values(launch.function)
    stores = calls_within(launch.function.node, "tl.store")
    masks = [argument_of(call, 2, "mask") for call in stores]
    return all(
        mask is not None and _conditions(substitute_names(mask, values), launch) is not None
        for mask in masks
    )


def _without_masks(text: KernelText, launch: Launch) -> str:
    function = launch.function
    values = _single_values(function)
    needed: dict[str, tuple[str, str]] = {}
    pairs: list[Swap] = []
    for call in calls_within(function.node, "tl.load", "tl.store"):
        mask = mask_of(call)
        if mask is None:
            continue
        kept = list[str]()
        for part in conjuncts(mask):
            conditions = _conditions(substitute_names(part, values), launch)
            if conditions is None:
                kept.append(render_code(parenthesized(part)))
            needed.update(_by_test(conditions or []))
        if not kept:
            pairs.append((call, without_mask(call)))
        elif len(kept) < len(conjuncts(mask)):
            pairs.append((mask, parse_expression(" & ".join(kept))))
    pairs += [
        (choice, parenthesized(call_args(choice)[1]))
        for choice, sizes in _choices_by_masks(launch, values)
        if _by_test(sizes).keys() <= needed.keys()
    ]
    tests = [_divisibility_test(size, block, launch) for size, block in needed.values()]
    if not pairs or any(test is None for test in tests):
        return ""
    name = text.fresh(f"{function.name}_even")
    node = renamed_function(function, name, statements_of(replace_each(function.node, pairs)))
    condition = " and ".join(dict.fromkeys(test for test in tests if test is not None))
    return relaunched(text, NewLaunch(launch, node, grid=own_grid(launch)), condition=condition)


def _by_test(conditions: list[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    return {f"{size} % {block}": (size, block) for size, block in conditions}


def _choices_by_masks(
    launch: Launch, values: Values
) -> Iterator[tuple[cst.Call, list[tuple[str, str]]]]:
    """Yield choices whose first value is all of the result where sizes are even, and the sizes.

    That value has the shape and the type of the result, and is no number: a block of booleans and
    an integer would make integers.
    """
    function, latest = launch.function, dict[str, cst.BaseExpression]()
    of_conditions, of_values = (
        operand_shapes(function, "tl.where", place=place) for place in (0, 1)
    )
    for statement in walk_statements(function.body):
        binding = single_assignment(statement)
        if binding is None:
            continue
        for choice in calls_within(statement, "tl.where"):
            condition, value, other = call_args(choice)[:3]
            sizes = _conditions(substitute_names(condition, values), launch)
            shapes = of_conditions[id(choice)], of_values[id(choice)]
            is_whole = shapes[0] != () and broadcast_shapes(shapes) == shapes[1]
            if sizes and _is_float(value, latest) and is_whole and _is_number(other):
                yield choice, sizes
        latest[binding.target] = binding.value


def _is_float(node: cst.BaseExpression, values: Values) -> bool:
    """Tell whether the text shows that a value is a float, of any width."""
    value = values.get(node.value, node) if isinstance(node, cst.Name) else node
    is_half = converted_value(value) is not None and plain_code(call_args(value)[0]) in HALVES
    return is_half or is_fp32(node, values)


def _is_number(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Integer, cst.Float)) or names_within(node) == {"float"}


def _single_values(function: JitFunction) -> Values:
    """Return names that are assigned once, without the function's own names."""
    bindings = assignments_in(walk_statements(function.body))
    single = [
        a for a in bindings if sum(b.target == a.target for b in bindings) == 1 and not a.operator
    ]
    same = [
        a
        for a in bindings
        if a not in single
        and len({render_code(b.value) for b in bindings if b.target == a.target}) == 1
    ]
    values = written_out([*single, *same])
    return {name: substitute_names(value, values) for name, value in values.items()}


def _conditions(mask: cst.BaseExpression, launch: Launch) -> list[tuple[str, str]] | None:
    """Return pairs of a size and the block that must divide it; ``None`` for another form."""
    if is_operation(mask, cst.BitAnd):
        left, right = _conditions(mask.left, launch), _conditions(mask.right, launch)
        return None if left is None or right is None else [*left, *right]
    if isinstance(mask, cst.Subscript):
        return _conditions(mask.value, launch)
    offsets, size = compared_sides(mask, "<") or (mask, mask)
    if isinstance(offsets, cst.Subscript):
        offsets = offsets.value
    if not isinstance(size, cst.Name) or size.value not in launch.function.params:
        return None
    block = _block_of_offsets(offsets, launch, size.value)
    return [(size.value, block)] if block else None


def _block_of_offsets(offsets: cst.BaseExpression, launch: Launch, size: str) -> str:
    """Return the constant of which offsets are a block that is within a size; empty if none.

    Such a block starts at a multiple of its length.
    """
    function = launch.function
    ranges = calls_within(offsets, "tl.arange")
    if len(ranges) != 1:
        return ""
    block = render_code(ranges[0].args[-1].value)
    rest = plain_code(offsets).replace(f"tl.arange(0,{block})", "").strip("+")
    loops = [loop for s in walk_statements(function.body) if (loop := range_loop(s))]
    steps = {
        loop.name
        for loop in loops
        if render_code(loop.step) == block
        and render_code(loop.start) == "0"
        and _ends_with(loop.stop, size)
    }
    counts = {
        loop.name
        for loop in loops
        if render_code(loop.step) == "1" and _plain(loop.stop) in _numbers_of_blocks(size, block)
    }
    whole = {"", *steps, *(f"{n}*{block}" for n in counts), *(f"{block}*{n}" for n in counts)}
    whole |= {f"tl.program_id({axis})*{block}" for axis in "012"}
    tiles = tile_constants(function)
    names_of = names_within(offsets) - {"tl", block}
    is_loops = bool(names_of & {loop.name for loop in loops})
    is_program = block in tiles and rest.endswith(f"*{block}") and not is_loops
    if not rest or rest in {*steps, *(n for n in whole if names_of & counts)}:
        return block
    own = next((axis for axis in range(3) if rest == f"tl.program_id({axis})*{block}"), None)
    in_grid = _grid_counts(launch, size, block, own)
    return block if in_grid and (rest in whole or (is_program and "+" not in rest)) else ""


def _plain(node: cst.CSTNode) -> str:
    return compact_code(node).replace("triton.cdiv", "tl.cdiv")


def _numbers_of_blocks(size: str, block: str) -> set[str]:
    whole = f"{size}+{block}-1"
    return {f"tl.cdiv({size},{block})", f"{size}//{block}", f"({whole})//{block}"}


def _ends_with(stop: cst.BaseExpression, size: str) -> bool:
    """Tell whether a loop ends at a size, or before it."""
    if called_name(stop) in ("tl.minimum", "min") and isinstance(stop, cst.Call):
        return any(render_code(arg.value) == size for arg in stop.args)
    return render_code(stop) == size


def _grid_counts(launch: Launch, size: str, block: str, own: int | None) -> bool:
    """Tell whether a grid has as many programs as a size has blocks, along one of its indices.

    That index is an axis of its own, or else one factor of an axis that programs take apart.
    """
    names = [in_launcher(parse_expression(name), launch) for name in (size, block)]
    if launch.axes is None or None in names:
        return False
    codes = (f"({render_code(node)})" for node in names if node is not None)
    numbers = {plain_code(parse_expression(code)) for code in _numbers_of_blocks(*codes)}
    counts = [*launch.axes, *launch.arguments.values()]
    if own is None:
        counts = [parse_expression(code) for node in counts for code in product_factors(node)]
    else:
        counts = list(launch.axes[own : own + 1])
    return any(plain_code(node).replace("triton.cdiv", "tl.cdiv") in numbers for node in counts)


def _divisibility_test(size: str, block: str, launch: Launch) -> str | None:
    """Return the condition that a size is that of whole blocks, and not of none."""
    one = in_launcher(parse_expression(size), launch)
    two = in_launcher(parse_expression(block), launch)
    if one is None or two is None:
        return None
    size = render_code(parenthesized(one))
    return f"{size} % {render_code(parenthesized(two))} == 0 < {size}"
