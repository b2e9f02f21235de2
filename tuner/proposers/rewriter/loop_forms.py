"""Loops in one form: they begin at 0, say how many trips they take, and grow nothing unread.

::

    last = first + n                     for i_trip in range(0, n):
    for i in range(first, last):    →        i = first + i_trip
        count += 1                           acc += tl.load(p + i)
        acc += tl.load(p + i)

    for i in range(n - 1, -1, -1):       for i_trip in range(0, n):
        acc += tl.load(p + i)       →        i = n - 1 - i_trip
                                             acc += tl.load(p + i)

    trips = tl.cdiv(n, BLOCK)            for trip in range(0, tl.cdiv(n, BLOCK)):
    for trip in range(0, trips):    →        acc += tl.load(p + trip * BLOCK + places)
        acc += tl.load(p + trip * BLOCK + places)

    for at in range(0, n, BLOCK):        for at in range(0, n, BLOCK):
        mask = places < n           →        places_at = at + places
        places += BLOCK                      mask = places_at < n

    for at in range(0, n, BLOCK):        for at in range(0, n, BLOCK):
        mask = places < n - at      →        places_at = at + places
                                             mask = places_at < n
"""

from __future__ import annotations

from collections import Counter

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import (
    assignments_in,
    names_in_own_assignments,
    values_of,
    without_assignments,
)
from solkit.tuner.proposers.rewriter._lift_expressions import is_elementwise_call
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Loop,
    Swap,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    changed_within,
    compact_code,
    count_uses,
    free_name,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    range_loop,
    render_code,
    replace_each,
    running_updates,
    single_assignment,
    statements_of,
    substitute_names,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import (
    both_orders,
    compared_sides,
    converted_value,
    is_operation,
)

_PURE = frozenset("tl.load tl.cdiv tl.sum tl.max tl.min tl.arange tl.zeros tl.full".split())


def with_plain_loops(body: Body, params: set[str], constants: set[str]) -> list[cst.BaseStatement]:
    """Return a function's statements with its loops in the form of this module.

    Args:
        body: the function's statements.
        params: its parameters.
        constants: those of them that the compiler knows.
    """
    body = _without_own_hints(body)
    counted = _with_trips(body, _fixed_names(body, params), constants, {})
    body = _without_unread(_without_read_names(body, counted), params)
    fixed = _fixed_names(body, params)
    sums, taken = _sums_of(body), params | names_within(*body)
    return changed_within(body, lambda s: [_loop_from_zero(s, sums, fixed, taken)])


def _without_read_names(before: Body, after: Body) -> list[cst.BaseStatement]:
    """Return statements without assignments to names that others read before, and none does now."""

    def uses(body: Body, name: str) -> int:
        return sum(count_uses(statement, name) for statement in body)

    names = {n for n in assigned_names(*after) if uses(before, n) > uses(after, n) == 1}
    return _without_assignments(after, names)


def _fixed_names(body: Body, params: set[str]) -> set[str]:
    """Return names that have one value in a function."""
    counts = Counter(assigned_names(*body))
    return {n for n in names_within(*body) if counts[n] <= (0 if n in params else 1)}


def _without_own_hints(body: Body) -> list[cst.BaseStatement]:
    """Return statements without ``i = tl.multiple_of(i, step)`` in a loop that counts by the step.

    The compiler sees that itself, and a name that its loop assigns is handed on to no trip.
    """

    def without_hint(statement: cst.BaseStatement) -> list[cst.BaseStatement]:
        if (loop := range_loop(statement)) is None:
            return [statement]
        hint = f"tl.multiple_of({loop.name},{compact_code(loop.step)})"
        inner = [s for s in loop.body if not _assigns(s, loop.name, hint)]
        return [with_body(loop.node, inner or [parse_statement("pass\n")])]

    return changed_within(body, without_hint)


def _assigns(statement: cst.BaseStatement, name: str, code: str) -> bool:
    binding = single_assignment(statement)
    return binding is not None and binding.target == name and compact_code(binding.value) == code


# ------------------------------------------------------------------------------- counts of trips


