"""Catch the Triton kernels that Inductor makes of a function, on a machine with no GPU.

The only module that touches ``torch._inductor``. It patches global state and nothing is undone:
call it in a child process that is thrown away.

A function is traced on CPU tensors into a graph of decomposed aten calls, as Inductor's own front
end would; the graph is then given fake CUDA tensors and lowered for a `Device` that is not there.
Passes that rewrite the joint graph are left out: they ask for a real GPU.
"""

# mypy: disable-error-code="no-untyped-call,attr-defined,method-assign"
# (Inductor's inside is untyped, and exports little)

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
import torch._inductor.config as inductor_config
from torch._dynamo.device_interface import CudaInterface
from torch._guards import TracingContext, tracing
from torch._inductor import compile_fx
from torch._inductor.codegen.common import SizeArg, TensorArg
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.post_grad import view_to_reshape
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import hints, triton_heuristics
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.node import map_aggregate
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from solkit.adapters import fake_triton
from solkit.adapters.fake_cuda.torch_cuda import fake_torch_cuda
from solkit.core import Device

__all__ = [
    "MOST_BLOCK",
    "TESTED_TORCH",
    "Buffer",
    "CaughtKernel",
    "Lowered",
    "install",
    "lower",
    "sampled_values",
]

TESTED_TORCH = ("2.13", "2.13")
"""First and last minor release that this module was tested with."""

MOST_BLOCK: Mapping[str, int] = {
    f"{axis}BLOCK": size for axis, size in hints.TRITON_MAX_BLOCK.items()
}
"""Above these Inductor's masks are wrong: it drops those of sizes that they divide."""

_SETTINGS: Mapping[str, Any] = {
    "compile_threads": 1,
    "force_disable_caches": True,
    "inplace_buffers": False,  # an output that overwrites an input could be timed but once
    "allow_buffer_reuse": False,
}


@dataclass(frozen=True, eq=False)
class Buffer:
    """A tensor that a kernel reads or writes.

    Attributes:
        name: of the kernel's parameter.
        is_output: whether the kernel writes it.
        size, stride: in elements.
        dtype: of an element.
        node: the node of the graph whose value it holds; None where it holds none's.
    """

    name: str
    is_output: bool
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    node: torch.fx.Node | None


@dataclass(frozen=True, eq=False)
class CaughtKernel:
    """One generated kernel.

    Attributes:
        template: which of Inductor's heuristics chooses its configuration, e.g. ``"reduction"``.
        grid_type: how its grid follows from sizes and blocks, e.g. ``"Grid1D"``.
        source: the text of the function, with its decorator and the functions that it calls; its
            name is ``fused_kernel``.
        buffers: its first parameters, in their order.
        numels: the parameters after those, with their values: ``xnumel``, ``r0_numel`` …
        blocks: the constants that a configuration gives, e.g. ``("XBLOCK",)``.
        configs: what Inductor would try, its first choice first; warps and stages included.
        obstacle: why it cannot be launched by itself; empty where it can.
    """

    template: str
    grid_type: str
    source: str
    buffers: tuple[Buffer, ...]
    numels: Mapping[str, int]
    blocks: tuple[str, ...]
    configs: tuple[Mapping[str, int], ...]
    obstacle: str


@dataclass(frozen=True, eq=False)
class Lowered:
    """A function's graph, as it was lowered, and its kernels in the order of their launch."""

    graph: torch.fx.GraphModule
    kernels: tuple[CaughtKernel, ...]


_caught: list[CaughtKernel] = []


