"""A reference as a graph of aten calls, and where each of its tensors comes from."""

# mypy: disable-error-code="no-untyped-call,attr-defined"
# (torch's tracing is untyped)

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch._inductor.decomposition import select_decomp_table
from torch._library.utils import lookup_op
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils._pytree import tree_flatten, tree_unflatten

from solkit.adapters.dispatch_modes import DispatchMode
from solkit.adapters.fake_cuda.attention import attention_shape
from solkit.adapters.inductor import lift_tensors
from solkit.errors import InputError, SolkitError

ATTENTION = "solkit_inductor.attention"
"""Replaces `scaled_dot_product_attention`, which asks a real GPU what it can do."""

_libraries: list[torch.library.Library] = []  # what is registered lives as long as its library


@dataclass(frozen=True, eq=False)
class Tensors:
    """Arguments of a function, and the tensors among them.

    Attributes:
        args, kwargs: the arguments.
        state: a module's parameters and buffers by name; the function takes them first.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    state: Mapping[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class Held:
    """A tensor that a function holds, which is neither an argument nor a parameter.

    Attributes:
        tensor: itself.
        value: what it holds, if that is known.
    """

    tensor: torch.Tensor
    value: torch.Tensor | None


@dataclass(frozen=True)
class Result:
    """A tensor among the results of a function.

    Attributes:
        place: among the tensors that the graph returns; or among its inputs, if it is one.
        is_input: whether it is one of the inputs, perhaps changed in place.
    """

    place: int
    is_input: bool


@dataclass(frozen=True, eq=False)
class Traced:
    """A traced function.

    Attributes:
        graph: takes the tensors of the arguments, the state, then what is held.
        inputs: those tensors, in that order.
        held: the last of them.
        results: what the function returned, nested as it was, with a `Result` for each tensor.
        returned: the tensors that the graph returns.
        written: places of the inputs that it writes.
    """

    graph: torch.fx.GraphModule
    inputs: tuple[torch.Tensor, ...]
    held: tuple[Held, ...]
    results: Any
    returned: tuple[torch.Tensor, ...] = ()
    written: tuple[int, ...] = ()


def trace_function(function: Callable[..., Any], arguments: Tensors) -> Traced:
    """Trace a function of fake tensors; see `Tensors` for what it takes.

    Raises:
        InputError: it cannot be one graph: it branches on values, draws random numbers, calls too
            many operators, or writes memory that several of its arguments share.
    """
    leaves, form = tree_flatten((arguments.args, dict(arguments.kwargs)))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    names = list(arguments.state)
    outputs: list[Any] = []

    def flat_function(*tensors: torch.Tensor) -> list[torch.Tensor]:
        filled = list(leaves)
        for at, tensor in zip(places, tensors, strict=False):
            filled[at] = tensor
        args, kwargs = tree_unflatten(filled, form)
        state = dict(zip(names, tensors[len(places) :], strict=True))
        with _RefusingCalls():
            results, structure = tree_flatten(function(state, *args, **kwargs))
        computed: list[torch.Tensor] = []
        outputs[:] = [
            tree_unflatten([_describe_result(r, tensors, computed) for r in results], structure)
        ]
        return computed

    inputs = _distinct([leaves[at] for at in places]) + [
        tensor.detach() for tensor in arguments.state.values()
    ]
    pure = torch.func.functionalize(flat_function, remove="mutations")
    with (
        torch.no_grad(),
        preserve_node_meta(),
        _keeping_attention(),
        _inlining_constants(),
        _explaining_failure(),
    ):
        _decompose_in_place()
        graph = make_fx(pure, select_decomp_table())(*inputs)
    graph.graph.eliminate_dead_code()
    _refuse_random(graph)
    _keep_strides(graph)
    lifted = lift_tensors(graph)
    every = (*inputs, *lifted)
    returned: Any = graph.graph.output_node().args[0]
    values = tuple(node.meta["val"] for node in returned)
    written = tuple(_written_places(graph))
    _refuse_shared(every, written)
    held = tuple(Held(tensor, getattr(tensor, "constant", None)) for tensor in lifted)
    return Traced(graph, every, held, outputs[0], values, written)


@functools.cache
def _decompose_in_place() -> None:
    """Let tracing decompose operators that write an argument, as `|=`, `square_` and `clip_`.

    Torch's `functionalize` knows those with kernels of their own. It takes the composite ones for
    operators of an extension, and refuses them. `torch.compile` decomposes them, too.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    library = torch.library.Library("aten", "IMPL", "Functionalize")
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"):
        if name.startswith("aten::") and not has_kernel(name, "Functionalize"):
            operator = lookup_op(name)
            if operator._schema.is_mutable:
                library.impl(name, operator.decompose)
    _libraries.append(library)


