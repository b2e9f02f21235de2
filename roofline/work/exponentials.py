"""Special functions of one element that several ops need: exponentials, logarithms, reciprocals.

exp(s - a) exp(a - b) = exp(s - b): where a and b are the same for a whole line, one exponential per
element serves the sum of a softmax, its weights, and the gradient of its logarithm.

exp(a + b) = exp(a) exp(b): a sum of smaller tensors takes the exponentials of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from solkit.ops import Normalised, Reduction
from solkit.roofline.work.costs import Cost
from solkit.roofline.work.costs._base import scalar_pipe
from solkit.roofline.work.program import TensorUse, TracedOp
from solkit.roofline.work.regions import covered_bytes

_DEEP = 32
_NEAR = 4  # ops between a running sum and an exponential
_MANY = 16  # tensors, the last ones, whose regions are compared

_Makers = Mapping[int, Sequence[TracedOp]]
_Source = tuple[str, TensorUse, int]
"""A function, a tensor, and how many ops had made or written its storage."""


def with_shared_exponentials(
    ops: Sequence[TracedOp], costs: Sequence[Cost | None]
) -> list[Cost | None]:
    """Return the costs without special functions that an earlier op has already computed.

    Three consequences are left out, too: with exp(a) and exp(b) at hand the logarithm of their sum
    takes no further exponential; that of exp(a), or of a softmax, is a shift of a; and that of
    exp(a) / b is a - log(b), without the quotient.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
    """
    makers: dict[int, list[TracedOp]] = defaultdict(list)
    readers: dict[int, list[TracedOp]] = defaultdict(list)
    for op in ops:
        for use in op.inputs:
            readers[use.storage].append(op)
    computed: dict[_Source, int] = {}
    shared: list[Cost | None] = []
    sums: list[tuple[int, list[tuple[TensorUse, _Source]]]] = []
    for op, cost in zip(ops, costs, strict=True):
        for use in op.stored:
            makers[use.storage].append(op)
        parts = _operands(op, makers)
        if cost is not None and len(op.operator.exponentials.split()) > 1 and len(parts) > 1:
            sums.append((len(shared), parts))
        elif cost is not None and _is_left_to_logarithms(op, makers, readers):
            cost = cost.with_fewer("sfu", op.result.distinct)
        elif cost is not None and parts is not _UNKNOWN:
            already = sum(_at_hand(part, source, computed, makers) for part, source in parts)
            already += _saved_by_summands(op, makers)
            for part, source in parts:
                computed[source] = max(computed.get(source, 0), part.distinct)
            if op.operator.logarithms:  # of fewer elements, or of none
                already += op.result.distinct - sum(part.distinct for part, _ in parts)
            cost = _without_functions(op, cost, already)
        shared.append(cost)
    for position, parts in sums:  # the exponentials may come after the logarithm
        cost = shared[position]
        if cost is not None and all(computed.get(key, 0) >= part.distinct for part, key in parts):
            shared[position] = cost.with_fewer("sfu", ops[position].result.distinct)
    return shared


def _without_functions(op: TracedOp, cost: Cost, already: int) -> Cost:
    """Return the cost of an op for which so many special functions are at hand.

    A logarithm of a sum of exponentials that are all at hand needs no largest element either, and
    no shift.
    """
    cost = cost.with_fewer("sfu", already) if already > 0 else cost
    is_sum = op.operator.reduces is Reduction.LOG_SUM_EXP
    if is_sum and already >= op.inputs[0].distinct:
        return cost.with_fewer(scalar_pipe(op.result.dtype), 2 * op.inputs[0].distinct)
    return cost


def _at_hand(
    part: TensorUse, source: _Source, computed: Mapping[_Source, int], makers: _Makers
) -> int:
    """Count elements of a part of which a function is at hand, or that of their opposites.

    A scan takes the exponentials of the steps of a running sum, and those of the sum or of its
    opposite follow.
    """
    function, tensor, writes = source
    count = _computed_of(part, source, computed)
    if function in _OPPOSITE and _follows_from_running_sum(tensor, makers):
        opposite = _OPPOSITE[function], tensor, writes
        count = max(count, _computed_of(part, opposite, computed))
    return count


_OPPOSITE = {"exp": "exp of -", "exp of -": "exp"}


def _follows_from_running_sum(use: TensorUse, makers: _Makers, depth: int = _NEAR) -> bool:
    """Tell whether a tensor is a running sum, or a multiple of one."""
    made_by = makers.get(use.storage, [])
    if len(made_by) != 1 or not depth:
        return False
    record = made_by[0].operator
    if made_by[0].name == "aten.cumsum":
        return True
    is_multiple = bool(record.linear or record.moves or record.negates)
    return is_multiple and any(
        _follows_from_running_sum(part, makers, depth - 1) for part in made_by[0].inputs
    )


def _computed_of(part: TensorUse, source: _Source, computed: Mapping[_Source, int]) -> int:
    """Count elements of a part of which a function is at hand, also as those of other regions."""
    function, tensor, writes = source
    most = computed.get(source, 0)
    for (name, region, versions), count in [*computed.items()][-_MANY:]:
        same = (name, versions, region.storage) == (function, writes, tensor.storage)
        if same and region != tensor and region.dtype == tensor.dtype:
            apart = covered_bytes([region]) + covered_bytes([tensor])
            common = (apart - covered_bytes([region, tensor])) // tensor.dtype.itemsize
            most = max(most, min(count, common))
    return min(most, part.distinct)


_UNKNOWN: list[tuple[TensorUse, _Source]] = []


def _operands(op: TracedOp, makers: _Makers) -> list[tuple[TensorUse, _Source]]:
    """Return the tensors of whose elements an op takes a function each; `_UNKNOWN` of others."""
    record = op.operator
    if record.exponentials:
        named = [op.arguments.get(name) for name in record.exponentials.split()]
        return [
            (part, _exponential_of(function, part, makers))
            for use in named
            if isinstance(use, TensorUse) and not use.dtype.is_complex
            for function, part in _summands(use, makers)
            or [("exp", part) for part in _parts(use, makers)]
        ] or _UNKNOWN
    use = op.arguments.get("other" if record.divides else record.logarithms)
    if not isinstance(use, TensorUse) or not use.dtype.is_floating_point:
        return _UNKNOWN
    if record.divides:
        return [(use, _source_of("reciprocal", _whole(use), makers))]
    if _is_of_exponentials(use, makers):
        return []
    divisor = _divisor_below_exponentials(use, makers)
    part = (_other_probability(use, makers) or use) if divisor is None else divisor
    return [(part, _source_of("log", _whole(part), makers))]


def _exponential_of(function: str, part: TensorUse, makers: _Makers) -> _Source:
    """Return the tensor of which, or of whose opposite, exponentials are taken."""
    tensor = _without_shifts(part, makers)
    made_by = makers.get(tensor.storage, [])
    if len(made_by) == 1 and made_by[0].operator.negates and made_by[0].inputs:
        function, tensor = _OPPOSITE[function], _without_shifts(made_by[0].inputs[0], makers)
    return _source_of(function, tensor, makers)


def _summands(use: TensorUse, makers: _Makers) -> list[tuple[str, TensorUse]]:
    """Return smaller tensors that one is a sum of, each with the function that its part takes."""
    source = _without_shifts(use, makers)
    made_by = makers.get(source.storage, [])
    if len(made_by) != 1 or not _is_sum(made_by[0]):
        return []
    op = made_by[0]
    summands = [part for part in op.inputs if part.dtype.is_floating_point]
    if sum(part.distinct for part in summands) >= use.distinct or len(summands) < len(op.inputs):
        return []
    return [
        ("exp" if op.operator.commutes or part is op.arguments.get("self") else "exp of -", part)
        for part in summands
    ]


def _is_sum(op: TracedOp) -> bool:
    """Tell whether an op adds or subtracts tensors."""
    record = op.operator
    is_plain = record.sums and not record.multiplies and op.arguments.get("alpha", 1) == 1
    return bool(is_plain) and len(op.inputs) > 1 and len(op.outputs) == 1 and not op.written


def _saved_by_summands(op: TracedOp, makers: _Makers) -> int:
    """Count exponentials that an op need not take, as those of smaller tensors make them."""
    uses = [op.arguments.get(name) for name in op.operator.exponentials.split()]
    return sum(
        use.distinct - sum(part.distinct for _, part in summands)
        for use in uses
        if isinstance(use, TensorUse) and (summands := _summands(use, makers))
    )


def _source_of(function: str, tensor: TensorUse, makers: _Makers) -> _Source:
    return function, tensor, len(makers.get(tensor.storage, ()))  # others after a write in place


def _whole(use: TensorUse) -> TensorUse:
    """Return a tensor without what an op needs of it, its dimensions in the order of memory."""
    dims = sorted(zip(use.stride, use.shape), reverse=True)
    shape, stride = tuple(n for _, n in dims if n > 1), tuple(s for s, n in dims if n > 1)
    return replace(use, shape=shape, stride=stride, mask=None, value=None, sure=True)


def _other_probability(use: TensorUse, makers: _Makers) -> TensorUse | None:
    """Return s(x) of a tensor 1 - s(x), with s the logistic function; ``None`` of others.

    Their logarithms differ by x.
    """
    made_by = makers.get(use.storage, [])
    if len(made_by) != 1 or made_by[0].name != "aten.rsub" or made_by[0].args[1:] != (1,):
        return None
    source = made_by[0].inputs[0]
    is_logistic = [op.name for op in makers.get(source.storage, [])] == ["aten.sigmoid"]
    return source if is_logistic and made_by[0].result.shape == use.shape else None


def _divisor_below_exponentials(use: TensorUse, makers: _Makers) -> TensorUse | None:
    """Return what exponentials are divided by to make a tensor; ``None`` of other tensors."""
    made_by = makers.get(use.storage, [])
    if len(made_by) != 1 or not made_by[0].operator.divides or len(made_by[0].inputs) != 2:
        return None
    numerator, divisor = made_by[0].inputs
    whole = made_by[0].result.shape == use.shape and divisor.dtype.is_floating_point
    return divisor if whole and _is_of_exponentials(numerator, makers) else None


def _is_left_to_logarithms(op: TracedOp, makers: _Makers, readers: _Makers) -> bool:
    """Tell whether an op is a quotient that only logarithms read, which take it apart."""
    if not op.operator.divides or len(op.outputs) != 1:
        return False
    uses = [
        (reader, use)
        for reader in readers.get(op.result.storage, ())
        for use in reader.inputs
        if use.storage == op.result.storage
    ]
    return bool(uses) and all(
        use is reader.arguments.get(reader.operator.logarithms)
        and _divisor_below_exponentials(use, makers) is not None
        for reader, use in uses
    )


def _parts(use: TensorUse, makers: _Makers) -> list[TensorUse]:
    """Return the tensors that one is joined of."""
    made_by = makers.get(use.storage, [])
    joined = len(made_by) == 1 and made_by[0].operator.needs in ("cat", "stack")
    return list(made_by[0].inputs) if joined and made_by[0].result.numel == use.numel else [use]


def _is_of_exponentials(use: object, makers: _Makers) -> bool:
    """Tell whether elements are exponentials of others, each times a factor of its line.

    They may be limited to numbers: log(max(exp(a), e)) is max(a, log e).
    """
    for _ in range(_DEEP):
        made_by = makers.get(use.storage, []) if isinstance(use, TensorUse) else []
        if len(made_by) != 1:
            return False
        record = made_by[0].operator
        if record.exponentials and record.zero_at_minus_inf:
            return True
        is_limited = record.limits == "clamp" and len(made_by[0].inputs) == 1
        if not (is_limited or (record.moves and record.aligned and made_by[0].inputs)):
            return False
        use = made_by[0].inputs[0]
    return False


def _without_shifts(use: TensorUse, makers: _Makers) -> TensorUse:
    """Return the tensor that a use is a shifted copy of, whole, whatever part of it matters."""
    for _ in range(_DEEP):
        made_by = makers.get(use.storage, [])
        source = _shifted(made_by[0]) if len(made_by) == 1 else None
        if source is None or made_by[0].result.shape != use.shape:
            break
        use = source
    made_by = makers.get(use.storage, [])
    whole = made_by[0].result if len(made_by) == 1 and made_by[0].outputs else use
    same = whole.shape == use.shape and whole.stride == use.stride
    return _whole(whole if same else use)


def _shifted(op: TracedOp) -> TensorUse | None:
    """Return what an op shifts by a number of each line, or copies."""
    record = op.operator
    if len(op.outputs) != 1:
        return None
    if (record.moves and record.aligned) or record.normalises is Normalised.LOG_SUM_ONE:
        return op.inputs[-1] if record.moves else op.inputs[0]
    if not record.sums or record.multiplies or op.arguments.get("alpha", 1) != 1:
        return None
    full = [use for use in op.inputs if use.shape == op.result.shape and _varies(use)]
    return full[0] if len(full) == 1 and full[0] is op.arguments.get("self") else None


def _varies(use: TensorUse) -> bool:
    """Tell whether a tensor has an element of its own in every place."""
    return all(n == 1 or step for n, step in zip(use.shape, use.stride))