def install(device: Device) -> None:
    """Have Inductor generate code for `device` in the rest of this process."""
    minor = tuple(int(part) for part in torch.__version__.split(".")[:2])
    first, last = (tuple(map(int, version.split("."))) for version in TESTED_TORCH)
    if not first <= minor <= last:
        warnings.warn(f"torch {torch.__version__}: tested with {TESTED_TORCH}", stacklevel=2)
    fake_torch_cuda(device)
    for name, value in [*vars(CudaInterface).items()]:  # which took torch.cuda's before
        if isinstance(value, staticmethod) and hasattr(torch.cuda, name):
            setattr(CudaInterface, name, staticmethod(getattr(torch.cuda, name)))
    CudaInterface.Worker.get_device_properties = staticmethod(torch.cuda.get_device_properties)
    fake_triton.install(device)
    TritonScheduling.define_kernel = _define_kernel
    triton_heuristics.cached_autotune = _configs_alone


def lower(
    function: Callable[..., Any], args: Sequence[torch.Tensor], settings: Mapping[str, Any]
) -> Lowered:
    """What Inductor makes of a function.

    Args:
        function: of tensors; it may call `torch.autograd.grad`.
        args: CPU tensors with values; the kernels are for their sizes, strides and dtypes.
        settings: of ``torch._inductor.config``.
    """
    graph = make_fx(function, select_decomp_table(), tracing_mode="real")(*args)
    _move(graph, torch.device("cpu"), torch.device("cuda", 0))
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    with mode:
        fakes = [
            torch.empty_strided(a.shape, a.stride(), dtype=a.dtype, device="cuda") for a in args
        ]
    _caught.clear()
    with ExitStack() as stack:
        for context in (
            inductor_config.patch({**_SETTINGS, **settings}),
            V.set_debug_handler(DebugContext()),
            tracing(TracingContext(mode)),
            V.set_fake_mode(mode),
            torch.no_grad(),
        ):
            stack.enter_context(context)
        _generate(graph, fakes, mode)
    return Lowered(graph, tuple(_caught))


def _generate(
    graph: torch.fx.GraphModule, fakes: Sequence[torch.Tensor], mode: FakeTensorMode
) -> None:
    """The second half of ``compile_fx_inner``; kernels come in through `_define_kernel`."""
    view_to_reshape(graph)
    FakeTensorProp(graph, mode=mode).propagate_dont_convert_inputs(*fakes)
    compile_fx._recursive_post_grad_passes(graph, is_inference=True)
    FakeTensorProp(graph, mode=mode).propagate_dont_convert_inputs(*fakes)
    lowering = GraphLowering(
        graph, example_inputs=fakes, shape_env=mode.shape_env, is_inference=True
    )
    with V.set_graph_handler(lowering):
        lowering.run(*fakes)
        lowering.codegen()


