"""Truths that choose which elements of a product's factors are zero, by the data.

``torch.where(x.abs() > t, x, 0) @ w`` says itself which products it needs, and a kernel can skip
the other ones, so they are counted for the data at hand: as the inputs are drawn on the CPU (a GPU
draws other numbers of the same kind). Zeros that a function leaves, as a ReLU does, are numbers
like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from solkit.adapters.fake_cuda import drawn_elements
from solkit.roofline.work.dtype_origin import product_factors
from solkit.roofline.work.program import Program, TensorUse, TracedOp


def with_chosen_elements(program: Program) -> Program:
    """Return a program in which truths that choose elements of products' factors are known.

    Truths that do not follow from how the inputs are drawn, or not within seconds, stay unknown.
    """
    elements = {
        storage: flat
        for storage in _choosing(program.ops) & program.truths.keys()
        if (flat := drawn_elements(program.truths[storage])) is not None
    }
    if not elements:
        return replace(program, truths={})

    def with_value(leaf: Any) -> Any:
        if not isinstance(leaf, TensorUse) or leaf.storage not in elements:
            return leaf
        flat = elements[leaf.storage][leaf.offset :]
        steps = tuple(step * flat.strides[0] for step in leaf.stride)
        value = np.lib.stride_tricks.as_strided(flat, leaf.shape, steps, writeable=False)
        return replace(leaf, value=value)

    ops = tuple(op.mapped(with_value) for op in program.ops)
    return replace(program, ops=ops, truths={n: program.truths[n] for n in elements})


def chosen_by_draws(program: Program, live: Sequence[TracedOp]) -> tuple[str, ...]:
    """Return an assumption where elements of factors were chosen by numbers drawn on the CPU."""
    valued = {use.storage for op in live for use in op.inputs if use.value is not None}
    if valued.isdisjoint(program.truths):
        return ()
    return (
        "Which elements of a product's factors are zero was computed from numbers that were drawn "
        "on the CPU; a GPU draws others.",
    )


def _choosing(ops: Sequence[TracedOp]) -> set[int]:
    """Return storages of truths from which factors of products are made, element by element."""
    rewritten = {use.storage for op in ops for use in op.written}
    makers = {use.storage: op for op in ops for use in op.outputs}
    waiting = [use.storage for op in ops for use, _ in product_factors(op)]
    seen: set[int] = set()
    choosing: set[int] = set()
    while waiting:
        op = makers.get(waiting.pop())
        if op is None or op.result.storage in rewritten | seen:
            continue
        seen.add(op.result.storage)
        if not (op.is_elementwise or op.operator.moves):
            continue
        truths = {use.storage for use in op.inputs if use.dtype is torch.bool}
        choosing |= truths - rewritten
        waiting += {use.storage for use in op.inputs} - truths
    return choosing
