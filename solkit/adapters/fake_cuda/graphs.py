"""CUDA graphs: what is launched while one is captured runs when it is replayed."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from solkit.adapters.fake_cuda.torch_cuda import Nothing, replace_in_torch
from solkit.core.stack import Stack
from solkit.errors import UnsupportedError

Replay = Callable[[], None]
Capture = Callable[[], contextlib.AbstractContextManager[Replay]]

_captures = Stack[Capture]()


def capturing_graphs(capture: Capture) -> contextlib.AbstractContextManager[Capture]:
    """Let `capture` see what is launched inside CUDA graphs.

    Args:
        capture: makes a context in which a graph is captured, and which gives what replays it.
    """
    return _captures.holding(capture)


class _CUDAGraph(Nothing):
    """Replaces `torch.cuda.CUDAGraph`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self._inside = contextlib.ExitStack()
        self._replay: Replay | None = None

    def capture_begin(self, *_: Any, **__: Any) -> None:
        """Give all launches from here on to the graph."""
        self._replay = self._inside.enter_context(_captures[-1]()) if _captures else None

    def capture_end(self) -> None:
        """Complete the graph."""
        self._inside.close()

    def replay(self) -> None:
        """Launch what was captured.

        Raises:
            UnsupportedError: nothing watched the capture.
        """
        if self._replay is None:
            raise UnsupportedError("a CUDA graph is replayed that was captured out of sight")
        self._replay()


class _graph(Nothing):  # noqa: N801 - torch's name
    """Replaces `torch.cuda.graph`."""

    def __init__(self, cuda_graph: _CUDAGraph, *_: Any, **__: Any) -> None:
        super().__init__()
        self._graph = cuda_graph

    def __enter__(self) -> _graph:
        self._graph.capture_begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._graph.capture_end()


def _make_graphed_callables(callables: Any, *_: Any, **__: Any) -> Any:
    """`torch.cuda.make_graphed_callables`: each call launches what its graph would replay."""
    return callables


def fake_graphs() -> None:
    """Replace the graphs of `torch.cuda`."""
    for name, fake in (
        ("CUDAGraph", _CUDAGraph),
        ("graph", _graph),
        ("make_graphed_callables", _make_graphed_callables),
    ):
        fake.__name__ = fake.__qualname__ = name
        replace_in_torch(name, fake)
