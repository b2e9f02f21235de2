"""What the data may decide: zeros that cancel a factor, and limits that end a reduction early.

A product with a zero needs no other factor. A search for the largest of bounded values may stop at
the bound. Whether that happens depends on the data, so the static hard bound counts on neither.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import torch

from solkit.roofline.work.program import TensorUse, TracedOp

__all__ = ["Sparsity"]


def _names(text: str) -> frozenset[str]:
    return frozenset(f"aten.{name}" for name in text.split())


_PASSING = _names(
    "_to_copy clone copy copy_ _unsafe_view neg abs mul mul_ div div_ sqrt square pow index_select "
    "gather index cat stack repeat cumsum"
)
"""Ops whose result is zero where an operand is."""

_REDUCTIONS = _names("sum mean amax amin max min prod linalg_vector_norm")
"""Ops whose result is zero where a line of an operand is."""

_SUMS = _names("add add_ sub sub_ addcmul")

_ZEROING = _names(
    """tril triu where masked_fill masked_fill_ masked_scatter scatter scatter_ scatter_add
    index_put index_put_ index_fill index_fill_ one_hot diag_embed hardshrink softshrink threshold
    native_dropout bernoulli bernoulli_ constant_pad_nd max_pool2d_with_indices_backward
    zeros new_zeros zeros_like zero_ eye diag block_diag"""
)
"""Ops that put zeros among their results."""

_CUTTING = _names("relu relu_ clamp clamp_ clamp_min clamp_max hardtanh hardsigmoid")
"""Ops that send a range of values to one value, often to zero."""

_VANISHING = _names("_softmax _safe_softmax exp exp_ sigmoid sigmoid_")
"""Ops that send a score of minus infinity to zero."""

_ABOVE = _names(
    """sigmoid sigmoid_ tanh tanh_ hardsigmoid hardtanh clamp clamp_ clamp_max erf sin cos _softmax
    _safe_softmax _log_softmax minimum sign"""
)
_BELOW = _names(
    """sigmoid sigmoid_ tanh tanh_ hardsigmoid hardtanh clamp clamp_ clamp_min erf sin cos _softmax
    _safe_softmax relu relu_ exp abs square sqrt gelu silu elu softplus mish hardswish maximum sign
    pow"""
)
"""Ops whose results have a largest or a least value."""

_LARGEST = _names("amax max argmax topk cummax maximum clamp_min sort aminmax")
_LEAST = _names("amin min argmin kthvalue cummin minimum clamp_max sort aminmax topk")
_AT_ONCE = _names("any all prod cumprod logical_and logical_or bitwise_and bitwise_or equal isin")
"""Reductions that one element may decide."""

_MONOTONE = _names("_to_copy clone copy _unsafe_view neg mul div add sub")
_FACTORS, _QUOTIENTS = _names("mul mul_"), _names("div div_")
_FEW = 16
"""Rows of a ReLU's output; with more of them hardly any column is zero in all of them."""
_MASK = 4  # values: with fewer of them integers are taken for a mask
_DEEP = 32


def _cuts_to_zero(op: TracedOp) -> bool:
    """Whether an op sends many values to zero."""
    if op.name not in _CUTTING:
        return False
    names = [name for name in ("min", "max", "min_val", "max_val") if name in op.arguments]
    limits = [op.arguments[name] for name in names if op.arguments[name] is not None]
    return not limits or any(not isinstance(each, (int, float)) or each == 0 for each in limits)


def _draws_zeros(op: TracedOp) -> bool:
    """Whether integers are drawn from so few that they are a mask."""
    return op.name == "aten.randint" and int(op.arguments.get("high", _MASK)) < _MASK


