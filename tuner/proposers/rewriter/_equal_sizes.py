"""Sizes of a launcher: when are two expressions the same number?

A launcher reads a size several times, as each of its functions does once these are inlined, and
gives its own tensors the strides that follow from their sizes.
"""

from __future__ import annotations

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    MOST_STEPS,
    Swap,
    assigned_names,
    called_name,
    calls_within,
    expand_names,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    plain_assignment,
    plain_code,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
)
from solkit.tuner.proposers.rewriter._parse import launcher_definition
from solkit.tuner.proposers.rewriter._roots import SIZE_CALLS, is_size, launcher_params


def is_variable_size(node: cst.CSTNode) -> bool:
    """Tell whether a part of a grid may be equal to another one: no number, and no operation."""
    return isinstance(node, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))


def size_differences(
    one: cst.BaseExpression, two: cst.BaseExpression, launcher: cst.FunctionDef
) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Return the smallest parts in which two expressions of a launcher may differ."""
    if spelled_size(one, launcher) == spelled_size(two, launcher):
        return []
    parts = [_operands(node) for node in (one, two)]
    if not parts[0] or parts[0][:1] != parts[1][:1] or len(parts[0]) != len(parts[1]):
        return [(one, two)]
    pairs = zip(parts[0][1:], parts[1][1:], strict=True)
    return [p for a, b in pairs for p in size_differences(_node(a), _node(b), launcher)]


def _node(part: cst.BaseExpression | str) -> cst.BaseExpression:
    return parse_expression(part) if isinstance(part, str) else part


def _operands(node: cst.BaseExpression) -> list[cst.BaseExpression | str]:
    """Return an operation's sign or a call's function, and its operands; empty for others."""
    if isinstance(node, cst.BinaryOperation):
        return [render_code(node.operator), node.left, node.right]
    if isinstance(node, cst.Call) and called_name(node) in SIZE_CALLS:
        return [called_name(node), *(arg.value for arg in node.args)]
    return []


def spelled_size(node: cst.BaseExpression, launcher: cst.FunctionDef) -> str:
    """Return an expression's code in terms of names that no other expression of sizes defines.

    Sizes and strides of the launcher's own tensors are those with which it allocates them.
    """
    return plain_code(_spelled(node, launcher, MOST_STEPS))


def _spelled(node: cst.BaseExpression, launcher: cst.FunctionDef, steps: int) -> cst.BaseExpression:
    whole = expand_names(node, lambda name: _definition(name, launcher))
    swaps: list[Swap] = []
    for part in nodes_within(whole):
        size = _own_size(part, launcher) if isinstance(part, (cst.Call, cst.Subscript)) else None
        if size is not None and steps:
            swaps.append((part, parenthesized(_spelled(size, launcher, steps - 1))))
    return replace_each(whole, swaps) if swaps else whole


def _own_size(
    node: cst.Call | cst.Subscript, launcher: cst.FunctionDef
) -> cst.BaseExpression | None:
    """Return what a query of a tensor that the launcher allocates gives; ``None`` for others."""
    owner = node.func if isinstance(node, cst.Call) else node.value
    if not isinstance(owner, cst.Attribute) or not isinstance(owner.value, cst.Name):
        return None
    name, query = owner.value.value, owner.attr.value
    code = render_code(node).removeprefix(f"{name}.{query}")[1:-1]
    if query not in ("shape", "size", "stride", "numel") or (query == "numel") != (not code):
        return None
    sizes, is_number = allocated_sizes(name, launcher), code.removeprefix("-").isdigit()
    if sizes is None or (code and not is_number):
        return None  # ``shape[:2]`` is several sizes
    axis = int(code or "0")
    if not -len(sizes) <= axis < len(sizes):
        return None
    if query in ("shape", "size"):
        return sizes[axis]
    factors = sizes[axis % len(sizes) + 1 :] if query == "stride" else sizes
    codes = [render_code(parenthesized(size)) for size in factors]
    return parse_expression(" * ".join(codes) or "1")


def with_written_sizes(launcher: cst.FunctionDef) -> cst.FunctionDef:
    """Return a launcher that allocates what is like a tensor of its own by sizes, as that one."""
    swaps: list[Swap] = []
    for call in calls_within(launcher, *(f"{name}_like" for name in _FILLS)):
        like = call.args[0].value
        named = {a.keyword.value: a for a in call.args[1:] if a.keyword is not None}
        sizes = allocated_sizes(like.value, launcher) if isinstance(like, cst.Name) else None
        if sizes is None or len(named) < len(call.args) - 1 or named.keys() - {"dtype", "device"}:
            continue
        own = cst.ensure_type(launcher_definition(render_code(like), launcher), cst.Call)
        if not all(is_assigned_once(name, launcher) for name in names_within(*own.args)):
            continue
        args = [a for a in own.args if a.keyword is None or a.keyword.value not in named]
        parts = [render_code(a.with_changes(comma=_NO_COMMA)) for a in (*args, *named.values())]
        fill = called_name(call).removesuffix("_like")
        swaps.append((call, parse_expression(f"{fill}({', '.join(parts)})")))
    return replace_each(launcher, swaps) if swaps else launcher


_FILLS = ("torch.empty", "torch.zeros", "torch.ones")
_NO_COMMA = cst.MaybeSentinel.DEFAULT


def allocated_sizes(name: str, launcher: cst.FunctionDef) -> list[cst.BaseExpression] | None:
    """Return the sizes of a dense tensor that a launcher allocates under its only name."""
    value = launcher_definition(name, launcher)
    if called_name(value or cst.Name(name)) not in ("torch.empty", "torch.zeros"):
        return None
    args = cst.ensure_type(value, cst.Call).args
    sizes = [arg for arg in args if arg.keyword is None]
    others = {arg.keyword.value for arg in args if arg.keyword is not None}
    moved = [
        called
        for call in calls_within(launcher)
        if (called := called_name(call)).startswith(f"{name}.")
        and called.endswith("_")
        and called.removeprefix(f"{name}.") not in ("zero_", "fill_", "copy_")
    ]
    if others - {"dtype", "device"} or any(arg.star for arg in args) or moved:
        return None
    only = sizes[0].value if len(sizes) == 1 else None
    if isinstance(only, (cst.Tuple, cst.List)):
        starred = any(isinstance(element, cst.StarredElement) for element in only.elements)
        return None if starred else [element.value for element in only.elements]
    is_number = only is not None and _is_number(only, launcher)
    return None if only is not None and not is_number else [size.value for size in sizes]


def _is_number(node: cst.BaseExpression, launcher: cst.FunctionDef) -> bool:
    """Tell whether a size is one number, and no shape."""
    value = launcher_definition(node.value, launcher) if isinstance(node, cst.Name) else node
    single = (cst.Subscript, cst.BinaryOperation, cst.Integer)
    return isinstance(value, single) and is_size(value, launcher)


def _definition(
    name: str, launcher: cst.FunctionDef, steps: int = MOST_STEPS
) -> cst.BaseExpression | None:
    """Return the size that a name stands for; ``None`` if it may change, or may be a tensor."""
    if not steps or not is_assigned_once(name, launcher) or name in launcher_params(launcher):
        return None
    for statement in statements_of(launcher):
        value = _assigned_value(statement, name)
        if value is not None:
            fixed = all(is_assigned_once(other, launcher) for other in names_within(value))
            return value if fixed and is_size(value, launcher, steps - 1) else None
    return None


def _assigned_value(statement: cst.BaseStatement, name: str) -> cst.BaseExpression | None:
    """Return what a statement assigns to a name, alone or as one of several."""
    binding = single_assignment(statement)
    if binding is not None:
        return binding.value if binding.target == name and not binding.operator else None
    target, whole = plain_assignment(statement) or (None, None)
    if whole is None or not isinstance(target, (cst.Tuple, cst.List)):
        return None
    names = [render_code(element.value) for element in target.elements]
    if name not in names or any(isinstance(e, cst.StarredElement) for e in target.elements):
        return None
    if isinstance(whole, cst.Tuple):
        return whole.elements[names.index(name)].value
    is_primary = isinstance(whole, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
    code = render_code(whole if is_primary else parenthesized(whole))
    return parse_expression(f"{code}[{names.index(name)}]")


def is_assigned_once(name: str, launcher: cst.FunctionDef) -> bool:
    """Tell whether a launcher gives a name at most one value."""
    times = assigned_names(*statements_of(launcher)).count(name)
    return times + (name in launcher_params(launcher)) <= 1
