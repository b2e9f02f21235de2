"""Captures of CUDA graphs in a live process, as its other threads must heed them.

A capture is a property of a stream: a thread that asks about its own stream learns nothing of
others. In the default mode (`cudaStreamCaptureModeGlobal`) a capture fails if any thread of the
process allocates, waits, or asks for an event meanwhile. `beside_captures` puts the thread into the
relaxed mode for that, which CUDA has for what does not touch the captured stream. To wait for the
whole GPU is an error in any mode, so who has to do that asks `is_any_capturing` first.

Source: CUDA Driver API, `cuThreadExchangeStreamCaptureMode`; CUDA C++ Programming Guide,
"Prohibited and Unhandled Operations".
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from solkit.errors import UnsupportedError

_RELAXED = 2
"""`CU_STREAM_CAPTURE_MODE_RELAXED`, and HIP's."""
_PATIENCE_S, _LOOK_S = 30.0, 0.01
"""Seconds to wait for the capture of a whole model, and between two looks at it."""


def is_capturing() -> bool:
    """Tell whether the current stream is captured; starts no context."""
    return has_context() and torch.cuda.is_current_stream_capturing()


def has_context() -> bool:
    """Tell whether this process uses CUDA; starts no context."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


# ------------------------------------------------------------------------------ this thread's mode


@contextlib.contextmanager
def beside_captures() -> Iterator[None]:
    """Allocate, wait for streams and ask for events within without failing others' captures."""
    exchange = _exchange_function() if has_context() else None
    mode = ctypes.c_int(_RELAXED)
    is_changed = exchange is not None and exchange(ctypes.byref(mode)) == 0
    try:
        yield
    finally:
        if exchange is not None and is_changed:
            exchange(ctypes.byref(mode))


@functools.cache
def _exchange_function() -> Callable[[Any], int] | None:
    """Return the driver's function that exchanges this thread's mode; ``None`` if it has none."""
    is_hip = getattr(torch.version, "hip", None) is not None
    library, prefix = ("libamdhip64.so", "hip") if is_hip else ("libcuda.so.1", "cu")
    try:
        function = getattr(ctypes.CDLL(library), f"{prefix}ThreadExchangeStreamCaptureMode")
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = [ctypes.POINTER(ctypes.c_int)], ctypes.c_int
    exchange: Callable[[Any], int] = function
    return exchange


# ------------------------------------------------------------------------------ any thread's

_UNDERWAY: weakref.WeakSet[Any] = weakref.WeakSet()
"""Graphs that are captured; one that is never ended is gone with its last reference."""
_MARK = "_solkit_watched"


def watch_captures() -> None:
    """Note captures from now on: of whatever captures through `torch.cuda.CUDAGraph`."""
    form = torch.cuda.CUDAGraph
    if not getattr(form.capture_begin, _MARK, False):
        form.capture_begin = _noting_begin(form.capture_begin)  # type: ignore[method-assign]
        form.capture_end = _noting_end(form.capture_end)  # type: ignore[method-assign]


def is_any_capturing() -> bool:
    """Tell whether a stream of this process is captured, if `watch_captures` saw it begin."""
    return bool(_UNDERWAY) or is_capturing()


def wait_for_captures(limit_s: float = _PATIENCE_S) -> None:
    """Wait until no stream of this process is captured.

    Raises:
        UnsupportedError: one still is after `limit_s` seconds.
    """
    end_s = time.monotonic() + limit_s
    while is_any_capturing():
        if time.monotonic() >= end_s:
            raise UnsupportedError(f"a CUDA graph is still being captured after {limit_s:g} s")
        time.sleep(_LOOK_S)


def _noting_begin(original: Any) -> Any:
    @functools.wraps(original)
    def capture_begin(graph: Any, /, *args: Any, **kwargs: Any) -> Any:
        _UNDERWAY.add(graph)  # before it: another thread must not begin to wait now
        try:
            return original(graph, *args, **kwargs)
        except BaseException:
            _UNDERWAY.discard(graph)
            raise

    setattr(capture_begin, _MARK, True)
    return capture_begin


def _noting_end(original: Any) -> Any:
    @functools.wraps(original)
    def capture_end(graph: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(graph, *args, **kwargs)
        finally:
            _UNDERWAY.discard(graph)

    return capture_end
