"""Elements whose value the program itself fixes: zeros, and stand-ins for minus infinity.

``tril`` and ``masked_fill`` write zeros; scores that are masked with minus infinity become zeros
behind a softmax; a product keeps the zeros of each factor. Walking forwards, these facts are
carried from op to op through views, and each op is annotated: elements that are known need not be
read from its operands, computed for its result, or multiplied.

Data is not structure: a mask that is an *input* tells which elements of other tensors matter, but
has to be read itself.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from solkit.ops import Family
from solkit.roofline.work.constants import Fixed, known_number
from solkit.roofline.work.guesses import choices_of_lines, spread
from solkit.roofline.work.liveness._lookups import at_indices, named_at_most
from solkit.roofline.work.masks import (
    Pattern,
    as_axis,
    both,
    compact,
    difference,
    everything,
    joined_masks,
    lifted,
    narrowest,
    pattern_of,
    union,
)
from solkit.roofline.work.products import HIDDEN, product_mask
from solkit.roofline.work.program import Mask, Program, TensorUse, TracedOp, Zeros
from solkit.roofline.work.sparsity import deciding

_MAX_ELEMENTS, _MAX_TRUTHS = 1 << 26, 1 << 28


@dataclass(frozen=True)
class _Facts:
    """Facts known of a tensor's elements; masks over its shape, ``None`` where nothing is.

    Attributes:
        zeros: elements that are 0.
        floor: elements that are minus infinity, or low enough to act like it.
        guessed: only how many are known is certain, not which.
        choices: of an index that says which of so many things was chosen.
        limits: the least and the largest value of all.
        truths: elements of a boolean tensor that are true.
        rests_on_guess: whether an earlier op guessed which are zero, and so which are not.
    """

    zeros: Mask | None = None
    floor: Mask | None = None
    guessed: bool = False
    choices: int | None = None
    limits: tuple[float, float] = (-math.inf, math.inf)
    truths: Mask | None = None
    rests_on_guess: bool = False

    @property
    def mask(self) -> Mask | None:
        if self.zeros is None or self.floor is None:
            return self.zeros if self.floor is None else self.floor
        return self.zeros | self.floor

    def over(self, ndim: int) -> _Facts:
        """Return the same facts, as masks of `ndim` dimensions."""
        zeros, floor, truths = (None if m is None else lifted(m, ndim) for m in self.masks)
        return _Facts(zeros, floor, self.guessed, truths=truths)

    @property
    def masks(self) -> tuple[Mask | None, ...]:
        """All that is known of single elements."""
        return self.zeros, self.floor, self.truths

    def __bool__(self) -> bool:
        return any(mask is not None for mask in self.masks)


_NOTHING = _Facts()
_UNKNOWN = (None, None, None)


def annotated(program: Program) -> Program:
    """Return the same program, with masks where elements of operands and results are known."""
    knowledge = _Known(program)
    for op in program.ahead:
        knowledge.annotate(op)
    return replace(program, ops=tuple(knowledge.annotate(op) for op in program.ops))


def zeros_at_end(program: Program) -> Mapping[int, Zeros]:
    """Return the zeros that a program leaves in storages, whatever it draws."""
    knowledge = _Known(program)
    for op in program.ops:
        knowledge.annotate(op)
    return knowledge.certain_zeros()


def _compared(program: Program) -> dict[int, set[int]]:
    """Return the numbers that each index is compared with, also where it was copied before."""
    first: dict[int, int] = {}
    compared: dict[int, set[int]] = {}
    for op in program.ops:
        if not op.inputs:
            continue
        source = first.get(op.inputs[0].storage, op.inputs[0].storage)
        if _copies(op):
            first[op.result.storage] = source
        elif op.operator.compares in ("eq", "ne") and isinstance(op.args[1], int):
            compared.setdefault(source, set()).add(op.args[1])
    return compared


class _Known:
    """The facts about each storage at one point of the program.

    Args:
        program: before its first op.
    """

    def __init__(self, program: Program) -> None:
        self._compared = _compared(program)
        self._patterns: dict[int, tuple[Pattern | None, ...]] = {  # as in `_Facts.masks`
            storage: (Pattern(zeros.bits, zeros.block), None, None)
            for storage, zeros in program.zeros.items()
        }
        self._extent = {storage: zeros.extent for storage, zeros in program.zeros.items()}
        self._choices: dict[int, int] = {}  # by the storage of an index
        self._guessed: set[int] = set()  # storages of which only the number of zeros is certain
        self._exclusive: set[int] = set()  # guesses whose false elements say what is chosen
        self._ranges = Fixed(
            {use.storage for op in program.ops for use in op.written}, program.ranges
        )

    def certain_zeros(self) -> dict[int, Zeros]:
        """Return the zeros of storages that rest on no guess.

        A tensor that is nothing but zeros stands for any state that a problem may start from.
        """
        return {
            storage: Zeros(zeros.bits, zeros.block, self._extent[storage])
            for storage, (zeros, *_) in self._patterns.items()
            if zeros is not None and storage not in self._guessed and not zeros.bits.all()
        }

    def annotate(self, op: TracedOp) -> TracedOp:
        """Return the op with masks. Updates the facts to what holds behind it."""
        for use in op.outputs:
            self._extent[use.storage] = use.distinct
        self._learn_choices(op)
        self._ranges.learn(op)
        op = self._with_choices(op)
        rule = _rule_of(op)
        if rule is None and not self._concerns(op):
            self._overwrite(op)
            return op
        written = {id(use) for use in op.written}  # written, whatever stood there
        read = [use for use in op.inputs if id(use) not in written]
        masks = {id(use): self._needless(op, use) for use in read}
        facts = rule(op, self.facts) if rule is not None else _NOTHING
        facts = facts.over(len(op.result.shape)) if facts else _NOTHING
        masks |= self._unmoved(op)
        guessed = facts.guessed or any(use.storage in self._guessed for use in op.inputs)
        self._overwrite(op)
        if facts:
            self._store(op.result, facts)
            masks[id(op.result)] = facts.mask if op.outputs else masks.get(id(op.result))
        if facts and guessed:
            self._guessed.add(op.result.storage)
            if facts.zeros is not None and facts.truths is not None:
                self._exclusive.add(op.result.storage)
                masks.pop(id(op.result))
        masked = _with_masks(op, masks)
        return _guessing(masked) if facts.guessed or self._rests_on_guesses(op) else masked

    def _rests_on_guesses(self, op: TracedOp) -> bool:
        """Tell whether elements that an op leaves, or does not choose, are known by number."""
        chooses = bool(op.written) or op.operator.zeros == "where"
        return chooses and any(
            use.storage in self._guessed for use in op.inputs if use.storage in self._patterns
        )

    def _with_choices(self, op: TracedOp) -> TracedOp:
        """Return the op with the number of values that an unknown index may have."""
        named = [use for use in deciding(op) if use.value is None and use.dtype is not torch.bool]
        counts: dict[int, int] = {}
        for use in named:
            least, most = self._ranges.range_of(use)
            if math.isfinite(most - least) and most - least + 1 < use.distinct:
                counts[id(use)] = int(most - least) + 1
        if not counts:
            return op
        return op.mapped(
            lambda leaf: replace(leaf, choices=counts[id(leaf)]) if id(leaf) in counts else leaf
        )

    def _unmoved(self, op: TracedOp) -> dict[int, Mask | None]:
        """Return elements of targets that an op in place adds zero to: not read, not written."""
        if not op.written or not op.operator.adds_terms or op.operator.factors:
            return {}
        masks: dict[int, Mask | None] = {}
        terms = [op.arguments.get(name) for name in ("other", "tensor1") if name in op.arguments]
        for place, target in enumerate(op.written):
            term = terms[0][place] if terms and isinstance(terms[0], list) else (terms or [None])[0]
            zeros = self.facts(term).zeros if isinstance(term, TensorUse) else None
            if zeros is not None and zeros.any() and len(zeros.shape) <= len(target.shape):
                mask = lifted(zeros, len(target.shape))
                masks |= {id(use): mask for use in (target, *op.inputs) if use == target}
        return masks

    def facts(self, use: Any) -> _Facts:
        """Return what is known of a use's elements (of a scalar argument: its value)."""
        if not isinstance(use, TensorUse):
            return _of_number(use)
        if use.value is not None:
            return _of_values(use)
        patterns = self._patterns.get(use.storage, _UNKNOWN)
        zeros, floor, truths = (None if p is None else p.under(use) for p in patterns)
        return _Facts(
            zeros,
            floor,
            choices=self._choices.get(use.storage),
            limits=self._ranges.range_of(use),
            truths=truths,
            rests_on_guess=use.storage in self._guessed,
        )

    def _learn_choices(self, op: TracedOp) -> None:
        """Remember which results are indices of what was chosen, through copies.

        Only of those that are compared with every choice: together the comparisons need all of the
        index then, so that none of what it is made of counts as needless.
        """
        dim = op.arguments.get("dim", -1 if op.operator.family is Family.ORDER else None)
        if op.operator.chooses and op.outputs and op.inputs[0].shape and isinstance(dim, int):
            index, choices = op.outputs[-1].storage, op.inputs[0].shape[dim]  # behind the values
            if self._compared.get(index, set()) >= set(range(choices)):
                self._choices[index] = choices
        elif _copies(op) and op.inputs[0].storage in self._choices:
            self._choices[op.outputs[0].storage] = self._choices[op.inputs[0].storage]

    def _concerns(self, op: TracedOp) -> bool:
        is_known = any(use.storage in self._patterns for use in (*op.inputs, *op.written))
        return is_known or any(use.value is not None for use in _factors(op))

    def _needless(self, op: TracedOp, use: TensorUse) -> Mask | None:
        """Return elements of an operand that need not be read."""
        if use.value is not None and all(use is not factor for factor in _factors(op)):
            return None  # a mask that is data has to be read to know what it says
        if use.storage in self._exclusive and op.operator.zeros != "where":
            return None
        if use is op.arguments.get("attn_mask"):  # what hides a pair; a zero that is added does not
            facts = self.facts(use)
            return facts.zeros if use.dtype is torch.bool else facts.floor
        return self.facts(use).mask

    def _overwrite(self, op: TracedOp) -> None:
        """Forget what was known of elements that an op in place may have changed."""
        for use in op.written:
            self._choices.pop(use.storage, None)
            patterns = self._patterns.pop(use.storage, None)
            extent = self._extent.get(use.storage)
            partial = extent is not None and use.distinct < extent
            if patterns is None or extent is None or not partial:
                continue
            taken = pattern_of(use, everything(len(use.shape)), extent)
            if taken is not None:
                self._patterns[use.storage] = tuple(p and difference(p, taken) for p in patterns)

    def _store(self, use: TensorUse, facts: _Facts) -> None:
        extent = self._extent.get(use.storage)
        if extent is None:
            return
        old = self._patterns.get(use.storage, _UNKNOWN)
        new = [
            mask if mask is None else pattern_of(use, mask, extent, _MAX_TRUTHS)
            for mask in facts.masks
        ]
        joined = (union([p, q]) if p and q else p or q for p, q in zip(old, new))
        self._patterns[use.storage] = tuple(joined)


