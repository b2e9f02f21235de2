"""Brute force: work that a program spells out, and that no kernel needs.

References are written to be read. A histogram compares each element with each bin, a running sum is
a product with a triangle of ones, a distance transform takes the least of all distances, and ranks
compare all pairs. The best kernels are linear, up to logarithms. Which of them there is depends on
numbers that are fixed, and no pass can tell the structure of every table. So what counts is what is
proven: one operation takes one element away, and ::

    operations = elements of the data - results

holds for five kinds, but for searches. Bytes then decide the bound.

- *Pairs with fixed numbers.* Data meet numbers that follow from the program alone (bins, places,
  triangles), along a dimension that the data do not have, and a reduction follows. The numbers are
  known before the call: differences of rows, FFT, envelopes and searches use what structure they
  have. A matrix product or a convolution with a factor that the program fixes is another form.
- *Pairs of numbers.* A number of one tensor meets each number of another one in comparisons,
  sums, products, extrema; a sum, an extremum or a truth over one of the two follows. Sorting one of
  them, with running sums of powers, or a search, takes n log n.
- *Searches.* Steps of a bisection, or of Newton's method, reduce the same data next to a number of
  each line. Of sorted data, running sums of powers answer each step; where other functions are
  summed and only compared, better searches need few steps. One visit counts, as it is traced.
- *Common terms.* What all terms of a reduction share is added, or multiplied, behind it.
- *Overlapping parts.* Reductions of slices of one tensor, or of elements that fixed places name
  several times, share what they sum.

All other pairs count as traced: points of several coordinates, which an assumption names
(`all_pairs`), and functions (exponentials, roots) of differences, of which an exact sum needs every
term.

Notation
    step     (stride, extent) of a dimension in a storage, in elements
    source   data that were spread along dimensions they do not have, and the steps that they have
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from solkit.ops import Family, Reduction
from solkit.roofline.work.broadcast import dimensions_of
from solkit.roofline.work.costs import Cost
from solkit.roofline.work.costs._base import compute_like, scalar
from solkit.roofline.work.dtype_origin import product_factors
from solkit.roofline.work.program import RESULT, TensorUse, TracedOp, readers_of
from solkit.roofline.work.regions import covered_bytes

Step = tuple[int, int]
Costs = list[Cost | None]

_FIXED_FACTORS = ("product", "product summed over a batch", "whole product", "convolution")
_EXTREMA = (Reduction.LARGEST, Reduction.LEAST)
_OF_PAIRS = (*_EXTREMA, Reduction.SUM, Reduction.MEAN)
_MOST_SOURCES = 8
"""Data that a tensor of pairs combines: a state that takes in more at each step is none."""
_CHOICES = ("argmax", "argmin", "any", "all", "count_nonzero")


def without_brute_force(
    ops: Sequence[TracedOp],
    costs: Sequence[Cost | None],
    constants: Collection[int],
    results: Sequence[TensorUse],
    replaced: Collection[int] = (),
) -> Costs:
    """Return the costs of ops, less what they spend on pairs that no kernel needs to visit.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
        constants: storages that follow from the program alone.
        results: of the program.
        replaced: positions of ops that matrix products stand for.
    """
    if any(not isinstance(size, int) for op in ops for size in op.result.shape):
        return list(costs)  # symbols do not tell how many elements there are
    reduced = [_with_fixed_factor(op, cost, constants) for op, cost in zip(ops, costs)]
    reduced = _without_pairs(ops, reduced, constants, results, replaced)
    reduced = _without_searches(ops, reduced, results)
    reduced = _without_common_terms(ops, reduced, results)
    return _without_overlaps(ops, reduced)


def all_pairs(ops: Sequence[TracedOp], constants: Collection[int]) -> tuple[str, ...]:
    """Return an assumption about pairs of data that count as traced; none where there are none."""
    if any(not isinstance(size, int) for op in ops for size in op.result.shape):
        return ()
    spread = _Spread(ops, constants)
    lines = [
        op.line
        for op in ops
        if op.operator.family is Family.REDUCTION
        and len(op.inputs) == 1
        and spread.has_distances(op.inputs[0])
        and not spread.is_brute_reduction(op)
    ]
    if not lines:
        return ()
    where = ", ".join(dict.fromkeys(PurePath(line).name for line in lines))
    return (
        f"Every pair that the reference reduces at {where} was counted: an algorithm that visits "
        "fewer, such as a grid or a tree of points, may be faster.",
    )


# ---------------------------------------------------------------------------- fixed factors


def _with_fixed_factor(op: TracedOp, cost: Cost | None, constants: Collection[int]) -> Cost | None:
    """Return the cost of a product, less if the program fixes a factor."""
    if cost is None or op.operator.cost not in _FIXED_FACTORS:
        return cost
    factors = product_factors(op)
    data = [(use, dims) for use, dims in factors if use.storage not in constants]
    if len(data) != 1 or len(factors) != 2:
        return cost
    products = sum(n for key, n in cost.operations.items() if key.startswith("contraction."))
    ((source, summed),) = data
    result_count = op.result.distinct
    if op.operator.cost == "product" and all(
        use.mask is None for use in (*(use for use, _ in factors), op.result)
    ):
        axis = summed[0] if len(source.shape) > 1 else 0
        result_count = min(result_count, products // (2 * source.shape[axis]))  # equal rows are one
    most = _least(source.distinct, result_count)
    if products <= most:
        return cost
    counts = {
        key: n * most // products if key.startswith("contraction.") else n
        for key, n in cost.operations.items()
    }
    return Cost({key: n for key, n in counts.items() if n})


def _least(read: int, results: int) -> int:
    """Count the operations that bring elements down to results, at the least."""
    return max(read - results, 0)


# ------------------------------------------------------------------------------------ pairs


@dataclass(frozen=True)
class _Pairs:
    """A tensor whose elements combine elements of smaller ones.

    Attributes:
        sources: the data, each with the steps of the tensor's storage along which it varies.
        is_plain: whether sums, products, comparisons and extrema alone make it.
        has_sums: whether sums or differences of several tensors are among these.
        is_linear: whether sums, differences and scales alone make it.
    """

    sources: Mapping[TensorUse, frozenset[Step]]
    is_plain: bool
    has_sums: bool
    is_linear: bool = False


def _without_pairs(
    ops: Sequence[TracedOp],
    costs: Costs,
    constants: Collection[int],
    results: Sequence[TensorUse],
    replaced: Collection[int],
) -> Costs:
    spread = _Spread(ops, constants)
    readers = readers_of(ops, results)
    skipped = set(replaced)
    reduced = list(costs)
    for position in range(len(ops) - 1, -1, -1):
        op, cost = ops[position], costs[position]
        if cost is None:
            continue
        if spread.is_brute_reduction(op):
            read = sum(source.distinct for source in spread.sources_of(op.inputs[0]))
            like = compute_like(op)
            least = scalar(like, _least(read, op.result.distinct))
            if sum(least.operations.values()) < sum(cost.operations.values()):
                reduced[position] = least
            skipped.add(position)
        elif spread.takes_few(op):
            skipped.add(position)
        elif op.result.storage in spread.pairs:
            read_by = readers[op.result.storage]
            if read_by and skipped.issuperset(read_by):
                skipped.add(position)
                reduced[position] = Cost({})
    return reduced


class _Spread:
    """Tensors of a program whose elements combine elements of smaller ones.

    Args:
        ops: in program order.
        constants: storages that follow from the program alone.
    """

    def __init__(self, ops: Sequence[TracedOp], constants: Collection[int]) -> None:
        self.pairs: dict[int, _Pairs] = {}
        self._tables: dict[int, TensorUse] = {}
        self._whole: dict[int, TensorUse] = {}
        self._constants = constants
        rewritten = {use.storage for op in ops for use in op.written}
        for op in ops:
            table = self._table_of(op)
            if table is not None and op.result.storage not in rewritten:
                self._tables[op.result.storage] = table
            if len(op.outputs) == 1 and not op.written:
                pairs = self._combined(op) if op.is_elementwise else self._scanned(op)
                if pairs is not None and op.result.storage not in rewritten:
                    self.pairs[op.result.storage] = pairs
                    self._whole[op.result.storage] = op.result

    def _table_of(self, op: TracedOp) -> TensorUse | None:
        """Return the data of which an op takes elements to places that the program fixes."""
        data = [use for use in op.inputs if use.storage not in self._constants]
        is_table = len(data) == 1 < len(op.inputs) and data[0] is op.arguments.get(
            op.operator.lookups
        )
        return data[0] if is_table and data[0].distinct < op.result.distinct else None

    def _combined(self, op: TracedOp) -> _Pairs | None:
        """Return what an elementwise op combines; ``None`` if an operand varies everywhere."""
        out = op.result
        sources: dict[TensorUse, frozenset[Step]] = {}
        for use in op.inputs:
            shift = len(out.shape) - len(use.shape)
            for source, dims in self._along(use).items():
                steps = frozenset(
                    (out.stride[d + shift], out.stride[d + shift] * out.shape[d + shift])
                    for d in dims
                )
                sources[source] = sources.get(source, frozenset()) | steps
        every = {(step, step * n) for n, step in zip(out.shape, out.stride) if n > 1}
        if not 0 < len(sources) <= _MOST_SOURCES:
            return None
        if any(steps >= every for steps in sources.values()):
            return None
        before = [self.pairs[use.storage] for use in op.inputs if use.storage in self.pairs]
        is_linear = all(pairs.is_linear for pairs in before)
        is_plain = _is_plain(op) or (op.name in _OF_SUMS and is_linear)
        is_plain = is_plain and all(pairs.is_plain for pairs in before)
        is_sum = op.operator.sums and len(sources) > 1
        has_sums = is_sum or any(pairs.has_sums for pairs in before)
        return _Pairs(sources, is_plain, has_sums, is_linear and _is_scale_or_sum(op))

    def _scanned(self, op: TracedOp) -> _Pairs | None:
        """Return running sums of one tensor's pairs with fixed numbers, as of ranks in a group."""
        if op.name != "aten.cumsum" or not self._meets_fixed_numbers(op.inputs[0]):
            return None
        use, out = op.inputs[0], op.result
        ((source, dims),) = self._along(use).items()
        if op.arguments["dim"] % len(use.shape) not in dims:
            return None
        steps = frozenset((out.stride[d], out.stride[d] * out.shape[d]) for d in dims)
        return _Pairs({source: steps}, True, False)

    def _meets_fixed_numbers(self, use: TensorUse) -> bool:
        """Tell whether a tensor combines one tensor's data with fixed numbers."""
        pairs = self.pairs.get(use.storage)
        if pairs is None or not pairs.is_plain or len(pairs.sources) != 1:
            return False
        moving = {d for d, (n, step) in enumerate(zip(use.shape, use.stride)) if n > 1 and step}
        (dims,) = self._along(use).values()
        return bool(dims) and bool(moving - dims)

    def takes_few(self, op: TracedOp) -> bool:
        """Tell whether an op takes no more of a tensor of pairs than there are data."""
        table = op.arguments.get(op.operator.lookups)
        if not isinstance(table, TensorUse) or not self._meets_fixed_numbers(table):
            return False
        read = sum(source.distinct for source in self.sources_of(table))
        return len(op.outputs) == 1 and op.result.distinct <= read

    def _along(self, use: TensorUse) -> dict[TensorUse, set[int]]:
        """Return the data that a tensor holds, each with the dimensions along which it varies."""
        if use.storage in self._constants:
            return {}
        moving = [d for d, (n, step) in enumerate(zip(use.shape, use.stride)) if n > 1 and step]
        pairs = self.pairs.get(use.storage)
        if pairs is None:
            return {use: set(moving)} if moving else {}
        return {
            source: {d for d in moving if _meets(use, d, steps)}
            for source, steps in pairs.sources.items()
        }

    def sources_of(self, use: TensorUse) -> Collection[TensorUse]:
        """Return the data that a tensor of pairs, or of copies, combines."""
        table = self._tables.get(use.storage)
        return self.pairs[use.storage].sources if table is None else (table,)

    def has_distances(self, use: TensorUse) -> bool:
        """Tell whether a tensor combines pairs of data in sums or differences."""
        pairs = self.pairs.get(use.storage)
        return pairs is not None and pairs.is_plain and pairs.has_sums

    def _as_made(self, use: TensorUse, dims: Collection[int]) -> tuple[TensorUse, set[int]]:
        """Return a tensor and dimensions of it, with those that a view merged apart."""
        whole = self._whole.get(use.storage)
        if whole is None or (whole.numel, whole.offset) != (use.numel, use.offset):
            return use, set(dims)
        of_view = [
            [d for d in range(len(use.shape)) if _lies_in(whole, own, use, d)]
            for own in range(len(whole.shape))
        ]
        if any(len(places) != 1 for places in of_view):
            return use, set(dims)
        return whole, {own for own, (place,) in enumerate(of_view) if place in dims}

    def is_brute_reduction(self, op: TracedOp) -> bool:
        """Tell whether an op reduces pairs that no kernel needs to visit."""
        if op.operator.family is not Family.REDUCTION or len(op.inputs) != 1 or op.written:
            return False
        use = op.inputs[0]
        pairs = self.pairs.get(use.storage)
        if not _reduces_pairs(op):
            return False
        if pairs is None or not pairs.is_plain:
            return use.storage in self._tables
        use, over = self._as_made(use, dimensions_of(op, use))
        moving = {d for d, (n, step) in enumerate(zip(use.shape, use.stride)) if n > 1 and step}
        over &= moving
        varying = {source: dims for source, dims in self._along(use).items() if dims}
        if not over or not varying:
            return False
        if moving - set().union(*varying.values()):
            return True  # only fixed numbers vary along one
        sides = _sides(varying)
        return len(sides) == 2 and _are_pairs(sides[0], sides[1], over)


