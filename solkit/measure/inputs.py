"""Tensors that cross between a candidate and its judge: seeded, copied, poisoned, held together."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from solkit.kernelfiles import Workload

__all__ = [
    "distinct",
    "fresh",
    "is_unchanged",
    "poison",
    "poisoned",
    "same_bits",
    "seed_everything",
]

_POISON = {
    # bytes an element -> its integer dtype, and bits that are a NaN in each float of that width
    1: (torch.uint8, 0x7F),
    2: (torch.int16, 0x7FDA),
    4: (torch.int32, 0x7FDADADA),
    8: (torch.int64, 0x7FFADADADADADADA),
}


def seed_everything(seed: int) -> None:
    """Seed every generator that inputs or a kernel may draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    # not torch.manual_seed: of each kind of GPU that may come yet it notes a stack trace, 1 to 5 ms
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for generator in torch.cuda.default_generators:
            generator.manual_seed(seed)
    elif torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


def fresh(workload: Workload) -> Workload:
    """The same workload on copies of its tensors.

    Strides, offsets and gaps are kept, and tensors that shared memory share it again: a storage is
    copied once, whole. Objects that are neither tensors nor containers stay the same objects.
    """
    storages: dict[int, torch.UntypedStorage] = {}

    def copy(leaf: Any) -> Any:
        return _copy(leaf, storages) if isinstance(leaf, torch.Tensor) else leaf

    args, kwargs = tree_map(copy, (workload.args, dict(workload.kwargs)))
    return workload.with_inputs(args, kwargs)


def _copy(tensor: torch.Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        copied = tensor.detach().clone()  # no plain view of a storage
    else:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in storages:
            storages[storage.data_ptr()] = _clone(storage)
        copied = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
            storages[storage.data_ptr()], tensor.storage_offset(), tensor.size(), tensor.stride()
        )
    return copied.requires_grad_(tensor.requires_grad)


def _clone(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    as_bytes = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    return as_bytes.clone().untyped_storage()


def is_unchanged(before: Workload, after: Workload) -> bool:
    """Whether every input tensor of `after` still has the bytes it was copied from."""
    pairs = zip(_tensors(before), _tensors(after), strict=True)
    return all(_same_bytes(old, new) for old, new in pairs)


def poison(tensors: Sequence[torch.Tensor]) -> None:
    """Fill tensors with bits that no kernel computes: NaN with a payload, odd integers.

    For destinations before each run. Where a candidate makes its outputs itself, poison tensors of
    their sizes in its process and free them: what it then leaves unwritten holds the poison.
    """
    for tensor in tensors:
        bits, pattern = _bits(tensor)
        bits.fill_(pattern)


def poisoned(tensors: Sequence[torch.Tensor]) -> list[int]:
    """How many elements of each tensor still hold the poison, so were never written.

    One byte is too little to tell a poison from a value, so that bools, fp8 and 8-bit integers
    count only where the whole tensor is untouched.
    """
    return [_untouched(tensor) for tensor in tensors]


def _untouched(tensor: torch.Tensor) -> int:
    bits, pattern = _bits(tensor)
    held = int((bits == pattern).sum())
    return held if bits.dtype is not torch.uint8 or held == bits.numel() else 0


def _bits(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """A tensor's memory as integers, and the poison of that width."""
    plain = distinct(tensor.detach())
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    kind, pattern = _POISON[plain.element_size()]
    return plain.view(kind), 1 if tensor.dtype is torch.bool else pattern


def distinct(tensor: torch.Tensor) -> torch.Tensor:
    """A view with each element of an expanded tensor once, so that it can be written."""
    for dim, (stride, size) in enumerate(zip(tensor.stride(), tensor.shape, strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def same_bits(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> bool:
    """Whether two runs gave the same outputs bit for bit: NaN equals itself, 0 is not -0."""
    return len(left) == len(right) and all(
        a.shape == b.shape and a.dtype == b.dtype and a.device == b.device and _same_bytes(a, b)
        for a, b in zip(left, right, strict=True)
    )


def _tensors(workload: Workload) -> list[torch.Tensor]:
    leaves = tree_leaves((workload.args, dict(workload.kwargs)))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.layout is not torch.strided:
        return torch.equal(left.to_dense(), right.to_dense())
    # as bytes, so that a NaN equals itself
    return torch.equal(_bytes(left.detach()), _bytes(right.detach()))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.resolve_conj().resolve_neg().contiguous()
    # not `reshape`: that of a single element may keep another stride than 1
    return plain.as_strided((plain.numel(),), (1,)).view(torch.uint8)
