"""Queries of several rewrites on loops over rows: bounds, and who may be the same tensor."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from solkit.tuner.proposers.rewriter._file import JitFunction, Launch
from solkit.tuner.proposers.rewriter._syntax import Loop, argument_of, called, code, names

__all__ = ["Blocked", "aliases", "blocked", "power_of_two", "runtime_sizes"]


def aliases(launch: Launch) -> Mapping[str, frozenset[str]]:
    """Map each parameter to the others that get the same argument: they may be one tensor."""
    given_code = {name: code(value) for name, value in launch.arguments.items()}
    return {
        name: frozenset(o for o, other in given_code.items() if other == text and o != name)
        for name, text in given_code.items()
    }


class Blocked:
    """A loop that walks over `bound` elements in blocks of the constant `block`.

    Attributes:
        loop: the loop.
        bound: the number of elements, an expression of the function's parameters.
        block: the compile-time constant.
        counts: whether the loop's variable counts blocks; else it is the first element's index.
    """

    def __init__(self, loop: Loop, bound: cst.BaseExpression, block: str, counts: bool) -> None:
        self.loop, self.bound, self.block, self.counts = loop, bound, block, counts


def blocked(loop: Loop, function: JitFunction) -> Blocked | None:
    """Return the loop as one over blocks; ``None`` if it is of another form."""
    if code(loop.start) != "0":
        return None
    step = code(loop.step)
    if step in function.constants:
        return Blocked(loop, loop.stop, step, False)
    if step != "1":
        return None
    stop = loop.stop
    if called(stop) in ("tl.cdiv", "triton.cdiv"):
        call = cst.ensure_type(stop, cst.Call)
        bound, block = argument_of(call, 0), argument_of(call, 1)
        if bound is not None and block is not None and code(block) in function.constants:
            return Blocked(loop, bound, code(block), True)
    return _divided_up(loop, function)


def _divided_up(loop: Loop, function: JitFunction) -> Blocked | None:
    """Match ``range((N + BLOCK - 1) // BLOCK)``."""
    stop = loop.stop
    if not isinstance(stop, cst.BinaryOperation) or not isinstance(stop.operator, cst.FloorDivide):
        return None
    block = code(stop.right)
    whole = code(stop.left).strip("()").replace(" ", "")
    suffix = f"+{block}-1"
    if block not in function.constants or not whole.endswith(suffix):
        return None
    bound = cst.parse_expression(whole.removesuffix(suffix))
    return Blocked(loop, bound, block, True)


def runtime_sizes(node: cst.BaseExpression, function: JitFunction) -> bool:
    """Tell whether an expression is made of parameters that the function does not assign."""
    used = names(node)
    return used <= set(function.params) and not any(map(function.reassigned, used))


def power_of_two(size: int) -> int:
    """Return the least power of two that is not below."""
    return 1 << max(size - 1, 0).bit_length()
