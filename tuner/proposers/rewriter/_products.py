"""Sums of products of blocks, as they are written with axes, as ``tl.dot``."""

from __future__ import annotations

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._nodes import (
    argument_of,
    called_name,
    calls_within,
    names_within,
    render_code,
    statements_of,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._operations import (
    converted_value,
    is_operation,
    is_zero,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction

_AXES = {(":", ":", "None"), (":", "None", ":"), ("None", ":", ":")}
Factor = tuple[cst.BaseExpression, tuple[str, ...]]


def _product_factors(node: cst.BaseExpression) -> tuple[Factor, Factor] | None:
    """Return both factors of a product of blocks with three axes each, and which axes they have."""
    inner = converted_value(node)
    if inner is not None and render_code(cst.ensure_type(node, cst.Call).args[0]) == "tl.float32":
        node = inner  # in which a product is summed, too
    if not is_operation(node, cst.Multiply):
        return None
    parts = []
    for side in map(_with_axes_last, (node.left, node.right)):
        if not isinstance(side, cst.Subscript):
            return None
        axes = tuple(render_code(element.slice) for element in side.slice)
        if axes not in _AXES:
            return None
        parts.append((side.value, axes))
    return parts[0], parts[1]


def _with_axes_last(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``x.to(t)[:, None]`` for ``x[:, None].to(t)``, and another expression as it is."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return node
    inner = _with_axes_last(node.func.value) if node.func.attr.value == "to" else node
    if not isinstance(inner, cst.Subscript):
        return node
    return inner.with_changes(
        value=node.with_changes(func=node.func.with_changes(value=inner.value))
    )


def has_chained_products(function: JitFunction) -> bool:
    """Tell whether a loop has a product with an operand that follows from another one's sums."""
    loops = (node for node in walk_statements(function.body) if isinstance(node, cst.For))
    return any(_chains(list(walk_statements(statements_of(loop)))) for loop in loops)


def _chains(body: list[cst.BaseStatement]) -> bool:
    sums = set[str]()
    for binding in assignments_in(body):
        products = calls_within(binding.value, "tl.dot")
        if any(names_within(*call.args[:2]) & sums for call in products):
            return True
        if products or names_within(binding.value) & sums:
            sums.add(binding.target)
    return False


def as_product(node: cst.BaseExpression, axis: int = 0) -> str:
    """Return the sum over an axis of a product of two blocks, as ``tl.dot``; empty if it is none.

    The product asks for IEEE precision: by default Triton rounds factors of fp32 to tf32.

    One factor has the axis that is summed and the first of the other two, one the second of them.
    ``tl.where`` may leave out some of what is summed: then both factors are 0 there.
    """
    node, mask = _without_mask(node, axis)
    sides = _product_factors(node)
    if sides is None:
        return ""
    one, two = sides
    kept = [place for place in range(3) if place != axis]
    if one[1][kept[0]] == "None":
        one, two = two, one
    second_axes, first_axes = two[1], one[1]
    fits = first_axes[axis] == ":" and first_axes[kept[0]] == ":" and first_axes[kept[1]] == "None"
    other = (
        second_axes[axis] == ":" and second_axes[kept[1]] == ":" and second_axes[kept[0]] == "None"
    )
    if not fits or not other:
        return ""
    first = render_code(one[0])  # its axes are (kept, summed), unless the summed one comes first
    second = render_code(two[0])
    if mask:  # both: what was left out may be NaN or infinite
        place = "[:, None]" if axis < kept[0] else "[None, :]"
        first = f"tl.where({mask}{place}, {first}, 0.0)"
        place = "[None, :]" if axis > kept[1] else "[:, None]"
        second = f"tl.where({mask}{place}, {second}, 0.0)"
    if axis < kept[0]:
        first = f"tl.trans({first})"
    if axis > kept[1]:  # must be (summed, kept)
        second = f"tl.trans({second})"
    return f'tl.dot({first}, {second}, input_precision="ieee")'


def _without_mask(node: cst.BaseExpression, axis: int) -> tuple[cst.BaseExpression, str]:
    """Split off a mask along one axis: the rest, and the mask; ``""`` if none, or another."""
    if called_name(node) != "tl.where":
        return node, ""
    condition, inner, other = (argument_of(node, place) for place in range(3))
    if condition is None or inner is None or other is None or not is_zero(other):
        return node, ""
    base, axes = condition, [":"]
    chain = []
    while isinstance(base, cst.Subscript):
        chain.append([render_code(element.slice) for element in base.slice])
        base = base.value
    for entries in reversed(chain):
        if not set(entries) <= {":", "None"} or entries.count(":") != len(axes):
            return node, ""
        rest = iter(axes)
        axes = [next(rest) if entry == ":" else "None" for entry in entries]
    expected = [":" if place == axis else "None" for place in range(3)]
    return (inner, base.value) if isinstance(base, cst.Name) and axes == expected else (node, "")
