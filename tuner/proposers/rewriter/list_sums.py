"""Sums and extrema of a tensor that a launcher makes of a Python list, taken of the list.

Launchers of packed sequences copy their lengths to the GPU and take the sum of the copy as a size::

    lengths_t = torch.tensor(lengths, device=x.device, dtype=torch.int32)
    rows = lengths_t.sum()              # launches a reduction
    out = torch.empty(rows, n, ...)     # Python waits for its result, here and at each further use

The list has the same numbers. Where it holds other things than whole numbers, which the launcher
finds out in each call, the tensor's result stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    argument_of,
    assigned_names,
    bound_names,
    called_name,
    calls_within,
    child_nodes,
    integer_literal,
    nodes_within,
    parse_expression,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
)
from solkit.tuner.proposers.rewriter._operations import call_args, is_operation
from solkit.tuner.proposers.rewriter._roots import TENSOR_QUERIES

_REDUCTIONS = ("sum", "max", "min")
_TYPES = ("", "torch.int32", "torch.int64", "torch.int", "torch.long")
_TAKE_SIZES = frozenset(
    "empty zeros ones full new_empty new_zeros new_full view reshape expand range int cdiv "
    "next_power_of_2".split()
)
"""Functions and methods that take a number as they take a tensor of one element."""
_READ = TENSOR_QUERIES | {*_REDUCTIONS, "item"}
"""Attributes that give neither the list, nor memory of the tensor, to anybody."""
_PLAIN = _READ | {*"len isinstance int view reshape contiguous".split()}
"""Functions and methods that change neither a tensor nor a list, besides those of torch."""
_BUILTINS = {*_REDUCTIONS, *"int list map set tuple type".split()}
"""Names that a choice between list and tensor reads: they must be Python's own."""


def with_sums_of_lists(body: Body, tree: cst.Module) -> list[cst.BaseStatement]:
    """Return a launcher's statements that take sizes of lists, not of tensors made of them.

    Args:
        body: the launcher's statements.
        tree: the module.
    """
    pairs = [
        (call, code)
        for call, code in _reductions(body, {})
        if _is_number(call, body) or _is_size(call, body)
    ]
    if not pairs or {*_BUILTINS, "*"} & {*bound_names(tree)}:
        return list(body)
    return [replace_each(statement, pairs) for statement in body]


def _reductions(body: Body, outer: dict[str, str]) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    """Yield reductions of tensors, each with that of the list.

    Args:
        body: statements.
        outer: lists of the tensors that hold what these hold, by the tensors' names.
    """
    lists = dict(outer)
    for statement in body:
        inner = statements_of(statement)
        if inner and not isinstance(statement, cst.If):
            lists = {}
            continue
        read = statement.test if isinstance(statement, cst.If) else statement
        lists = _unchanged(lists, read)
        yield from ((call, _of_list(call, name)) for call, name in _calls(read, lists))
        for part in [inner, *_other_branches(statement)] if inner else []:
            yield from _reductions(part, lists)
        lists = _unchanged(lists, statement)
        gone = assigned_names(statement)
        lists = {t: n for t, n in lists.items() if not {t, n} & {*gone}}
        binding = single_assignment(statement)
        name = None if binding is None else _list_of(binding.value)
        if binding is not None and name is not None and name != binding.target:
            lists[binding.target] = name


def _other_branches(statement: cst.CSTNode) -> list[Body]:
    """Return the bodies of ``else``, and of each ``elif``."""
    other = statement.orelse if isinstance(statement, cst.If) else None
    if other is None:
        return []
    return [statements_of(other), *_other_branches(other)]


def _list_of(value: cst.BaseExpression) -> str | None:
    """Return the name of the list that ``torch.tensor`` copies, as whole numbers."""
    if not isinstance(value, cst.Call) or called_name(value) != "torch.tensor":
        return None
    data, kind = argument_of(value, 0, "data"), argument_of(value, 1, "dtype")
    code = "" if kind is None else render_code(kind)
    return data.value if isinstance(data, cst.Name) and code in _TYPES else None


def _calls(node: cst.CSTNode, lists: dict[str, str]) -> Iterator[tuple[cst.Call, str]]:
    """Yield reductions of whole tensors, also as numbers, each with the name of the list."""
    for call in calls_within(node):
        owner = _reduced(call)
        if isinstance(owner, cst.Name) and owner.value in lists:
            yield call, lists[owner.value]


