"""``*x.stride()`` in a launch becomes an argument for each axis, where the number of axes is known.

It follows from ``B, H, S, D = x.shape``, from how the tensor is allocated, from what a recorded
launch got, or from how many parameters the other arguments leave, to several tensors alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from solkit.tuner.proposers.rewriter._launcher_tensors import launcher_tensor
from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    calls_within,
    nodes_within,
    parse_expression,
    render_code,
    replace_each,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction, read_module

Ranks = Mapping[tuple[str, str], int]
"""Numbers of axes of tensors by the function that was launched with them, and its parameter."""


def with_plain_arguments(tree: cst.Module, recorded: Ranks) -> cst.Module:
    """Return the module whose launches have no arguments that Python unpacks, where possible.

    Args:
        tree: the module.
        recorded: what launches got.
    """
    text = read_module(tree)
    if text is None:
        return tree
    pairs: list[Swap] = []
    for launcher in tree.body:
        if isinstance(launcher, cst.FunctionDef) and launcher.name.value not in text.functions:
            pairs += _plain_launches(launcher, text.functions, recorded)
    return replace_each(tree, pairs) if pairs else tree


def _plain_launches(
    launcher: cst.FunctionDef, functions: Mapping[str, JitFunction], recorded: Ranks
) -> Iterator[Swap]:
    for call in calls_within(launcher):
        is_launch = isinstance(call.func, cst.Subscript)
        name = render_code(call.func.value) if isinstance(call.func, cst.Subscript) else ""
        if is_launch and name in functions and any(arg.star for arg in call.args):
            args = _plain_args(call, functions[name], launcher, recorded)
            if args is not None:
                yield call, call.with_changes(args=args)


def _plain_args(
    call: cst.Call, function: JitFunction, launcher: cst.FunctionDef, recorded: Ranks
) -> list[cst.Arg] | None:
    """Return a launch's arguments, each for one parameter; ``None`` if a number is not known."""
    passed = _recorded_ranks(call, function, recorded)
    ranks = [
        passed.get(_unpacked(arg)) or _rank(arg, launcher) if arg.star == "*" else 1
        for arg in call.args
    ]
    tensors = {_unpacked(arg) for arg in call.args if arg.star == "*"}
    if any(arg.star == "**" for arg in call.args) or "" in tensors:
        return None
    if unknown := ranks.count(None):
        keywords = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        others = _filled_otherwise(function)
        if others is None:
            return None
        fixed = len(set(function.params) - keywords - others)
        plain = sum(arg.keyword is None for arg in call.args) - unknown
        rest = fixed - plain - sum((rank or 1) - 1 for rank in ranks)
        # were they unlike, one would have fewer axes than that: asking it for them is an error
        own_rank = rest // unknown if rest > 0 and rest % unknown == 0 else None
        ranks = [own_rank if rank is None else rank for rank in ranks]
    args: list[cst.Arg] = []
    for arg, rank in zip(call.args, ranks, strict=True):
        if rank is None:
            return None
        args += _expanded(arg, rank) if arg.star else [arg]
    return args


def _recorded_ranks(call: cst.Call, function: JitFunction, recorded: Ranks) -> dict[str, int]:
    """Return the axes of tensors that a launch passes by their code, as they were recorded.

    Where parameters are is clear ahead of the first argument that is unpacked.
    """
    ranks, is_placed = dict[str, int](), True
    for place, arg in enumerate(call.args):
        is_placed &= not arg.star
        param = arg.keyword.value if arg.keyword else ""
        if not param and is_placed and place < len(function.params):
            param = function.params[place]
        if (function.name, param) in recorded:
            ranks[render_code(arg.value)] = recorded[function.name, param]
    return ranks


def _filled_otherwise(function: JitFunction) -> set[str] | None:
    """Return parameters that a decorator fills in; ``None`` if any may be left to its default."""
    params = function.node.params
    filled = {
        key.evaluated_value
        for decorator in function.node.decorators
        for node in nodes_within(decorator)
        if isinstance(node, cst.DictElement) and isinstance(key := node.key, cst.SimpleString)
    }
    if any(p.default is not None for p in params.params) or (function.tuned and not filled):
        return None
    return {name for name in filled if isinstance(name, str)}


def _unpacked(arg: cst.Arg) -> str:
    """Return the tensor whose sizes or strides an argument unpacks; empty for others."""
    value = arg.value
    if isinstance(value, cst.Call) and not value.args and isinstance(value.func, cst.Attribute):
        is_sizes = value.func.attr.value in ("stride", "size")
        return render_code(value.func.value) if is_sizes else ""
    is_shape = isinstance(value, cst.Attribute) and value.attr.value == "shape"
    return render_code(value.value) if is_shape and isinstance(value, cst.Attribute) else ""


def _rank(arg: cst.Arg, launcher: cst.FunctionDef) -> int | None:
    """Return how many values an unpacked argument has; ``None`` if the launcher does not say."""
    tensor = _unpacked(arg)
    return launcher_tensor(parse_expression(tensor), launcher).rank if tensor else None


def _expanded(arg: cst.Arg, rank: int) -> list[cst.Arg]:
    """Return ``x.stride(0), x.stride(1)`` for ``*x.stride()``, and likewise for sizes."""
    code = render_code(arg.value)
    forms = [f"{code}[{i}]" if code.endswith("shape") else f"{code[:-1]}{i})" for i in range(rank)]
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    args = [cst.Arg(parse_expression(form), comma=comma) for form in forms]
    return [*args[:-1], args[-1].with_changes(comma=arg.comma)]
