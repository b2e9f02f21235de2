"""Lifting of expressions: a scalar becomes a vector along a new axis, which leads; see `_lift`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    HINTS,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    render_code,
    replace_each,
)
from solkit.tuner.proposers.rewriter._operations import call_args, is_fp32
from solkit.tuner.proposers.rewriter._parse import JitFunction

_ELEMENTWISE = frozenset(
    """abs exp exp2 log log2 sqrt rsqrt sin cos sigmoid erf floor ceil maximum minimum where fma
    div_rn sqrt_rn cast tanh clamp pow expm1 log1p round rint nearbyint trunc rand randn randint
    """.split()
)
_MODULES = ("tl.", "tl.math.", "libdevice.", "tl.extra.cuda.libdevice.", "triton.language.")
_REDUCTIONS = ("sum", "max", "min", "argmax", "argmin", "xor_sum")
_SCANS = ("tl.cumsum", "tl.cumprod", "tl.associative_scan")
_SCALARS = frozenset(
    "tl.program_id tl.num_programs tl.cdiv float int tl.constexpr tl.static_assert len".split()
)
_FILLS = {
    **dict.fromkeys(("0", "0.0"), "0"),
    **{f"{sign}float({q}inf{q})": f'{sign}float("inf")' for sign in ("", "-") for q in "\"'"},
    **{f"float({q}-inf{q})": 'float("-inf")' for q in "\"'"},
}
"""Fills of a load that `tl.where` gives in the type of what is loaded."""
_LOAD_WORDS = {"mask", "other", "eviction_policy", "cache_modifier"}
_FRESH = ("tl.zeros", "tl.full", "tl.zeros_like", "tl.arange")
_RESHAPES = ("tl.reshape", "tl.view", "tl.broadcast_to")
_PERMUTATIONS = ("tl.trans", "tl.permute")


class CannotLiftError(Exception):
    """The code has something that cannot get another axis, which the message names."""


@dataclass(frozen=True)
class Kind:
    """The axes of a value; see the module."""

    rank: int
    lifted: bool


@dataclass(frozen=True)
class Lifted:
    """An expression after lifting, and its kind."""

    node: cst.BaseExpression
    kind: Kind


_SCALAR = Kind(0, False)


@dataclass
class Lifting:
    """Lifts expressions.

    Attributes:
        functions: of the file: those that only compute elementwise may be called on vectors.
        width: the new axis's length, as code; empty if only kinds are asked for.
        kinds: of names; others are scalars.
        valid: the name of the mask over the new axis; empty if all of it is valid.
        fills: whether loads give 0 where nothing is valid, for sums of products.
    """

    functions: Mapping[str, JitFunction]
    width: str = ""
    kinds: dict[str, Kind] = field(default_factory=dict)
    valid: str = ""
    fills: bool = False

    def lift_expression(self, node: cst.BaseExpression) -> Lifted:
        """Return an expression with the new axis where it has to be.

        Raises:
            CannotLiftError: it has something that this module does not know.
        """
        if isinstance(node, cst.Name):
            return Lifted(node, self.kinds.get(node.value, _SCALAR))
        if isinstance(node, cst.BinaryOperation):
            (left, right), kind = self._align_operands([node.left, node.right])
            return Lifted(node.with_changes(left=grouped_as(left, node.left), right=right), kind)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            target = node.comparisons[0]
            (left, right), kind = self._align_operands([node.left, target.comparator])
            changed = target.with_changes(comparator=right)
            return Lifted(node.with_changes(left=left, comparisons=[changed]), kind)
        if isinstance(node, cst.Comparison):
            return self._of_truths(node, _chained_comparisons(node), "&")
        if isinstance(node, cst.BooleanOperation):
            sign = "&" if isinstance(node.operator, cst.And) else "|"
            return self._of_truths(node, [node.left, node.right], sign)
        if isinstance(node, cst.UnaryOperation):
            return self._lift_unary(node)
        if isinstance(node, cst.IfExp):
            return self._choice(node)
        if isinstance(node, cst.Subscript):
            return self._subscript(node)
        if isinstance(node, cst.Call):
            return self._lift_call(node)
        if isinstance(node, cst.Attribute) and node.attr.value == "dtype":
            return Lifted(node, _SCALAR)  # of a block's elements, whatever its axes
        if any(self.kinds.get(name, _SCALAR).lifted for name in names_within(node)):
            raise CannotLiftError(render_code(node))
        return Lifted(node, _SCALAR)

    def _choice(self, node: cst.IfExp) -> Lifted:
        """Return a choice by what is the same along the new axis; both sides have the same axes."""
        test = render_code(node.test)
        if test in ("True", "False"):
            return self.lift_expression(node.body if test == "True" else node.orelse)
        body, orelse = (self.lift_expression(side) for side in (node.body, node.orelse))
        is_lifted = self.lift_expression(node.test).kind.lifted
        if is_lifted or (body.kind != orelse.kind and (body.kind.lifted or orelse.kind.lifted)):
            raise CannotLiftError(render_code(node))
        sides = {"body": body.node, "orelse": orelse.node} if body.kind.lifted else {}
        return Lifted(node.with_changes(**sides), body.kind)

    def _lift_unary(self, node: cst.UnaryOperation) -> Lifted:
        inner = self.lift_expression(node.expression)
        if inner.kind.lifted and isinstance(node.operator, cst.Not):
            if not _is_truth_value(node.expression):
                raise CannotLiftError(render_code(node))
            return Lifted(
                parse_expression(f"~{render_code(parenthesized(inner.node))}"), inner.kind
            )
        return Lifted(node.with_changes(expression=inner.node), inner.kind)

    def _of_truths(
        self, node: cst.BaseExpression, parts: Sequence[cst.BaseExpression], sign: str
    ) -> Lifted:
        """Lift ``and``, ``or`` and chains of comparisons: vectors have only ``&`` and ``|``."""
        values, kind = self._align_operands(parts)
        if not kind.lifted:
            return Lifted(node, kind)
        if not all(map(_is_truth_value, parts)):  # `n and m` of numbers is not `n & m`
            raise CannotLiftError(render_code(node))
        text = f" {sign} ".join(f"({render_code(value)})" for value in values)
        return Lifted(parenthesized(parse_expression(text)), kind)

    def _align_operands(
        self, nodes: Sequence[cst.BaseExpression]
    ) -> tuple[list[cst.BaseExpression], Kind]:
        """Return operands of one elementwise operation, with their axes aligned."""
        lifted = [self.lift_expression(node) for node in nodes]
        kind = Kind(max(e.kind.rank for e in lifted), any(e.kind.lifted for e in lifted))
        if not kind.lifted:
            return [part.node for part in lifted], kind
        return [promote_operand(part, kind.rank) for part in lifted], kind

    def _subscript(self, node: cst.Subscript) -> Lifted:
        base = self.lift_expression(node.value)
        entries = [render_code(element.slice) for element in node.slice]
        if not set(entries) <= {":", "None"}:
            if base.kind.lifted:
                raise CannotLiftError(render_code(node))
            return Lifted(node, _SCALAR)
        kind = Kind(len(entries), base.kind.lifted)
        if not kind.lifted:
            return Lifted(node, kind)
        return Lifted(
            parse_expression(f"{render_code(parenthesized(base.node))}[:, {', '.join(entries)}]"),
            kind,
        )

    def _lift_call(self, node: cst.Call) -> Lifted:
        name = called_name(node)
        if name in HINTS:
            inner = self.lift_expression(node.args[0].value)
            return inner if inner.kind.lifted else Lifted(node, inner.kind)
        if name == "tl.load":
            return self.load(node)
        if name in _FRESH:
            return self._new_block(node)
        if name in _SCALARS:
            return self._require_unlifted(node)
        if name in _RESHAPES:
            return self._reshaped(node)
        if name in _PERMUTATIONS:
            return self._permuted(node)
        if self.is_elementwise(name):
            return self._elementwise(node)
        if _unqualified_name(name) in _REDUCTIONS and name.startswith("tl."):
            return self._reduction(node)
        if name in _SCANS:
            return self._scan(node)
        if isinstance(node.func, cst.Attribute):
            return self._lift_method(node)
        raise CannotLiftError(f"{name}()")

    def _require_unlifted(self, node: cst.Call) -> Lifted:
        if any(self.lift_expression(arg.value).kind.lifted for arg in node.args):
            raise CannotLiftError(render_code(node))
        return Lifted(node, _SCALAR)

    def _new_block(self, node: cst.Call) -> Lifted:
        """Return a block that is made of numbers, or of one that has the new axis."""
        kind, fill = self._kind_of_new_block(node), argument_of(node, 1, "value")
        if called_name(node) != "tl.full" or fill is None:
            return Lifted(node, kind)
        value = self.lift_expression(fill)
        if not value.kind.lifted:
            return Lifted(node, kind)
        zeros = Lifted(replace_each(node, [(fill, cst.Integer("0"))]), kind)
        parts = [promote_operand(part, kind.rank) for part in (zeros, value)]
        code, dtype = " + ".join(map(render_code, parts)), argument_of(node, 2, "dtype")
        typed = f"({code})" if dtype is None else f"({code}).to({render_code(dtype)})"
        return Lifted(parse_expression(typed), Kind(kind.rank, True))

    def _kind_of_new_block(self, node: cst.Call) -> Kind:
        if called_name(node) == "tl.arange":
            return Kind(1, False)
        if called_name(node) == "tl.zeros_like":
            return self.lift_expression(node.args[0].value).kind
        shape = argument_of(node, 0, "shape")
        if not isinstance(shape, (cst.Tuple, cst.List)):
            raise CannotLiftError(render_code(node))
        return Kind(len(shape.elements), False)

    def _reshaped(self, node: cst.Call) -> Lifted:
        """Return a block of another shape, ahead of which the new axis stays as it is.

        ``tl.view`` may change the order of elements, which would mix those of the new axis.
        """
        value, shape = self.lift_expression(node.args[0].value), argument_of(node, 1, "shape")
        sizes = [arg.value for arg in node.args[1:]]
        if isinstance(shape, (cst.Tuple, cst.List)):
            sizes = [element.value for element in shape.elements]
        if shape is None or (len(node.args) > 2 and shape not in sizes):
            raise CannotLiftError(render_code(node))  # it says more
        kind = Kind(len(sizes), value.kind.lifted)
        if not kind.lifted:
            return Lifted(node, kind)
        name, block = "tl.reshape", value.node
        if called_name(node) == "tl.broadcast_to":
            name, block = called_name(node), promote_operand(value, kind.rank)
        whole = ", ".join([self.width, *map(render_code, sizes)])
        return Lifted(parse_expression(f"{name}({render_code(block)}, ({whole}))"), kind)

    def _permuted(self, node: cst.Call) -> Lifted:
        value, order = self.lift_expression(node.args[0].value), argument_of(node, 1, "dims")
        if not value.kind.lifted:
            return Lifted(node, value.kind)
        axes = [arg.value for arg in node.args[1:]]
        if isinstance(order, (cst.Tuple, cst.List)):
            axes = [element.value for element in order.elements]
        places = [integer_literal(axis) for axis in axes] or [1, 0]
        if sorted(place for place in places if place is not None) != [*range(value.kind.rank)]:
            raise CannotLiftError(render_code(node))
        moved = ", ".join(["0", *(str(place + 1) for place in places if place is not None)])
        code = f"tl.permute({render_code(value.node)}, ({moved}))"
        return Lifted(parse_expression(code), value.kind)

    def lift_unpacking(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        """Return an assignment of the blocks that one call gives, and note their kinds.

        Raises:
            CannotLiftError: it is something that this module does not know.
        """
        only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        target = only.targets[0].target if isinstance(only, cst.Assign) else None
        if not isinstance(only, cst.Assign) or not isinstance(target, cst.Tuple):
            raise CannotLiftError(render_code(statement))
        blocks = self._blocks_of(only.value)
        self.kinds |= dict.fromkeys(assigned_names(statement), blocks.kind)
        return replace_each(statement, [(only.value, blocks.node)])

    def _blocks_of(self, node: cst.BaseExpression) -> Lifted:
        """Return a call that gives several blocks of one kind, and that kind."""
        name, args = called_name(node), call_args(node)
        if name == "tl.split" and len(args) == 1:
            value = self.lift_expression(args[0])
            code = f"tl.split({render_code(value.node)})"
            return Lifted(parse_expression(code), Kind(value.kind.rank - 1, value.kind.lifted))
        parts, places = args, [integer_literal(arg) for arg in args[1:2]]
        if name in (_SCANS[-1], "tl.reduce") and isinstance(args[0], cst.Tuple):
            parts = [element.value for element in args[0].elements]
        elif name != "tl.broadcast":
            raise CannotLiftError(render_code(node))
        if len(parts) != 2:  # of more, no function gives all of them the same axes
            raise CannotLiftError(render_code(node))
        blocks, kind = self._align_operands(parts)
        code = f"tl.broadcast({', '.join(map(render_code, blocks))})"
        if name != "tl.broadcast":
            if places[:1] in ([], [None]) or len(args) != 3 or not kind.lifted:
                raise CannotLiftError(render_code(node))
            code = f"{name}({code}, {(places[0] or 0) + 1}, {render_code(args[2])})"
            kind = Kind(kind.rank - (name == "tl.reduce"), True)
        return Lifted(parse_expression(code), kind)

    def is_elementwise(self, name: str) -> bool:
        """Tell whether a function computes each element of its operands alone."""
        if any(name == prefix + _unqualified_name(name) for prefix in _MODULES):
            return is_elementwise_call(name)
        if name in ("min", "max"):
            return True
        function = self.functions.get(name)
        return function is not None and all(
            self.is_elementwise(called_name(call)) or called_name(call).endswith(".to")
            for call in calls_within(function.node)
            if "jit" not in called_name(call) and called_name(call) not in _errors_of(function)
        )

    def _elementwise(self, node: cst.Call) -> Lifted:
        values, kind = self._align_operands(call_args(node))
        if called_name(node) in ("min", "max") and kind.lifted:  # Python's take one axis no better
            node = node.with_changes(func=parse_expression(f"tl.{called_name(node)}imum"))
        args = [a.with_changes(value=v) for a, v in zip(node.args, values, strict=True)]
        return Lifted(node.with_changes(args=args), kind)

    def _lift_method(self, node: cst.Call) -> Lifted:
        function = cst.ensure_type(node.func, cst.Attribute)
        inner = self.lift_expression(function.value)
        method = function.attr.value
        if method == "to":
            changed = function.with_changes(value=parenthesized(inner.node))
            return Lifted(node.with_changes(func=changed), inner.kind)
        if method in _REDUCTIONS:
            args = "".join(f", {render_code(arg)}" for arg in node.args)
            plain = parse_expression(f"tl.{method}({render_code(function.value)}{args})")
            return self._reduction(cst.ensure_type(plain, cst.Call))
        raise CannotLiftError(f".{method}()")

    def _reduction(self, node: cst.Call) -> Lifted:
        value = self.lift_expression(node.args[0].value)
        axis = argument_of(node, 1, "axis")
        rank = value.kind.rank
        if axis is None or render_code(axis) == "None":
            places, remaining = range(rank), 0
        else:
            index = integer_literal(axis)
            if index is None:
                raise CannotLiftError(render_code(node))
            places, remaining = range(index, index + 1), rank - 1
        if not value.kind.lifted:
            return Lifted(node, Kind(remaining, False))
        is_index = _unqualified_name(called_name(node)).startswith("arg")
        words = {arg.keyword.value for arg in node.args if arg.keyword is not None}
        if rank == 0 or (is_index and len(places) > 1) or words - {"input", "axis"}:
            raise CannotLiftError(render_code(node))
        text = render_code(value.node)
        for place in reversed(places):
            text = f"{called_name(node)}({text}, axis={place + 1})"
        return Lifted(parse_expression(text), Kind(remaining, True))

    def _scan(self, node: cst.Call) -> Lifted:
        """Return a scan along the same axis, whose place moves up by one."""
        value, axis = self.lift_expression(node.args[0].value), argument_of(node, 1, "axis")
        place = 0 if axis is None else integer_literal(axis)
        if not value.kind.lifted:
            return Lifted(node, value.kind)
        if place is None or place >= value.kind.rank:
            raise CannotLiftError(render_code(node))
        rest = [arg for arg in node.args[1:] if arg.value is not axis]
        word = cst.Name("combine_fn" if called_name(node) == _SCANS[-1] else "reverse")
        moved = [cst.Arg(cst.Integer(str(place + 1)), keyword=cst.Name("axis"))]
        words = [arg if arg.keyword else arg.with_changes(keyword=word) for arg in rest[:1]]
        args = [node.args[0].with_changes(value=value.node), *moved, *words, *rest[1:]]
        return Lifted(node.with_changes(args=args), value.kind)

    # --------------------------------------------------------------------- memory

    def load(self, node: cst.Call) -> Lifted:
        """Return a load through pointers that may have become vectors."""
        pointer = self.lift_expression(node.args[0].value)
        if not pointer.kind.lifted:
            if any(self.lift_expression(arg.value).kind.lifted for arg in node.args[1:]):
                return self._load_shared_places(node, pointer.kind.rank)
            return Lifted(node, pointer.kind)
        access = self._align_access(node, pointer, mask_at=1)
        return Lifted(access, pointer.kind)

    def _load_shared_places(self, node: cst.Call, rank: int) -> Lifted:
        """Return a load at places that are the same along the new axis, though its mask is not.

        What any of the new axis reads is read once, and chosen where its own mask holds.

        Raises:
            CannotLiftError: it has other arguments, or gives another fill than a common number.
        """
        mask, fill = argument_of(node, 1, "mask"), argument_of(node, 2, "other")
        words = [arg.keyword.value for arg in node.args[1:] if arg.keyword is not None]
        code = "0" if fill is None else render_code(fill)
        if mask is None or code not in _FILLS or not {*words} <= _LOAD_WORDS:
            raise CannotLiftError(render_code(node))
        truth = self.lift_expression(mask)
        whole, valid = parenthesized(truth.node), self._valid_mask(truth.kind.rank)
        if valid:
            whole = parenthesized(parse_expression(f"{valid} & {render_code(whole)}"))
        any_row = f"tl.max({render_code(whole)}.to(tl.int32), axis=0) > 0"
        read = replace_each(node, [(mask, parse_expression(any_row))])
        value = promote_operand(Lifted(read, Kind(rank, False)), rank)
        chosen = promote_operand(Lifted(whole, truth.kind), rank)
        text = f"tl.where({render_code(chosen)}, {render_code(value)}, {_FILLS[code]})"
        return Lifted(parse_expression(text), Kind(rank, True))

    def store(self, node: cst.Call, values: Mapping[str, cst.BaseExpression]) -> cst.Call:
        """Return a store or an atomic operation.

        An atomic operation at one place for all of the new axis gets what they add up to, in the
        type of that place.

        Args:
            node: the call.
            values: of names.

        Raises:
            CannotLiftError: it writes the same element for several of the new axis.
        """
        pointer = self.lift_expression(node.args[0].value)
        if pointer.kind.lifted:
            return self._align_access(node, pointer, mask_at=2)
        reduction = _ATOMIC_REDUCTIONS.get(called_name(node))
        value, mask = argument_of(node, 1, "val"), argument_of(node, 2, "mask")
        narrowed = mask is not None and self.lift_expression(mask).kind.lifted
        if reduction is None or value is None or narrowed:
            raise CannotLiftError(f"{called_name(node)} at one place")
        lifted, (name, fill) = self.lift_expression(value), reduction
        valid = self._valid_mask(lifted.kind.rank)
        if not lifted.kind.lifted and not (name == "tl.sum" and valid):  # added once a row
            raise CannotLiftError(f"{called_name(node)} of one value")
        code = render_code(promote_operand(lifted, lifted.kind.rank))
        if name == "tl.sum" and lifted.kind.lifted and not is_fp32(value, values):
            place, brought = (
                render_code(parenthesized(part)) for part in (pointer.node, parse_expression(code))
            )
            code = f"{brought}.to({place}.dtype.element_ty)"
        masked = f"tl.where({valid}, {code}, {fill})" if valid else code
        reduced = parse_expression(f"{name}({masked}, axis=0)")
        return replace_each(node, [(value, reduced)])

    def _align_access(self, node: cst.Call, pointer: Lifted, mask_at: int) -> cst.Call:
        """Return the call with its operands aligned to the pointer, and the mask narrowed."""
        parts, rank, mask, fill = [render_code(pointer.node)], pointer.kind.rank, "", ""
        for index, arg in enumerate(node.args[1:], start=1):
            word = arg.keyword.value if arg.keyword is not None else ""
            if word in ("eviction_policy", "cache_modifier", "volatile", "sem", "scope"):
                parts.append(f"{word}={render_code(arg.value)}")
                continue
            value = render_code(promote_operand(self.lift_expression(arg.value), rank))
            if word == "mask" or (not word and index == mask_at):
                mask = value
            elif word == "other" or (not word and index == mask_at + 1):
                fill = value
            else:
                parts.append(value)
        valid, loads = self._valid_mask(rank), mask_at == 1
        grouped_mask = render_code(parenthesized(parse_expression(mask))) if mask else ""
        both = f"{valid} & {grouped_mask}" if valid and mask else valid or mask
        if both:
            parts.insert(mask_at, f"mask={both}")
        if loads and (fill or (self.fills and both)):
            parts.insert(mask_at + 1, f"other={fill or '0.0'}")
        return cst.ensure_type(
            parse_expression(f"{called_name(node)}({', '.join(parts)})"), cst.Call
        )

    def _valid_mask(self, rank: int) -> str:
        if not self.valid:
            return ""
        return self.valid + (f"[:{', None' * rank}]" if rank else "")


def promote_operand(value: Lifted, rank: int) -> cst.BaseExpression:
    """Return a lifted value, or one beside lifted ones, as an operand of that rank."""
    own, text = value.kind.rank, render_code(parenthesized(value.node))
    missing = rank - own
    if value.kind.lifted:
        if not missing:
            return value.node
        return parse_expression(f"{text}[:{', None' * missing}{', :' * own}]")
    if not own:
        return value.node
    return parse_expression(f"{text}[{', '.join(['None'] * (1 + missing) + [':'] * own)}]")


def grouped_as(node: cst.BaseExpression, like: cst.BaseExpression) -> cst.BaseExpression:
    """Return the operand, in parentheses if the one that it replaces needed none and it does."""
    return node if node.lpar or type(node) is type(like) else parenthesized(node)


def _is_truth_value(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is true or false, and no number."""
    if isinstance(node, cst.BooleanOperation):
        return _is_truth_value(node.left) and _is_truth_value(node.right)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return _is_truth_value(node.expression)
    return isinstance(node, cst.Comparison)


