"""Tensors that pass between a candidate and the referee: seeded, copied, poisoned, compared."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from solkit.core import Value, Verdict
from solkit.errors import KernelFileError, MemoryLimitError
from solkit.kernelfiles import LoadedKernel, Workload
from solkit.measure.checking.chunked_tensors import equal_bytes, fingerprint
from solkit.measure.checking.faults import verdict_of

_POISON = {
    # bytes per element -> its integer dtype, and bits that are a NaN in each float of that width
    1: (torch.uint8, 0x7F),
    2: (torch.int16, 0x7FDA),
    4: (torch.int32, 0x7FDADADA),
    8: (torch.int64, 0x7FFADADADADADADA),
}

_CHUNK_BYTES = 1 << 25
_ROW_WORDS = 1 << 12


def bound_workload(
    loaded: LoadedKernel, shape: Mapping[str, Value], params: Mapping[str, Value], device: str
) -> Workload:
    """Return a kernel file's workload; raises `UnsupportedError` if memory is too small for it."""
    with _reporting_lack_of_memory():
        return loaded.workload(shape, params, device)


def drawn_workload(
    loaded: LoadedKernel, workload: Workload, shape: Mapping[str, Value], device: str
) -> Workload:
    """Return the same problem on inputs drawn anew; raises as `bound_workload`."""
    with _reporting_lack_of_memory():
        return loaded.drawn(workload, shape, device)


@contextlib.contextmanager
def _reporting_lack_of_memory() -> Iterator[None]:
    try:
        yield
    except KernelFileError as error:
        if verdict_of(error.__cause__ or error) is Verdict.OUT_OF_MEMORY:
            raise MemoryLimitError(f"the inputs do not fit into memory: {error}") from error
        raise


def copy_workload(workload: Workload) -> Workload:
    """Return the same workload on copies of its tensors.

    Strides, offsets, gaps and shared memory are kept: each storage is copied once, whole. Objects
    that are neither tensors nor containers are not copied.
    """
    storages: dict[int, torch.UntypedStorage] = {}

    def copy_leaf(leaf: Any) -> Any:
        return _copy_tensor(leaf, storages) if isinstance(leaf, torch.Tensor) else leaf

    args, kwargs = tree_map(copy_leaf, (workload.args, dict(workload.kwargs)))
    return workload.with_inputs(args, kwargs)


def _copy_tensor(tensor: torch.Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        copied = tensor.detach().clone()  # no plain view of a storage
    else:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in storages:
            as_bytes = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            storages[storage.data_ptr()] = as_bytes.clone().untyped_storage()
        copied = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
            storages[storage.data_ptr()], tensor.storage_offset(), tensor.size(), tensor.stride()
        )
    return copied.requires_grad_(tensor.requires_grad)


def is_unchanged(before: Workload, after: Workload) -> bool:
    """Tell whether every input tensor of `after` still has its original bytes."""
    pairs = zip(before.tensors(), after.tensors(), strict=True)
    return all(_same_bytes(old, new) for old, new in pairs)


def poison_tensors(tensors: Sequence[torch.Tensor]) -> None:
    """Fill tensors with bits that no kernel computes: NaN with a payload, odd integers.

    Use it on destinations before each run. If a candidate allocates its outputs, poison tensors of
    their sizes in its process and free them: unwritten elements then hold the poison.
    """
    for tensor in tensors:
        plain = distinct_elements(tensor.detach())
        if plain.is_complex():
            plain = torch.view_as_real(plain)
        kind, pattern = _POISON[plain.element_size()]
        plain.view(kind).fill_(1 if tensor.dtype is torch.bool else pattern)


