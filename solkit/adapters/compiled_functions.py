"""Run functions that `torch.compile` would compile, as Inductor's kernels, without a GPU.

A function is traced on fake CUDA tensors into one graph of decomposed aten calls. Inductor makes a
Python module of it, which calls its own Triton kernels and, for products and the like, PyTorch's.
That module then runs on the fake tensors, so that `fake_triton` records its kernels and whoever
watches operators sees the rest. Nothing is timed: of several configurations, the first is taken.

Needs `fake_cuda.install` and `fake_triton.install`. Patches are never undone: call it in a
throw-away child process. What Dynamo does is left out: a function has one graph, made for these
arguments, and gradients are not traced.
"""

# mypy: disable-error-code="no-untyped-call,attr-defined,method-assign"
# (Inductor's inside is untyped, and exports little)

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._inductor
import torch._inductor.config as inductor_config
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils._pytree import tree_flatten, tree_unflatten

from solkit.adapters import fake_cuda, inductor, launch_recording
from solkit.adapters.versions import warn_if_untested
from solkit.errors import UnsupportedError

_SETTINGS = {"compile_threads": 1, "force_disable_caches": True, "cpp_wrapper": False}


@dataclass(frozen=True, eq=False)
class Program:
    """Code that Inductor made of a function for some arguments.

    Attributes:
        call: takes a list of all tensors; returns the results that are tensors.
        lifted: tensors that the function holds itself, such as a module's weights.
        results: what the function returned, with places of tensors as `None`.
        structure: how the results are nested.
        remarks: on choices that Inductor would make by timing, each a sentence.
    """

    call: Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]
    lifted: tuple[torch.Tensor, ...]
    results: tuple[Any, ...]
    structure: Any
    remarks: tuple[str, ...] = ()

    def run(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Run it on tensors like those that it was made for."""
        for sentence in self.remarks:
            launch_recording.add_remark(sentence)
        with torch.no_grad():
            outputs = iter(self.call([*tensors, *self.lifted]))
        leaves = [next(outputs) if result is None else result for result in self.results]
        return tree_unflatten(leaves, self.structure)


def compile_function(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Program:
    """Compile a function with Inductor for these arguments.

    Call it outside of all dispatch modes.

    Args:
        function: of fake tensors and other values.
        args: to call it with.
        kwargs: likewise.
        settings: of ``torch._inductor.config``.

    Raises:
        UnsupportedError: it launches kernels itself, so there is no graph of it.
    """
    _prepare_inductor()
    graph, lifted, results, structure = _trace_function(function, args, kwargs)
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
    every = {**_SETTINGS, **settings}
    source = inductor.generate_module(graph, [*tensors, *lifted], every)
    remarks = tuple(
        f"Inductor would time {count} configurations of its template {name}, and PyTorch's own "
        "product: shown is one"
        for name, count in inductor.offered_templates()
    )
    program = Program(
        _load_generated(source, every), tuple(lifted), tuple(results), structure, remarks
    )
    with fake_cuda.fake_tensors(), launch_recording.recording_launches({}):
        program.run(tensors)  # fails here, before anything is recorded
    return program


@functools.cache
def _prepare_inductor() -> None:
    warn_if_untested("torch", torch.__version__)
    folder = Path(tempfile.gettempdir(), f"solkit-inductor-{os.getuid()}")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    inductor.prepare()
    CachingAutotuner.precompile = _compile_nothing
    CachingAutotuner.run = _launch_first_config
    triton_helpers.set_driver_to_gpu = lambda: None


# -------------------------------------------------------------------------------- the graph


def _trace_function(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[torch.fx.GraphModule, list[torch.Tensor], list[Any], Any]:
    """Trace a graph; return its tensors besides the arguments', and the form of its results."""
    leaves, input_structure = tree_flatten((args, dict(kwargs)))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    captured: list[Any] = []

    def flat_function(*tensors: torch.Tensor) -> list[torch.Tensor]:
        filled = list(leaves)
        for at, tensor in zip(places, tensors, strict=True):
            filled[at] = tensor
        again, named = tree_unflatten(filled, input_structure)
        results, structure = tree_flatten(function(*again, **named))
        are_tensors = [isinstance(result, torch.Tensor) for result in results]
        captured[:] = [
            [None if tensor else result for tensor, result in zip(are_tensors, results)],
            structure,
        ]
        return [result for tensor, result in zip(are_tensors, results) if tensor]

    with ExitStack() as stack:
        stack.enter_context(fake_cuda.fake_tensors())
        stack.enter_context(torch.no_grad())
        stack.enter_context(preserve_node_meta())
        stack.enter_context(fake_cuda.extension_calls(_refuse_compiling))
        launched = stack.enter_context(launch_recording.recording_launches({}))
        pure = torch.func.functionalize(flat_function, remove="mutations_and_views")
        graph = make_fx(pure, select_decomp_table())(*(leaves[at] for at in places))
    if launched.launches:
        raise UnsupportedError("it launches a Triton kernel itself")
    return graph, inductor.lift_tensors(graph), *captured


def _refuse_compiling(*_: Any) -> Any:
    raise UnsupportedError("it calls a CUDA extension itself")


# ------------------------------------------------------------------------------- the module


def _load_generated(source: str, settings: dict[str, Any]) -> Any:
    """Return the ``call`` of a generated module, whose C++ helpers take fake tensors too."""
    guards = torch._C._dynamo.guards
    namespace: dict[str, Any] = {"__name__": "solkit_inductor"}
    with ExitStack() as stack:
        stack.enter_context(inductor_config.patch(settings))
        stack.enter_context(mock.patch.dict(os.environ))  # it sets Triton's cache
        for owner, name, fake in (
            (guards, "assert_size_stride", _check_nothing),
            (guards, "assert_alignment", _check_nothing),
            (guards, "_empty_strided_cuda", functools.partial(_empty_strided, "cuda")),
            (guards, "_empty_strided_cpu", functools.partial(_empty_strided, "cpu")),
            (guards, "_reinterpret_tensor", _reinterpreted),
            (torch._C, "_cuda_getCurrentRawStream", lambda _: 0),
        ):
            stack.enter_context(mock.patch.object(owner, name, fake, create=True))
        exec(compile(source, "<inductor>", "exec"), namespace)
    return namespace["call"]


def _check_nothing(*_: Any) -> None:
    """Fake tensors have the traced sizes."""


def _empty_strided(device: str, size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


def _reinterpreted(tensor: torch.Tensor, size: Any, stride: Any, offset: int = 0) -> torch.Tensor:
    return torch.as_strided(tensor, size, stride, int(tensor.storage_offset()) + offset)


def _compile_nothing(*_: Any, **__: Any) -> None:
    """`CachingAutotuner.precompile`: `fake_triton` compiles what is launched."""


_OPTIONS = ("launch_cooperative_grid", "launch_pdl")


def _launch_first_config(self: Any, *args: Any, stream: Any, **_: Any) -> None:  # noqa: ARG001
    """`CachingAutotuner.run`: launch the first configuration through Triton's own `run`."""
    config = self.configs[0]
    if len(self.configs) > 1:
        name, count = self.fn.__name__, len(self.configs)
        launch_recording.add_remark(
            f"Inductor would time {count} configurations of {name}: shown is one"
        )
    plain, grid = self._interpret_args_grid(args, config)
    constant = {p.name for p in self.fn.params if p.is_constexpr}
    names = [name for name in self.fn.arg_names if name not in constant]
    options = {name: self.triton_meta[name] for name in _OPTIONS if self.triton_meta.get(name)}
    self.fn.run(
        grid=grid,
        warmup=False,
        **dict(zip(names, plain, strict=False)),
        **config.kwargs,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        **options,
    )
