"""The bytes that a PyTorch operator reads and writes when it runs as a kernel of its own.

Each tensor is read or written once, in whole sectors. A lookup reads only as much of its table as
it returns, and a scatter changes only as much as it is given. Copies and pointwise operators walk
in the order of their result (PyTorch, ``TensorIteratorBase::reorder_dimensions``), so what lies in
another order crosses L2 once for each block that needs a part of its sectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from solkit.core import Access
from solkit.ops import Family
from solkit.roofline.work.program import TensorUse, TracedOp

_SECTOR, _REQUEST = 32, 512
"""Bytes of a sector, and of a warp's request with 16 bytes a lane, which libraries' kernels use."""

_PUTTING = ("put rows", "scatter", "index put")
_ADDING = ("add rows", "scatter add")
"""Scatters that put elements, and those that add them, by `Operator.writes`."""

_GIVEN = ("values", "source", "src", "index", "indices")


def accesses(op: TracedOp, line: str, on_gpu: frozenset[int]) -> tuple[Access, ...]:
    """Return the loads and stores of an operator, one for each tensor in the GPU's memory.

    Args:
        op: with its arguments.
        line: of the user's code, ``file:line``.
        on_gpu: the storages in the GPU's memory.
    """
    seen: set[tuple[str, TensorUse]] = set()
    touched = []
    for kind, name, use, elements in _loads_and_stores(op):
        if use.storage in on_gpu and elements and (kind, use) not in seen:
            seen.add((kind, use))
            access = _access_of_tensor(kind, name, use, elements, line)
            is_walked = kind == "load" and op.operator.family in _IN_ORDER_OF_RESULT
            if is_walked and (sectors := _walked_sectors(use, op.result)) > access.sectors:
                access = replace(access, sectors=sectors, block_sectors=sectors)
            touched.append(access)
    return tuple(touched)


_IN_ORDER_OF_RESULT = (Family.COPY, Family.POINTWISE)
_WALKS = 16
"""Blocks that are looked at, of an operator."""


def _walked_sectors(use: TensorUse, result: TensorUse) -> int:
    """Return the sectors that an operator's blocks read of a tensor, each once a block.

    0 for a tensor of which elements are repeated, such as a bias: L1 keeps these. A block takes
    512 elements of the result in the order of its memory, 256 of 4 bytes or more (PyTorch,
    ``gpu_kernel_impl``: 128 threads, 4 or 2 elements each).
    """
    rank, block = len(result.shape), 256 if use.dtype.itemsize >= 4 else 512
    missing = rank - len(use.shape)
    if missing < 0 or not rank or not result.numel:
        return 0
    steps = [0] * missing + [s * (n > 1) for n, s in zip(use.shape, use.stride, strict=True)]
    if any(n > 1 and not step for n, step in zip(result.shape, steps, strict=True)):
        return 0
    order = sorted(range(rank), key=lambda dim: -result.stride[dim])
    shape = tuple(result.shape[dim] for dim in order)
    blocks = math.ceil(result.numel / block)
    starts = np.unique(np.linspace(0, blocks - 1, min(blocks, _WALKS)).astype(np.int64)) * block
    places = np.minimum(starts[:, None] + np.arange(block), result.numel - 1)
    indices = np.unravel_index(places, shape)
    offsets = np.zeros_like(places)
    for index, dim in zip(indices, order, strict=True):
        offsets += index * steps[dim]
    sectors = offsets * use.dtype.itemsize // _SECTOR
    return round(np.mean([len(np.unique(row)) for row in sectors]) * blocks)


def _loads_and_stores(op: TracedOp) -> Iterator[tuple[str, str, TensorUse, float]]:
    """Yield what it loads and stores: kind, argument, tensor and elements."""
    names = _argument_names(op.arguments)
    changed = _scattered_elements(op)
    for use in op.inputs:
        name = names.get(id(use), "")
        if _scatters(op) and use in op.written:
            adds = op.operator.writes in _ADDING or bool(op.arguments.get("accumulate"))
            yield "load", name, use, min(use.distinct, changed) if adds else 0
        elif name and op.operator.lookups == name:
            yield "load", name, use, min(use.distinct, op.result.numel)
        else:
            yield "load", name, use, use.distinct
    for use in op.written:
        yield "store", names.get(id(use), ""), use, min(use.distinct, changed)
    for number, use in enumerate(op.outputs):
        yield "store", f"result{number}" if number else "result", use, use.distinct


def _scatters(op: TracedOp) -> bool:
    """Tell if it changes in place the elements that an index names."""
    return bool(op.operator.in_place_of) and op.operator.writes in (*_PUTTING, *_ADDING)


def _scattered_elements(op: TracedOp) -> float:
    """Return the elements that a scatter changes, at most; no limit for other operators."""
    tensors = [op.arguments.get(name) for name in _GIVEN] if _scatters(op) else []
    sizes = [
        tensor.numel for tensor in tensors if isinstance(tensor, TensorUse) and tensor.numel > 1
    ]
    return max(sizes, default=math.inf)


def _argument_names(arguments: Mapping[str, Any]) -> dict[int, str]:
    """Return the argument of each tensor, by identity."""
    names: dict[int, str] = {}
    for name, value in arguments.items():
        if isinstance(value, TensorUse):
            names[id(value)] = name
        elif isinstance(value, list | tuple):
            names |= {id(tensor): f"{name}[{n}]" for n, tensor in enumerate(value)}
    return names


def _access_of_tensor(kind: str, name: str, use: TensorUse, elements: float, line: str) -> Access:
    requested = int(elements) * use.dtype.itemsize
    sectors = math.ceil(requested * _sector_overhead(use) / _SECTOR)
    return Access(
        kind=kind,
        path="global",
        argument=name,
        line=line,
        requests=math.ceil(requested / _REQUEST),
        sectors=sectors,
        block_sectors=sectors,
        requested_bytes=requested,
        unique_bytes=sectors * _SECTOR,
        vector_bytes=16,
    )


def _sector_overhead(use: TensorUse) -> float:
    """Return the bytes of a tensor's sectors over the tensor's own: 1 if it is dense in memory."""
    itemsize, run = use.dtype.itemsize, 1
    dims = sorted((step, n) for n, step in zip(use.shape, use.stride) if n > 1 and step > 0)
    for step, n in dims:
        if step > run:
            together = min(math.ceil(run * itemsize / _SECTOR) * _SECTOR, step * itemsize)
            return max(together / (run * itemsize), 1.0)
        run = max(run, step * n)
    return 1.0
