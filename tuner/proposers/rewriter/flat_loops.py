"""A loop around a loop over a row in blocks becomes one loop over all elements of both.

::

    for c in range(n):                       for t in range(0, n * m, B):
        p = x + c * m                            e = t + tl.arange(0, B)
        for o in range(0, m, B):        →        inside = e < n * m
            i = o + tl.arange(0, B)              v = tl.load(x + e, mask=inside, other=0)
            v = tl.load(p + i, mask=i < m,
                        other=0)

Rows that follow each other are one longer row, which other rewrites hold in registers, read in one
pass, or split. What else depends on the row has ``c = e // m``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import (
    assignments_in,
    last_values,
    without_assignments,
    written_out,
)
from solkit.tuner.proposers.rewriter._carried import unpacked_statements
from solkit.tuner.proposers.rewriter._lift import scalar_names, without_running
from solkit.tuner.proposers.rewriter._lift_expressions import CannotLiftError
from solkit.tuner.proposers.rewriter._memory import WRITES, mask_of
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Loop,
    Swap,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    compound_statement,
    count_uses,
    free_name,
    names_read_first,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statements,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
    with_each,
)
from solkit.tuner.proposers.rewriter._offset_products import OtherOffsetError, offset_products
from solkit.tuner.proposers.rewriter._operations import (
    call_args,
    conjuncts,
    converted_value,
    is_operation,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, Launch
from solkit.tuner.proposers.rewriter._values import as_blocked_loop, is_runtime_size
from solkit.tuner.proposers.rewriter._variants import launch_variants

_REDUCTIONS = ("tl.sum", "tl.max", "tl.min")
_ZEROS = ("0", "0.0")
_LEAST = ('float("-inf")', "float('-inf')", '-float("inf")', "-float('inf')")
_REDUCED = {"tl.maximum": "tl.max", "tl.minimum": "tl.min"}
"""What makes one value of lanes that a loop updates by a function; of other updates, the sum."""
_FILLS = {"tl.maximum": _LEAST, "tl.minimum": tuple(code.replace("-", "") for code in _LEAST)}


class FlatLoops:
    """Loops around loops over rows in blocks become loops over all elements.

    Applies where the outer loop counts rows, the inner one is its last statement, each access of
    the inner one is masked by the row's end, and what is carried are sums of what is 0 beyond the
    row, or extrema of what is infinite there. Of a block, only its whole sum or extremum is read.
    """

    kind = "flat loops"
    helps = ("latency", "one trip at a time", "waits for loads", "extra traffic", "tail")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        intent = "Rows that {} walks over one after the other are one"
        factors = ("latency", "extra traffic", "tail")
        return launch_variants(text, facts, _with_flat_loops, intent, *factors)


def _with_flat_loops(launch: Launch) -> cst.FunctionDef | None:
    function = launch.function
    swaps: dict[int, Sequence[cst.CSTNode]] = {
        id(loop.node): [flat]
        for place, loop in _loops_by_place(function)
        if (flat := _flat_loop(function, loop, function.body[place + 1 :])) is not None
    }
    return with_each(function.node, swaps) if swaps else None


def _loops_by_place(function: JitFunction) -> list[tuple[int, Loop]]:
    loops = ((place, range_loop(statement)) for place, statement in enumerate(function.body))
    return [(place, loop) for place, loop in loops if loop is not None]


@dataclass(frozen=True)
class _Nest:
    """Two loops, of which the inner one walks over a row.

    Attributes:
        row: the outer loop's variable.
        count, length: how many rows there are, and elements of one, as code.
        block: the inner loop's constant.
        ahead: what the outer loop assigns for each row.
        body: of the inner loop, with `element` for the index in the row and `inside` for the mask.
        element, inside, whole: free names; `whole` is the index in all rows.
    """

    row: str
    count: str
    length: str
    block: str
    ahead: Body
    body: Body
    element: str
    inside: str
    whole: str

    @property
    def values(self) -> dict[str, cst.BaseExpression]:
        """The expressions that the body's names stand for."""
        return last_values(self.body)


def _flat_loop(function: JitFunction, outer: Loop, after: Body) -> cst.BaseStatement | None:
    """Return one loop in place of two; ``None`` if they are of another form."""
    nest = _nest(function, outer, after)
    if nest is None or not _is_masked(nest) or not _is_neutral(nest) or _mixes(nest):
        return None
    read = names_read_first(after)
    carried = {name for name, _ in _updates(nest)}
    if read & ({nest.row, *assigned_names(*nest.ahead), *assigned_names(*nest.body)} - carried):
        return None
    lanes = carried - scalar_names(function, {})
    if not all(_is_reduced(name, value, after) for name, value in _updates(nest) if name in lanes):
        return None
    return _written(function, nest)


