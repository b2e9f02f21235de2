"""Tuples of a launcher: what is packed and unpacked again is written out, and what is unread goes.

::

    a, b = [torch.zeros_like(v) for v in [x, y]]    a = torch.zeros_like(x)
    parts = (a, b)                             →    b = torch.zeros_like(y)
    c, d = parts                                    c = a
                                                    d = b

Tensors that a launcher makes for parameters that a kernel never reads are not made at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import values_of
from solkit.tuner.proposers.rewriter._edit import without_param
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    assigned_names,
    bound_names,
    called_name,
    count_uses,
    integer_literal,
    names_within,
    nodes_within,
    parse_statement,
    plain_assignment,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    walk_statements,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._parse import Launch, read_module
from solkit.tuner.proposers.rewriter._roots import ALLOCATORS
from solkit.tuner.proposers.rewriter.launch_copies import kept_statements

_FLAGS = {"True": True, "False": False, "None": None}
_OUTER = (cst.Nonlocal, cst.Global)
_MOST = 16
"""Values of a list that are written out."""
_FILLS = (*ALLOCATORS, "torch.ones", "torch.ones_like", "torch.full", "torch.full_like")
_NEW = frozenset("sum mean view reshape flatten unflatten transpose permute squeeze to".split())
"""Methods of tensors that change nothing."""


def with_unrolled_lists(body: Body) -> list[cst.BaseStatement]:
    """Return a launcher's statements with lists written out, and no branch that is decided.

    Flags decide: names that are ``None``, true or false where a branch stands. Numbers decide none,
    since they may be sizes of blocks, which are tuned.
    """
    outer = [node.names for node in nodes_within(*body) if isinstance(node, _OUTER)]
    shared = frozenset(item.name.value for names in outer for item in names)
    return list(_written_out(body, {}, shared))


def _written_out(
    body: Body, flags: dict[str, object], shared: frozenset[str]
) -> Iterator[cst.BaseStatement]:
    """Yield the statements of a block, and note the flags behind it, but those of other functions.

    Args:
        body: the statements.
        flags: ahead of them, and then behind them.
        shared: names that functions within assign, too.
    """
    for statement in body:
        kept = kept_statements(statement, flags) if isinstance(statement, cst.If) else None
        if kept is not None:
            inner = [s for s in kept if isinstance(s, cst.BaseStatement)]
            yield from _written_out(inner, flags, shared)
            continue
        for name in bound_names(statement):
            flags.pop(name, None)
        if isinstance(statement, cst.If):
            yield _with_sides(statement, flags, shared)
            continue
        yield from _unrolled(statement)
        binding = single_assignment(statement)
        value = "" if binding is None else render_code(binding.value)
        if binding is not None and value in _FLAGS and binding.target not in shared:
            flags[binding.target] = _FLAGS[value]


def _with_sides(branch: cst.If, flags: Mapping[str, object], shared: frozenset[str]) -> cst.If:
    """Return a branch whose sides are written out."""
    sides = list(_written_out(statements_of(branch), dict(flags), shared))
    branch = with_body(branch, sides or [parse_statement("pass")])
    if isinstance(branch.orelse, cst.Else):
        others = list(_written_out(statements_of(branch.orelse), dict(flags), shared))
        other = with_body(branch.orelse, others or [parse_statement("pass")])
        return branch.with_changes(orelse=other)
    return branch


def _unrolled(statement: cst.BaseStatement) -> list[cst.BaseStatement]:
    target, value = _unpacking(statement)
    if not target or not isinstance(value, (cst.ListComp, cst.GeneratorExp)):
        return [statement]
    over = value.for_in
    plain = not over.ifs and over.inner_for_in is None and over.asynchronous is None
    values = _elements(over.iter)
    if not plain or not isinstance(over.target, cst.Name) or len(values) != len(target):
        return [statement]
    element = over.target.value
    read = names_within(value.elt, over.iter)
    if read & set(target) or element in assigned_names(value.elt):
        return [statement]  # later values would be made of earlier ones
    parts = [substitute_names(value.elt, {element: one}) for one in values]
    codes = zip(target, map(render_code, parts), strict=True)
    lines = [parse_statement(f"{name} = {code}") for name, code in codes]
    return [lines[0].with_changes(leading_lines=_leading(statement)), *lines[1:]]


def _leading(statement: cst.BaseStatement) -> Sequence[cst.EmptyLine]:
    return statement.leading_lines if isinstance(statement, cst.SimpleStatementLine) else ()


def _unpacking(statement: cst.BaseStatement) -> tuple[list[str], cst.BaseExpression | None]:
    """Return the different names that a statement unpacks into, and what; none of another one."""
    target, value = plain_assignment(statement) or (None, None)
    elements = target.elements if isinstance(target, (cst.Tuple, cst.List)) else ()
    names = [e.value.value for e in elements if isinstance(e.value, cst.Name)]
    plain = all(isinstance(e, cst.Element) for e in elements) and len(names) == len(elements)
    return (names, value) if plain and len(set(names)) == len(names) else ([], None)


def _elements(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what a list has, or a range over a number; none of another expression."""
    if isinstance(node, (cst.Tuple, cst.List)):
        plain = all(isinstance(e, cst.Element) for e in node.elements)
        return [e.value for e in node.elements] if plain else []
    if called_name(node) == "range" and isinstance(node, cst.Call) and len(node.args) == 1:
        count = integer_literal(node.args[0].value)
        return [cst.Integer(str(i)) for i in range(min(count or 0, _MOST))]
    return []


