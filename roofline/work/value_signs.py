"""Tensors that hold values of both signs.

Where all terms of a product have one sign, the roundings of narrow factors average out: 8 bits then
give what 16 would, of data that happen to be so. No hard bound may rest on 16 bits there. A factor
with values of both signs rules it out, as its terms cancel and its roundings do not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from solkit.ops import Family, Normalised
from solkit.roofline.work.dtype_origin import product_factors
from solkit.roofline.work.program import TracedOp

Limits = tuple[float, float]

_BOTH = (-4.0, 4.0)
"""Margin of values that are drawn around zero, in standard deviations."""


def of_both_signs(ops: Iterable[TracedOp]) -> set[int]:
    """Return the storages that ops leave with values of both signs, as far as it is known."""
    limits: dict[int, Limits] = {}
    for op in ops:
        _note(limits, op)
    return {storage for storage, of_values in limits.items() if _are_both(of_values)}


def products_of_one_sign(live: Sequence[TracedOp], one_sign: Collection[int]) -> set[int]:
    """Return the places of products none of whose factors is known to have both signs.

    Args:
        live: the ops of a program, in order.
        one_sign: storages of arguments that may have one sign; what else is read, a module's
            weights, has both.
    """
    produced = {use.storage for op in live for use in op.outputs}
    read = {use.storage for op in live for use in op.inputs}
    limits = dict.fromkeys(read - produced - set(one_sign), _BOTH)
    alike = set()
    for place, op in enumerate(live):
        factors = product_factors(op)
        if factors and not any(_are_both(limits.get(use.storage)) for use, _ in factors):
            alike.add(place)
        _note(limits, op)
    return alike


def _note(limits: dict[int, Limits], op: TracedOp) -> None:
    """Note the limits of an op's results."""
    ends = _limits_of(limits, op)
    for use in op.stored:
        limits.pop(use.storage, None)
        if ends is not None:
            limits[use.storage] = ends


def _limits_of(limits: dict[int, Limits], op: TracedOp) -> Limits | None:
    record = op.operator
    if record.random and not op.inputs[1:]:
        return _drawn(op)
    operands = [limits.get(use.storage) for use in op.inputs]
    if product_factors(op) or record.normalises is Normalised.CENTRED:
        both = any(map(_are_both, operands)) or record.normalises is not None
        return _BOTH if both else None
    if not operands:
        return None
    number = op.arguments.get("other")
    factor = float(number) if isinstance(number, (bool, int, float)) else None
    if record.linear and record.multiplies:
        if factor is not None and operands[0] is not None:
            scale = 1 / factor if record.divides and factor else factor
            ends = [end * scale for end in operands[0]]
            return min(ends), max(ends)
        return _BOTH if any(map(_are_both, operands)) else None
    if record.sums:
        if factor is not None and operands[0] is not None:
            step = factor * float(op.arguments.get("alpha", 1) or 0)
            step = -step if record.cancels_equal else step
            return operands[0][0] + step, operands[0][1] + step
        return _BOTH if all(map(_are_both, operands)) else None
    if record.negates and operands[0] is not None:
        return -operands[0][1], -operands[0][0]
    if record.moves or record.family in (Family.MOVE, Family.LOOKUP):
        of_operands = [one for one in operands if one is not None]
        data = [use for use in op.inputs if use.dtype.is_floating_point]
        if of_operands and len(of_operands) >= len(data):
            return min(low for low, _ in of_operands), max(high for _, high in of_operands)
    return None


def _drawn(op: TracedOp) -> Limits | None:
    """Return the limits of what an op draws."""
    arguments, record = op.arguments, op.operator
    ends = [arguments.get(name) for name in ("from", "to")]
    if "high" in arguments:
        ends = [arguments.get("low", 0), arguments["high"]]
    if all(isinstance(end, (int, float)) for end in ends):
        return float(ends[0]), float(ends[1])  # type: ignore[arg-type]
    mean, deviation = arguments.get("mean", 0.0), arguments.get("std", 1.0)
    if not all(isinstance(number, (int, float)) for number in (mean, deviation)):
        return None
    if record.least is None or record.most is None:
        return None
    low, high = (float(mean) + float(deviation) * end for end in _BOTH)
    return max(low, record.least), min(high, record.most)


def _are_both(limits: Limits | None) -> bool:
    return limits is not None and limits[0] < 0 < limits[1]
