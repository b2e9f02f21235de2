"""Graphs of functions as Inductor takes them, the kernels that it makes, and values in a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_aggregate

from solkit.adapters.inductor import CaughtKernel, kernels_of_graph
from solkit.adapters.inductor_space import block_values, launch_tests


@dataclass(frozen=True, eq=False)
class Lowered:
    """A function's lowered graph, and its kernels in launch order."""

    graph: torch.fx.GraphModule
    kernels: tuple[CaughtKernel, ...]


def lower_function(
    function: Callable[..., Any], args: Sequence[torch.Tensor], settings: Mapping[str, Any]
) -> Lowered:
    """Return the kernels that Inductor makes of a function.

    Args:
        function: of tensors; it may call `torch.autograd.grad`.
        args: CPU tensors with values; the kernels fit their sizes, strides and dtypes.
        settings: of ``torch._inductor.config``.
    """
    graph = make_fx(function, select_decomp_table(), tracing_mode="fake")(*args)
    _move_constants(graph, torch.device("cpu"), torch.device("cuda", 0))
    return Lowered(graph, kernels_of_graph(graph, args, settings))


def sampled_values(
    graph: torch.fx.GraphModule, args: Sequence[torch.Tensor], names: frozenset[str]
) -> dict[str, torch.Tensor]:
    """Return the values of the named nodes, from a run on the CPU."""
    kept: dict[str, torch.Tensor] = {}

    class Run(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target not in _PRODUCTS or args[0].dtype.itemsize != 2:
                return super().call_function(target, args, kwargs)
            dtype = args[0].dtype  # in which a CPU takes seconds
            wide: Any = map_aggregate(args, lambda leaf: _widen_value(leaf, dtype))
            return super().call_function(target, wide, kwargs).to(dtype)

        def run_node(self, n: torch.fx.Node) -> Any:
            value = super().run_node(n)
            if n.name in names:
                kept[n.name] = value
            return value

    _move_constants(graph, torch.device("cuda", 0), torch.device("cpu"))
    with torch.no_grad():
        Run(graph).run(*args)
    _move_constants(graph, torch.device("cpu"), torch.device("cuda", 0))
    return kept


_PRODUCTS = (
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten.baddbmm.default,
    torch.ops.aten.convolution.default,
)


def _widen_value(value: Any, dtype: torch.dtype) -> Any:
    of_dtype = isinstance(value, torch.Tensor) and value.dtype == dtype
    return value.float() if of_dtype else value


def _move_constants(
    graph: torch.fx.GraphModule, source: torch.device, target: torch.device
) -> None:
    """Make the graph create its constants on another device."""

    def moved_argument(arg: Any) -> Any:
        return target if isinstance(arg, torch.device) and arg == source else arg

    for node in graph.graph.nodes:
        node.args, node.kwargs = (
            map_aggregate(node.args, moved_argument),
            map_aggregate(node.kwargs, moved_argument),
        )
    graph.recompile()


def valid_text(kernel: CaughtKernel) -> str:
    """Write ``valid``: at most 128 values a thread, at least one; a launch that CUDA takes."""
    tests = ["values <= 128 * threads", "threads <= max(32, values)", *launch_tests(kernel)]
    return (
        "def valid(params, shape):\n"
        f"    values = {block_values(kernel)}\n"
        '    threads = 32 * params["num_warps"]\n'
        f"    return {' and '.join(tests)}"
    )