def _with_trips(
    body: Body, fixed: set[str], constants: set[str], counts: Values
) -> list[cst.BaseStatement]:
    """Return statements whose loops have counts of blocks for the names of such counts.

    Args:
        body: statements of a block.
        fixed: names that have one value.
        constants: parameters that the compiler knows.
        counts: names that were assigned counts of blocks ahead, and these.
    """
    ahead, result = dict(counts), list[cst.BaseStatement]()
    for statement in body:
        binding = single_assignment(statement)
        if binding is not None and not binding.operator and binding.target in fixed:
            count = _count_of_blocks(binding.value, constants)
            if count is not None and names_within(count) <= fixed | {"tl", "triton"}:
                ahead[binding.target] = count
        if inner := statements_of(statement):
            statement = with_body(statement, _with_trips(inner, fixed, constants, ahead))
        loop = range_loop(statement)
        count = None if loop is None else ahead.get(render_code(loop.stop))
        if loop is not None and count is not None:
            statement = _with_stop(loop, count)
        result.append(statement)
    return result


def _with_stop(loop: Loop, stop: cst.BaseExpression) -> cst.For:
    args = [
        arg.with_changes(value=stop.deep_clone()) if arg.value is loop.stop else arg
        for arg in loop.over.args
    ]
    return loop.node.with_changes(iter=loop.over.with_changes(args=args))


def _count_of_blocks(node: cst.BaseExpression, constants: set[str]) -> cst.BaseExpression | None:
    """Return a count of blocks of a constant size; two that a constant chooses from become one."""
    if isinstance(node, cst.IfExp):
        first, second = _quotient(node.body, constants), _quotient(node.orelse, constants)
        if not first or not second or first[1] != second[1]:
            return None
        if not names_within(node.test) <= constants:
            return None
        return parse_expression(
            f"tl.cdiv({first[0]} if {render_code(node.test)} else {second[0]}, {first[1]})"
        )
    is_division = is_operation(node, cst.FloorDivide)
    if is_division and isinstance(node, cst.BinaryOperation):
        return node if render_code(node.right) in constants and _is_plain(node.left) else None
    return node if _quotient(node, constants) else None


def _quotient(node: cst.BaseExpression, constants: set[str]) -> tuple[str, str] | None:
    """Return what ``tl.cdiv`` divides and by which constant; ``None`` for another expression."""
    if not isinstance(node, cst.Call) or called_name(node) not in ("tl.cdiv", "triton.cdiv"):
        return None
    size, block = argument_of(node, 0), argument_of(node, 1)
    if size is None or block is None or not _is_plain(size):
        return None
    code = render_code(block)
    return (f"({render_code(size)})", code) if code in constants else None


def _is_plain(node: cst.BaseExpression) -> bool:
    """Tell whether an expression calls nothing, so that it costs as little where a loop stands."""
    return not any(isinstance(inner, cst.Call) for inner in nodes_within(node))


# ------------------------------------------------------------------------------- from zero


def _sums_of(body: Body) -> dict[str, cst.BaseExpression]:
    """Return the values of names that are sums where they are assigned."""
    return {
        a.target: a.value
        for a in assignments_in(walk_statements(list(body)))
        if not a.operator and is_operation(a.value, cst.Add)
    }


def _loop_from_zero(
    statement: cst.BaseStatement, sums: Values, fixed: set[str], taken: set[str]
) -> cst.BaseStatement:
    """Return a loop from ``a`` to ``a + n``, or down, as one over ``range(0, n)``.

    Args:
        statement: the loop; others stay.
        sums: names that are assigned sums.
        fixed: names that have one value: a bound's is the same where the loop stands.
        taken: names that are no new ones.
    """
    loop = range_loop(statement)
    if loop is None or render_code(loop.start) == "0" or loop.name in assigned_names(*loop.body):
        return statement
    end = sums.get(render_code(loop.stop), loop.stop)
    calls = any(isinstance(node, cst.Call) for node in nodes_within(loop.start))
    is_down = render_code(loop.step) == "-1"
    length = _length_down(loop) if is_down else _other_term(end, render_code(_bare(loop.start)))
    if length is None or calls or not names_within(loop.start, loop.stop, end) <= fixed | {"tl"}:
        return statement
    trip = free_name(f"{loop.name}_trip", taken)
    args = list(loop.over.args)
    words = [render_code(a.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for a in args]
    kept = words[2:] if args[1].keyword is None else words[1:]
    kept = kept[1:] if is_down else kept
    over = f"{called_name(loop.over)}({', '.join(['0', render_code(length), *kept])})"
    sign = "-" if is_down else "+"
    own = parse_statement(f"{loop.name} = {render_code(loop.start)} {sign} {trip}\n")
    changed = loop.node.with_changes(target=cst.Name(trip), iter=parse_expression(over))
    return with_body(changed, [own, *loop.body])


def _length_down(loop: Loop) -> cst.BaseExpression:
    """Return how many trips a loop takes that counts down by 1."""
    start, stop = _bare(loop.start), render_code(parenthesized(loop.stop))
    if (
        isinstance(start, cst.BinaryOperation)
        and isinstance(start.operator, cst.Subtract)
        and [render_code(start.right), stop] == ["1", "(-1)"]
    ):
        return start.left
    return parse_expression(f"{render_code(start)} - {stop}")


def _other_term(node: cst.BaseExpression, term: str) -> cst.BaseExpression | None:
    """Return what a sum of two terms adds to one of them; ``None`` if it is no such sum."""
    orders = both_orders(node, cst.Add)
    return next((other for one, other in orders if render_code(_bare(one)) == term), None)


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[], rpar=[])


