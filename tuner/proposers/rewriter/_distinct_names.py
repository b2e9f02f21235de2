"""Names that are assigned again, in straight code, become other names; unread ones go."""

from __future__ import annotations

from collections import Counter

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import (
    names_in_own_assignments,
    without_assignments,
)
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    assigned_names,
    changed_within,
    child_nodes,
    names_within,
    nodes_within,
    numbered_name,
    parse_statement,
    render_code,
    single_assignment,
    statements_of,
    substitute_names,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction


def with_distinct_names(statements: Body, outside: set[str]) -> list[cst.BaseStatement]:
    """Return statements in which names that are assigned again get other names.

    Those that are used outside, assigned within a loop or a branch, or read ahead of their first
    assignment, stay as they are.
    """
    body = list(statements)
    counts = Counter(assigned_names(*body))
    nested = [s for s in body if not isinstance(s, cst.SimpleStatementLine)]
    kept = outside | set(assigned_names(*nested))
    reused = {name for name, count in counts.items() if count > 1 and name not in kept}
    if not reused:
        return body
    taken = names_within(*body) | outside
    current: dict[str, cst.BaseExpression] = {}
    result = []
    for statement in body:
        binding = single_assignment(statement)
        if binding is None or binding.target not in reused:
            result.append(substitute_names(statement, current))
            continue
        value = substitute_names(binding.value, current)
        name = binding.target
        if name in current:
            name = numbered_name(name, taken)
        elif name in names_within(binding.value):
            return body  # it is handed on from the trip before
        current[binding.target] = cst.Name(name)
        result.append(parse_statement(f"{name} = {render_code(value)}"))
    return result


def with_distinct_values(function: JitFunction) -> cst.FunctionDef:
    """Return a function in which ``k = load(...)``, ``k = k.to(...)`` are two names, in loops too.

    What a loop hands on, and what is assigned within a branch, keep their names.
    """
    swaps: dict[int, list[cst.CSTNode]] = {
        id(loop.node): [with_body(loop.node, with_distinct_names(loop.body, outside))]
        for loop in function.loops
        for outside in [names_within(*_others(function.node, loop.node), function.node.params)]
    }
    node = with_each(function.node, swaps) if swaps else function.node
    own = with_distinct_names(statements_of(node), set(function.params))
    return cst.ensure_type(with_body(node, own), cst.FunctionDef)


def _others(node: cst.CSTNode, loop: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the parts of a node that a loop's body is not in."""
    parts: list[cst.CSTNode] = []
    for child in child_nodes(node):
        if child is loop:
            parts += [p for p in child_nodes(child) if not isinstance(p, cst.IndentedBlock)]
        elif any(part is loop for part in nodes_within(child)):
            parts += _others(child, loop)
        else:
            parts.append(child)
    return parts


def without_unread(node: cst.FunctionDef, before: JitFunction) -> cst.FunctionDef:
    """Drop the function's assignments that were read before and that nothing reads any more."""
    body = statements_of(node)
    candidates = set(assigned_names(*before.body)) - names_in_own_assignments(before.body)
    while gone := candidates & names_in_own_assignments(body):
        body = changed_within(body, lambda s: without_assignments([s], gone))
        candidates -= gone
    return with_body(node, body)
