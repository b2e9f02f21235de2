"""Addresses and identities of tensors without memory."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensor

from solkit.core.stack import Stack

_FIRST_ADDRESS, _ADDRESS_STEP = 0x7F00_0000_0000, 1 << 32
_addresses: dict[int, tuple[int, torch.UntypedStorage]] = {}
_asked = Stack[set[int]]()


def data_ptr(tensor: torch.Tensor) -> int:
    """Return the storage's own address plus the offset; addresses are 4 GiB apart, so well aligned.

    The storage is kept alive, so that no other storage gets its handle.
    """
    storage = tensor.untyped_storage()
    if _asked and not _is_followed():
        _asked[-1].add(storage._cdata)
    entry = _addresses.get(storage._cdata)
    if entry is None:
        entry = _FIRST_ADDRESS + len(_addresses) * _ADDRESS_STEP, storage
        _addresses[storage._cdata] = entry
    return entry[0] + int(tensor.storage_offset()) * tensor.element_size()


def storage_at(address: int) -> tuple[torch.UntypedStorage, int] | None:
    """Return the storage that has an address, and the offset there; ``None`` if none has it."""
    number, offset = divmod(address - _FIRST_ADDRESS, _ADDRESS_STEP)
    entries = list(_addresses.values())
    if not 0 <= number < len(entries):
        return None
    storage = entries[number][1]
    return (storage, offset) if offset < max(int(storage.nbytes()), 1) else None


def tensor_at(address: int) -> torch.Tensor | None:
    """Return the bytes behind an address, as a tensor of the same storage; ``None`` if none has it.

    A program that hands ``x.data_ptr()`` to C++ hands over an integer.
    """
    place = storage_at(address)
    if place is None:
        return None
    storage, offset = place
    empty = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return empty.set_(storage, offset, (int(storage.nbytes()) - offset,), (1,))


def has_tensors(storage: torch.UntypedStorage) -> bool:
    """Tell whether a tensor lies on a storage, apart from the references to the storage itself."""
    return torch._C._storage_Use_Count(storage._cdata) > 1


def _is_followed() -> bool:
    """Tell if Triton asks, which looks at alignment alone; SolKit follows the pointer."""
    caller = sys._getframe(2)
    while caller.f_code.co_filename == "<string>" and caller.f_back is not None:
        caller = caller.f_back  # out of the code that Triton makes for a kernel
    return str(caller.f_globals.get("__name__", "")).partition(".")[0] in ("triton", "solkit")


def watching_addresses() -> contextlib.AbstractContextManager[set[int]]:
    """Collect the storages whose addresses the code inside asks for: others may read there."""
    return _asked.holding(set())


_torch_swap_tensors = torch.utils.swap_tensors


def swap_tensors(first: torch.Tensor, second: torch.Tensor) -> None:
    """`torch.utils.swap_tensors` for ``module.cuda()``, which also swaps fake tensors.

    The fake mode's memo holds weak references to fakes, which torch refuses to swap; they are
    dropped, since nothing needs them again.
    """
    for tensor in (first, second):
        if isinstance(tensor, FakeTensor):
            memo = tensor.fake_mode.fake_tensor_converter.meta_converter.tensor_memo
            for key in [key for key, fake in memo.items() if fake is tensor]:
                del memo[key]
    _torch_swap_tensors(first, second)