def _is_reduced(name: str, value: cst.BaseExpression, after: Body) -> bool:
    """Tell whether all that is read of a block is its whole sum or extremum: lanes change."""
    reduction = _REDUCED.get(called_name(value), "tl.sum")
    whole = 0
    for call in (call for statement in after for call in calls_within(statement, reduction)):
        axis, operand = argument_of(call, 1, "axis"), argument_of(call, 0, "input")
        is_own = operand is not None and render_code(operand) == name
        whole += is_own and (axis is None or render_code(axis) in ("0", "None"))
    return whole == sum(count_uses(statement, name) for statement in after)


def _nest(function: JitFunction, outer: Loop, after: Body) -> _Nest | None:
    if (render_code(outer.start), render_code(outer.step)) != ("0", "1"):
        return None
    try:
        *ahead, last = unpacked_statements(without_running(outer, names_within(*after)))
    except (CannotLiftError, ValueError):
        return None
    inner = range_loop(last)
    row = None if inner is None else as_blocked_loop(inner, function)
    if inner is None or row is None or not all(map(single_assignment, ahead)):
        return None
    if inner.name in names_read_first(after):
        return None
    written = {outer.name, *assigned_names(*outer.body)}
    sizes = (outer.stop, row.bound)
    if any(names_within(size) & written or not _is_size(size, function) for size in sizes):
        return None
    taken = set(function.names)
    element, inside, whole = (free_name(name, taken) for name in ("element", "inside", "whole"))
    body = _with_element(function, inner, row.counts, (row.block, element))
    if body is None or inner.name in names_within(*body):
        return None
    length = render_code(parenthesized(row.bound))
    body = [replace_each(s, _ends(s, element, length, inside)) for s in body]
    count = render_code(parenthesized(outer.stop))
    return _Nest(outer.name, count, length, row.block, ahead, body, element, inside, whole)


def _is_size(node: cst.BaseExpression, function: JitFunction) -> bool:
    plain = all(called_name(c) == "tl.cdiv" for c in calls_within(node))
    names = names_within(node) - {"tl"}
    own = {a.target: a.value for a in assignments_in(function.body) if a.target in names}
    counts = assigned_names(*function.body)
    fixed = all(counts.count(n) == 1 and _is_size(v, function) for n, v in own.items())
    rest = [cst.Name(n) for n in names - set(own)]
    return plain and fixed and all(is_runtime_size(node, function) for node in rest)


def _with_element(
    function: JitFunction, inner: Loop, counts: bool, names: tuple[str, str]
) -> list[cst.BaseStatement] | None:
    """Return the inner loop's body with a name for the index of an element in its row."""
    block, element = names
    spans = {f"tl.arange(0,{block})"}
    for statement in function.body:
        binding = single_assignment(statement)
        plain = binding is not None and compact_code(binding.value) in spans
        if plain and binding and assigned_names(*function.body).count(binding.target) == 1:
            spans.add(binding.target)
    starts = {f"{inner.name}*{block}", f"{block}*{inner.name}"} if counts else {inner.name}
    forms = {f"{a}+{b}" for a in starts for b in spans} | {
        f"{b}+{a}" for a in starts for b in spans
    }
    body = [replace_each(s, _matches(s, forms, element)) for s in inner.body]
    aliases = {
        a.target: cst.Name(element) for a in assignments_in(body) if render_code(a.value) == element
    }
    if any(assigned_names(*body).count(name) > 1 for name in aliases):
        return None
    kept = without_assignments(body, aliases)
    return [substitute_names(statement, aliases) for statement in kept]


def _matches(statement: cst.BaseStatement, forms: set[str], element: str) -> list[Swap]:
    """Return the sums of a statement that are an element's index, and terms ``p + o + i`` of it."""
    pairs: list[Swap] = []
    for node in nodes_within(statement):
        if not is_operation(node, cst.Add):
            continue
        right = compact_code(node.right)
        first = node.left
        inner = first.right if isinstance(first, cst.BinaryOperation) else None
        is_sum = is_operation(first, cst.Add)
        if compact_code(node.with_changes(lpar=[], rpar=[])) in forms:
            pairs.append((node, cst.Name(element)))
        elif is_sum and inner is not None and not first.lpar:
            code = compact_code(inner)
            if f"{code}+{right}" in forms and isinstance(first, cst.BinaryOperation):
                pairs.append((node, node.with_changes(left=first.left, right=cst.Name(element))))
    return pairs


