"""Real products that a complex product needs: fewer than three where a part is zero, or not read.

Of (a + bi)(c + di), three real products give both parts (Gauss), and two give one. A factor whose
elements are real numbers, or real multiples of one number, counts as one part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from solkit.ops import Family, Reduction
from solkit.roofline.work.dtype_origin import product_factors
from solkit.roofline.work.program import Program, TensorUse, TracedOp, map_leaves

GAUSS = 3
"""Real products of a complex one, with both parts of both factors and of the result (Knuth, The Art
of Computer Programming 2, section 4.6.4)."""

_BOTH = frozenset((0, 1))
_WALKING = (Family.COPY, Family.MOVE, Family.POINTWISE, Family.LOOKUP, Family.REDUCTION)


def real_products(
    ops: Sequence[TracedOp], constants: Collection[int], results: Sequence[TensorUse]
) -> dict[int, int]:
    """Return the real products of complex products, by position in `ops`.

    Args:
        ops: in program order.
        constants: storages that follow from the program alone.
        results: of the program.
    """
    products = [
        position
        for position, op in enumerate(ops)
        if len(op.outputs) == 1 and op.result.dtype.is_complex and product_factors(op)
    ]
    if not products:
        return {}
    is_real = _lines(ops, constants)
    read = _parts_read(ops, results, is_real)
    counts: dict[int, int] = {}
    for position in products:
        pairs = len(read[ops[position].result.storage])
        for factor, _ in product_factors(ops[position]):
            pairs *= 1 if factor.storage in is_real or not factor.dtype.is_complex else 2
        counts[position] = min(GAUSS, max(pairs // 2, 1))
    return counts


def without_unread_parts(program: Program) -> Program:
    """Return the program without terms that only hold parts of complex numbers nobody reads.

    ``conv1d(x, w).real`` of complex numbers needs no product for the imaginary part.
    """
    if not any(use.dtype.is_complex for op in program.ops for use in op.outputs):
        return program
    read = _parts_read(program.ops, program.results, _lines(program.ops, program.constants))
    imaginary: set[int] = set()
    ops: list[TracedOp] = []
    for op in program.ops:
        numbers = [value for value in op.args if isinstance(value, complex)]
        is_real = not any(use.dtype.is_complex for use in op.inputs)
        if op.operator.multiplies and is_real and numbers and not any(n.real for n in numbers):
            imaginary.add(op.result.storage)
        needed = read[op.result.storage] if _adds_to_complex(op) else _BOTH
        ops.append(_without_terms(op, needed, imaginary))
    return replace(program, ops=tuple(ops))


def _adds_to_complex(op: TracedOp) -> bool:
    record = op.operator
    is_sum = record.sums and record.linear and not record.multiplies and op.is_elementwise
    return bool(is_sum) and not op.written and op.result.dtype.is_complex and len(op.inputs) == 2


def _without_terms(op: TracedOp, needed: frozenset[int], imaginary: Set[int]) -> TracedOp:
    """Return a sum without terms that hold no part that is needed, each replaced by zero."""
    needless = [
        use
        for use in op.inputs
        if len(needed) == 1
        and (
            1 in needed if not use.dtype.is_complex else (use.storage in imaginary and 0 in needed)
        )
    ]
    if len(needless) != 1:
        return op

    def kept(leaf: Any) -> Any:
        return 0 if leaf is needless[0] else leaf

    return replace(
        op,
        args=map_leaves(kept, op.args),
        arguments=map_leaves(kept, op.arguments),
        inputs=tuple(use for use in op.inputs if use is not needless[0]),
    )


def _lines(ops: Sequence[TracedOp], constants: Collection[int]) -> dict[int, bool]:
    """Return complex storages whose elements are multiples of one number; true where it is 1."""
    rewritten = {use.storage for op in ops for use in op.written}
    is_real: dict[int, bool] = {}
    for op in ops:
        if len(op.outputs) != 1 or not op.result.dtype.is_complex or not op.inputs:
            continue
        parts = [is_real.get(use.storage) if use.dtype.is_complex else True for use in op.inputs]
        if op.result.storage in rewritten or None in parts:
            continue
        if _joins_parts(op):
            if any(use.storage in constants for use in op.inputs):
                is_real[op.result.storage] = False
        elif product_factors(op) or (_walks(op) and op.operator.multiplies):
            is_real[op.result.storage] = all(parts) and not _has_complex_number(op)
        elif _walks(op) and all(parts) and not _has_complex_number(op):
            is_real[op.result.storage] = True
        elif op.operator.moves and len(parts) == 1:
            is_real[op.result.storage] = False
    return is_real


def _parts_read(
    ops: Sequence[TracedOp], results: Sequence[TensorUse], is_real: Mapping[int, bool]
) -> Mapping[int, frozenset[int]]:
    """Return which parts of complex numbers are read: 0 the real one, 1 the imaginary one."""
    read: defaultdict[int, frozenset[int]] = defaultdict(frozenset)
    for use in results:
        read[use.storage] |= _parts(use)
    for op in reversed(ops):
        needed = read[op.result.storage] if len(op.outputs) == 1 and not op.written else _BOTH
        keeps = _walks(op) and not _joins_parts(op) and not _has_complex_number(op)
        for use in op.inputs:
            others = (other for other in op.inputs if other is not use and other.dtype.is_complex)
            is_scaled = not op.operator.multiplies or all(is_real.get(o.storage) for o in others)
            is_kept = keeps and is_scaled and use.dtype.is_complex and op.result.dtype.is_complex
            read[use.storage] |= needed if is_kept else _parts(use)
    return read


def _parts(use: TensorUse) -> frozenset[int]:
    """Return the parts that a use reads, of a storage of complex numbers."""
    if use.dtype.is_complex or any(n > 1 and step % 2 for n, step in zip(use.shape, use.stride)):
        return _BOTH
    return frozenset((use.offset % 2,))


def _walks(op: TracedOp) -> bool:
    """Tell whether an op moves, adds or multiplies elements."""
    record = op.operator
    walks = record.moves or record.linear or record.reduces in (Reduction.SUM, Reduction.MEAN)
    return record.family in _WALKING and bool(walks) and not op.written


def _joins_parts(op: TracedOp) -> bool:
    """Tell whether an op makes complex numbers of two real ones."""
    is_real = not any(use.dtype.is_complex for use in op.inputs)
    return is_real and len(op.inputs) > 1 and bool(op.operator.moves)


def _has_complex_number(op: TracedOp) -> bool:
    return any(isinstance(value, complex) and value.imag for value in op.arguments.values())
