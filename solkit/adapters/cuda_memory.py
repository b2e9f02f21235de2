"""Device memory that other processes can open, through the CUDA driver (12 and 13) with ctypes.

PyTorch cannot allocate outside its caching allocator and export the result. Sizes are rounded up to
whole pages of 2 MiB: small allocations share a page, and a handle exposes all of it (CUDA Runtime
API, cudaIpcGetMemHandle).
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch

from solkit.errors import UnsupportedError

_PAGE = 2 << 20
_HANDLE_BYTES = 64  # cuda.h, CU_IPC_HANDLE_SIZE
_LAZY_PEER_ACCESS = 1  # cuda.h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
_OUT_OF_MEMORY = 2  # cuda.h, CUDA_ERROR_OUT_OF_MEMORY


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * _HANDLE_BYTES),)


def allocate(size: int) -> int:
    """Allocate at least `size` bytes on the current device; returns the address.

    Raises:
        torch.OutOfMemoryError: there is not enough memory.
    """
    address = ctypes.c_uint64()
    pages = ctypes.c_size_t(-(-size // _PAGE) * _PAGE)
    code = _cuda_driver().cuMemAlloc_v2(ctypes.byref(address), pages)
    if code == _OUT_OF_MEMORY:
        torch.cuda.empty_cache()
        code = _cuda_driver().cuMemAlloc_v2(ctypes.byref(address), pages)
    if code == _OUT_OF_MEMORY:
        raise torch.OutOfMemoryError(f"CUDA out of memory: {size >> 20} MiB to be shared")
    _check_result(code, "allocating memory to share")
    return address.value


def free(address: int) -> None:
    """Free memory of `allocate`."""
    _check_result(_cuda_driver().cuMemFree_v2(ctypes.c_uint64(address)), "freeing shared memory")


def export_handle(address: int) -> bytes:
    """Return the handle with which another process opens the memory.

    Raises:
        UnsupportedError: the system has no CUDA IPC.
    """
    handle = _Handle()
    code = _cuda_driver().cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(address))
    _check_result(code, "exporting memory (CUDA IPC)")
    return bytes(handle)


def open_handle(handle: bytes) -> int:
    """Open memory of another process; returns its address in this process.

    Raises:
        UnsupportedError: the system has no CUDA IPC.
    """
    address = ctypes.c_uint64()
    value = _Handle.from_buffer_copy(handle)
    code = _cuda_driver().cuIpcOpenMemHandle_v2(ctypes.byref(address), value, _LAZY_PEER_ACCESS)
    _check_result(code, "opening memory of another process (CUDA IPC)")
    return address.value


def close_handle(address: int) -> None:
    """Close memory of `open_handle`."""
    _check_result(
        _cuda_driver().cuIpcCloseMemHandle(ctypes.c_uint64(address)), "closing shared memory"
    )


@functools.cache
def _cuda_driver() -> Any:
    torch.zeros(1, device="cuda")  # makes the device's primary context current
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise UnsupportedError(f"the CUDA driver's library cannot be loaded: {error}") from error


def _check_result(code: int, doing: str) -> None:
    if code:
        text = ctypes.c_char_p()
        _cuda_driver().cuGetErrorString(code, ctypes.byref(text))
        said = (text.value or b"").decode() or f"error {code}"
        raise UnsupportedError(f"{doing}: {said}")