def _distinct(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors of the same memory, each another: one may be several arguments."""
    first = {id(tensor): place for place, tensor in reversed(list(enumerate(tensors)))}
    return [
        tensor if first[id(tensor)] == place else tensor.detach()
        for place, tensor in enumerate(tensors)
    ]


def _refuse_shared(inputs: Sequence[torch.Tensor], written: Sequence[int]) -> None:
    """Refuse writes to memory of another input: a graph reads that as it was."""
    memory = [tensor.untyped_storage()._cdata for tensor in inputs]
    if any(memory.count(memory[place]) > 1 for place in written):
        raise InputError("it writes memory that several of its arguments share")


def _written_places(graph: torch.fx.GraphModule) -> Iterator[int]:
    """Yield the places of the inputs that a graph writes: at its end, by copies."""
    nodes = list(graph.graph.nodes)
    places = {node: at for at, node in enumerate(n for n in nodes if n.op == "placeholder")}
    for node in nodes:
        if node.target is torch.ops.aten.copy_.default and node.args[0] in places:
            yield places[node.args[0]]


def _describe_result(
    result: Any, inputs: Sequence[torch.Tensor], computed: list[torch.Tensor]
) -> Any:
    """Return a result, or where its tensor is; a new one joins `computed`."""
    if not isinstance(result, torch.Tensor):
        return result
    for place, tensor in enumerate(inputs):
        if tensor is result:
            return Result(place, is_input=True)
    computed.append(result)
    return Result(len(computed) - 1, is_input=False)


@contextlib.contextmanager
def _explaining_failure() -> Iterator[None]:
    """Say why there is no graph."""
    try:
        yield
    except DataDependentOutputException as error:
        raise InputError(f"its program depends on values: {error.func}") from error
    except DynamicOutputShapeException as error:
        raise InputError(f"a size depends on values: {error.func}") from error
    except SolkitError:
        raise
    except Exception as error:  # of the user's code, or of an operator
        first = (str(error).strip().splitlines() or [""])[0]
        message = f"tracing it raises {type(error).__name__}: {first}"
        raise InputError(message) from error


_MOST_CALLS = 8000
"""Operators of a program. Inductor takes 5 ms or more for each, so more of them take over 40 s."""


class _RefusingCalls(DispatchMode):
    """Refuse a function's calls as early as they show that there will be no program."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._calls += 1
        if self._calls > _MOST_CALLS:
            raise InputError(
                f"it calls over {_MOST_CALLS} operators, as where a loop over steps is unrolled: "
                "Inductor would take minutes"
            )
        if any(isinstance(value, torch._C.Generator) for value in (kwargs or {}).values()):
            raise _random_error(func)  # a graph cannot hold a generator
        return func(*args, **(kwargs or {}))


def _refuse_random(graph: torch.fx.GraphModule) -> None:
    for node in graph.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise _random_error(node.target)


def _random_error(operator: Any) -> InputError:
    return InputError(
        f"it draws random numbers ({operator}), which a kernel cannot draw alike: "
        "leave dropout out, or set its probability to 0"
    )


def _keep_strides(graph: torch.fx.GraphModule) -> None:
    """Forbid Inductor to pad results, as `torch.compile` does."""
    output = graph.graph.output_node()
    returned: Any = output.args[0]
    values = [getattr(node, "meta", {}).get("val") for node in returned]
    output.meta["user_visible_output_idxs"] = list(range(len(values)))
    output.meta["original_output_strides"] = [
        value.stride() if isinstance(value, torch.Tensor) else None for value in values
    ]


# ------------------------------------------------------------------------ numbers in the program

_torch_tensor = torch.tensor
_MOST_NUMBERS = 64


@contextlib.contextmanager
def _inlining_constants() -> Iterator[None]:
    """Make `torch.tensor` of a few numbers a part of the graph, which Inductor writes inline."""
    with mock.patch.object(torch, "tensor", _constant_tensor):
        yield


def _constant_tensor(
    data: Any, *, dtype: Any = None, device: Any = None, **options: Any
) -> torch.Tensor:
    numbers = tree_flatten(data)[0]
    plain = all(isinstance(number, (bool, int, float)) for number in numbers)
    if options or not plain or not 0 < len(numbers) <= _MOST_NUMBERS:
        return _torch_tensor(data, dtype=dtype, device=device, **options)
    kind = dtype or _dtype_of(numbers)
    elements = [torch.full((), number, dtype=kind, device=device) for number in numbers]
    return torch.stack(elements).view(np.shape(data)) if np.shape(data) else elements[0]


def _dtype_of(numbers: Sequence[Any]) -> torch.dtype:
    if all(isinstance(number, bool) for number in numbers):
        return torch.bool
    floating = any(isinstance(number, float) for number in numbers)
    return torch.get_default_dtype() if floating else torch.int64


# ---------------------------------------------------------------------------------- attention


@functools.cache
def _define_attention() -> None:
    namespace, name = ATTENTION.split(".")
    library = torch.library.Library(namespace, "DEF")
    library.define(
        f"{name}(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, float dropout_p, "
        "bool is_causal, float? scale, bool enable_gqa) -> Tensor"
    )
    torch.library.register_fake(f"{namespace}::{name}", attention_shape, lib=library)
    _libraries.append(library)


def _call_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    if dropout_p:
        raise InputError(
            "it draws random numbers (dropout in scaled_dot_product_attention), which a kernel "
            "cannot draw alike: set dropout_p to 0"
        )
    tensors: Sequence[Any] = (query, key, value, attn_mask)
    attention = torch.ops.solkit_inductor.attention
    result: torch.Tensor = attention(*tensors, dropout_p, is_causal, scale, enable_gqa)
    return result


@contextlib.contextmanager
def _keeping_attention() -> Iterator[None]:
    """Keep attention one operator."""
    _define_attention()
    with mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", _call_attention):
        yield