def with_known_tuples(body: Body) -> list[cst.BaseStatement]:
    """Return a launcher's statements in which a tuple of names that is unpacked is written out."""
    statements = list(body)
    written = assigned_names(*statements)
    tuples: dict[str, cst.BaseExpression] = {}
    for place, statement in enumerate(statements):
        statement = _with_known_parts(statement)
        target, value = _unpacking(statement)
        if target and isinstance(value, cst.Name) and value.value in tuples:
            statement = replace_each(statement, [(value, tuples[value.value].deep_clone())])
        statements[place] = statement
        binding = single_assignment(statement)
        if binding is not None and isinstance(binding.value, cst.Tuple):
            parts = _elements(binding.value)
            names = [part.value for part in parts if isinstance(part, cst.Name)]
            later = assigned_names(*statements[place + 1 :])
            once = written.count(binding.target) == 1
            if once and parts and len(names) == len(parts) and not set(names) & set(later):
                tuples[binding.target] = binding.value
    return statements


def _with_known_parts(statement: cst.BaseStatement) -> cst.BaseStatement:
    """Return a statement with `a` for ``(a, b)[0]``, where computing the others changes nothing."""
    pairs: list[Swap] = []
    for node in nodes_within(statement):
        if not isinstance(node, cst.Subscript) or not isinstance(node.value, cst.Tuple):
            continue
        index = node.slice[0].slice
        at = integer_literal(index.value) if isinstance(index, cst.Index) else None
        parts = _elements(node.value)
        if at is not None and 0 <= at < len(parts) and all(map(_changes_nothing, parts)):
            pairs.append((node, parts[at]))
    return replace_each(statement, pairs) if pairs else statement


def _changes_nothing(node: cst.BaseExpression) -> bool:
    return all(
        isinstance(call.func, cst.Attribute) and call.func.attr.value in _NEW
        for call in nodes_within(node)
        if isinstance(call, cst.Call)
    ) and not any(isinstance(inner, (cst.NamedExpr, cst.Await)) for inner in nodes_within(node))


# ------------------------------------------------------------------------------- unread tensors


def without_unread_tensors(tree: cst.Module) -> cst.Module:
    """Return the module whose launchers make no tensor that no kernel reads or writes."""
    text = read_module(tree)
    if text is None:
        return tree
    pairs: list[Swap] = []
    for launch in text.single:
        unread = _unread_params(launch)
        if not unread:
            continue
        node = launch.function.node
        for name in unread:
            node = without_param(node, name)
        values = {id(launch.arguments[name]) for name in unread}
        args = [arg for arg in launch.call.args if id(arg.value) not in values]
        pairs.append((launch.function.node, node))
        pairs.append((launch.call, launch.call.with_changes(args=args)))
    tree = replace_each(tree, pairs) if pairs else tree
    return _without_unread_names(tree) if pairs else tree


def _unread_params(launch: Launch) -> list[str]:
    """Return parameters that a function never names, and that get tensors its launcher made."""
    read = names_within(launch.function.node.body)
    return [
        param
        for param, value in launch.arguments.items()
        if param not in read | launch.function.constants and _is_made(value, launch.launcher)
    ]


def _is_made(value: cst.BaseExpression, launcher: cst.FunctionDef) -> bool:
    """Tell whether an argument is a tensor that its launcher allocates, or one of its rows."""
    while isinstance(value, cst.Subscript):
        value = value.value
    name = value.value if isinstance(value, cst.Name) else ""
    values = values_of(name, walk_statements(statements_of(launcher)))
    is_filled = bool(values) and all(called_name(value) in _FILLS for value in values)
    return is_filled and assigned_names(launcher).count(name) == len(values)


def _without_unread_names(tree: cst.Module) -> cst.Module:
    """Return the module whose launchers allocate nothing, and name no tuple, that is unread."""
    text = read_module(tree)
    if text is None:
        return tree
    swaps: dict[int, list[cst.CSTNode]] = {}
    for launcher in {id(launch.launcher): launch.launcher for launch in text.launches}.values():
        for statement in statements_of(launcher):
            binding = single_assignment(statement)
            if binding is None or binding.operator or count_uses(launcher, binding.target) > 1:
                continue
            is_tuple = isinstance(binding.value, cst.Tuple) and all(
                isinstance(part, cst.Name) for part in _elements(binding.value)
            )
            if is_tuple or called_name(binding.value) in _FILLS:
                swaps[id(statement)] = []
    return _without_unread_names(with_each(tree, swaps)) if swaps else tree
