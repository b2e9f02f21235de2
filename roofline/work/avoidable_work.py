"""Work that no correct implementation avoids: the part of the work that the hard bound counts.

The roofline counts what was traced. The hard bound must hold for *any* correct implementation, and
algebra offers ways around a contraction: the sum of a GEMM's output needs only a matrix-vector
product, (A B) C may be A (B C), a masked or low-rank operand costs less, and convolutions have
Winograd and FFT forms. So a contraction counts only where

1. both operands are *unstructured*: inputs of the program, or full-size elementwise-nonlinear,
   softmax or normalisation results of such, through views and conversions alone; and
2. what becomes of its output keeps every element: it is a result of the program or enters a
   nonlinear op elementwise, through views, conversions, and additions and scalings that cannot
   single elements out. A tensor that is added or multiplied may (a mask of -inf or 0 does), so it
   must be an input, and one of two or more dimensions must not stand before a saturating function.

Similarly, an argument counts as read only where no op on the way to the results could select among
its elements (`tril`, `where`, a product with a mask) or stop early (`any`, the largest of bounded
values): see `solkit.roofline.work.sparsity`. A write into an argument counts only where the data
cannot leave the old value. What a module holds is known before the call and counts as nothing.

A product of a matrix with its own transpose counts half (its result is symmetric). Fast matrix
multiplication (Strassen) is not considered: no GPU library gains from it at tensor-core rates.

What no record says (`solkit.ops`) counts as nothing: an unknown operator may select, so what it
reads need not be read; it keeps no element of a product; and its in-place form may keep old values.
"""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch

from solkit.ops import Normalised, Reduction, Selects
from solkit.roofline.work.algebra import TERM_FACTORS, changes_nothing
from solkit.roofline.work.constants import Fixed
from solkit.roofline.work.costs import attention_pairs, cost_of, has_cost
from solkit.roofline.work.early_exits import Demand, EarlyExits, saturates
from solkit.roofline.work.products import is_gram
from solkit.roofline.work.program import Program, TensorUse, TracedOp
from solkit.roofline.work.regions import covered_bytes
from solkit.roofline.work.sparsity import Sparsity, deciding

_REDUCING = (
    *(Reduction.SUM, Reduction.MEAN, Reduction.LARGEST, Reduction.LEAST, Reduction.LOG_SUM_EXP),
    Reduction.NORM,
)
_AVERAGING = (Reduction.SUM, Reduction.MEAN)
_SUMMING = (*_AVERAGING, Reduction.WINDOW_MEAN)
_NORMALISING = (Normalised.CENTRED, Normalised.SCALED)
_DEEP = 64  # ops that are followed before an output counts as lost


def hard_flops(program: Program, live: Sequence[TracedOp]) -> dict[int, int]:
    """Contraction operations that no known algorithm avoids, by position in `live`."""
    uses = _Uses(program, live)
    flops: dict[int, int] = {}
    seen: set[tuple[str, tuple[TensorUse, ...]]] = set()
    for position, op in enumerate(live):
        if not op.operator.irreducible:
            continue
        operands = _factors(op)
        again = (op.name, tuple(op.inputs))
        if again in seen:
            continue  # the same product twice is made once
        seen.add(again)
        if all(map(uses.unstructured, operands)) and uses.vary(operands) and uses.kept(op):
            whole = _flops(op, [uses.origin(use) for use in operands])
            flops[position] = whole // 2 if uses.saturates(op) else whole
    return flops


def shortcuts(
    program: Program, live: Sequence[TracedOp], hard: Mapping[int, int]
) -> dict[int, str]:
    """Give reasons why contractions count only in part, as `OpWork.shortcut`, by place in `live`.

    Args:
        program: as traced.
        live: its ops that matter.
        hard: what `hard_flops` found.
    """
    uses = _Uses(program, live)
    reasons: dict[int, str] = {}
    for position, op in enumerate(live):
        cost = cost_of(op)
        flops = cost.operations.items() if cost is not None else ()
        whole = sum(n for key, n in flops if key.startswith("contraction."))
        if hard.get(position, 0) < whole:
            reasons[position] = _of_part(op, uses) if position in hard else uses.shortcut(op)
    return reasons


