"""Batches of products, with the dimensions that other ops see.

``matmul`` and ``einsum`` flatten batches, heads and chunks to one dimension. A mask that changes
from chunk to chunk repeats along it, which no mask of a dimension can say.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

from solkit.roofline.work.program import Program, TensorUse, TracedOp

_Sizes = tuple[int, ...]


def with_batches(program: Program) -> Program:
    """Return the program; batches of products have the dimensions of their operands' other uses."""
    flat = [op for op in program.ops if op.operator.cost == "product" and len(op.result.shape) == 3]
    if not flat or any(not isinstance(n, int) for op in flat for n in op.result.shape):
        return program
    seen: defaultdict[int, dict[_Sizes, None]] = defaultdict(dict)
    for op in program.ops:
        for use in (*op.inputs, *op.outputs):
            if len(use.shape) > 3 and _is_contiguous(use):
                seen[use.storage][use.shape[:-2]] = None
    return replace(program, ops=tuple(_split(op, seen) for op in program.ops))


def _is_contiguous(use: TensorUse) -> bool:
    """Tell whether all dimensions but the last two are one dimension that was taken apart."""
    dims = list(zip(use.shape, use.stride))[:-2]
    return all(step == n * inner for (_, step), (n, inner) in itertools.pairwise(dims))


def _split(op: TracedOp, seen: dict[int, dict[_Sizes, None]]) -> TracedOp:
    if op.operator.cost != "product" or len(op.result.shape) != 3:
        return op
    count = op.result.shape[0]
    uses = (op.result, *op.inputs)
    sizes = [s for use in uses for s in seen.get(use.storage, ()) if math.prod(s) == count > 1]
    if not sizes:
        return op
    batch = max(sizes, key=len)
    inner = [math.prod(batch[axis + 1 :]) for axis in range(len(batch))]

    def apart(leaf: Any) -> Any:
        if not isinstance(leaf, TensorUse) or leaf.shape[:1] != (count,) or len(leaf.shape) != 3:
            return leaf
        step, *others = leaf.stride
        value = leaf.value
        return replace(
            leaf,
            shape=(*batch, *leaf.shape[1:]),
            stride=(*(step * n for n in inner), *others),
            value=None if value is None else value.reshape(*batch, *value.shape[1:]),
        )

    return op.mapped(apart)