def _sides(varying: Mapping[TensorUse, set[int]]) -> list[set[int]]:
    """Return the dimensions along which each side of a pair varies.

    A side has one tensor of floats. Truths and integers of lines, as of classes, choose among its
    numbers; sums for each choice answer these. A matrix of choices for pairs makes no sides.
    """
    floats = [dims for source, dims in varying.items() if source.dtype.is_floating_point]
    choices = {s: dims for s, dims in varying.items() if not s.dtype.is_floating_point}
    if len(varying) == 2 or len(floats) != 2:
        return list(varying.values())
    of_lines = (
        any(dims <= own for own in floats) or sum(n > 1 for n in source.shape) == 1
        for source, dims in choices.items()
    )
    return floats if all(of_lines) else []


def _are_pairs(one: set[int], other: set[int], over: set[int]) -> bool:
    """Tell whether a reduction over some dimensions is of pairs of numbers, not of vectors.

    Args:
        one: dimensions along which one tensor varies.
        other: those of the other tensor.
        over: dimensions that are reduced.
    """
    alone = one - other, other - one
    if not all(alone) or not over & (one ^ other):
        return False
    return not over & one & other or any(dims <= over for dims in alone)


def _lies_in(whole: TensorUse, own: int, use: TensorUse, d: int) -> bool:
    """Tell whether a dimension of a tensor is part of that of a view."""
    first, end = whole.stride[own], whole.stride[own] * whole.shape[own]
    low, high = use.stride[d], use.stride[d] * use.shape[d]
    return whole.shape[own] > 1 and low <= first and end <= high