def _of_part(op: TracedOp, uses: _Uses) -> str:
    """Say why only a part of a contraction counts, as `OpWork.shortcut`."""
    if _is_attention(op):
        return "peaked"
    return "saturated" if uses.saturates(op) else "part"


def surely_read(program: Program, live: Sequence[TracedOp]) -> set[int]:
    """Return storages of which each element that the trace reads is needed by any algorithm."""
    uses = _Uses(program, live)
    sure = {use.storage: Demand() for use in program.results}
    for op in reversed(live):
        outputs = [use.storage for use in op.stored if use.storage in sure]
        if not outputs or uses.is_fixed(op):
            continue
        demand = functools.reduce(operator.and_, (sure[storage] for storage in outputs))
        behind = uses.exits.demand_on_operands(op, demand)
        for use in op.inputs:
            if not uses.selects(op, use) and not uses.exits.settles(op, use, demand):
                sure[use.storage] = sure.get(use.storage, behind) & behind
    return set(sure) if program.arguments is None else sure.keys() & program.arguments


def surely_used(program: Program, live: Sequence[TracedOp]) -> dict[int, int]:
    """Return bytes by storage that ops read, at the most; only storages that the results depend on.

    Not all of these bytes need be read, but without any of them no result is right.
    """
    uses = _Uses(program, live)
    results = {use.storage for use in program.results}
    used_bytes: dict[int, int] = {}
    for op in reversed(live):
        outputs = {use.storage for use in op.stored}
        if results.isdisjoint(outputs):
            continue
        for use in op.written:
            used_bytes.pop(use.storage, None)  # reads behind it may get what it wrote
        for use in op.inputs:
            if not uses.vanishes(op, use):
                results.add(use.storage)
                used_bytes[use.storage] = max(use.bytes, used_bytes.get(use.storage, 0))
    return used_bytes


def surely_written(program: Program, live: Sequence[TracedOp]) -> list[TensorUse]:
    """Return what a program writes into storages that it did not make, whatever the data.

    An element that keeps its old value need not be written: `x.masked_fill_(mask, 0)` writes what
    the mask says. What is copied to a storage that the program never reads is written in full.
    """
    uses = _Uses(program, live)
    read = {use.storage for op in live for use in op.inputs}
    return [
        use
        for op in live
        for use in op.written
        if use.sure and uses.replaces(op, use, is_read=use.storage in read)
    ]


def _flops(op: TracedOp, origins: list[int]) -> int:
    """Count what is left of a contraction when its operands' origins are known."""
    symmetric = origins[0] == origins[1]
    if _is_attention(op):
        mask: TensorUse | None = op.arguments["attn_mask"]
        query: TensorUse = op.arguments["query"]
        if mask is not None and mask.value is None:
            return 0  # it may leave next to nothing
        if op.arguments["key"].shape[-2] == 1:
            return 0  # the softmax of one score is 1
        # which weights are large enough to need their values is data, so only scores count
        scores = query.shape[-1] // 2 if symmetric else query.shape[-1]
        return 2 * attention_pairs(op) * scores
    cost = cost_of(op)
    assert cost is not None
    factors = {use.origin or use.dtype for use in _factors(op)}
    scale = op.arguments.get("alpha", 1)
    if any(_is_integer(dtype) and (dtype.itemsize > 1 or scale != 1) for dtype in factors):
        return 0  # how many slices of int8 they take is not proven, or which bits are left
    flops = sum(n for key, n in cost.operations.items() if key.startswith("contraction."))
    halved = is_gram(*_factors(op))
    return flops // 2 if symmetric and not halved else flops


def _is_integer(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex)


def _thick(op: TracedOp) -> bool:
    """Tell whether a contraction's output has a rank that elementwise functions cannot exploit.

    A product of thin factors under a function of few breakpoints (relu of rank 1) has shortcuts.
    """
    if _is_attention(op):
        return True
    thickness: int = op.inputs[-2].shape[-1]
    return 4 * thickness >= min(op.result.shape[-2:], default=0)


def _is_attention(op: TracedOp) -> bool:
    """Tell if it is attention as one op, forwards."""
    return op.operator.needs == "attention"