def _factors(op: TracedOp) -> list[TensorUse]:
    """Return the factors of a matrix product."""
    is_product = op.operator.family is Family.PRODUCT
    return [op.arguments[name] for name in op.operator.factors] if is_product else []


def _copies(op: TracedOp) -> bool:
    """Tell if it copies elements to the same place of a new tensor."""
    return bool(op.operator.moves and op.operator.aligned and op.outputs)


def _with_masks(op: TracedOp, needless: Mapping[int, Mask | None]) -> TracedOp:
    """Return the op with `needless` elements masked out of its operands and results."""
    if all(mask is None for mask in needless.values()):
        return op

    def swap(leaf: Any) -> Any:
        mask = needless.get(id(leaf))
        return leaf if mask is None else replace(leaf, mask=both(leaf.mask, ~mask))

    swapped: dict[int, Any] = {}

    def once(leaf: Any) -> Any:  # equal uses stay one object: they are distinguished by identity
        return swapped.setdefault(id(leaf), swap(leaf)) if isinstance(leaf, TensorUse) else leaf

    return op.mapped(once)


def _guessing(op: TracedOp) -> TracedOp:
    """Return the op, its operands marked whose indices are guessed."""
    unsure = {id(use): replace(use, sure=False) for use in op.inputs if use.value is None}
    return op.mapped(lambda leaf: unsure.get(id(leaf), leaf))


