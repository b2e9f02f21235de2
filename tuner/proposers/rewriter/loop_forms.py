"""Loops in one form: they begin at 0, and grow nothing that nobody reads.

::

    last = first + n                     for i_trip in range(0, n):
    for i in range(first, last):    →        i = first + i_trip
        count += 1                           acc += tl.load(p + i)
        acc += tl.load(p + i)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._lift import is_elementwise_call
from solkit.tuner.proposers.rewriter._parse import (
    argument_of,
    assigned_names,
    called_name,
    count_uses,
    free_name,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    range_loop,
    render_code,
    single_assignment,
    statements_of,
    walk_statements,
    with_body,
)

__all__ = ["with_plain_loops"]

_PURE = frozenset("tl.load tl.cdiv tl.sum tl.max tl.min tl.arange tl.zeros tl.full".split())


def with_plain_loops(
    body: Sequence[cst.BaseStatement], params: set[str]
) -> list[cst.BaseStatement]:
    """Return a function's statements with its loops in the form of this module."""
    body = _without_unread(body, params)
    sums = _sums_of(body)
    counts = assigned_names(*body)
    fixed = {n for n in names_within(*body) if counts.count(n) <= (0 if n in params else 1)}
    return _from_zero(body, sums, fixed, params | names_within(*body))


# ------------------------------------------------------------------------------- from zero


def _sums_of(body: Sequence[cst.BaseStatement]) -> dict[str, cst.BaseExpression]:
    """Return the values of names that are sums where they are assigned."""
    return {
        a.target: a.value
        for s in walk_statements(list(body))
        if (a := single_assignment(s)) is not None and not a.operator and _terms(a.value)
    }


def _terms(node: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
    """Return both terms of a sum; none of another expression."""
    is_sum = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add)
    return (node.left, node.right) if is_sum and isinstance(node, cst.BinaryOperation) else ()


def _from_zero(
    body: Sequence[cst.BaseStatement],
    sums: Mapping[str, cst.BaseExpression],
    fixed: set[str],
    taken: set[str],
) -> list[cst.BaseStatement]:
    """Return statements whose loops from ``a`` to ``a + n`` are over ``range(0, n)``.

    Args:
        body: statements of a block.
        sums: names that are assigned sums.
        fixed: names that have one value: a bound's is the same where the loop stands.
        taken: names that are no new ones.
    """
    result: list[cst.BaseStatement] = []
    for statement in body:
        if inner := statements_of(statement):
            statement = with_body(statement, _from_zero(inner, sums, fixed, taken))
        result.append(_loop_from_zero(statement, sums, fixed, taken))
    return result


def _loop_from_zero(
    statement: cst.BaseStatement,
    sums: Mapping[str, cst.BaseExpression],
    fixed: set[str],
    taken: set[str],
) -> cst.BaseStatement:
    loop = range_loop(statement)
    if loop is None or render_code(loop.start) == "0" or loop.name in assigned_names(*loop.body):
        return statement
    end = sums.get(render_code(loop.stop), loop.stop)
    calls = any(isinstance(node, cst.Call) for node in nodes_within(loop.start))
    length = _other_term(end, render_code(_bare(loop.start)))
    if length is None or calls or not names_within(loop.start, loop.stop, end) <= fixed | {"tl"}:
        return statement
    trip = free_name(f"{loop.name}_trip", taken)
    args = list(cst.ensure_type(loop.node.iter, cst.Call).args)
    words = [render_code(a.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for a in args]
    kept = words[2:] if args[1].keyword is None else words[1:]
    over = f"{called_name(loop.node.iter)}({', '.join(['0', render_code(length), *kept])})"
    own = parse_statement(f"{loop.name} = {render_code(loop.start)} + {trip}\n")
    changed = loop.node.with_changes(target=cst.Name(trip), iter=parse_expression(over))
    return with_body(changed, [own, *loop.body])


def _other_term(node: cst.BaseExpression, term: str) -> cst.BaseExpression | None:
    """Return what a sum of two terms adds to one of them; ``None`` if it is no such sum."""
    terms = _terms(node)
    places = [i for i, one in enumerate(terms) if render_code(_bare(one)) == term]
    return terms[1 - places[0]] if places else None


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[], rpar=[])


# ------------------------------------------------------------------------------- unread names


def _without_unread(body: Sequence[cst.BaseStatement], params: set[str]) -> list[cst.BaseStatement]:
    """Return statements without names of which only their own next values are made."""
    result = list(body)
    while unread := _unread_names(result, params):
        result = _without_assignments(result, unread)
    return result


def _unread_names(body: Sequence[cst.BaseStatement], params: set[str]) -> set[str]:
    """Return names that grow, and that nothing but their own assignments mentions."""
    uses: dict[str, int] = {}
    grown = set[str]()
    for statement in walk_statements(list(body)):
        binding = single_assignment(statement)
        if binding is not None and _is_pure(binding.value) and binding.target not in params:
            name = binding.target
            uses[name] = uses.get(name, 0) + count_uses(statement, name)
            grown |= {name} if name in names_within(binding.value) else set()
    return {n for n in grown if uses[n] == sum(count_uses(statement, n) for statement in body)}


def _is_pure(node: cst.BaseExpression) -> bool:
    """Tell whether an expression only computes or reads."""
    return all(
        called_name(call) in _PURE or is_elementwise_call(called_name(call)) or _is_cast(call)
        for call in nodes_within(node)
        if isinstance(call, cst.Call)
    )


def _is_cast(call: cst.Call) -> bool:
    is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value == "to"
    return is_method and argument_of(call, 0, "dtype") is not None


def _without_assignments(
    body: Sequence[cst.BaseStatement], names: set[str]
) -> list[cst.BaseStatement]:
    """Return statements without the assignments to some names."""
    result: list[cst.BaseStatement] = []
    for statement in body:
        binding = single_assignment(statement)
        if binding is not None and binding.target in names:
            continue
        if inner := statements_of(statement):
            statement = with_body(statement, _without_assignments(inner, names))
        result.append(statement)
    return result or [parse_statement("pass\n")]
