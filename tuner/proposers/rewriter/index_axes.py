"""Indices that are written with the axes of a tile become vectors, with axes where they are used.

``row = pid * B + tl.arange(0, B)[:, None]`` is ``row[:, None]`` of a vector. Most kernels write the
latter, and rewrites read it.
"""

from __future__ import annotations

from collections import Counter

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    assigned_names,
    called_name,
    calls_within,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
)

_SPREADS = ("[:, None]", "[None, :]")
_NUMBERS = ("tl.program_id", "tl.num_programs", "tl.cdiv")


def with_axes_at_uses(body: Body, numbers: set[str]) -> list[cst.BaseStatement]:
    """Return a function's statements whose indices have no axes of a tile.

    Args:
        body: the statements.
        numbers: parameters that are no blocks.
    """
    counts = Counter(assigned_names(*body))
    numbers, statements = set(numbers), list(body)
    for place, statement in enumerate(statements):
        binding = single_assignment(statement)
        if binding is None or counts[binding.target] != 1:
            continue
        if _is_number(binding.value, numbers):
            numbers.add(binding.target)
            continue
        spread = _spread_of(binding.value, numbers)
        behind = statements[place + 1 :]
        if spread is None or _is_subscripted(binding.target, behind):
            continue
        axes = f"[{', '.join(render_code(element.slice) for element in spread.slice)}]"
        value = replace_each(binding.value, [(spread, spread.value)])
        comments = getattr(statement, "leading_lines", ())
        statements[place] = parse_statement(
            f"{binding.target} = {render_code(value)}"
        ).with_changes(leading_lines=comments)
        used = {binding.target: parse_expression(f"{binding.target}{axes}")}
        statements[place + 1 :] = [substitute_names(other, used) for other in behind]
    return statements


def _is_number(value: cst.BaseExpression, numbers: set[str]) -> bool:
    """Tell whether an expression is one number, made of the program's index and of numbers."""
    is_plain = all(called_name(call) in _NUMBERS for call in calls_within(value))
    return is_plain and names_within(value) <= {*numbers, "tl"}


def _spread_of(value: cst.BaseExpression, numbers: set[str]) -> cst.Subscript | None:
    """Return the range with axes that a sum has besides numbers; ``None`` for other values."""
    while isinstance(value, cst.BinaryOperation):
        kinds = (cst.Add, cst.Subtract, cst.Multiply)
        if not isinstance(value.operator, kinds):
            return None
        with_range = [s for s in (value.left, value.right) if calls_within(s, "tl.arange")]
        rest = [s for s in (value.left, value.right) if not calls_within(s, "tl.arange")]
        if len(with_range) != 1 or not _is_number(rest[0], numbers):
            return None
        value = with_range[0]
    if not isinstance(value, cst.Subscript):
        return None
    axes = f"[{', '.join(render_code(element.slice) for element in value.slice)}]"
    inner = any(isinstance(node, cst.Subscript) for node in nodes_within(value.value))
    own = names_within(value.value) <= {*numbers, "tl"}
    return value if axes in _SPREADS and own and not inner else None


def _is_subscripted(name: str, body: Body) -> bool:
    """Tell whether statements give a name more axes."""
    return any(
        isinstance(node, cst.Subscript) and render_code(node.value).strip("()") == name
        for node in nodes_within(*body)
    )