def _of_number(number: Any) -> _Facts:
    if not isinstance(number, (int, float)):
        return _NOTHING
    one = everything(0)
    return _Facts(one if number == 0 else None, one if number <= HIDDEN else None)


def _of_values(use: TensorUse) -> _Facts:
    """Masks, triangles and one-hot rows; scattered zeros among numbers are not structure."""
    assert use.value is not None
    value = compact(use.value)
    is_truth = value.dtype.kind == "b"
    if value.dtype.kind not in "biuf" or value.size > (_MAX_TRUTHS if is_truth else _MAX_ELEMENTS):
        return _NOTHING
    zeros, floor = value == 0, np.zeros(1, dtype=bool) if is_truth else value <= HIDDEN
    if value.dtype.kind in "iu" and _is_graded(value, floor):
        floor = np.zeros(1, dtype=bool)
    few = 3 * int(np.count_nonzero(zeros)) < value.size and value.size > 1
    return _Facts(None if few else narrowest(zeros), narrowest(floor) if floor.any() else None)


def _is_graded(value: npt.NDArray[Any], floor: Mask) -> bool:
    """Tell whether integers pass the limit by degrees, as places do; those of a mask jump.

    Differences of places may be anything again, and decide masks.
    """
    low, others = value[floor], value[~floor]
    return bool(low.size and others.size and low.max() > 2 * min(others.min(), 0))


# ----------------------------------------------------------------------------------- rules

