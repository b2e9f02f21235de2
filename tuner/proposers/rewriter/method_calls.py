"""Methods of blocks become functions: ``k.trans(1, 0)`` and ``k.T`` are ``tl.trans(k)``.

``tl.fma(a, b, c)`` is ``a * b + c``, of which the compiler makes one instruction as well, and the
axis of ``tl.program_id`` has no keyword. ``libdevice.pow(a, 2.0)`` is ``a * a``: a power costs some
hundred instructions, and is off by up to 4 units in the last place (CUDA C++ Programming Guide,
appendix on mathematical functions).
"""

from __future__ import annotations

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    argument_of,
    assigned_names,
    called_name,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    render_code,
    replace_each,
)
from solkit.tuner.proposers.rewriter._operations import converted_value
from solkit.tuner.proposers.rewriter._parse import JitFunction

_METHODS = frozenset(
    """trans permute reshape view expand_dims broadcast_to sum max min argmax argmin exp exp2 log
    log2 sqrt rsqrt sigmoid""".split()
)
"""Methods of Triton's blocks that are functions of the same name with the block ahead."""
_SHAPED = ("permute", "reshape", "view", "broadcast_to")
"""Methods that also take sizes or axes one by one."""

_POWERS = {"2": 2, "2.0": 2, "3": 3, "3.0": 3}
"""Exponents as written, and how many factors are the same."""


def with_function_calls(function: JitFunction) -> cst.FunctionDef:
    """Return a function that calls no such method of a block, and names no block's ``T``."""
    own = {*function.params, *assigned_names(*function.body)} - function.constants
    node = function.node
    while True:  # a method's block may be what another one returns
        pairs: list[Swap] = []
        for part in nodes_within(node.body):
            if code := _function_code(part, own):
                pairs = [(part, parse_expression(code))]
        if not pairs:
            return node
        node = replace_each(node, pairs)


def _function_code(node: cst.CSTNode, own: set[str]) -> str:
    """Return a method's call as a function's; empty if a node is none."""
    if called_name(node) in ("tl.fma", "tl.math.fma") and isinstance(node, cst.Call):
        if len(node.args) != 3 or any(arg.keyword or arg.star for arg in node.args):
            return ""
        first, second, third = (render_code(parenthesized(arg.value)) for arg in node.args)
        return f"({first} * {second} + {third})"
    if power := _power_code(node, own):
        return power
    if called_name(node) in ("tl.program_id", "tl.num_programs") and isinstance(node, cst.Call):
        axis = argument_of(node, 0, "axis")
        is_named = axis is not None and node.args[0].keyword is not None
        return f"{called_name(node)}({render_code(axis)})" if is_named and axis else ""
    if isinstance(node, cst.Attribute) and node.attr.value == "T":
        return f"tl.trans({render_code(node.value)})" if _is_block(node.value, own) else ""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return ""
    name, block = node.func.attr.value, node.func.value
    if not _is_block(block, own):
        return ""
    if name == "cast" and len(node.args) == 1:  # of two, the other one is how it rounds
        return f"{render_code(block)}.to({render_code(node.args[0])})"
    if name not in _METHODS:
        return ""
    others = [render_code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in node.args]
    if name == "trans" and others in (["1", "0"], ["(1, 0)"]):
        others = []
    if name in _SHAPED and len(others) > 1 and all(arg.keyword is None for arg in node.args):
        others = [f"({', '.join(others)})"]
    return f"tl.{name}({', '.join([render_code(block), *others])})"


def _power_code(node: cst.CSTNode, own: set[str]) -> str:
    """Return a small power as a product; empty if a node is none, or its base is costly to repeat.

    Blocks have no method for powers, so they are functions of a module, however that is named.
    """
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return ""
    if node.func.attr.value != "pow" or len(node.args) != 2 or _is_block(node.func.value, own):
        return ""
    base, exponent = (arg.value for arg in node.args)
    count = _POWERS.get(render_code(exponent), 0)
    calls = [part for part in nodes_within(base) if isinstance(part, cst.Call)]
    if not count or any(arg.keyword or arg.star for arg in node.args):
        return ""
    if any(converted_value(call) is None for call in calls):
        return ""
    return f"({' * '.join([render_code(parenthesized(base))] * count)})"


def _is_block(node: cst.BaseExpression, own: set[str]) -> bool:
    """Tell whether an expression may be a block: a name of the function, or what is made of some.

    Attributes such as ``x.dtype`` are none.
    """
    if isinstance(node, cst.Name):
        return node.value in own
    if isinstance(node, cst.Call):
        is_cast = isinstance(node.func, cst.Attribute) and node.func.attr.value in (
            "to",
            "cast",
            *_METHODS,
        )
        return is_cast or called_name(node).startswith("tl.")
    return isinstance(node, (cst.BinaryOperation, cst.Subscript)) and bool(names_within(node) & own)