def _ends(statement: cst.BaseStatement, element: str, length: str, inside: str) -> list[Swap]:
    """Return the comparisons of a statement with the row's end."""
    ends = {f"{element}<{length}", f"{element}<{length.strip('()')}"}
    return [
        (node, cst.Name(inside))
        for node in nodes_within(statement)
        if isinstance(node, cst.Comparison)
        and compact_code(node.with_changes(lpar=[], rpar=[]))
        in {"".join(end.split()) for end in ends}
    ]


# ------------------------------------------------------------------------------- what is sound


def _is_masked(nest: _Nest) -> bool:
    """Tell whether each access of the inner loop is masked by the row's end, and nothing is odd."""
    statements = [*nest.ahead, *nest.body]
    plain = all(isinstance(s, cst.SimpleStatementLine) for s in statements)
    spread = any(isinstance(n, cst.Subscript) for s in statements for n in nodes_within(s))
    own = assigned_names(*nest.ahead)
    writes = any(calls_within(s, *WRITES) for s in nest.ahead)
    if not plain or spread or writes or len(own) != len(set(own)):
        return False
    if set(own) & set(assigned_names(*nest.body)) or _reads_early(nest.ahead):
        return False
    if any(calls_within(s, *_REDUCTIONS, "tl.arange") for s in nest.ahead):
        return False
    return all(_is_within(mask_of(c), nest) for s in nest.body for c in _accesses(s))


def _reads_early(ahead: Body) -> bool:
    """Tell whether a row takes a value from the row before."""
    return bool(names_read_first(ahead) & set(assigned_names(*ahead)))


def _accesses(statement: cst.BaseStatement) -> list[cst.Call]:
    return calls_within(statement, "tl.load", *WRITES)


def _is_within(mask: cst.BaseExpression | None, nest: _Nest) -> bool:
    """Tell whether a mask leaves out all that is beyond the row."""
    if isinstance(mask, cst.Name):
        value = nest.values.get(mask.value)
        return mask.value == nest.inside or (value is not None and _is_within(value, nest))
    parts = [] if mask is None else conjuncts(mask)
    return len(parts) > 1 and any(_is_within(part, nest) for part in parts)


def _updates(nest: _Nest) -> list[tuple[str, cst.BaseExpression]]:
    """Return the names that the inner loop carries, and their new values."""
    carried = names_read_first(nest.body) & set(assigned_names(*nest.body))
    bindings = assignments_in(nest.body)
    return [(a.target, a.value) for a in bindings if a.target in carried]


def _is_neutral(nest: _Nest) -> bool:
    """Tell whether what is beyond a row changes nothing that is carried."""
    updates = _updates(nest)
    if len(updates) != len({name for name, _ in updates}):
        return False
    return all(_is_neutral_update(name, value, nest) for name, value in updates)


def _is_neutral_update(name: str, value: cst.BaseExpression, nest: _Nest) -> bool:
    if is_operation(value, cst.Add):
        sides = [value.left, value.right]
        rest = [side for side in sides if render_code(side) != name]
        return (
            len(rest) == 1 and name not in names_within(*rest) and _is_null(rest[0], nest, _ZEROS)
        )
    fills = _FILLS.get(called_name(value))
    if fills is None:
        return False
    args = call_args(value)
    rest = [arg for arg in args if render_code(arg) != name]
    return len(args) == 2 and len(rest) == 1 and _is_null(rest[0], nest, fills)


def _is_null(node: cst.BaseExpression, nest: _Nest, fills: Sequence[str]) -> bool:
    """Tell whether a value is a fill beyond the row: 0 for sums."""
    if isinstance(node, cst.Name):
        value = nest.values.get(node.value)
        once = assigned_names(*nest.body).count(node.value) == 1
        return value is not None and once and _is_null(value, nest, fills)
    if isinstance(node, cst.BinaryOperation):
        sides = [_is_null(side, nest, fills) for side in (node.left, node.right)]
        kinds = (cst.Multiply, cst.Add, cst.Subtract)
        return fills == _ZEROS and isinstance(node.operator, kinds) and all(sides)
    if not isinstance(node, cst.Call):
        return False
    if (inner := converted_value(node)) is not None:
        return _is_null(inner, nest, fills)
    args = call_args(node)
    if called_name(node) == "tl.where" and len(args) == 3:
        return _is_within(args[0], nest) and render_code(args[2]) in fills
    if called_name(node) == "tl.load":
        other = argument_of(node, 2, "other")
        return other is not None and render_code(other) in fills
    return called_name(node) in (*_REDUCTIONS, "tl.abs") and _is_null(args[0], nest, fills)