def _meets(use: TensorUse, dim: int, steps: frozenset[Step]) -> bool:
    """Tell whether a dimension of a use runs through a step of its storage."""
    first, end = use.stride[dim], use.stride[dim] * use.shape[dim]
    return any(low < end and first < high for low, high in steps)


def _is_plain(op: TracedOp) -> bool:
    """Tell whether an op adds, multiplies, compares, chooses or copies."""
    record = op.operator
    if record.moves or record.negates or record.compares or record.bitwise:
        return True
    if record.needs in ("where", "masked fill") or record.limits in _PIECES:
        return True
    if record.cost == "power":
        exponent = op.arguments.get("exponent")
        return isinstance(exponent, int | float) and exponent in (1, 2, 3, 4)
    return bool(record.linear) and not record.divides and not op.result.dtype.is_complex


_OF_SUMS = ("aten.sin", "aten.cos", "aten.exp")
"""Functions of which that of a sum is made of products of those of the terms."""


def _is_scale_or_sum(op: TracedOp) -> bool:
    record = op.operator
    is_scale = bool(record.linear) and (record.multiplies or record.divides)
    return bool(record.moves or (record.linear and record.sums)) or (
        is_scale and len(op.inputs) == 1
    )


_PIECES = ("rectified", "clamp", "hardtanh", "minimum", "maximum", "absolute")
"""Functions of straight pieces, by `Operator.limits`."""


