"""A function of tensors whose kernels are launched together: CUDA graphs.

A step of a small network is over a thousand small kernels, and launching each costs the CPU more
than running it costs the GPU. A graph launches all of them at once, on the same memory each time
(PyTorch's notes on CUDA semantics, "CUDA Graphs"), so inputs of one shape share a graph, and are
copied to where it reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_WARMED = 2  # calls before a capture: libraries prepare themselves in the first
_MOST = 24  # graphs: each keeps its inputs, and takes three calls to capture


@dataclass(frozen=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    output: Tensor


class GraphedFunction:
    """Calls a function that leaves gradients, as a graph for each shape of its inputs.

    After some shapes new ones are called without a graph.

    Args:
        function: of tensors on one GPU. It does the same whatever they hold, and returns a tensor
            that the next call overwrites and that has no gradient. It asks nothing of the GPU: no
            `item`, no mask as index.
        parts: whose gradients it adds to; they are zero before each call, and lie in the same
            memory after every call.
    """

    def __init__(self, function: Callable[..., Tensor], parts: Sequence[Tensor]) -> None:
        self._function, self._parts = function, parts
        self._graphs: dict[tuple[torch.Size, ...], _Captured] = {}
        self._pool: Any = None
        self._gradients = [torch.zeros_like(part) for part in parts]

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Return what the function returns; the gradients are those of this call."""
        for part, gradient in zip(self._parts, self._gradients, strict=True):
            part.grad = gradient  # others may have put theirs there since
        key = tuple(tensor.shape for tensor in inputs)
        if key not in self._graphs:
            if len(self._graphs) >= _MOST:
                return self._run_function(inputs)
            self._graphs[key] = self._capture_graph([tensor.clone() for tensor in inputs])
        captured = self._graphs[key]
        torch._foreach_copy_(captured.inputs, inputs)
        captured.graph.replay()
        return captured.output

    def _capture_graph(self, inputs: list[Tensor]) -> _Captured:
        drawn = torch.cuda.get_rng_state()  # the first replay draws what any other would
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARMED):
                self._run_function(inputs)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=aside):
            output = self._run_function(inputs)
        torch.cuda.set_rng_state(drawn)
        self._pool = self._pool or graph.pool()  # graphs run one after the other: one memory serves
        return _Captured(graph, inputs, output)

    def _run_function(self, inputs: Sequence[Tensor]) -> Tensor:
        torch._foreach_zero_(self._gradients)
        return self._function(*inputs)