def sampled_values(
    graph: torch.fx.GraphModule, args: Sequence[torch.Tensor], names: frozenset[str]
) -> dict[str, torch.Tensor]:
    """The values of the named nodes where the graph is run on the CPU."""
    kept: dict[str, torch.Tensor] = {}

    class Run(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            value = super().run_node(n)
            if n.name in names:
                kept[n.name] = value
            return value

    _move(graph, torch.device("cuda", 0), torch.device("cpu"))
    with torch.no_grad():
        Run(graph).run(*args)
    _move(graph, torch.device("cpu"), torch.device("cuda", 0))
    return kept


def _move(graph: torch.fx.GraphModule, source: torch.device, target: torch.device) -> None:
    """Have the graph make its constants elsewhere."""

    def moved(arg: Any) -> Any:
        return target if isinstance(arg, torch.device) and arg == source else arg

    for node in graph.graph.nodes:
        node.args, node.kwargs = map_aggregate(node.args, moved), map_aggregate(node.kwargs, moved)
    graph.recompile()


# ---------------------------------------------------------------------------------- catching

_torch_define_kernel = TritonScheduling.define_kernel


def _define_kernel(self: Any, src_code: str, node_schedule: Any, kernel: Any) -> Any:
    """`TritonScheduling.define_kernel`, which sees the source and the kernel's arguments."""
    _caught.append(_catch(src_code, kernel))
    return _torch_define_kernel(self, src_code, node_schedule, kernel)


def _catch(src_code: str, kernel: Any) -> CaughtKernel:
    before, decorated = src_code.split("@triton_heuristics.", 1)
    call, function = decorated.split("@triton.jit\n", 1)
    helpers = "".join(before.partition("@triton.jit\n")[1:])  # what a scan combines with
    template, configs, meta = _evaluated(call)
    signature = kernel.args.python_argdefs()[2]
    buffers = tuple(_buffer(arg) for arg in signature if isinstance(arg, TensorArg))
    parameters = re.findall(r"(\w+)\s*(?::\s*(tl\.constexpr))?\s*[,)]", function.split(":\n", 1)[0])
    blocks = tuple(name for name, constant in parameters if constant)
    numels = {f"{axis}numel": int(size) for axis, size in kernel.numels.items()}
    listed = [buffer.name for buffer in buffers] + list(numels)
    plain = [name for name, constant in parameters if not constant]
    obstacle = ""
    if any(not isinstance(arg, TensorArg | SizeArg) for arg in signature):
        obstacle = "needs a workspace"
    elif meta.get("mutated_arg_names"):
        obstacle = "writes in place"
    elif plain != [name for name in listed if name in plain] or len(signature) > len(buffers):
        obstacle = "takes other arguments"
    elif any(set(config) != {*blocks, "num_warps", "num_stages"} for config in configs):
        obstacle = "is configured otherwise"
    return CaughtKernel(
        template=template,
        grid_type=meta.get("grid_type", ""),
        source=helpers
        + re.sub(r"^def \S+?\(", "@triton.jit\ndef fused_kernel(", function).rstrip()
        + "\n",
        buffers=buffers,
        numels={name: numels[name] for name in plain if name in numels},
        blocks=blocks,
        configs=configs,
        obstacle=obstacle,
    )


def _buffer(arg: TensorArg) -> Buffer:
    graph = V.graph
    name = graph.scheduler.mutation_real_name.get(arg.buffer, arg.buffer)
    layout = graph.get_buffer(name).get_layout()
    return Buffer(
        name=arg.name,
        is_output=arg.name.startswith("out_ptr"),
        size=tuple(map(int, layout.size)),
        stride=tuple(map(int, layout.stride)),
        dtype=graph.get_dtype(name),
        node=_node(name, tuple(map(int, layout.size)), graph.get_dtype(name)),
    )


def _node(name: str, size: tuple[int, ...], dtype: torch.dtype) -> torch.fx.Node | None:
    """The node whose value a buffer is: Inductor's own note of it, if the shape agrees."""
    graph: Any = V.graph
    if name in graph.graph_inputs:
        inputs: list[torch.fx.Node] = graph.module.graph.find_nodes(op="placeholder")
        return next(node for node in inputs if node.name == name)
    node: torch.fx.Node | None = graph.get_buffer(name).get_origin_node()
    value = node.meta.get("val") if node is not None else None
    same = isinstance(value, torch.Tensor) and tuple(value.shape) == size and value.dtype == dtype
    return node if same else None


def _evaluated(call: str) -> tuple[str, tuple[Mapping[str, int], ...], Mapping[str, Any]]:
    """Template, configurations and ``inductor_meta`` of a decorator's text."""
    template = call[: call.index("(")]
    names = {
        "triton_heuristics": triton_heuristics,
        "__file__": __file__,
        **{n: getattr(hints, n) for n in _HINTS},
    }
    configs, meta = eval(f"triton_heuristics.{call}", names)
    return template, configs, meta


_HINTS = ("AutotuneHint", "ReductionHint", "TileHint", "DeviceProperties")


def _configs_alone(
    size_hints: Any,  # noqa: ARG001 - Inductor's signature
    configs: Sequence[Any],
    *_: Any,
    inductor_meta: Mapping[str, Any] | None = None,
    **__: Any,
) -> Any:
    """`cached_autotune` that returns what it would decorate with."""
    listed = tuple(
        {**c.kwargs, "num_warps": c.num_warps, "num_stages": c.num_stages} for c in configs
    )
    return listed, inductor_meta or {}