def _reduces_pairs(op: TracedOp) -> bool:
    name, kind = op.name.removeprefix("aten."), op.operator.reduces
    is_root_of_squares = kind is Reduction.NORM and op.arguments.get("ord", 2) == 2
    return is_root_of_squares or kind in _OF_PAIRS or name in _CHOICES


# -------------------------------------------------------------------------------- searches

_SEVERAL = 4
"""Visits of the same data that make a search; mean and spread of a norm are two."""


@dataclass(frozen=True)
class _Lined:
    """A function of each element of a tensor and of numbers of its lines.

    Attributes:
        data: storage, offset and strides of the tensor, all of whose elements are met.
        lines: dimensions along which the numbers differ.
        has_lines: whether there are such numbers.
        is_plain: whether sums, products, comparisons and extrema alone make it.
    """

    data: tuple[int, ...]
    lines: frozenset[int] = frozenset()
    has_lines: bool = False
    is_plain: bool = True


def _without_searches(ops: Sequence[TracedOp], costs: Costs, results: Sequence[TensorUse]) -> Costs:
    """Return the costs of ops, the dearest visit of data counted alone where there are several."""
    readers = readers_of(ops, results, or_writers=True)
    lined = _functions_of_lines(ops)
    spent: dict[int, int] = {}  # on the way to a function, from its data
    for op, cost in zip(ops, costs):
        if op.result.storage in lined:
            own = sum((cost or Cost({})).operations.values())
            spent[op.result.storage] = own + max(spent.get(use.storage, 0) for use in op.inputs)
    visits: dict[tuple[tuple[int, ...], frozenset[int]], list[int]] = defaultdict(list)
    for position, op in enumerate(ops):
        function = lined.get(op.inputs[0].storage) if _is_reduction_alone(op) else None
        over = frozenset(dimensions_of(op, op.inputs[0])) if function is not None else frozenset()
        if function is None or not function.has_lines or over & function.lines:
            continue
        if function.is_plain or _is_only_compared(position, ops, readers):
            visits[function.data, over].append(position)
    skipped: set[int] = set()
    for positions in visits.values():
        if len(positions) >= _SEVERAL:
            costs_by_visit = {p: spent[ops[p].inputs[0].storage] for p in positions}
            skipped |= set(positions) - {max(costs_by_visit, key=costs_by_visit.__getitem__)}
    for position in range(len(ops) - 1, -1, -1):
        storage = ops[position].result.storage
        if storage in lined and readers[storage] and skipped.issuperset(readers[storage]):
            skipped.add(position)
    return [Cost({}) if n in skipped and cost else cost for n, cost in enumerate(costs)]


