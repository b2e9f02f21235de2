"""Axes of reductions are counted from the first, and axes that are kept are put back by an index.

``tl.max(x, axis=-1, keep_dims=True)`` is ``tl.max(x, axis=1)[:, None]`` of a tile, and
``tl.expand_dims(x, 0)`` is ``x[None, :]`` of a vector. Rewrites read the latter. What is not known
to be of some rank stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    argument_of,
    assigned_names,
    called_name,
    expression_statement,
    integer_literal,
    parenthesized,
    parse_expression,
    range_loop,
    render_code,
    single_assignment,
    statements_of,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import call_args, converted_value

_REDUCTIONS = ("tl.sum", "tl.max", "tl.min", "tl.argmax", "tl.argmin", "tl.xor_sum")
_SCANS = ("tl.cumsum", "tl.cumprod")
_BY_SHAPE = {"tl.zeros": 0, "tl.full": 0, "tl.reshape": 1, "tl.view": 1, "tl.broadcast_to": 1}
_PLACES = 2  # of a reduction's arguments: what is reduced, and the axis
_NUMBERS = ("tl.program_id", "tl.num_programs", "float", "int", "min", "max")
_OF_FIRST = (
    "tl.trans",
    "tl.permute",
    "tl.dot",
    "tl.zeros_like",
    "tl.full_like",
    "tl.cast",
    *_SCANS,
)
_EACH = frozenset(
    f"tl.{name}"
    for name in (
        *("abs", "cdiv", "ceil", "clamp", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor"),
        *("fma", "load", "log", "log2", "max_constancy", "max_contiguous", "maximum", "minimum"),
        *("multiple_of", "rsqrt", "sigmoid", "sin", "sqrt", "sqrt_rn", "umulhi", "where"),
        *("math.exp", "math.exp2", "math.log", "math.log2", "math.sqrt", "math.rsqrt", "math.abs"),
        *("math.fma", "math.erf", "math.floor", "math.ceil"),
    )
)


def with_plain_reductions(node: cst.FunctionDef, numbers: set[str]) -> cst.FunctionDef:
    """Return a function whose reductions name their axis from the first on, and keep none.

    Args:
        node: the function.
        numbers: names of parameters that are numbers or pointers.
    """
    return with_body(node, _Ranks(numbers).plain(statements_of(node)))


class _Ranks(cst.CSTTransformer):
    """Follows how many axes names have, and writes the reductions of each statement.

    Args:
        numbers: names without axes.
    """

    def __init__(self, numbers: set[str]) -> None:
        super().__init__()
        self._ranks: dict[str, int | None] = dict.fromkeys(numbers, 0)

    def plain(self, body: Body) -> list[cst.BaseStatement]:
        """Return statements with plain reductions."""
        return [self._plain_statement(statement) for statement in body]

    def _plain_statement(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        if inner := statements_of(statement):
            loop = range_loop(statement)
            names = assigned_names(statement)
            if loop is None or loop.name in {n for s in inner for n in assigned_names(s)}:
                self._forget(names)
            else:
                self._note(loop.name, 0)
            is_loop = isinstance(statement, (cst.For, cst.While))
            changed = with_body(statement, self.plain(inner))
            if not is_loop:
                self._forget(names)
            return changed
        binding = single_assignment(statement)
        if binding is None and expression_statement(statement) is None:
            for name in assigned_names(statement):
                self._note(name, self._of_halves(statement))
            return statement
        changed = cst.ensure_type(statement.visit(self), cst.SimpleStatementLine)
        binding = single_assignment(changed)
        if binding is not None:
            self._note(binding.target, self._of(binding.value))
        return changed

    def _note(self, name: str, rank: int | None) -> None:
        """Keep a name's axes; nothing is known of one that has had others."""
        self._ranks[name] = rank if self._ranks.get(name, rank) == rank else None

    def _forget(self, names: Sequence[str]) -> None:
        self._ranks |= dict.fromkeys(names, None)

    # --------------------------------------------------------------------------- calls

    def leave_Call(  # noqa: N802 - the name and arguments of libcst
        self,
        original_node: cst.Call,  # noqa: ARG002
        updated_node: cst.Call,
    ) -> cst.BaseExpression:
        name = called_name(updated_node)
        if name == "tl.expand_dims":
            return self._spread(updated_node)
        if name not in (*_REDUCTIONS, *_SCANS) or not updated_node.args:
            return updated_node
        rank, place = self._of(updated_node.args[0].value), _place_of(updated_node)
        if rank is None or place is None or not -rank <= place < rank or _has_more(updated_node):
            return updated_node
        is_kept = _is_true(argument_of(updated_node, 99, "keep_dims"))
        if place >= 0 and not is_kept:
            return updated_node
        place, axis = place % rank, _axis_of(updated_node)
        args = [
            arg.with_changes(value=cst.Integer(str(place))) if arg is axis else arg
            for arg in updated_node.args
            if not (is_kept and arg.keyword is not None and arg.keyword.value == "keep_dims")
        ]
        args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        call = updated_node.with_changes(args=args)
        if not is_kept or rank < 2 or name in _SCANS:
            return updated_node if is_kept else call
        axes = ", ".join("None" if at == place else ":" for at in range(rank))
        return parse_expression(f"{render_code(call)}[{axes}]")

    def _spread(self, node: cst.Call) -> cst.BaseExpression:
        """Return a block's index with one more axis, as an index of a block."""
        rank, place = self._of(node.args[0].value), _place_of(node)
        if not rank or place is None or not -rank - 1 <= place <= rank:
            return node
        axes = [":"] * rank
        axes.insert(place % (rank + 1), "None")
        block = render_code(parenthesized(node.args[0].value))
        return parse_expression(f"{block}[{', '.join(axes)}]")

    # --------------------------------------------------------------------------- ranks

    def _of(self, node: cst.BaseExpression) -> int | None:
        """Return how many axes a value has; ``None`` if that is not known."""
        if isinstance(node, cst.Name):
            return self._ranks.get(node.value, 0 if node.value in ("True", "False") else None)
        if isinstance(node, (cst.Integer, cst.Float, cst.SimpleString)):
            return 0
        if isinstance(node, cst.Attribute):
            is_word = render_code(node).startswith(("tl.", "torch.", "math."))
            return 0 if is_word or node.attr.value == "dtype" else None
        if isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)):
            return self._largest([node.left, node.right])
        if isinstance(node, cst.Comparison):
            return self._largest([node.left, *(part.comparator for part in node.comparisons)])
        if isinstance(node, cst.UnaryOperation):
            return self._of(node.expression)
        if isinstance(node, cst.Subscript):
            return self._of_subscript(node)
        return self._of_call(node) if isinstance(node, cst.Call) else None

    def _of_halves(self, statement: cst.BaseStatement) -> int | None:
        """Return how many axes each block has that ``a, b = tl.split(x)`` assigns."""
        only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        value = only.value if isinstance(only, cst.Assign) else None
        if value is None or called_name(value) != "tl.split" or len(call_args(value)) != 1:
            return None
        rank = self._of(call_args(value)[0])
        return None if not rank else rank - 1

    def _largest(self, nodes: Sequence[cst.BaseExpression]) -> int | None:
        ranks = [self._of(node) for node in nodes]
        sure = [rank for rank in ranks if rank is not None]
        return max(sure) if sure and len(sure) == len(ranks) else None

    def _of_subscript(self, node: cst.Subscript) -> int | None:
        entries = [render_code(element.slice) for element in node.slice]
        is_spread = set(entries) <= {":", "None"}
        return len(entries) if is_spread and self._of(node.value) == entries.count(":") else None

    def _of_call(self, node: cst.Call) -> int | None:
        name, args = called_name(node), call_args(node)
        if name == "tl.arange":
            return 1
        if name in _NUMBERS:
            return 0
        if name in _BY_SHAPE:
            shape = argument_of(node, _BY_SHAPE[name], "shape")
            return len(shape.elements) if isinstance(shape, (cst.Tuple, cst.List)) else None
        if name in _REDUCTIONS and args:
            rank, place = self._of(args[0]), _place_of(node)
            words = {arg.keyword.value for arg in node.args if arg.keyword is not None}
            if rank is None or words - {"axis", "dtype"} or (place is None and len(args) > 1):
                return None
            if _has_more(node):
                return None
            return 0 if place is None else rank - 1
        if name in _OF_FIRST and args:
            return self._of(args[0])
        if name in _EACH and args:
            return self._largest(args)
        inner = converted_value(node)
        return None if inner is None else self._of(inner)


def _has_more(call: cst.Call) -> bool:
    """Tell whether a reduction may give two values, or keep its axis without saying so by name."""
    words = [arg.keyword.value for arg in call.args if arg.keyword is not None]
    return "return_indices" in words or len(call.args) - len(words) > _PLACES


def _axis_of(call: cst.Call) -> cst.Arg | None:
    """Return the argument that names a reduction's axis."""
    for place, arg in enumerate(call.args):
        if (arg.keyword is None and place == 1) or (
            arg.keyword is not None and arg.keyword.value == "axis"
        ):
            return arg
    return None


def _place_of(call: cst.Call) -> int | None:
    arg = _axis_of(call)
    if arg is None:
        return None
    node = arg.value
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        place = integer_literal(node.expression)
        return None if place is None else -place
    return integer_literal(node)


def _is_true(node: cst.BaseExpression | None) -> bool:
    return node is not None and render_code(node) == "True"