def _mixes(nest: _Nest) -> bool:
    """Tell whether a row's own value meets a sum over the block: it would be a block itself."""
    rows = {nest.row, *assigned_names(*nest.ahead)}
    varying = {n for n in rows if n == nest.row or _depends(n, nest)}
    varying |= {n for n, v in nest.values.items() if names_within(v) & varying}
    for statement in nest.body:
        calls = calls_within(statement, *_REDUCTIONS)
        outside = replace_each(statement, [(call, cst.Name("_")) for call in calls])
        binding = single_assignment(outside)
        read = names_within(outside if binding is None else binding.value)
        if calls and (read & {*rows, nest.element, nest.inside} or read & varying - _sums(nest)):
            return True
    return False


def _sums(nest: _Nest) -> set[str]:
    return {name for name, _ in _updates(nest)}


def _depends(name: str, nest: _Nest) -> bool:
    return name in assigned_names(*nest.ahead)


# ------------------------------------------------------------------------------- writing it


def _written(function: JitFunction, nest: _Nest) -> cst.BaseStatement:
    taken = set(function.names) | {nest.element, nest.inside, nest.whole}
    start = free_name(f"{nest.row}_start", taken)
    total = f"{nest.count} * {nest.length}"
    head = parse_statements(
        f"{nest.whole} = {start} + tl.arange(0, {nest.block})\n"
        f"{nest.inside} = {nest.whole} < {total}\n"
        f"{nest.row} = {nest.whole} // {nest.length}\n"
        f"{nest.element} = {nest.whole} % {nest.length}\n"
    )
    ahead = [replace_each(s, _masked_loads(s, nest.inside)) for s in nest.ahead]
    rest = list(nest.body)
    if "int64" not in render_code(function.node):  # terms in another order may need fewer bits
        rest = [_contiguous(statement, nest) for statement in rest]
    used = _used(head + ahead, rest)
    return compound_statement(f"for {start} in range(0, {total}, {nest.block})", [*used, *rest])


def _masked_loads(statement: cst.BaseStatement, inside: str) -> list[Swap]:
    """Return a row's own loads with the mask of elements."""
    pairs: list[Swap] = []
    for call in calls_within(statement, "tl.load"):
        mask = mask_of(call)
        if mask is None:
            args = [render_code(a.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for a in call.args]
            code = f"tl.load({', '.join([args[0], f'mask={inside}', 'other=0', *args[1:]])})"
            pairs.append((call, parse_expression(code)))
        else:
            both = f"{inside} & {render_code(parenthesized(mask))}"
            pairs.append((mask, parse_expression(both)))
    return pairs


def _contiguous(statement: cst.BaseStatement, nest: _Nest) -> cst.BaseStatement:
    """Return a statement whose pointers to rows behind each other are to all elements."""
    pairs: list[Swap] = []
    values: Values = _row_values(nest)
    for call in _accesses(statement):
        pointer = call.args[0].value
        try:
            products = offset_products(substitute_names(pointer, values))
        except OtherOffsetError:
            continue
        length = nest.length.strip("()") if nest.length.isidentifier() else nest.length
        row = tuple(sorted((nest.row, "".join(length.split()))))
        if products.count(row) == 1 == products.count((nest.element,)):
            rest = [p for p in products if p not in (row, (nest.element,))]
            code = " + ".join([*(" * ".join(p) or "1" for p in rest), nest.whole])
            pairs.append((pointer, parse_expression(code)))
    return replace_each(statement, pairs)


def _row_values(nest: _Nest) -> dict[str, cst.BaseExpression]:
    """Return what a row's names stand for, without what it loads."""
    bindings = assignments_in(nest.ahead)
    return written_out(b for b in bindings if not calls_within(b.value, "tl.load"))


def _used(statements: Body, rest: Body) -> list[cst.BaseStatement]:
    """Return the assignments that what follows them needs."""
    needed, kept = names_within(*rest), []
    for statement in reversed(statements):
        binding = single_assignment(statement)
        if binding is None or binding.target in needed:
            needed |= names_within(statement)
            kept.append(statement)
    return kept[::-1]
