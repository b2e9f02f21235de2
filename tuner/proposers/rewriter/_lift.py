"""Lifting: scalars of a Triton function become vectors along one new axis, which leads.

What depends on a name that gets the axis gets it too. The axis comes first, so the axes of blocks
and of reductions move up by one, and operands are aligned with explicit ``[:, None]``.

Notation
    rank      the number of axes before lifting
    lifted    whether the new axis has been put in front of them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from solkit.tuner.proposers.rewriter._file import JitFunction
from solkit.tuner.proposers.rewriter._syntax import (
    argument_of,
    called,
    calls,
    code,
    expression,
    grouped,
    names,
    number,
)

__all__ = ["CannotLiftError", "Kind", "Lifted", "Lifting"]

_ELEMENTWISE = frozenset(
    """abs exp exp2 log log2 sqrt rsqrt sin cos sigmoid erf floor ceil maximum minimum where fma
    div_rn sqrt_rn cast tanh clamp pow expm1 log1p""".split()
)
_MODULES = ("tl.", "tl.math.", "libdevice.", "tl.extra.cuda.libdevice.", "triton.language.")
_REDUCTIONS = ("sum", "max", "min", "argmax", "argmin", "xor_sum")
_HINTS = ("tl.multiple_of", "tl.max_contiguous", "tl.max_constancy")
_SCALARS = frozenset(
    "tl.program_id tl.num_programs tl.cdiv float int tl.constexpr tl.static_assert len".split()
)
_FRESH = ("tl.zeros", "tl.full", "tl.zeros_like", "tl.arange")


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
        kinds: of names; others are scalars.
        valid: the name of the mask over the new axis; empty if all of it is valid.
        fills: whether loads give 0 where nothing is valid, for sums of products.
    """

    functions: Mapping[str, JitFunction]
    kinds: dict[str, Kind] = field(default_factory=dict)
    valid: str = ""
    fills: bool = False

    def lift(self, node: cst.BaseExpression) -> Lifted:
        """Return an expression with the new axis where it has to be.

        Raises:
            CannotLiftError: it has something that this module does not know.
        """
        if isinstance(node, cst.Name):
            return Lifted(node, self.kinds.get(node.value, _SCALAR))
        if isinstance(node, cst.BinaryOperation):
            (left, right), kind = self._aligned([node.left, node.right])
            return Lifted(node.with_changes(left=grouped_as(left, node.left), right=right), kind)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            target = node.comparisons[0]
            (left, right), kind = self._aligned([node.left, target.comparator])
            changed = target.with_changes(comparator=right)
            return Lifted(node.with_changes(left=left, comparisons=[changed]), kind)
        if isinstance(node, cst.Comparison):
            return self._of_truths(node, _pairs(node), "&")
        if isinstance(node, cst.BooleanOperation):
            sign = "&" if isinstance(node.operator, cst.And) else "|"
            return self._of_truths(node, [node.left, node.right], sign)
        if isinstance(node, cst.UnaryOperation):
            return self._unary(node)
        if isinstance(node, cst.Subscript):
            return self._subscript(node)
        if isinstance(node, cst.Call):
            return self._call(node)
        if any(self.kinds.get(name, _SCALAR).lifted for name in names(node)):
            raise CannotLiftError(code(node))
        return Lifted(node, _SCALAR)

    def _unary(self, node: cst.UnaryOperation) -> Lifted:
        inner = self.lift(node.expression)
        if inner.kind.lifted and isinstance(node.operator, cst.Not):
            if not _is_truth(node.expression):
                raise CannotLiftError(code(node))
            return Lifted(expression(f"~{code(grouped(inner.node))}"), inner.kind)
        return Lifted(node.with_changes(expression=inner.node), inner.kind)

    def _of_truths(
        self, node: cst.BaseExpression, parts: Sequence[cst.BaseExpression], sign: str
    ) -> Lifted:
        """Lift ``and``, ``or`` and chains of comparisons: vectors have only ``&`` and ``|``."""
        values, kind = self._aligned(parts)
        if not kind.lifted:
            return Lifted(node, kind)
        if not all(map(_is_truth, parts)):  # `n and m` of numbers is not `n & m`
            raise CannotLiftError(code(node))
        text = f" {sign} ".join(f"({code(value)})" for value in values)
        return Lifted(grouped(expression(text)), kind)

    def _aligned(
        self, nodes: Sequence[cst.BaseExpression]
    ) -> tuple[list[cst.BaseExpression], Kind]:
        """Return operands of one elementwise operation, with their axes aligned."""
        lifted = [self.lift(node) for node in nodes]
        kind = Kind(max(e.kind.rank for e in lifted), any(e.kind.lifted for e in lifted))
        if not kind.lifted:
            return [part.node for part in lifted], kind
        return [promoted(part, kind.rank) for part in lifted], kind

    def _subscript(self, node: cst.Subscript) -> Lifted:
        base = self.lift(node.value)
        entries = [code(element.slice) for element in node.slice]
        if not set(entries) <= {":", "None"}:
            if base.kind.lifted:
                raise CannotLiftError(code(node))
            return Lifted(node, _SCALAR)
        kind = Kind(len(entries), base.kind.lifted)
        if not kind.lifted:
            return Lifted(node, kind)
        return Lifted(expression(f"{code(grouped(base.node))}[:, {', '.join(entries)}]"), kind)

    def _call(self, node: cst.Call) -> Lifted:
        name = called(node)
        if name in _HINTS:
            inner = self.lift(node.args[0].value)
            return inner if inner.kind.lifted else Lifted(node, inner.kind)
        if name == "tl.load":
            return self.load(node)
        if name in _FRESH:
            return Lifted(node, self._fresh(node))
        if name in _SCALARS:
            return self._unlifted(node)
        if self._is_elementwise(name):
            return self._elementwise(node)
        if _short(name) in _REDUCTIONS and name.startswith("tl."):
            return self._reduction(node)
        if isinstance(node.func, cst.Attribute):
            return self._method(node)
        raise CannotLiftError(f"{name}()")

    def _unlifted(self, node: cst.Call) -> Lifted:
        if any(self.lift(arg.value).kind.lifted for arg in node.args):
            raise CannotLiftError(code(node))
        return Lifted(node, _SCALAR)

    def _fresh(self, node: cst.Call) -> Kind:
        if called(node) == "tl.arange":
            return Kind(1, False)
        if called(node) == "tl.zeros_like":
            kind = self.lift(node.args[0].value).kind
            if kind.lifted:
                raise CannotLiftError(code(node))
            return kind
        shape = argument_of(node, 0, "shape")
        if not isinstance(shape, (cst.Tuple, cst.List)):
            raise CannotLiftError(code(node))
        return Kind(len(shape.elements), False)

    def _is_elementwise(self, name: str) -> bool:
        if any(name == prefix + _short(name) for prefix in _MODULES):
            return _short(name) in _ELEMENTWISE
        if name in ("min", "max"):
            return True
        function = self.functions.get(name)
        return function is not None and all(
            self._is_elementwise(called(call)) or called(call).endswith(".to")
            for call in calls(function.node)
            if "jit" not in called(call)
        )

    def _elementwise(self, node: cst.Call) -> Lifted:
        values, kind = self._aligned([arg.value for arg in node.args])
        if called(node) in ("min", "max") and kind.lifted:  # Python's take one axis no better
            node = node.with_changes(func=expression(f"tl.{called(node)}imum"))
        args = [a.with_changes(value=v) for a, v in zip(node.args, values, strict=True)]
        return Lifted(node.with_changes(args=args), kind)

    def _method(self, node: cst.Call) -> Lifted:
        function = cst.ensure_type(node.func, cst.Attribute)
        inner = self.lift(function.value)
        method = function.attr.value
        if method == "to":
            changed = function.with_changes(value=grouped(inner.node))
            return Lifted(node.with_changes(func=changed), inner.kind)
        if method in _REDUCTIONS:
            args = "".join(f", {code(arg)}" for arg in node.args)
            plain = expression(f"tl.{method}({code(function.value)}{args})")
            return self._reduction(cst.ensure_type(plain, cst.Call))
        raise CannotLiftError(f".{method}()")

    def _reduction(self, node: cst.Call) -> Lifted:
        value = self.lift(node.args[0].value)
        axis = argument_of(node, 1, "axis")
        rank = value.kind.rank
        if axis is None or code(axis) == "None":
            if rank > 1 and value.kind.lifted:
                raise CannotLiftError(code(node))
            place, remaining = 0, 0
        else:
            index = number(axis)
            if index is None:
                raise CannotLiftError(code(node))
            place, remaining = index, rank - 1
        if not value.kind.lifted:
            return Lifted(node, Kind(remaining, False))
        if rank == 0:
            raise CannotLiftError(code(node))
        text = f"{called(node)}({code(value.node)}, axis={place + 1})"
        return Lifted(expression(text), Kind(remaining, True))

    # --------------------------------------------------------------------- memory

    def load(self, node: cst.Call) -> Lifted:
        """Return a load through pointers that may have become vectors."""
        pointer = self.lift(node.args[0].value)
        if not pointer.kind.lifted:
            if any(self.lift(arg.value).kind.lifted for arg in node.args[1:]):
                raise CannotLiftError(code(node))
            return Lifted(node, pointer.kind)
        access = self._accessed(node, pointer, skipped=1, mask_at=1)
        return Lifted(access, pointer.kind)

    def store(self, node: cst.Call) -> cst.Call:
        """Return a store or an atomic operation.

        Raises:
            CannotLiftError: it writes the same element for several of the new axis.
        """
        pointer = self.lift(node.args[0].value)
        if not pointer.kind.lifted:
            raise CannotLiftError(f"{called(node)} at one place")
        return self._accessed(node, pointer, skipped=1, mask_at=2)

    def _accessed(self, node: cst.Call, pointer: Lifted, skipped: int, mask_at: int) -> cst.Call:
        """Return the call with its operands aligned to the pointer, and the mask narrowed."""
        parts, rank, mask, fill = [code(pointer.node)], pointer.kind.rank, "", ""
        for index, arg in enumerate(node.args[skipped:], start=skipped):
            word = arg.keyword.value if arg.keyword is not None else ""
            if word in ("eviction_policy", "cache_modifier", "volatile", "sem", "scope"):
                parts.append(f"{word}={code(arg.value)}")
                continue
            value = code(promoted(self.lift(arg.value), rank))
            if word == "mask" or (not word and index == mask_at):
                mask = value
            elif word == "other" or (not word and index == mask_at + 1):
                fill = value
            else:
                parts.append(value)
        valid, loads = self._valid(rank), mask_at == 1
        grouped_mask = code(grouped(expression(mask))) if mask else ""
        both = f"{valid} & {grouped_mask}" if valid and mask else valid or mask
        if both:
            parts.insert(mask_at, f"mask={both}")
        if loads and (fill or (self.fills and both)):
            parts.insert(mask_at + 1, f"other={fill or '0.0'}")
        return cst.ensure_type(expression(f"{called(node)}({', '.join(parts)})"), cst.Call)

    def _valid(self, rank: int) -> str:
        if not self.valid:
            return ""
        return self.valid + (f"[:{', None' * rank}]" if rank else "")


