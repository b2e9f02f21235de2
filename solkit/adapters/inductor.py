"""Catch the Triton kernels that Inductor makes of a function, without a GPU.

With `inductor_text`, `inductor_program` and `compiled_functions` all that touches
``torch._inductor``. Patches are never undone: call it in a throw-away child process.

A function is traced on CPU tensors into a graph of decomposed aten calls, as by Inductor's front
end. The graph then gets fake CUDA tensors and is lowered for a `Device`. Passes on the joint graph
are left out: they query a real GPU. Where Inductor would time templates and configurations, the
last template is taken with its middle configuration; the others are reported.
"""

# mypy: disable-error-code="no-untyped-call,attr-defined,method-assign"
# (Inductor's inside is untyped, and exports little)

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import sympy
import torch
import torch._inductor.config as inductor_config
import triton
from torch._guards import TracingContext, tracing
from torch._inductor import compile_fx
from torch._inductor.codegen.common import SizeArg, TensorArg, WorkspaceArg, WorkspaceZeroMode
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.debug import DebugContext
from torch._inductor.fx_passes.post_grad import view_to_reshape
from torch._inductor.graph import GraphLowering
from torch._inductor.select_algorithm import TritonTemplateCaller, add_preprocessing_fn
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from solkit.adapters import fake_triton
from solkit.adapters.fake_cuda.graphs import fake_graphs
from solkit.adapters.fake_cuda.torch_cuda import fake_torch_cuda, update_device_interface
from solkit.adapters.inductor_text import AXES, parameters, read_kernel, write_grid
from solkit.adapters.versions import warn_if_untested
from solkit.core import Device