# ------------------------------------------------------------------------------- unread names


def _without_unread(body: Body, params: set[str]) -> list[cst.BaseStatement]:
    """Return statements without names of which only their own next values are made."""
    result = list(body)
    while unread := _unread_names(result, params):
        result = _without_assignments(result, unread)
    return result


def _unread_names(body: Body, params: set[str]) -> set[str]:
    """Return names that grow, and that nothing but their own assignments mentions."""
    bindings = assignments_in(walk_statements(body))
    grown = {b.target for b in bindings if b.target in names_within(b.value)}
    kept = params | {b.target for b in bindings if not _is_pure(b.value)}
    return names_in_own_assignments(body) & grown - kept


def _is_pure(node: cst.BaseExpression) -> bool:
    """Tell whether an expression only computes or reads."""
    return all(
        called_name(call) in _PURE or is_elementwise_call(called_name(call)) or _is_cast(call)
        for call in nodes_within(node)
        if isinstance(call, cst.Call)
    )


def _is_cast(call: cst.Call) -> bool:
    return converted_value(call) is not None and argument_of(call, 0, "dtype") is not None


def _without_assignments(body: Body, names: set[str]) -> list[cst.BaseStatement]:
    """Return statements without the assignments to some names."""
    changed = changed_within(body, lambda s: without_assignments([s], names))
    return changed or [parse_statement("pass\n")]


# ------------------------------------------------------------------------------- indices of trips


def with_indices_of_trips(body: Body, taken: set[str]) -> list[cst.BaseStatement]:
    """Return statements in which indices that masks compare follow from a loop's variable.

    As of block pointers that move on with their loop. Nothing else may read such an index.

    Args:
        body: the function's statements.
        taken: names that are no new ones.
    """
    return _indices_of_trips(body, body, taken | names_within(*body))


def _indices_of_trips(body: Body, whole: Body, taken: set[str]) -> list[cst.BaseStatement]:
    result: list[cst.BaseStatement] = []
    for statement in body:
        if inner := statements_of(statement):
            statement = with_body(statement, _indices_of_trips(inner, whole, taken))
        loop = range_loop(statement)
        if loop is not None:
            moved, ahead = _moving_indices(loop, result, whole)
            result = [s for s in result if not any(s is gone for gone in ahead)]
            names = {name: free_name(f"{name}_at", taken) for name in moved}
            head = [parse_statement(f"{names[n]} = {code} + {n}") for n, code in moved.items()]
            values = {name: cst.Name(new) for name, new in names.items()}
            own = [s for s in loop.body if _grown(s) not in moved]
            statement = (
                with_body(loop.node, [*head, *(substitute_names(s, values) for s in own)])
                if moved
                else statement
            )
        result.append(statement)
    return result


def _grown(statement: cst.BaseStatement) -> str:
    binding = single_assignment(statement)
    return binding.target if binding is not None and binding.operator == "+=" else ""