def distinct_elements(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view that holds each element of an expanded tensor once, so it can be written."""
    for dim, (stride, size) in enumerate(zip(tensor.stride(), tensor.shape, strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def _same_bytes(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.layout is not torch.strided:
        return torch.equal(first.to_dense(), second.to_dense())
    # as bytes, so that a NaN equals itself
    return equal_bytes(_strided_bytes(first.detach()), _strided_bytes(second.detach()))


def fingerprints_of(tensors: Sequence[torch.Tensor], key: int) -> list[tuple[object, ...]]:
    """Return what tells tensors' bytes from others', instead of a copy.

    Nobody who could choose their values may know the key.
    """
    return [
        (tuple(tensor.shape), tensor.dtype, tensor.device, fingerprint(_dense_bytes(tensor), key))
        for tensor in tensors
    ]


def _strided_bytes(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.resolve_conj().resolve_neg().contiguous()
    # not `reshape`: that of a single element may keep another stride than 1
    return plain.as_strided((plain.numel(),), (1,)).view(torch.uint8)


def digest_inputs(*workloads: Workload) -> str:
    """Return a digest of workloads' inputs: the same for equal inputs on any device.

    It distinguishes inputs but is not cryptographic. Per tensor it holds dtype, shape and, over its
    elements as 64-bit words w_i, Σ w_i and Σ i·w_i modulo 2^64.
    """
    inputs = [(workload.args, sorted(workload.kwargs.items())) for workload in workloads]
    leaves = tree_leaves(inputs)
    return hashlib.sha256(repr([_describe_leaf(leaf) for leaf in leaves]).encode()).hexdigest()


def mark_inputs(workload: Workload) -> tuple[object, ...]:
    """Return what tells inputs from others that the same seed may give, at the cost of two reads.

    Unlike `digest_inputs` it is no record: sums over rows and columns of words, weighted by place.
    """
    leaves = tree_leaves((workload.args, sorted(workload.kwargs.items())))
    return tuple(
        (str(leaf.dtype), tuple(leaf.shape), *_marginal_sums(_dense_bytes(leaf)))
        if isinstance(leaf, torch.Tensor)
        else leaf
        if isinstance(leaf, (bool, int, float, str))
        else type(leaf).__name__
        for leaf in leaves
    )


def _dense_bytes(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    return _strided_bytes(plain if plain.layout is torch.strided else plain.to_dense())


def _marginal_sums(values: torch.Tensor) -> tuple[int, ...]:
    whole = values.numel() // (8 * _ROW_WORDS) * 8 * _ROW_WORDS
    if values.storage_offset() % 8:
        values = values.clone()
    rows = values[:whole].view(torch.int64).view(-1, _ROW_WORDS)
    sums = [
        (part * torch.arange(1, 1 + len(part), device=part.device)).sum()
        for part in (rows.sum(0), rows.sum(1))
    ]
    rest = torch.nn.functional.pad(values[whole:], (0, -(values.numel() - whole) % 8))
    return (*map(int, sums), int(_chunk_sums(rest, 0)[1]))


def _describe_leaf(leaf: Any) -> tuple[object, ...]:
    if not isinstance(leaf, torch.Tensor):
        return (leaf if isinstance(leaf, (bool, int, float, str)) else type(leaf).__name__,)
    named = str(leaf.dtype), tuple(leaf.shape)
    if leaf.layout != torch.strided or not leaf.numel():
        return named
    elements = leaf.detach().contiguous().view(-1).view(torch.uint8)
    sums = [
        _chunk_sums(elements[start : start + _CHUNK_BYTES], start // 8)
        for start in range(0, elements.numel(), _CHUNK_BYTES)
    ]
    return (*named, *(int(total) % 2**64 for total in torch.stack(sums).sum(0)))


def _chunk_sums(chunk: torch.Tensor, first: int) -> torch.Tensor:
    """Return both sums over a chunk of bytes whose first word has that index."""
    words = torch.nn.functional.pad(chunk, (0, -chunk.numel() % 8)).view(torch.int64)
    numbers = torch.arange(first, first + words.numel(), device=words.device)
    return torch.stack((words.sum(), (words * numbers).sum()))
