"""The streams after a candidate returns: work that nobody waits for, data kept in L2."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from solkit.measure.distrust.findings import Finding

__all__ = ["stream_findings"]

_PRIORITIES = (0, -1)  # the two usual priorities of torch.cuda.Stream
_STREAMS_PER_POOL = 32  # c10/cuda/CUDAStream.cpp, kStreamsPerPoolBits = 5

# cuda.h: CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, CU_ACCESS_PROPERTY_PERSISTING
_ACCESS_POLICY_WINDOW, _PERSISTING = 1, 2


class _AccessPolicyWindow(ctypes.Structure):
    """cuda.h, CUaccessPolicyWindow, in a CUstreamAttrValue of 64 bytes."""

    _fields_ = (
        ("base_ptr", ctypes.c_uint64),
        ("num_bytes", ctypes.c_size_t),
        ("hit_ratio", ctypes.c_float),
        ("hit_prop", ctypes.c_int),
        ("miss_prop", ctypes.c_int),
        ("rest", ctypes.c_char * 64),
    )


def stream_findings(inputs: Sequence[torch.Tensor]) -> Iterator[Finding]:
    """Yield findings from the current stream and torch's pools; wait for the current one.

    Streams created without torch are not seen. `inputs` must not stay in L2 from call to call.
    """
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return
    current = torch.cuda.current_stream()
    current.synchronize()
    pool = _pool()
    busy = [stream for stream in pool if not stream.query()]
    if busy:
        text = f"{len(busy)} stream(s) still work after the caller's stream: nobody waits"
        yield Finding("unjoined stream", text, True)
    for window in _windows([current, *pool]):
        kept = [index for index, tensor in enumerate(inputs) if _covers(window, tensor)]
        text = f"a stream keeps {window.num_bytes} bytes in L2 after the call"
        of = f", of input {kept[0]}" if kept else ""
        yield Finding("L2 persistence", text + of, bool(kept))


@functools.cache
def _pool() -> list[torch.cuda.Stream]:
    """Return the streams that torch hands out in rotation; one full rotation restores their order.

    They are made in advance: making them takes longer than short work on them.
    """
    streams: Callable[..., torch.cuda.Stream] = torch.cuda.Stream
    turns = [streams(priority=p) for p in _PRIORITIES for _ in range(_STREAMS_PER_POOL)]
    return list({stream.cuda_stream: stream for stream in turns}.values())


def _windows(streams: Iterable[Any]) -> Iterator[_AccessPolicyWindow]:
    """Yield the streams' access-policy windows that keep data in L2, if supported."""
    cuda = ctypes.CDLL("libcuda.so.1")
    for stream in {stream.cuda_stream: stream for stream in streams}.values():
        window = _AccessPolicyWindow()
        handle = ctypes.c_void_p(stream.cuda_stream)
        failed = cuda.cuStreamGetAttribute(handle, _ACCESS_POLICY_WINDOW, ctypes.byref(window))
        if not failed and window.hit_prop == _PERSISTING and window.num_bytes:
            yield window


def _covers(window: _AccessPolicyWindow, tensor: torch.Tensor) -> bool:
    start = tensor.untyped_storage().data_ptr()
    end = start + tensor.untyped_storage().nbytes()
    return bool(start < window.base_ptr + window.num_bytes and window.base_ptr < end)
