"""Copies of inputs that a kernel may write into."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from solkit.kernelfiles import Workload

__all__ = ["fresh", "is_unchanged", "seed_everything"]


def seed_everything(seed: int) -> None:
    """Seed every generator that inputs or a kernel may draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


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
    return plain.reshape(-1).view(torch.uint8)