def _factors(op: TracedOp) -> list[TensorUse]:
    """Return the factors of a contraction that is irreducible; none of other ops."""
    record = op.operator
    return [op.arguments[name] for name in record.factors] if record.irreducible else []


def _copies(op: TracedOp) -> bool:
    """Tell if it copies or converts elements to the same place; their source comes last."""
    return bool(op.operator.moves and op.operator.aligned)


def _changes_itself(op: TracedOp) -> bool:
    """Tell if an op computes from what it overwrites."""
    return not {use.storage for use in op.written}.isdisjoint(use.storage for use in op.inputs)


def _converts(op: TracedOp, seen: TensorUse) -> bool:
    """Tell whether an op keeps every element of an operand, but for rounding.

    What becomes an integer or a truth does not: many values become one, often without being known.
    """
    counts = seen.dtype.is_floating_point and not op.result.dtype.is_floating_point
    return _copies(op) and not (counts and not op.result.dtype.is_complex)


def _is_left_out(op: TracedOp, seen: TensorUse) -> bool:
    """Tell whether a factor of zero takes a term out of a sum."""
    return any(
        _equals(op, factor, 0) and any(seen is op.arguments.get(name) for name in names)
        for factor, names in TERM_FACTORS.items()
    )


def _equals(op: TracedOp, argument: str, value: float) -> bool:
    """Tell whether an argument is this number; a tensor is not known to be."""
    number = op.arguments.get(argument)
    return isinstance(number, (int, float)) and number == value


def _gates(reader: TracedOp, seen: TensorUse) -> list[TensorUse]:
    """Return operands that remove another one where they are zero."""
    record = reader.operator
    if record.normalises is not None:
        weight = reader.arguments.get("weight")
        return [weight] if isinstance(weight, TensorUse) and weight is not seen else []
    multiplies = record.linear and record.multiplies and not record.divides
    return [use for use in reader.inputs if use is not seen] if multiplies else []


def _multiplied_with(reader: TracedOp, seen: TensorUse) -> list[TensorUse]:
    """Return operands that an operand is multiplied with: no term that a product starts from."""
    record = reader.operator
    names = ("bias", "self") if record.adds_terms and record.factors else ("bias",)
    terms = [reader.arguments.get(name) for name in names]
    if any(seen is term for term in terms):
        return []
    others = [use for use in reader.inputs if use is not seen]
    return [use for use in others if not any(use is term for term in terms)]


def _is_unknown(mask: TensorUse | None) -> bool:
    return mask is not None and mask.value is None