def _is_reduction_alone(op: TracedOp) -> bool:
    return _reduces_pairs(op) and len(op.inputs) == len(op.outputs) == 1 and not op.written


def _functions_of_lines(ops: Sequence[TracedOp]) -> dict[int, _Lined]:
    """Return the functions of lines that a program makes, by storage."""
    rewritten = {use.storage for op in ops for use in op.written}
    lined: dict[int, _Lined] = {}
    for op in ops:
        if op.is_elementwise and len(op.outputs) == 1 and op.result.storage not in rewritten:
            function = _function_of_lines(op, lined)
            if function is not None:
                lined[op.result.storage] = function
    return lined


def _function_of_lines(op: TracedOp, lined: Mapping[int, _Lined]) -> _Lined | None:
    """Return an elementwise op as a function of one tensor's elements and numbers of lines."""
    shape = op.result.shape
    data: set[tuple[int, ...]] = set()
    lines: set[int] = set()
    has_lines, is_plain = False, _is_plain(op)
    for use in op.inputs:
        first = len(shape) - len(use.shape)
        dims = enumerate(zip(use.shape, use.stride), first)
        moving = {d for d, (n, step) in dims if n > 1 and step}
        if len(moving) < sum(n > 1 for n in shape):
            lines |= moving
            has_lines = True
            continue
        before = lined.get(use.storage, _Lined((use.storage, use.offset, *use.stride)))
        data.add(before.data)
        lines |= before.lines
        has_lines |= before.has_lines
        is_plain &= before.is_plain
    return _Lined(data.pop(), frozenset(lines), has_lines, is_plain) if len(data) == 1 else None