_Lookup = Callable[[Any], _Facts]
_Rule = Callable[[TracedOp, _Lookup], _Facts]

_RULES: dict[str, _Rule] = {}


def _rule_of(op: TracedOp) -> _Rule | None:
    return _RULES[op.operator.zeros] if op.operator.zeros else None


def _rule(kind: str) -> Callable[[_Rule], _Rule]:
    """Register what is known of the results of operators with this `Operator.zeros`."""

    def decorate(function: _Rule) -> _Rule:
        _RULES[kind] = function
        return function

    return decorate


def _first(op: TracedOp) -> Any:
    return op.args[0] if op.args else op.inputs[0]


@_rule("elementwise")
def _elementwise(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return zeros of f where f(0) = 0, or f(-inf) = 0."""
    x, record = facts(_first(op)), op.operator
    at_zero = x.zeros if record.zero_at_zero else None
    return _Facts(zeros=_either(at_zero, x.floor if record.zero_at_minus_inf else None))


@_rule("same")
def _same(op: TracedOp, facts: _Lookup) -> _Facts:
    source = op.args[1] if op.operator.overwrites else _first(op)
    return facts(source) if isinstance(source, TensorUse) else _NOTHING


@_rule("filled")
def _filled(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return a number, everywhere."""
    named = [op.arguments[name] for name in ("value", "fill_value") if name in op.arguments]
    return facts(named[0] if named else 0)


@_rule("floor kept")
def _floor_kept(op: TracedOp, facts: _Lookup) -> _Facts:
    return _Facts(floor=facts(_first(op)).floor)


@_rule("upper triangle")
@_rule("lower triangle")
def _triangle(op: TracedOp, facts: _Lookup) -> _Facts:
    shape, diagonal = op.result.shape, op.arguments.get("diagonal", 0)
    if math.prod(shape[-2:]) > _MAX_TRUTHS:
        return _NOTHING
    cut = np.tril if op.operator.zeros == "lower triangle" else np.triu
    outside = lifted(~cut(np.ones(shape[-2:], dtype=bool), diagonal), len(shape))
    x = facts(_first(op))
    floor = None if x.floor is None or not x.floor.any() else x.floor & ~outside
    return _Facts(_either(outside, x.zeros), floor)


@_rule("masked fill")
def _masked_fill(op: TracedOp, facts: _Lookup) -> _Facts:
    x, mask, value = (op.arguments[name] for name in ("self", "mask", "value"))
    _, truths = _bits(mask, facts)
    if truths is None:
        return _NOTHING
    filled = lifted(truths, len(op.result.shape))
    return _choose(filled, facts(value), facts(x), len(op.result.shape))


@_rule("where")
def _where(op: TracedOp, facts: _Lookup) -> _Facts:
    condition, x, y = (op.arguments[name] for name in ("condition", "self", "other"))
    ndim, one, other = len(op.result.shape), facts(x), facts(y)
    if condition.value is not None:
        chosen = lifted(compact(condition.value).astype(bool), ndim)
        return _choose(chosen, one, other, ndim)
    either = _Facts(_both(one.zeros, other.zeros), _both(one.floor, other.floor)).over(ndim)
    never, always = facts(condition).zeros, facts(condition).truths
    if never is not None and other:
        return _choose(~lifted(never, ndim), either, other.over(ndim), ndim)
    if always is not None and one:
        return _choose(lifted(always, ndim), one.over(ndim), either, ndim)
    return _NOTHING


@_rule("factor")
def _mul(op: TracedOp, facts: _Lookup) -> _Facts:
    """0 where any factor is; a positive factor keeps minus infinity."""
    x, y = (facts(argument) for argument in op.args[:2])
    first, second = op.args[:2]
    floor = _either(
        x.floor if _is_positive(second, y) else None, y.floor if _is_positive(first, x) else None
    )
    return _Facts(_either(x.zeros, y.zeros), floor)


def _is_positive(factor: Any, facts: _Facts) -> bool:
    """Tell whether a number, or every element of a tensor, is above zero."""
    return factor > 0 if isinstance(factor, (int, float)) else facts.limits[0] > 0


@_rule("quotient")
def _div(op: TracedOp, facts: _Lookup) -> _Facts:
    x, y = (facts(argument) for argument in op.args[:2])
    return _Facts(x.zeros, x.floor if _is_positive(op.args[1], y) else None)


@_rule("sum")
def _add(op: TracedOp, facts: _Lookup) -> _Facts:
    """0 where both terms are; minus infinity where any term is."""
    x, y = (facts(argument) for argument in op.args[:2])
    zeros = None if x.zeros is None or y.zeros is None else x.zeros & y.zeros
    if op.operator.cancels_equal != (op.arguments.get("alpha", 1) < 0):
        y = facts(_negative(op.args[1]))
    return _Facts(zeros if zeros is not None and zeros.any() else None, _either(x.floor, y.floor))


def _negative(term: Any) -> Any:
    """Return a number or known contents with the sign reversed; ``None`` of other terms."""
    if isinstance(term, (int, float)):
        return -term
    if not isinstance(term, TensorUse) or term.value is None or term.value.dtype.kind not in "if":
        return None
    return replace(term, value=-term.value)


@_rule("pad")
def _pad(op: TracedOp, facts: _Lookup) -> _Facts:
    """Mark elements padded with 0 or minus infinity."""
    del facts
    pad, value = op.arguments["pad"], op.arguments.get("value", 0)
    margin = _of_number(value)
    outside = everything(len(op.result.shape)) & False
    for axis, (before, after) in enumerate(zip(pad[::2], pad[1::2])):
        if not (before or after):
            continue
        n = op.result.shape[-1 - axis]
        line = np.ones(n, dtype=bool)
        line[max(before, 0) : n - max(after, 0)] = False
        outside = outside | line.reshape([-1] + [1] * axis)
    return _choose(outside, margin, _NOTHING, len(op.result.shape))


@_rule("scatter")
def _scatter(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return zeros except at the places that an index names: a routing's weights, one-hot rows."""
    target, index = op.arguments["self"], op.arguments["index"]
    zeros, dim = facts(target).zeros, op.arguments["dim"] % max(len(target.shape), 1)
    if zeros is None or not zeros.all():
        return _NOTHING
    rest = [tuple(n for d, n in enumerate(use.shape) if d != dim) for use in (target, index)]
    if rest[0] != rest[1] or target.numel > _MAX_ELEMENTS or not index.numel:
        return _NOTHING
    count = int(min(target.shape[dim], facts(index).limits[1] + 1))
    places = spread(index, dim, max(count, 1)) if index.value is None else index.value
    kept = np.zeros(target.shape, dtype=bool)
    np.put_along_axis(kept, places.astype(np.int64), True, axis=dim)
    return _NOTHING if kept.all() else _Facts(~kept, guessed=index.value is None)


@_rule("rows of an index")
def _rows_of_an_index(op: TracedOp, facts: _Lookup) -> _Facts:
    """Keep zeros in the rows that an index does not name."""
    target = op.arguments["self"]
    zeros, dim = facts(target).zeros, op.arguments["dim"] % max(len(target.shape), 1)
    value = op.arguments.get("value")
    clears = isinstance(value, (int, float)) and value == 0  # index_fill
    if zeros is None and not clears:
        return _NOTHING
    rows, is_guessed = _named_rows(op.arguments["index"], target.shape[dim])
    named = as_axis(rows, dim, len(target.shape))
    if clears and not is_guessed:
        return _Facts(named if zeros is None else zeros | named)
    return _NOTHING if zeros is None else _certain(zeros & ~named, is_guessed)


@_rule("places of indices")
def _places_of_indices(op: TracedOp, facts: _Lookup) -> _Facts:
    """Keep what is known where no index points; where it does, take what the values all are."""
    target, values = facts(op.arguments["self"]), facts(op.arguments["values"])
    indices = [use for use in op.arguments["indices"] if use is not None]
    if any(use.value is None for use in indices):
        return _first_places(op, target.zeros)
    named = at_indices(op.arguments["self"], op.arguments["indices"])
    if named.mask is None or not named.sure:
        return _NOTHING
    filling = _NOTHING if op.arguments.get("accumulate") else _of_all(values)
    return _choose(named.mask, filling, target, len(op.result.shape))


def _of_all(facts: _Facts) -> _Facts:
    """Return what is known of every element, for a tensor of another shape."""
    zeros, floor = (
        everything(0) if mask is not None and mask.all() else None
        for mask in (facts.zeros, facts.floor)
    )
    return _Facts(zeros, floor)


def _first_places(op: TracedOp, zeros: Mask | None) -> _Facts:
    """Return zeros beyond as many rows as unknown indices of the first dimension can name."""
    target: TensorUse = op.arguments["self"]
    first, *others = op.arguments["indices"]
    alone = first is not None and all(use is None for use in others)
    if zeros is None or not alone or first.dtype in (torch.bool, torch.uint8):
        return _NOTHING
    rows, is_guessed = _named_rows(first, target.shape[0])
    return _certain(zeros & ~as_axis(rows, 0, len(target.shape)), is_guessed)


@_rule("rows of a gradient")
def _rows_of_a_gradient(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return zeros in the rows of a table that were not looked up."""
    del facts
    rows, is_guessed = _named_rows(op.arguments["indices"], op.result.shape[0])
    padding = op.arguments.get("padding_idx", -1)
    if not is_guessed and 0 <= padding < len(rows):
        rows[padding] = False
    return _certain(as_axis(~rows, 0, len(op.result.shape)), is_guessed)


def _named_rows(index: TensorUse, count: int) -> tuple[npt.NDArray[np.bool_], bool]:
    """Return the rows that an index names; as many as it can name, and that this is a guess."""
    if index.value is None:
        return np.arange(count) < named_at_most(index), True
    rows = np.zeros(count, dtype=bool)
    places = index.value.ravel().astype(np.int64)
    rows[places[(-count <= places) & (places < count)]] = True
    return rows, False


@_rule("looked up")
def _looked_up(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return the lines of zeros that a known index names: neighbours that are missing."""
    table: TensorUse = op.arguments[op.operator.lookups]
    named = op.arguments.get("indices", op.arguments.get("index"))
    single = named if isinstance(named, list) else [named]
    dims = [d for d, use in enumerate(single) if use is not None]
    zeros, dim = facts(table).zeros, op.arguments.get("dim", dims[0])
    index = single[dims[0]]
    if zeros is None or len(dims) > 1 or index.value is None or index.dtype is torch.bool:
        return _NOTHING
    zeros = lifted(zeros, len(table.shape))
    before, after = zeros.shape[:dim], zeros.shape[dim + 1 :]
    if zeros.shape[dim] == 1:
        return _Facts(zeros.reshape(*before, *(1 for _ in index.shape), *after))
    if math.prod((*before, *index.shape, *after)) > _MAX_ELEMENTS:
        return _NOTHING
    taken = np.take(zeros, index.value.astype(np.int64), axis=dim, mode="wrap")
    return _certain(np.asarray(taken), False)


def _certain(zeros: Mask, is_guessed: bool) -> _Facts:
    return _Facts(zeros, guessed=is_guessed) if zeros.any() else _NOTHING


@_rule("row of zeros")
def _row_of_zeros(op: TracedOp, facts: _Lookup) -> _Facts:
    """Keep lines of zeros of an incoming gradient; a softmax's zeros have no gradient either."""
    gradient, output = (facts(op.arguments[name]).zeros for name in ("grad_output", "output"))
    dim = op.arguments["dim"] % max(len(op.result.shape), 1)
    lines = None if gradient is None else np.asarray(gradient.all(axis=dim, keepdims=True))
    own = output if op.operator.cost == "softmax backward" else None
    zeros = _either(lines, own)
    return _NOTHING if zeros is None else _certain(zeros, False)


@_rule("rows of zeros")
def _rows_of_zeros(op: TracedOp, facts: _Lookup) -> _Facts:
    """Keep rows of zeros of a norm's incoming gradient, if all that was normalised is zero."""
    gradient, ndim = facts(op.inputs[0]).zeros, len(op.result.shape)
    if gradient is None:
        return _NOTHING
    shape = op.arguments.get("normalized_shape")
    kept = 1 if shape is None else ndim - len(shape)
    rows = lifted(gradient, ndim).all(axis=tuple(range(kept, ndim)), keepdims=True)
    return _certain(np.asarray(rows), False)


@_rule("chosen classes")
def _chosen_classes(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return zeros but for the class that each target names; all of them where it is ignored."""
    del facts
    x, target = op.arguments["self"], op.arguments["target"]
    axis = 0 if len(x.shape) == 1 else 1
    if target.value is None or len(x.shape) > 2:
        return _NOTHING
    labels = target.value.astype(np.int64)
    ignored = np.expand_dims(labels == op.arguments["ignore_index"], axis)
    if x.numel > _MAX_ELEMENTS:
        return _certain(ignored, False)
    line = as_axis(np.arange(x.shape[axis]), axis, len(x.shape))
    return _Facts(ignored | (np.expand_dims(labels, axis) != line))


@_rule("part of a gradient")
def _part_of_a_gradient(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return zeros around the slice that a gradient is of."""
    del facts
    shape, arguments = op.result.shape, op.arguments
    dim = arguments["dim"] % max(len(shape), 1)
    line = np.ones(shape[dim], dtype=bool)
    if "index" in arguments:
        line[arguments["index"]] = False
    else:
        line[slice(arguments["start"], arguments["end"], arguments["step"])] = False
    return _certain(as_axis(line, dim, len(shape)), False)


@_rule("one hot")
def _one_hot(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return a number compared with each of several different ones equals at most one of them."""
    index, classes = op.args[:2]
    if not isinstance(index, TensorUse) or index.value is not None:
        return _NOTHING
    if isinstance(classes, (int, float)):
        chosen = _chosen(index, int(classes), facts(index).choices)
        return chosen or _comparison(op, facts)
    shape = op.result.shape
    if not isinstance(classes, TensorUse) or classes.value is None:
        return _NOTHING
    if classes.shape != shape[-1:] or index.shape != (*shape[:-1], 1):
        return _NOTHING
    if len(np.unique(classes.value)) < classes.numel or op.result.numel > _MAX_ELEMENTS:
        return _NOTHING
    least, most = facts(index).limits
    possible = np.flatnonzero((classes.value >= least) & (classes.value <= most))
    kept = np.zeros(shape, dtype=bool)
    if possible.size:
        places = possible[choices_of_lines(index, possible.size)]
        np.put_along_axis(kept, places, True, axis=-1)
    return _NOTHING if kept.all() else _Facts(~kept, guessed=True)


@_rule("opposite")
def _opposite(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return the opposite of truths."""
    x = facts(_first(op))
    if op.result.dtype is not torch.bool:
        return _NOTHING
    opposite = ~x.zeros if x.rests_on_guess and x.zeros is not None else x.truths
    return _Facts(opposite, truths=x.zeros)


@_rule("conjunction")
def _conjunction(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return false where either operand is, and true where both are; bits alike."""
    (zeros, truths), (others, other_truths) = (_bits(use, facts) for use in op.args[:2])
    is_truth = op.result.dtype is torch.bool
    return _Facts(_either(zeros, others), truths=_both(truths, other_truths) if is_truth else None)


@_rule("disjunction")
def _disjunction(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return true where either operand is, and false where both are; bits alike."""
    (zeros, truths), (others, other_truths) = (_bits(use, facts) for use in op.args[:2])
    is_truth = op.result.dtype is torch.bool
    return _Facts(_both(zeros, others), truths=_either(truths, other_truths) if is_truth else None)


def _bits(use: Any, facts: _Lookup) -> tuple[Mask | None, Mask | None]:
    """Return the elements of an operand that are false, and those that are true."""
    if isinstance(use, TensorUse) and use.dtype is torch.bool and use.value is not None:
        truths = compact(use.value).astype(bool)
        return ~truths, truths
    marks = facts(use)
    return marks.zeros, marks.truths


@_rule("comparison")
def _comparison(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return false where a known element fails the comparison with a number.

    What is unequal to a choice is all that is not equal to it.
    """
    index, other = op.args[:2]
    if op.operator.compares == "ne" and isinstance(index, TensorUse) and isinstance(other, int):
        equal = _chosen(index, other, facts(index).choices)
        if equal.zeros is not None:
            return replace(equal, zeros=~equal.zeros, truths=equal.zeros)
    number, compare = known_number(op.arguments.get("other")), _COMPARISONS[op.operator.compares]
    if number is None or op.arguments["self"] is not op.inputs[0]:
        return _NOTHING
    x = facts(op.inputs[0])
    at_zero = None if compare(0, number) else x.zeros
    at_floor = None if number <= HIDDEN or compare(-math.inf, number) else x.floor
    return _Facts(_either(at_zero, at_floor))


_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "gt", "ge", "lt", "le")
}


def _chosen(index: TensorUse, which: int, choices: int | None) -> _Facts:
    """Guess where one of `choices` was chosen: each as often as the others."""
    if choices is None or not 0 < index.numel <= _MAX_ELEMENTS:
        return _NOTHING
    if not 0 <= which < choices:
        return _Facts(everything(len(index.shape)))
    last = len(index.shape) - 1
    several = last >= 0 and index.shape[last] < choices  # of a row, which are different
    whole = np.arange(index.numel, dtype=np.int64).reshape(index.shape) % choices
    kept = (spread(index, last, choices) if several else whole) == which
    return _NOTHING if kept.all() else _Facts(~kept, guessed=True)


@_rule("windows")
def _im2col(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return taps that fall into the padding."""
    del facts
    x, lines = op.inputs[0], []
    names = ("kernel_size", "stride", "padding", "dilation")
    for n, *window in zip(x.shape[-2:], *(op.arguments[name] for name in names)):
        size, stride, padding, dilation = window
        count = (n + 2 * padding - dilation * (size - 1) - 1) // stride + 1
        taps = np.arange(size)[:, None] * dilation - padding + np.arange(count) * stride
        lines.append((taps >= 0) & (taps < n))
    rows, columns = lines
    inside = rows[:, None, :, None] & columns[None, :, None, :]
    taps = inside.reshape(rows.shape[0] * columns.shape[0], -1)
    if inside.all() or x.shape[-3] * taps.size > _MAX_ELEMENTS:
        return _NOTHING
    return _Facts(zeros=lifted(np.tile(~taps, (x.shape[-3], 1)), len(op.result.shape)))


@_rule("diagonal matrix")
def _diag_embed(op: TracedOp, facts: _Lookup) -> _Facts:
    del facts
    shape, arguments = op.result.shape, op.arguments
    dims = [arguments.get("dim1", -2) % len(shape), arguments.get("dim2", -1) % len(shape)]
    if dims != [len(shape) - 2, len(shape) - 1]:
        return _NOTHING
    line = np.eye(shape[-2], shape[-1], k=arguments.get("offset", 0), dtype=np.bool_)
    return _Facts(zeros=lifted(~line, len(shape)))


@_rule("diagonal blocks")
def _block_diag(op: TracedOp, facts: _Lookup) -> _Facts:
    outside, row, column = np.ones(op.result.shape, dtype=bool), 0, 0
    for block in op.arguments["tensors"]:
        shape = (1, 1, *block.shape)[-2:]
        zeros = facts(block).zeros
        outside[row : row + shape[0], column : column + shape[1]] = (
            False if zeros is None else zeros
        )
        row, column = row + shape[0], column + shape[1]
    return _Facts(zeros=outside)


@_rule("cat")
def _cat(op: TracedOp, facts: _Lookup) -> _Facts:
    parts = [use for use in op.inputs if len(use.shape) == len(op.result.shape)]
    part_facts = [facts(use) for use in parts]
    if not any(part_facts):
        return _NOTHING
    axis = op.arguments.get("dim", 0) % len(op.result.shape)
    zeros = joined_masks(parts, [f.zeros for f in part_facts], axis)
    return _Facts(zeros, joined_masks(parts, [f.floor for f in part_facts], axis))


@_rule("reduction")
def _reduction(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return a line of zeros sums to zero, and zero is its largest value."""
    return _reduced_zeros(op, facts, np.all)


def _reduced_zeros(op: TracedOp, facts: _Lookup, over: Callable[..., Any]) -> _Facts:
    """Return results that are zero if all elements of a line are, or any of them.

    A dimension of size 1 in a mask stands for all places alike.
    """
    zeros, dims = facts(_first(op)).zeros, op.arguments.get("dim")
    if zeros is None or (isinstance(dims, int) and not op.inputs[0].shape):
        return _NOTHING
    zeros = lifted(zeros, len(op.inputs[0].shape))
    listed = dims if isinstance(dims, (list, tuple)) else [] if dims is None else [dims]
    axes = tuple(d % zeros.ndim for d in listed) or tuple(range(zeros.ndim))
    remaining: Mask = np.asarray(over(zeros, axis=axes, keepdims=bool(op.arguments.get("keepdim"))))
    return _Facts(zeros=remaining)  # that none is zero tells too


@_rule("zero where one is")
def _all_of(op: TracedOp, facts: _Lookup) -> _Facts:
    """Return false where any element of a line is."""
    return _reduced_zeros(op, facts, np.any)


@_rule("product")
def _product(op: TracedOp, facts: _Lookup) -> _Facts:
    """0 where no pair of factors is left."""
    lhs, rhs = (facts(factor).zeros for factor in _factors(op))
    if lhs is None and rhs is None:
        return _NOTHING
    shapes = [factor.shape for factor in _factors(op)]
    kept = product_mask(_kept(lhs, shapes[0]), _kept(rhs, shapes[1]), shapes[0], shapes[1])
    return _Facts(zeros=None if kept is None or kept.all() else ~kept)


@_rule("product and term")
def _product_and_term(op: TracedOp, facts: _Lookup) -> _Facts:
    """0 where both are; minus infinity where the term is, as of a mask that is added to scores."""
    ndim, beta = len(op.result.shape), op.arguments.get("beta", 1)
    term = (facts(op.arguments["self"]) if beta else _of_number(0)).over(ndim)
    zeros = _both(_product(op, facts).zeros, term.zeros)
    floor = term.floor if beta > 0 else None
    return _Facts(zeros if zeros is not None and zeros.any() else None, floor)


def _kept(zeros: Mask | None, shape: Sequence[int]) -> Mask:
    return everything(len(shape)) if zeros is None else ~zeros


def _both(x: Mask | None, y: Mask | None) -> Mask | None:
    return None if x is None or y is None else x & y


def _either(x: Mask | None, y: Mask | None) -> Mask | None:
    if x is None or y is None:
        return y if x is None else x
    return x | y


def _choose(first: Mask, x: _Facts, y: _Facts, ndim: int) -> _Facts:
    """Return facts of x where `first` holds, else of y."""

    def pick(one: Mask | None, other: Mask | None) -> Mask | None:
        if one is None and other is None:
            return None
        none = np.zeros((), dtype=bool)
        mask = lifted(
            np.where(first, none if one is None else one, none if other is None else other), ndim
        )
        return mask if mask.any() else None

    return _Facts(pick(x.zeros, y.zeros), pick(x.floor, y.floor))