class Sparsity:
    """What the makers of each storage tell of zeros and limits in it.

    Args:
        makers: the ops that make or write each storage, in program order.
        sparse: arguments that may hold zeros by the way they are made.
    """

    def __init__(
        self,
        makers: Mapping[int, Sequence[TracedOp]],
        sparse: frozenset[int] = frozenset(),
    ) -> None:
        self._makers, self._sparse = makers, sparse
        # Without memory a recurrence of n steps is walked in 2^n ways.
        self._zeros_in = functools.cache(self._search_zeros)
        self._infinities_in = functools.cache(self._search_infinities)
        self._limits_in = functools.cache(self._search_limits)

    def may_be_zero(self, use: TensorUse, cut: bool = False, depth: int = 0) -> bool:
        """Whether the data may hold zeros that a kernel can skip.

        Args:
            use: the tensor.
            cut: whether the zeros of a ReLU or a clamp count too, and those of a single term of a
                sum.
            depth: of the recursion.
        """
        if use.dtype is torch.bool or use.storage in self._sparse or depth > _DEEP:
            return True
        return self._zeros_in(use.storage, cut, depth + 1)

    def _search_zeros(self, storage: int, cut: bool, depth: int) -> bool:
        return any(self._zeroes(op, cut, depth) for op in self._makers.get(storage, ()))

    def _zeroes(self, op: TracedOp, cut: bool, depth: int) -> bool:
        if op.name in _ZEROING or (cut and _cuts_to_zero(op)) or _draws_zeros(op):
            return True
        if op.name in _VANISHING:
            return self._may_be_infinite(op.inputs[0], depth)
        if op.name in _REDUCTIONS:  # a ReLU hardly leaves a long line of zeros
            cut = cut and op.inputs[0].numel <= _FEW * op.result.numel
        passes = op.name in _PASSING | _REDUCTIONS or (cut and op.name in _SUMS)
        return passes and any(self.may_be_zero(each, cut, depth) for each in op.inputs)

    def _may_be_infinite(self, use: TensorUse, depth: int) -> bool:
        """Whether a mask may have put minus infinity into scores."""
        if depth > _DEEP:
            return True
        return self._infinities_in(use.storage, depth)

    def _search_infinities(self, storage: int, depth: int) -> bool:
        return any(self._hides(op, depth) for op in self._makers.get(storage, ()))

    def _hides(self, op: TracedOp, depth: int) -> bool:
        """Whether an op adds a mask of minus infinity, or keeps one."""
        if op.name in _ZEROING:
            return True
        if op.name in _SUMS and any(self._is_bias(each) for each in op.inputs):
            return True
        keeps = op.name in _MONOTONE or op.name in _SUMS
        return keeps and any(self._may_be_infinite(each, depth + 1) for each in op.inputs)

    def _is_bias(self, use: TensorUse) -> bool:
        """Whether it is an argument with a value for each score, which may be a mask."""
        return not self._makers.get(use.storage) and sum(n > 1 for n in use.shape) > 1

    def cancels(self, reader: TracedOp, seen: TensorUse, other: TensorUse) -> bool:
        """Whether zeros in one factor of a product may leave parts of the other one unread."""
        if reader.name in _QUOTIENTS and other is reader.arguments.get("other"):
            return False  # a zero below a fraction cancels nothing
        if self.may_be_zero(other):
            return True
        if reader.name in _FACTORS:  # a gate that is zero cancels a whole row
            return other.distinct < reader.result.numel and self.may_be_zero(other, cut=True)
        if len(other.shape) < 2 or reader.result.shape == other.shape == seen.shape:
            return False
        left = reader.inputs and other is reader.inputs[-2 if len(reader.inputs) > 1 else 0]
        rows = other.shape[-2] if left else other.shape[-1]
        return rows <= _FEW and self.may_be_zero(other, cut=True)

    def ends_early(self, reader: TracedOp, seen: TensorUse) -> bool:
        """Whether an op may know its result before it has seen all of an operand."""
        name = reader.name.removesuffix("_")
        if name in _AT_ONCE:
            return True
        above, below = self.limits(seen)
        return (name in _LARGEST and above) or (name in _LEAST and below)

    def limits(self, use: TensorUse, depth: int = 0) -> tuple[bool, bool]:
        """Whether the values of a tensor have a largest and a least value."""
        if not use.dtype.is_floating_point:
            return True, True
        return self._limits_in(use.storage, depth)

    def _search_limits(self, storage: int, depth: int) -> tuple[bool, bool]:
        found = [self._limits_of(op, depth) for op in self._makers.get(storage, ())]
        return any(above for above, _ in found), any(below for _, below in found)

    def _limits_of(self, op: TracedOp, depth: int) -> tuple[bool, bool]:
        above, below = op.name in _ABOVE, op.name in _BELOW
        if op.name in _MONOTONE and depth < _DEEP and op.inputs:
            inner = [self.limits(each, depth + 1) for each in op.inputs]
            either = any(a or b for a, b in inner)
            return either, either  # a negative factor exchanges them
        return above, below