def _reduced(call: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return ``x`` of ``x.sum()``, ``x.max()`` or ``x.min()``, with or without ``.item()``."""
    func = call.func if isinstance(call, cst.Call) and not call.args else None
    if not isinstance(func, cst.Attribute):
        return None
    if func.attr.value == "item":
        return _reduced(func.value)
    return func.value if func.attr.value in _REDUCTIONS else None


def _is_plain(node: cst.CSTNode) -> bool:
    """Tell whether a node is no call of what may change a list, or a tensor made of one."""
    if not isinstance(node, cst.Call):
        return True
    name = called_name(node)
    return name.startswith("torch.") or name.split(".")[-1] in _PLAIN


def _of_list(call: cst.Call, name: str) -> cst.BaseExpression:
    """Return a choice: the reduction of the list where that holds whole numbers alone."""
    func = cst.ensure_type(call.func, cst.Attribute)
    if func.attr.value == "item":
        func = cst.ensure_type(cst.ensure_type(func.value, cst.Call).func, cst.Attribute)
    reduction = func.attr.value
    is_whole = f"type({name}) in (list, tuple) and set(map(type, {name})) == {{int}}"
    return parse_expression(f"({reduction}({name}) if {is_whole} else {render_code(call)})")


def _unchanged(lists: dict[str, str], node: cst.CSTNode) -> dict[str, str]:
    """Return those of lists, by their tensors' names, that a node neither changes nor hands on."""
    if not all(map(_is_plain, nodes_within(node))):
        return {}
    watched = {*lists, *lists.values()}
    gone = {
        part.value
        for part, parent in _with_parents([node])
        if isinstance(part, cst.Name) and part.value in watched and not _only_reads(parent)
    }
    return {tensor: name for tensor, name in lists.items() if not {tensor, name} & gone}


def _only_reads(parent: cst.CSTNode) -> bool:
    """Tell whether a node takes numbers of a list, or of a tensor, and hands neither on."""
    if isinstance(parent, cst.Attribute):
        return parent.attr.value in _READ
    is_compared = isinstance(parent, (cst.Comparison, cst.ComparisonTarget))
    return is_compared or called_name(parent) in ("len", "torch.tensor")


def _with_parents(within: Sequence[cst.CSTNode]) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Yield all that is within nodes with its parent; an argument's parent is its call."""
    pending = [(child, node) for node in within for child in child_nodes(node)]
    while pending:
        part, parent = pending.pop()
        yield part, parent
        owner = parent if isinstance(part, cst.Arg) else part
        pending += [(child, owner) for child in child_nodes(part)]


# ------------------------------------------------------------------------------- uses


def _is_number(call: cst.Call, body: Body) -> bool:
    """Tell whether Python makes a number of a reduction at once, by ``int`` or ``item``."""
    if render_code(call.func).endswith(".item"):
        return True
    return any(called_name(parent) == "int" for node, parent in _with_parents(body) if node is call)


def _is_size(call: cst.Call, body: Body) -> bool:
    """Tell whether a reduction is part of a sum that is only used as a size."""
    for binding in assignments_in(nodes_within(*body)):
        if not binding.operator and any(node is call for node in nodes_within(binding.value)):
            return _is_sum(binding.value) and _are_sizes(binding.target, body)
    return False


def _is_sum(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is made of reductions and whole numbers by sums and products."""
    if is_operation(node, cst.Add, cst.Subtract, cst.Multiply):
        return _is_sum(node.left) and _is_sum(node.right)
    return _reduced(node) is not None or integer_literal(node) is not None


def _are_sizes(name: str, body: Body) -> bool:
    """Tell whether all uses of a name are the same for a number as for a tensor that holds it.

    A list or tuple that holds it may have a name, and be a launch's grid.
    """
    nodes = list(nodes_within(*body))
    grids = _grids(nodes)
    targets = {id(node.target) for node in nodes if isinstance(node, cst.AssignTarget)}
    numbers = {id(part) for value in (*_numbers(nodes), *grids) for part in _listed(value)}
    lists = set[str]()
    for binding in assignments_in(nodes):
        own = [n for n in _listed(binding.value) if isinstance(n, cst.Name) and n.value == name]
        if own and own[0] is not binding.value:
            lists.add(binding.target)
            numbers |= {id(part) for part in own}
    allowed = {name: targets | numbers}
    allowed |= dict.fromkeys(lists - {name}, targets | {id(grid) for grid in grids})
    uses = (node for node in nodes if isinstance(node, cst.Name) and node.value in allowed)
    return all(id(node) in allowed[node.value] for node in uses)


def _grids(nodes: Sequence[cst.CSTNode]) -> list[cst.BaseExpression]:
    """Return what launches have in brackets."""
    calls = (node.func for node in nodes if isinstance(node, cst.Call))
    elements = (e.slice for func in calls if isinstance(func, cst.Subscript) for e in func.slice)
    return [element.value for element in elements if isinstance(element, cst.Index)]


def _numbers(nodes: Sequence[cst.CSTNode]) -> list[cst.BaseExpression]:
    """Return what functions of sizes are given, and what decides a test."""
    taken: list[cst.BaseExpression] = []
    for node in nodes:
        if isinstance(node, cst.Call) and called_name(node).split(".")[-1] in _TAKE_SIZES:
            taken += call_args(node)
        if isinstance(node, (cst.If, cst.IfExp, cst.While, cst.Assert)):
            taken += _compared(node.test)
    return taken


def _listed(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return an expression; of a tuple, a list, or a function that returns one, the elements."""
    value = value.body if isinstance(value, cst.Lambda) else value
    if not isinstance(value, (cst.Tuple, cst.List)):
        return [value]
    return [element.value for element in value.elements]


def _compared(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what comparisons compare that alone decide a test."""
    if isinstance(test, cst.BooleanOperation):
        return [*_compared(test.left), *_compared(test.right)]
    if isinstance(test, cst.UnaryOperation):
        return _compared(test.expression)
    if not isinstance(test, cst.Comparison):
        return []
    return [test.left, *(target.comparator for target in test.comparisons)]