class _Uses:
    """Makers and readers of each storage."""

    def __init__(self, program: Program, live: Sequence[TracedOp]) -> None:
        self._repeated = program.repeated
        self._results = {use.storage: use for use in program.results}
        self._maker: dict[int, list[TracedOp]] = defaultdict(list)
        self._readers: dict[int, list[tuple[TracedOp, TensorUse]]] = defaultdict(list)
        self._constant = set(program.constants)  # what follows from the program alone
        self._sparsity = Sparsity(self._maker, program.sparse, program.ordered)
        self._fixed = Fixed({use.storage for op in live for use in op.written}, program.ranges)
        self._follows: set[int] = set()  # ops by identity
        self.exits = EarlyExits(self._sparsity, self._fixed)
        for op in live:
            if self._fixed.fixes(op):
                self._follows.add(id(op))
            self._fixed.learn(op)
            for use in op.stored:
                self._maker[use.storage].append(op)
            for use in op.inputs:
                self._readers[use.storage].append((op, use))
            if all(use.storage in self._constant for use in op.inputs):
                self._constant |= {use.storage for use in op.outputs}
        self._live = live
        self._reaching: dict[tuple[int, bool], bool] = {}  # by the op's identity, as the next
        self._kept: dict[tuple[int, bool], bool] = {}
        self._carrying: dict[tuple[int, int, bool], tuple[bool | None, bool]] = {}
        self._varying = None if program.arguments is None else set(program.arguments)
        for op in live:
            if self._varying and any(use.storage in self._varying for use in op.inputs):
                self._varying |= {use.storage for use in op.stored}

    def is_fixed(self, op: TracedOp) -> bool:
        """Tell whether an op's results follow from the ranges of the arguments."""
        return id(op) in self._follows

    def vary(self, uses: Sequence[TensorUse]) -> bool:
        """Tell whether a tensor depends on an argument; a product of weights is folded."""
        return self._varying is None or any(use.storage in self._varying for use in uses)

    def origin(self, use: TensorUse) -> int:
        """Return the storage that a tensor is a copy of, through conversions."""
        makers = self._maker[use.storage]
        if len(makers) == 1 and _copies(makers[0]):
            return self.origin(makers[0].inputs[-1])
        return use.storage

    def shortcut(self, op: TracedOp) -> str:
        """Say what may make a contraction unnecessary; see `OpWork.shortcut`."""
        if _is_attention(op):
            return "attention"
        operands = _factors(op)
        if operands and not self.vary(operands):
            return "weights"
        for use in operands:
            makers = self._maker[use.storage]
            if any(maker.operator.irreducible for maker in makers):
                return f"chained:{makers[0].name}"
            if not self.unstructured(use):
                return f"operand:{makers[-1].name}" if makers else "operand"
        fate = self._fate(op)
        weight = op.arguments.get("weight")
        if not fate and isinstance(weight, TensorUse) and any(n > 1 for n in weight.shape[2:]):
            return "transform"
        return fate or "uncounted"

    def _fate(self, op: TracedOp, depth: int = 0) -> str:
        """Say what becomes of a contraction's output; empty if all of it is a result."""
        use = op.result
        if use.storage in self._results:
            return ""
        for reader, seen in self._readers[use.storage]:
            if reader.operator.irreducible:
                return f"chained:{reader.name}"
            if reader.operator.reduces in _SUMMING:
                return f"summed:{reader.name}"
            if seen.distinct < use.distinct or self.selects(reader, seen):
                return f"selected:{reader.name}"
            if (reader.operator.linear or _copies(reader)) and depth < _DEEP:
                return self._fate(reader, depth + 1)
            return f"beyond:{reader.name}"
        return "beyond"

    def unstructured(self, use: TensorUse) -> bool:
        """Tell whether the elements of an operand can take any values, each on its own."""
        makers = self._maker[use.storage]
        if use.storage in self._constant or self._sparsity.may_be_zero(use):
            return False  # what the program makes is as structured as it likes
        if use.storage in self._repeated or self._sparsity.may_fade(use, unbounded=True):
            return False
        if covered_bytes([use]) != use.numel * use.dtype.itemsize:
            return False  # an element that stands in several places repeats itself
        if not makers:
            return True
        op = makers[0]
        if len(makers) > 1 or _changes_itself(op) or op.operator.irreducible or op.operator.linear:
            return False
        if _copies(op):
            return _converts(op, op.inputs[-1]) and self.unstructured(op.inputs[-1])
        return bool(op.operator.nonlinear) and self._full_rank(op.inputs[0])

    def _full_rank(self, use: TensorUse) -> bool:
        """Under a nonlinear op even a contraction's output is unstructured."""
        makers = self._maker[use.storage]
        if use.distinct != use.numel or len(makers) > 1:
            return False
        if not makers:
            return True
        op = makers[0]
        if op.operator.irreducible:
            return _thick(op)
        if _changes_itself(op):
            return False
        if _copies(op):
            return self._full_rank(op.inputs[-1])
        if op.operator.nonlinear:
            return self._full_rank(op.inputs[0])
        if not op.operator.linear:
            return False
        same = [i for i in op.inputs if i.shape == op.result.shape]
        others = [i for i in op.inputs if i.shape != op.result.shape]
        # a mask that is broadcast leaves zeros behind a softmax
        masked = any(self._maker[i.storage] or sum(n > 1 for n in i.shape) > 1 for i in others)
        return len(same) == 1 and not masked and self._full_rank(same[0])

    def kept(self, op: TracedOp, saturating: bool = True) -> bool:
        """Tell whether every element of an op's output matters to the results one by one.

        Args:
            op: the op.
            saturating: whether functions that flatten out may follow.
        """
        key = id(op), saturating
        if key not in self._kept:  # or the paths through thousands of ops would be walked
            self._kept[key] = self._is_kept(op, saturating)
        return self._kept[key]

    def _is_kept(self, op: TracedOp, saturating: bool) -> bool:
        use = op.result
        if len(op.outputs) != 1 or op.written:
            return False
        result = self._results.get(use.storage)
        if result is not None and result.distinct >= use.distinct:
            return True
        readers = self._readers[use.storage]
        return any(self._passes_on(reader, seen, use, saturating) for reader, seen in readers)

    def _passes_on(
        self, reader: TracedOp, seen: TensorUse, use: TensorUse, saturating: bool
    ) -> bool:
        if seen.distinct < use.distinct or _is_left_out(reader, seen):
            return False
        record = reader.operator
        if any(self._sparsity.may_be_zero(factor) for factor in _gates(reader, seen)):
            return False
        if record.nonlinear:
            if not (saturating or record.normalises in _NORMALISING):
                return False
            return self._reaches_result(reader, record.normalises is not None)
        others = [i for i in reader.inputs if i is not seen]
        if record.linear:
            if record.multiplies and _is_integer(seen.dtype):
                return False  # a zero, or a power of two, leaves none or few of the bits
            wide = [i for i in others if sum(n > 1 for n in i.shape) > 1]
            if any(self._is_made(i) for i in others) or (wide and record.multiplies):
                return False
            saturating = saturating and not wide
        elif not _converts(reader, seen):
            return False
        return reader.result.numel == use.numel and self.kept(reader, saturating)

    def _is_made(self, use: TensorUse) -> bool:
        return bool(self._maker[use.storage]) or use.storage in self._constant

    def saturates(self, op: TracedOp, depth: int = 0) -> bool:
        """Tell whether only functions that flatten out on both sides see an op's output.

        Where most of it lies beyond their limits, a coarse product tells which part does not.
        """
        use = op.result
        if use.storage in self._results or depth > _DEEP or _is_attention(op):
            return False
        readers = [reader for reader, _ in self._readers[use.storage]]
        return bool(readers) and all(self._ends_flat(reader, depth) for reader in readers)

    def _ends_flat(self, reader: TracedOp, depth: int) -> bool:
        if saturates(reader):
            return True
        passes = reader.operator.linear or _copies(reader)
        return bool(passes) and not reader.written and self.saturates(reader, depth + 1)

    def _reaches_result(self, op: TracedOp, normalised: bool) -> bool:
        """Tell whether all of a nonlinear op's output matters to the results.

        Behind a nonlinearity no algebra moves a product or a reduction in front of it. But what is
        normalised has a known sum, and along a dimension of one element a known value.
        """
        if not self._reaching:  # backwards, each op once: a network's paths are 2^layers
            for live_op in reversed(self._live):
                for sums in (False, True):
                    self._reaching[id(live_op), sums] = self._is_carried(live_op, sums)
        return self._reaching[id(op), normalised]

    def _is_carried(self, op: TracedOp, normalised: bool) -> bool:
        """Return the same of an op whose readers are known."""
        if not (op.outputs or op.written):
            return False
        use = op.result
        result = self._results.get(use.storage)
        if normalised and use.shape[-1:] == (1,):
            return False
        if result is not None and result.distinct >= use.distinct:
            return True
        readers = self._readers[use.storage]
        return any(
            seen.distinct >= use.distinct and self._carries(reader, seen, normalised)
            for reader, seen in readers
        )

    def _carries(self, reader: TracedOp, seen: TensorUse, normalised: bool) -> bool:
        """Tell whether what an op sees of an output matters to the results."""
        key = id(reader), id(seen), normalised
        if key not in self._carrying:  # thousands of ops may write what thousands read
            self._carrying[key] = self._way_on(reader, seen, normalised)
        passes, normalised = self._carrying[key]
        return self._reaching.get((id(reader), normalised), False) if passes is None else passes

    def _way_on(
        self, reader: TracedOp, seen: TensorUse, normalised: bool
    ) -> tuple[bool | None, bool]:
        """Tell the same by the op alone: ``None`` if it matters as far as its result does.

        The second is whether that result is normalised.
        """
        if self.selects(reader, seen) or self._sparsity.ends_early(reader, seen):
            return False, False
        record = reader.operator
        if record.reduces in _REDUCING:
            return not normalised, False
        if record.nonlinear:
            return None, record.normalises is not None
        if record.irreducible:
            return None, False  # but a gate may still cancel rows of the product
        return (None if record.linear or _converts(reader, seen) else False), normalised

    def selects(self, reader: TracedOp, seen: TensorUse) -> bool:
        """Tell whether an op may need only some elements of an operand, whatever their values."""
        record = reader.operator
        if record.selects is Selects.NAMED and seen.sure:
            return False  # just what the index names
        if not has_cost(reader) or record.selects is None:
            return True  # nothing is known of it
        if record.selects in (Selects.SOME, Selects.NAMED):
            return not any(seen is use for use in deciding(reader))
        if self._sparsity.ends_early(reader, seen) or _is_left_out(reader, seen):
            return True
        if record.reduces in _AVERAGING and self._is_centred(reader, seen):
            return True
        if _is_attention(reader):
            if seen is reader.arguments["value"]:
                return True  # almost all weights may be too small to count
            if _is_unknown(reader.arguments["attn_mask"]):
                return seen is not reader.arguments["attn_mask"]
        if record.normalises is not None:
            return any(self._sparsity.may_be_zero(weight) for weight in _gates(reader, seen))
        if not record.multiplies:
            return False
        return any(
            use.storage in self._constant or self._sparsity.cancels(reader, seen, use)
            for use in _multiplied_with(reader, seen)
        )

    def vanishes(self, reader: TracedOp, seen: TensorUse) -> bool:
        """Tell if an op may need nothing of an operand, whatever its values."""
        record = reader.operator
        if not has_cost(reader) or record.selects is None or _is_left_out(reader, seen):
            return True
        if record.covers:
            return seen is reader.arguments.get("self")
        if record.normalises is not None and 1 in (seen.shape or (1,)):
            return True  # what is normalised may be that one element
        if _is_attention(reader) and reader.arguments["key"].shape[-2] == 1:
            return seen is not reader.arguments["value"]
        if record.reduces in _AVERAGING and self._is_centred(reader, seen):
            return True
        others = (use for use in reader.inputs if use is not seen)
        return bool(record.multiplies) and any(self._is_nothing(use) for use in others)

    def _is_nothing(self, use: TensorUse) -> bool:
        """Tell if a constant may be zero all over."""
        return use.storage in self._constant and (use.value is None or not use.value.any())

    def _is_centred(self, op: TracedOp, seen: TensorUse) -> bool:
        """Tell whether a sum is over what a normalisation has centred: it follows from the biases.

        Weights that a module holds are known before the call, and alike unless they were trained.
        """
        makers = self._maker[seen.storage]
        if len(makers) != 1 or makers[0].operator.normalises is not Normalised.CENTRED:
            return False
        norm = makers[0]
        weight = norm.arguments.get("weight")
        if weight is not None and (self._varying is None or weight.storage in self._varying):
            return False
        rank = len(seen.shape)
        dims = op.arguments.get("dim")
        listed = [dims] if isinstance(dims, int) else list(dims or range(rank))
        summed = {axis % max(rank, 1) for axis in listed}
        shape = norm.arguments.get("normalized_shape")
        first = rank - len(shape) if shape is not None else 1
        return seen.shape == norm.inputs[0].shape and summed >= set(range(first, rank))

    def replaces(self, op: TracedOp, target: TensorUse, is_read: bool) -> bool:
        """Tell whether an op in place leaves no old value, whatever the data.

        Args:
            op: the op; without a trailing underscore it writes to ``out=``.
            target: what it writes.
            is_read: whether the program reads the target's storage.
        """
        if op.name.endswith("_") and not op.operator.replaces:
            return False
        if is_read and changes_nothing(op):
            return False
        places = [use for use in deciding(op) if use.dtype is not torch.bool]
        others = [
            use
            for use in op.inputs
            if use.storage != target.storage and not any(use is place for place in places)
        ]
        return not is_read or not any(self._may_keep(use) for use in others)

    def _may_keep(self, use: TensorUse) -> bool:
        """Tell whether a value that is written, or added, may be the old one, or zero."""
        if use.storage in self._constant:
            return use.value is None or not use.value.all()
        return self._sparsity.may_be_zero(use, cut=True)