def _chained_comparisons(node: cst.Comparison) -> list[cst.BaseExpression]:
    """Return the comparisons of a chain: of ``a <= b < c``, ``a <= b`` and ``b < c``."""
    ends = [node.left, *(comparison.comparator for comparison in node.comparisons)]
    return [
        cst.Comparison(
            parenthesized(first),
            [comparison.with_changes(comparator=parenthesized(comparison.comparator))],
        )
        for first, comparison in zip(ends, node.comparisons, strict=False)
    ]


def _errors_of(function: JitFunction) -> set[str]:
    """Return what a function raises, which its compiler decides."""
    raised = (node.exc for node in nodes_within(function.node) if isinstance(node, cst.Raise))
    return {called_name(error) for error in raised if error is not None}


def is_elementwise_call(name: str) -> bool:
    """Tell whether a function of Triton's computes each element of its operands alone."""
    plain = _unqualified_name(name)
    return plain in _ELEMENTWISE and any(name == prefix + plain for prefix in _MODULES)


def _unqualified_name(name: str) -> str:
    return name.rsplit(".", 1)[-1]


_ATOMIC_REDUCTIONS = {
    "tl.atomic_add": ("tl.sum", "0"),
    "tl.atomic_max": ("tl.max", 'float("-inf")'),
    "tl.atomic_min": ("tl.min", 'float("inf")'),
}
"""How what several atomic operations bring to one place is one, and what leaves it as it is."""