def _moving_indices(
    loop: Loop, before: Body, whole: Body
) -> tuple[dict[str, str], list[cst.BaseStatement]]:
    """Return indices of a loop with what a trip adds to their first value, as code.

    Also statements ahead of the loop that move an index to the loop's start, which add nothing now.
    """
    compared = names_within(*(n for n in nodes_within(*loop.body) if isinstance(n, cst.Comparison)))
    start, step = render_code(loop.start), render_code(loop.step)
    moved, gone = dict[str, str](), list[cst.BaseStatement]()
    for place, binding in running_updates(loop).items():
        name, operand = binding.target, binding.operand
        own = [s for s in before if (a := single_assignment(s)) and a.target == name]
        uses = [s for s in before if count_uses(s, name)]
        outside = sum(count_uses(s, name) for s in whole) - count_uses(loop.node, name)
        if binding.operator != "+=" or name not in compared or not own or len(uses) != len(own):
            continue
        if outside != len(own) or any(count_uses(s, name) for s in loop.body[place + 1 :]):
            continue  # it is read elsewhere, or behind its update
        if start != "0":  # such as ``index += first`` ahead of ``range(first, ...)``
            last = single_assignment(own[-1])
            is_moved = last is not None and last.operator == "+=" and len(own) > 1
            if last is None or not is_moved or render_code(last.operand) != start:
                continue
        if render_code(operand) == step:
            moved[name] = loop.name
        elif step == "1" and start == "0" and _is_whole(operand, whole):
            moved[name] = f"{loop.name} * {render_code(parenthesized(operand))}"
        else:
            continue
        gone += own[-1:] if start != "0" else []
    return moved, gone


def _is_whole(node: cst.BaseExpression, body: Body) -> bool:
    """Tell whether an expression is a number or a range's length: sums of others are rounded."""
    lengths = {
        render_code(call.args[-1].value) for s in body for call in calls_within(s, "tl.arange")
    }
    return integer_literal(node) is not None or render_code(node) in lengths


def with_compared_indices(body: Body, constants: set[str]) -> list[cst.BaseStatement]:
    """Return statements in which masks compare indices with a loop's end, not with what is left.

    Args:
        body: the function's statements.
        constants: parameters that the compiler knows.
    """
    taken = names_within(*body)

    def compared(statement: cst.BaseStatement) -> list[cst.BaseStatement]:
        loop = range_loop(statement)
        return [statement if loop is None else _compared_indices(loop, body, constants, taken)]

    return changed_within(body, compared)


def _compared_indices(
    loop: Loop, whole: Body, constants: set[str], taken: set[str]
) -> cst.BaseStatement:
    head, swaps = dict[tuple[str, str], str](), list[Swap]()
    for node in nodes_within(*loop.body):
        rest = _compared_with_rest(node, loop, whole, constants)
        if rest is None:
            continue
        column, passed, end = rest
        index = column.value if isinstance(column, cst.Subscript) else column
        key = render_code(passed), render_code(index)
        name = head.setdefault(key, "") or free_name(f"{key[1]}_at", taken)
        head[key] = name
        at = replace_each(column, [(index, cst.Name(name))])
        swaps.append((node, parse_expression(f"({render_code(at)} < {render_code(end)})")))
    if not swaps:
        return loop.node
    lines = [f"{name} = {' + '.join(key)}" for key, name in head.items()]
    own = [replace_each(s, swaps) for s in loop.body]
    return with_body(loop.node, [*map(parse_statement, lines), *own])


def _compared_with_rest(
    node: cst.CSTNode, loop: Loop, whole: Body, constants: set[str]
) -> tuple[cst.BaseExpression, cst.BaseExpression, cst.BaseExpression] | None:
    """Return ``index``, ``at`` and ``end`` of a mask ``index < end - at``; ``None`` for others.

    The end is that of the loop, `at` a multiple of its variable and the index one of a range: none
    of them is a float, whose sums are rounded.
    """
    sides = compared_sides(node, "<")
    if sides is None:
        return None
    column, rest = sides
    index = column.value if isinstance(column, cst.Subscript) else column
    if isinstance(rest, cst.Name) and assigned_names(*whole).count(rest.value) == 1:
        rest = next(iter(values_of(rest.value, loop.body)), rest)
    if not is_operation(rest, cst.Subtract) or not isinstance(index, cst.Name):
        return None
    end, at = rest.left, rest.right
    ranges = values_of(index.value, whole)
    is_single = assigned_names(*whole).count(index.value) == len(ranges) == 1
    if not is_single or called_name(ranges[0]) != "tl.arange":
        return None
    factors = [at.left, at.right] if is_operation(at, cst.Multiply) else [at]
    codes = {render_code(factor) for factor in factors}
    is_multiple = loop.name in codes and len(codes - {loop.name}) == len(factors) - 1
    is_multiple &= codes - {loop.name} <= constants
    is_end = isinstance(end, cst.Name) and end.value in names_within(loop.stop)
    fixed = {render_code(end), loop.name} & set(assigned_names(*loop.body))
    return (column, at, end) if is_multiple and is_end and not fixed else None