def promoted(value: Lifted, rank: int) -> cst.BaseExpression:
    """Return a lifted value, or one beside lifted ones, as an operand of that rank."""
    own, text = value.kind.rank, code(grouped(value.node))
    missing = rank - own
    if value.kind.lifted:
        if not missing:
            return value.node
        return expression(f"{text}[:{', None' * missing}{', :' * own}]")
    if not own:
        return value.node
    return expression(f"{text}[{', '.join(['None'] * (1 + missing) + [':'] * own)}]")


def grouped_as(node: cst.BaseExpression, like: cst.BaseExpression) -> cst.BaseExpression:
    """Return the operand, in parentheses if the one that it replaces needed none and it does."""
    return node if node.lpar or type(node) is type(like) else grouped(node)


def _is_truth(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is true or false, and no number."""
    if isinstance(node, cst.BooleanOperation):
        return _is_truth(node.left) and _is_truth(node.right)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return _is_truth(node.expression)
    return isinstance(node, cst.Comparison)


def _pairs(node: cst.Comparison) -> list[cst.BaseExpression]:
    """Return the comparisons of a chain: of ``a <= b < c``, ``a <= b`` and ``b < c``."""
    ends = [node.left, *(comparison.comparator for comparison in node.comparisons)]
    return [
        cst.Comparison(
            grouped(first), [comparison.with_changes(comparator=grouped(comparison.comparator))]
        )
        for first, comparison in zip(ends, node.comparisons, strict=False)
    ]


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]
