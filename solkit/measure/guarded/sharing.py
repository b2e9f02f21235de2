"""Tensors in memory that two processes share: CUDA IPC, or a memory file without a GPU.

Each block is a separate allocation, so sharing it exposes nothing else. (PyTorch shares whole
segments of its allocator, and never frees them if the other process is killed.)

::

    referee:    pack(value) ─► Packed ─► allocate(size) ─► fill ─► ticket ─┐ a frame
    candidate:  unpack(packed, attach(ticket)) ◄───────────────────────────┘
"""

from __future__ import annotations

import abc
import contextlib
import io
import itertools
import mmap
import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from solkit.adapters import cuda_memory
from solkit.measure.checking.chunked_tensors import equal_bytes

_ALIGNMENT = 512  # bytes, as in PyTorch's allocator: vectorised loads and views need it


class Block(abc.ABC):
    """Shared memory."""

    size: int  # in bytes
    device: str  # ``"cpu"`` or ``"cuda"``

    @abc.abstractmethod
    def bytes_at(self, offset: int, size: int) -> torch.Tensor:
        """Return bytes of the block, as a tensor with a storage of only these bytes."""

    def read(self) -> None:
        """Read all of it, so that the device's cache holds what fits."""
        read_through(self.bytes_at(0, self.size))

    def holds(self, tensor: torch.Tensor) -> bool:
        """Tell whether a tensor lies in the block."""
        if not self.size or tensor.layout is not torch.strided or not tensor.numel():
            return False
        first = self.bytes_at(0, 1).data_ptr()
        return tensor.device.type == self.device and first <= tensor.data_ptr() < first + self.size

    @abc.abstractmethod
    def ticket(self) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Return what `attach_block` needs elsewhere: a message, and descriptors to send along."""

    @abc.abstractmethod
    def settle(self) -> None:
        """Wait until all writes are visible: another process does not wait for them."""

    @abc.abstractmethod
    def close(self) -> None:
        """Free the memory. The other process must have closed its end or have ended."""


def read_through(memory: torch.Tensor) -> None:
    """Read bytes on their device, as words of the sum's own type, which takes no memory."""
    memory[: memory.numel() // 8 * 8].view(torch.int64).sum()


def allocate_block(size: int, device: str) -> Block:
    """Return a block on a device, with undefined bytes.

    Raises:
        torch.OutOfMemoryError: it does not fit.
    """
    if device == "cpu":
        return _HostBlock(os.memfd_create("solkit"), size, new=True)
    return _CudaBlock(cuda_memory.allocate(max(size, 1)), size, cuda_memory.free)


def attach_block(ticket: dict[str, Any], descriptors: Sequence[int]) -> Block:
    """Return the block that another process allocated."""
    size = int(ticket["size"])
    if ticket["kind"] == "host":
        (descriptor,) = descriptors
        return _HostBlock(descriptor, size, new=False)
    handle = bytes.fromhex(ticket["handle"])
    return _CudaBlock(cuda_memory.open_handle(handle), size, cuda_memory.close_handle)


class _HostBlock(Block):
    device = "cpu"

    def __init__(self, descriptor: int, size: int, *, new: bool) -> None:
        self.size, self._descriptor = size, descriptor
        if new:
            os.ftruncate(descriptor, max(size, 1))
        self._map = mmap.mmap(descriptor, max(size, 1))

    def bytes_at(self, offset: int, size: int) -> torch.Tensor:
        if not size:
            return torch.empty(0, dtype=torch.uint8)
        return torch.frombuffer(self._map, dtype=torch.uint8, count=size, offset=offset)

    def ticket(self) -> tuple[dict[str, Any], tuple[int, ...]]:
        return {"kind": "host", "size": self.size}, (self._descriptor,)

    def settle(self) -> None:
        """Nothing to wait for: host writes are visible at once."""

    def close(self) -> None:
        os.close(self._descriptor)
        with contextlib.suppress(BufferError):  # tensors still use it: the last one frees it
            self._map.close()


class _CudaBlock(Block):
    device = "cuda"

    def __init__(self, address: int, size: int, release: Any) -> None:
        self.size, self._address, self._release = size, address, release

    def bytes_at(self, offset: int, size: int) -> torch.Tensor:
        if not size:
            return torch.empty(0, dtype=torch.uint8, device="cuda")
        return torch.as_tensor(_Pointer(self._address + offset, size), device="cuda")

    def ticket(self) -> tuple[dict[str, Any], tuple[int, ...]]:
        handle = cuda_memory.export_handle(self._address).hex()
        return {"kind": "cuda", "size": self.size, "handle": handle}, ()

    def settle(self) -> None:
        torch.cuda.synchronize()

    def close(self) -> None:
        self.settle()
        self._release(self._address)


class _Pointer:
    """Memory, as numba's CUDA array interface (version 3) describes it."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
        }


@dataclass(frozen=True)
class Packed:
    """A value taken apart into its tensors' storages and the rest."""

    pickled: bytes  # the value, with a description in place of each tensor
    places: tuple[tuple[int, int], ...]  # (offset, size) in bytes of each storage in a block
    storages: tuple[torch.Tensor, ...] = ()  # the bytes, in the process that packed them; not sent

    @property
    def size(self) -> int:
        """Bytes that a block needs."""
        return max((offset + size for offset, size in self.places), default=0)

    @property
    def form(self) -> tuple[bytes, tuple[tuple[int, int], ...]]:
        """All but the bytes: equal for values that can take each other's place in a block."""
        return self.pickled, self.places

    def fill_block(self, block: Block) -> None:
        """Write the storages to a block, for the other process to read."""
        for (offset, size), storage in zip(self.places, self.storages, strict=True):
            block.bytes_at(offset, size).copy_(storage)
        block.settle()

    def changed_storages(self, block: Block) -> Iterator[int]:
        """Yield numbers of the storages whose bytes in the block differ from the packed ones."""
        for number, (offset, size) in enumerate(self.places):
            if not equal_bytes(block.bytes_at(offset, size), self.storages[number]):
                yield number

    def dumps(self) -> bytes:
        """Return what `loads` needs in the other process."""
        return pickle.dumps((self.pickled, self.places))

    @classmethod
    def loads(cls, data: bytes) -> Packed:
        """Return a value that another, trusted process packed."""
        return cls(*pickle.loads(data))


def pack_value(value: Any, device: str) -> Packed:
    """Take a value apart.

    Shared storages, strides, offsets and gaps are kept. Tensors on other devices, or of other
    layouts, are pickled by value.
    """
    buffer = io.BytesIO()
    packer = _Packer(buffer, torch.device(device).type)
    packer.dump(value)
    sizes = [storage.numel() for storage in packer.storages]
    places = tuple(zip(offsets_of(sizes)[0], sizes))
    return Packed(buffer.getvalue(), places, tuple(packer.storages))


def unpack_value(packed: Packed, block: Block) -> Any:
    """Rebuild a value: new tensor objects on the block's memory."""
    return _Unpacker(io.BytesIO(packed.pickled), packed.places, block).load()


def offsets_of(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return the offsets of blocks of these sizes, laid out in a row, and the total size."""
    steps = [-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes]
    *offsets, end = itertools.accumulate(steps, initial=0)
    return offsets, end


def strided_values(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values of a tensor of any layout, as a strided tensor."""
    dense = tensor.detach()
    if dense.layout is not torch.strided:
        dense = dense.to_dense()
    return dense.resolve_conj().resolve_neg()


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, device_type: str) -> None:
        super().__init__(file)
        self._device_type = device_type
        self.storages: list[torch.Tensor] = []
        self._numbers: dict[int, int] = {}

    def persistent_id(self, value: Any) -> Any:
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            return None
        if value.layout is not torch.strided or value.device.type != self._device_type:
            return None
        tensor = strided_values(value)
        return (
            self._number_storage(tensor.untyped_storage()),
            str(tensor.dtype).removeprefix("torch."),
            tensor.storage_offset(),
            tuple(tensor.size()),
            tuple(tensor.stride()),
            value.requires_grad,
            isinstance(value, torch.nn.Parameter),
        )

    def _number_storage(self, storage: torch.UntypedStorage) -> int:
        key = storage.data_ptr() or -len(self.storages) - 1  # empty ones have no address
        if key not in self._numbers:
            self._numbers[key] = len(self.storages)
            as_bytes = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            self.storages.append(as_bytes)
        return self._numbers[key]


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, places: Sequence[tuple[int, int]], block: Block) -> None:
        super().__init__(file)
        self._places, self._block = places, block
        self._storages: dict[int, torch.UntypedStorage] = {}

    def persistent_load(self, note: Any) -> torch.Tensor:
        number, dtype, offset, size, stride, requires_grad, is_parameter = note
        if number not in self._storages:
            self._storages[number] = self._block.bytes_at(*self._places[number]).untyped_storage()
        storage = self._storages[number]
        empty = torch.empty(0, dtype=getattr(torch, dtype), device=storage.device)
        tensor = empty.set_(storage, offset, size, stride)
        if is_parameter:
            return torch.nn.Parameter(tensor, requires_grad=requires_grad)
        return tensor.requires_grad_(requires_grad)