_SETTINGS: Mapping[str, Any] = {
    "compile_threads": 1,
    "force_disable_caches": True,
    "inplace_buffers": False,  # an output that overwrites an input could be timed only once
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
        node: the graph's node whose value it holds, if any.
    """

    name: str
    is_output: bool
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    node: torch.fx.Node | None


@dataclass(frozen=True, eq=False)
class Partial:
    """A result in parts: each program writes a row of float32 into the workspace.

    Attributes:
        buffer: the whole result.
        reduction: of the parts: ``"sum"``, ``"max"``, ``"min"`` or ``"prod"``.
    """

    buffer: Buffer
    reduction: str


@dataclass(frozen=True)
class Workspace:
    """Memory that a kernel needs besides its tensors.

    Attributes:
        name: of the kernel's parameter.
        elements: their number.
        dtype: of an element.
        zeroed: whether it must be zero when the kernel starts.
    """

    name: str
    elements: int
    dtype: torch.dtype
    zeroed: bool


@dataclass(frozen=True, eq=False)
class CaughtKernel:
    """One generated kernel.

    Attributes:
        template: its template, e.g. ``"mm"``; else the heuristic of Inductor that chooses its
            configuration, e.g. ``"reduction"``.
        grid: the number of programs along each axis, as expressions of `blocks`; empty if unknown.
        axes: the tensor axis divided along each axis of the grid, e.g. ``("x", "y")``.
        source: the text of the function ``fused_kernel``, with its decorator and the functions that
            it calls.
        buffers: its first parameters, in order.
        workspaces: the next parameters.
        partials: the results whose parts the last workspace holds after the run.
        numels: the next parameters, with their values: ``xnumel``, ``r0_numel`` …
        blocks: the constants that a configuration gives, e.g. ``("XBLOCK",)``.
        configs: the configurations that Inductor would try, first choice first, with warps and
            stages.
        constants: the template's constants.
        cooperative: whether its programs wait for each other, so all must be resident.
        obstacle: why it cannot be launched by itself; empty if it can.
    """

    template: str
    grid: tuple[str, ...]
    axes: tuple[str, ...]
    source: str
    buffers: tuple[Buffer, ...]
    workspaces: tuple[Workspace, ...]
    partials: tuple[Partial, ...]
    numels: Mapping[str, int]
    blocks: tuple[str, ...]
    configs: tuple[Mapping[str, int], ...]
    constants: Mapping[str, Any]
    cooperative: bool
    obstacle: str

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The buffers that it reads."""
        return tuple(buffer for buffer in self.buffers if not buffer.is_output)

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """The buffers that it writes."""
        written = tuple(buffer for buffer in self.buffers if buffer.is_output)
        return written + tuple(partial.buffer for partial in self.partials)


@dataclass(frozen=True, eq=False)
class TemplateLaunch:
    """Launch of a kernel that a template made.

    Attributes:
        grid: as of `CaughtKernel`.
        operands: what it multiplies, whether loaded or computed in the kernel.
    """

    grid: tuple[str, ...]
    operands: tuple[Buffer, ...]


_caught: list[CaughtKernel] = []
_launched: dict[str, TemplateLaunch] = {}


def install(device: Device) -> None:
    """Make Inductor generate code for `device` in the rest of this process."""
    warn_if_untested("torch", torch.__version__)
    torch.set_float32_matmul_precision("high")  # as most who train do
    fake_torch_cuda(device)
    fake_graphs()
    prepare()
    fake_triton.install(device)
    TritonScheduling.define_kernel = _define_kernel


def prepare() -> None:
    """Let Inductor ask the fake `torch.cuda`, and choose without timing."""
    update_device_interface()
    add_preprocessing_fn(_one_choice)
    if TritonScheduling.define_kernel is _torch_define_kernel:
        TritonScheduling.define_kernel = _note_template


def kernels_of_graph(
    graph: torch.fx.GraphModule, args: Sequence[torch.Tensor], settings: Mapping[str, Any]
) -> tuple[CaughtKernel, ...]:
    """Return the kernels that Inductor makes of a graph, in launch order.

    Args:
        graph: of decomposed aten calls on ``cuda``.
        args: tensors with the sizes, strides and dtypes of its inputs.
        settings: of ``torch._inductor.config``.
    """
    _caught.clear()
    generate_module(graph, args, {**_SETTINGS, **settings})  # `_define_kernel` catches them
    return tuple(_caught)


def lift_tensors(graph: torch.fx.GraphModule) -> list[torch.Tensor]:
    """Make the tensors that a graph holds its last arguments, each once, and return them."""
    nodes = graph.graph
    lifted: dict[int, tuple[torch.Tensor, torch.fx.Node]] = {}
    first = next(node for node in nodes.nodes if node.op != "placeholder")
    for node in [node for node in nodes.nodes if node.op == "get_attr"]:
        tensor = getattr(graph, str(node.target))
        if not isinstance(tensor, torch.Tensor):
            continue
        if id(tensor) not in lifted:
            with nodes.inserting_before(first):
                placeholder = nodes.placeholder(f"held_{len(lifted)}")
            placeholder.meta["val"] = tensor
            lifted[id(tensor)] = tensor, placeholder
        node.replace_all_uses_with(lifted[id(tensor)][1])
    nodes.eliminate_dead_code()
    graph.recompile()
    return [tensor for tensor, _ in lifted.values()]


def generate_module(
    graph: torch.fx.GraphModule, args: Sequence[torch.Tensor], settings: dict[str, Any]
) -> str:
    """Return the Python module that Inductor makes of a graph: kernels, and a function ``call``.

    Args:
        graph: of decomposed aten calls.
        args: tensors with the sizes, strides and dtypes of its inputs.
        settings: of ``torch._inductor.config``.
    """
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    with mode:
        fakes = [
            torch.empty_strided(a.shape, a.stride(), dtype=a.dtype, device="cuda") for a in args
        ]
    _offers.clear()
    _launched.clear()
    with ExitStack() as stack:
        for context in (
            inductor_config.patch(settings),
            V.set_debug_handler(DebugContext()),
            tracing(TracingContext(mode)),
            V.set_fake_mode(mode),
            torch.no_grad(),
        ):
            stack.enter_context(context)
        return _compile_inner(graph, fakes, mode)


def _compile_inner(
    graph: torch.fx.GraphModule, fakes: Sequence[torch.Tensor], mode: FakeTensorMode
) -> str:
    """Return the second half of ``compile_fx_inner``."""
    view_to_reshape(graph)
    FakeTensorProp(graph, mode=mode).propagate_dont_convert_inputs(*fakes)
    compile_fx._recursive_post_grad_passes(graph, is_inference=True)
    FakeTensorProp(graph, mode=mode).propagate_dont_convert_inputs(*fakes)
    lowering = GraphLowering(
        graph, example_inputs=fakes, shape_env=mode.shape_env, is_inference=True
    )
    with V.set_graph_handler(lowering):
        lowering.run(*fakes)
        code: str = lowering.codegen()[0].value
    return code


# ---------------------------------------------------------------------------------- choosing


@dataclass(frozen=True)
class _Offer:
    """A template that Inductor would try, and its constants, the chosen ones first."""

    template: str
    configs: tuple[Mapping[str, Any], ...]


_offers: dict[Callable[..., Any], _Offer] = {}  # by the chosen one's renderer


def _one_choice(choices: list[Any]) -> list[Any]:
    """Leave Inductor one choice, so that it times none."""
    written = [choice for choice in choices if isinstance(choice, TritonTemplateCaller)]
    if not written:
        return choices
    template = _template_name(written[-1])
    alike = [choice for choice in written if _template_name(choice) == template]
    chosen = alike.pop(len(alike) // 2)
    configs = tuple(eval(f"dict({choice.description})") for choice in (chosen, *alike))
    _offers[chosen.make_kernel_render] = _Offer(template, configs)
    return [chosen]


def offered_templates() -> list[tuple[str, int]]:
    """Return the templates of the last generated module, with their numbers of configurations."""
    return [(offer.template, len(offer.configs)) for offer in _offers.values()]


def _template_name(choice: Any) -> str:
    """``"mm"`` of ``"triton_mm_17"``."""
    return str(choice.name).removeprefix("triton_").rstrip("0123456789").rstrip("_")


# ---------------------------------------------------------------------------------- catching

_torch_define_kernel = TritonScheduling.define_kernel


def _define_kernel(self: Any, src_code: str, node_schedule: Any, kernel: Any) -> Any:
    """`TritonScheduling.define_kernel`, which gets the source and the kernel's arguments."""
    nodes = [getattr(entry, "node", None) for entry in node_schedule]  # some entries are markers
    renders = [getattr(node, "make_kernel_render", None) for node in nodes]
    offer = next((_offers[render] for render in renders if render in _offers), None)
    _caught.append(_catch_kernel(src_code, kernel, offer))
    return _torch_define_kernel(self, src_code, node_schedule, kernel)


def _note_template(self: Any, src_code: str, node_schedule: Any, kernel: Any) -> Any:
    """`TritonScheduling.define_kernel`, which notes how templates are launched."""
    name = _torch_define_kernel(self, src_code, node_schedule, kernel)
    if hasattr(kernel, "grid_fn"):
        read = read_kernel(src_code)
        blocks = [name for name, constant in parameters(read.function) if constant]
        operands = tuple(
            Buffer(
                name=node.get_name(),
                is_output=False,
                size=tuple(map(int, node.get_size())),
                stride=tuple(map(int, node.get_stride())),
                dtype=node.get_dtype(),
                node=None,
            )
            for node in kernel.input_nodes
        )
        _launched[name] = TemplateLaunch(_template_grid(kernel, blocks), operands)
    return name


def template_launches() -> Mapping[str, TemplateLaunch]:
    """Return how the kernels of the last generated module are launched that templates made."""
    return dict(_launched)


def _catch_kernel(src_code: str, kernel: Any, offer: _Offer | None) -> CaughtKernel:
    read = read_kernel(src_code)
    template, configs, meta, function = read.template, read.configs, read.meta, read.function
    if offer is not None:
        template, configs = offer.template, offer.configs
    blocks = tuple(name for name, constant in parameters(function) if constant)
    names = {*blocks, "num_warps", "num_stages"}
    signature = kernel.args.python_argdefs()[2]
    numels = {f"{axis}numel": int(size) for axis, size in getattr(kernel, "numels", {}).items()}
    plain = [name for name, constant in parameters(function) if not constant]
    return CaughtKernel(
        template=template,
        grid=_write_grid(kernel, meta, numels, blocks),
        axes=AXES.get(meta["grid_type"], ()),
        source=read.helpers
        + re.sub(r"^def \S+?\(", "@triton.jit\ndef fused_kernel(", function).rstrip()
        + "\n",
        buffers=tuple(_make_buffer(arg) for arg in signature if isinstance(arg, TensorArg)),
        workspaces=tuple(
            _make_workspace(arg) for arg in signature if isinstance(arg, WorkspaceArg)
        ),
        partials=tuple(
            Partial(_named_buffer(part.buffer_name, part.buffer_name, True), part.reduction_type)
            for part in getattr(kernel, "saved_partial_accumulate", ())
        ),
        numels={name: numels[name] for name in plain if name in numels},
        blocks=blocks,
        configs=tuple(
            {n: int(v) for n, v in {**read.written, **config}.items() if n in names}
            for config in configs
        ),
        constants=meta.get("config_args", {}),
        cooperative=read.cooperative,
        obstacle=_find_obstacle(signature, meta, plain, numels),
    )


def _find_obstacle(
    signature: Sequence[Any], meta: Mapping[str, Any], plain: Sequence[str], numels: Iterable[str]
) -> str:
    buffers = [arg for arg in signature if isinstance(arg, TensorArg | WorkspaceArg)]
    names = [arg.inner_name if isinstance(arg, WorkspaceArg) else arg.name for arg in buffers]
    workspaces = {arg.inner_name for arg in buffers if isinstance(arg, WorkspaceArg)}
    listed = [*names, *numels]
    if any(not isinstance(arg, TensorArg | WorkspaceArg | SizeArg) for arg in signature):
        return "takes something that is not a tensor"
    if set(meta.get("mutated_arg_names", ())) - workspaces:
        return "writes in place"
    if plain != [name for name in listed if name in plain] or len(signature) > len(buffers):
        return "takes other arguments"
    return ""


def _write_grid(
    kernel: Any, meta: Mapping[str, Any], numels: Mapping[str, int], blocks: Sequence[str]
) -> tuple[str, ...]:
    """Return the grid of the class in triton_heuristics.py, or of a template's function."""
    if meta["grid_type"] == "FixedGrid":
        return _template_grid(kernel, blocks)
    return write_grid(meta, numels, blocks)


def _template_grid(kernel: Any, blocks: Sequence[str]) -> tuple[str, ...]:
    """Return a template's grid function, called with symbols for its constants."""
    symbols = {name: sympy.Symbol(name, integer=True, positive=True) for name in blocks}
    function = kernel.grid_fn.fn
    helpers = {
        name: _symbolic_call(text, value)
        for name, text, value in (("cdiv", "triton.cdiv", triton.cdiv), *_EXTREMES)
        if name in inspect.signature(function).parameters
    }
    return tuple(map(str, function(*kernel.call_sizes, {**kernel.meta, **symbols}, **helpers)))


_EXTREMES = (("min", "min", min), ("max", "max", max))


def _symbolic_call(name: str, value: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
    """Return a function of numbers that stays symbolic if it gets a symbol."""

    def call_symbolic(first: Any, second: Any) -> Any:
        if all(sympy.sympify(operand).is_Integer for operand in (first, second)):
            return value(int(first), int(second))
        return sympy.Function(name)(first, second)

    return call_symbolic


def _make_workspace(arg: WorkspaceArg) -> Workspace:
    zeroed = arg.zero_mode is not WorkspaceZeroMode.UNINITIALIZED
    return Workspace(arg.inner_name, int(arg.count), arg.dtype, zeroed)


def _make_buffer(arg: TensorArg) -> Buffer:
    name = V.graph.scheduler.mutation_real_name.get(arg.buffer, arg.buffer)
    return _named_buffer(arg.name, name, arg.name.startswith("out_ptr"))


def _named_buffer(parameter: str, name: str, is_output: bool) -> Buffer:
    graph = V.graph
    layout = graph.get_buffer(name).get_layout()
    return Buffer(
        name=parameter,
        is_output=is_output,
        size=tuple(map(int, layout.size)),
        stride=tuple(map(int, layout.stride)),
        dtype=graph.get_dtype(name),
        node=_graph_node(name, tuple(map(int, layout.size)), graph.get_dtype(name)),
    )


def _graph_node(name: str, size: tuple[int, ...], dtype: torch.dtype) -> torch.fx.Node | None:
    """Return the node whose value a buffer holds: Inductor's, if shape and dtype agree."""
    graph: Any = V.graph
    if name in graph.graph_inputs:
        inputs: list[torch.fx.Node] = graph.module.graph.find_nodes(op="placeholder")
        return next(node for node in inputs if node.name == name)
    node: torch.fx.Node | None = graph.get_buffer(name).get_origin_node()
    value = node.meta.get("val") if node is not None else None
    same = isinstance(value, torch.Tensor) and tuple(value.shape) == size and value.dtype == dtype
    return node if same else None
