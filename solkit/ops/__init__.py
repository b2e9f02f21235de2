"""Operators: one frozen record for each, a file per family, read by every pass.

`operator` finds the record of a traced op by its name. An in-place form (``"aten.mul_"``) has the
properties of its operator unless it has a record of its own; an operator without a record is one of
which nothing is known. No file here imports torch.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from solkit.ops import (
    convolutions,
    creation,
    indexing,
    linalg,
    losses,
    moves,
    norms,
    optimizers,
    ordering,
    pointwise,
    pooling,
    products,
    quantised,
    queries,
    randomness,
    recurrent,
    reductions,
    resampling,
    softmax,
    sparse,
)
from solkit.ops._record import Family, Monotone, Normalised, OfOne, Operator, Reduction, Selects

__all__ = [
    "OPERATORS",
    "Family",
    "Monotone",
    "Normalised",
    "OfOne",
    "Operator",
    "Reduction",
    "Selects",
    "operator",
]

_FAMILIES = (
    *(convolutions, creation, indexing, linalg, losses, moves, norms, optimizers, ordering),
    *(pointwise, pooling, products, quantised, queries, randomness, recurrent, reductions),
    *(resampling, softmax, sparse),
)

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {record.name: record for family in _FAMILIES for record in family.OPERATORS}
)
"""Every record by its name."""


@functools.cache
def operator(name: str) -> Operator:
    """Return the record of an operator; one without properties if it is unknown.

    Args:
        name: namespace and packet, e.g. ``"aten.mm"`` or ``"aten.mul_"``.
    """
    record = OPERATORS.get(name)
    if record is not None:
        return record
    base = OPERATORS.get(name.removesuffix("_"))
    if base is not None:
        return replace(base, name=name, in_place_of=base.name)
    return Operator(name=name)