def _is_only_compared(
    position: int, ops: Sequence[TracedOp], readers: Mapping[int, Sequence[int]]
) -> bool:
    """Tell whether comparisons alone depend on a result, through functions of as many elements."""
    waiting, count = [ops[position].result.storage], ops[position].result.numel
    while waiting:
        storage = waiting.pop()
        if RESULT in readers[storage]:
            return False
        for reader in (ops[p] for p in readers[storage]):
            if reader.operator.compares:
                continue
            if reader.written or not reader.is_elementwise or reader.result.numel != count:
                return False
            waiting.append(reader.result.storage)
    return True


# ----------------------------------------------------------------------------- common terms


def _without_common_terms(
    ops: Sequence[TracedOp], costs: Costs, results: Sequence[TensorUse]
) -> Costs:
    """Return the costs, where what all terms of a reduction share is added behind it.

    The largest of ``x + c`` is the largest x, plus c; the sum of ``x * c`` is that of x, times c.
    """
    readers = readers_of(ops, results, or_writers=True)
    reduced = list(costs)
    for position, op in enumerate(ops):
        cost, behind = costs[position], readers[op.result.storage]
        if cost is None or not behind or RESULT in behind or op.written:
            continue
        if all(_shares_a_term(op, ops[reader]) for reader in behind):
            result_count = sum(ops[reader].result.distinct for reader in behind)
            least = {pipe: min(n, result_count) for pipe, n in cost.operations.items()}
            reduced[position] = Cost(least)
    return reduced


def _shares_a_term(op: TracedOp, reader: TracedOp) -> bool:
    """Tell whether a reduction of a sum or a product can come before it."""
    kind, record = reader.operator.reduces, op.operator
    if reader.operator.family is not Family.REDUCTION or kind not in _OF_PAIRS or reader.written:
        return False
    is_sum = record.sums and not record.multiplies and record.linear
    is_scaled = record.linear and record.multiplies and kind in (Reduction.SUM, Reduction.MEAN)
    use = reader.inputs[0]
    same = use.shape == op.result.shape and use.stride == op.result.stride
    if not (is_sum or is_scaled) or not same or not op.is_elementwise or len(op.inputs) > 2:
        return False
    rank, over = len(use.shape), dimensions_of(reader, use)

    def is_common(term: TensorUse) -> bool:
        shift = rank - len(term.shape)
        return all(
            d < shift or term.shape[d - shift] == 1 or term.stride[d - shift] == 0 for d in over
        )

    if record.divides:
        return len(op.inputs) == 1 or is_common(op.inputs[1])
    return len(op.inputs) == 1 or any(map(is_common, op.inputs))


# --------------------------------------------------------------------------------- overlaps


def _without_overlaps(ops: Sequence[TracedOp], costs: Costs) -> Costs:
    """Return the costs of reductions of overlapping slices, as if each element were taken once."""
    groups: dict[tuple[int, str], list[int]] = defaultdict(list)
    rewritten = {use.storage for op in ops for use in op.written}
    for position, op in enumerate(ops):
        kind = op.operator.reduces
        if op.operator.family is Family.REDUCTION and kind in _OF_PAIRS and len(op.inputs) == 1:
            use = op.inputs[0]
            if use.storage not in rewritten and use.mask is None and costs[position] is not None:
                groups[use.storage, op.name].append(position)
    reduced = list(costs)
    for positions in groups.values():
        if len(positions) == 1:
            continue
        different = {
            (ops[position].inputs[0], str(ops[position].arguments.get("dim"))): ops[position]
            for position in positions
        }
        sources = [use for use, _ in different]
        result_count = sum(op.result.distinct for op in different.values())
        needed = max(sum(source.distinct for source in sources) - result_count, 0)
        stored = covered_bytes(sources) // sources[0].dtype.itemsize
        once = min(needed, max(result_count if len(sources) > 1 else 0, stored - result_count))
        combined = sum(
            max(ops[position].inputs[0].distinct - ops[position].result.distinct, 0)
            for position in positions
        )
        if once >= combined:
            continue
        for position in positions:
            counts = (costs[position] or Cost({})).operations
            reduced[position] = Cost({pipe: n * once // combined for pipe, n in counts.items()})
    return reduced
