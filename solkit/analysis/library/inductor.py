"""Functions of a candidate that `torch.compile` gave run as Inductor's kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten

from solkit.adapters import fake_cuda

if TYPE_CHECKING:
    from solkit.adapters.compiled_functions import Program

_INDUCTOR = ("inductor", None)
_IGNORED = "torch.compile was ignored, PyTorch's operators run one by one"
_KEPT = 64
"""Programs in memory; a function that needs more is compiled again."""

_programs: dict[Any, tuple[Callable[..., Any], Program]] = {}


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Compile the functions that are called inside, as far as they can be."""
    with fake_cuda.compiling(_call_with_inductor):
        yield


def _call_with_inductor(
    function: Callable[..., Any],
    options: Mapping[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call Inductor's kernels; where there are none, PyTorch's operators one by one."""
    if options.get("backend", None) not in _INDUCTOR or options.get("disable"):
        return function(*args, **kwargs)
    line = _user_line_of_call(function)
    try:
        program = _traced_program(function, options, args, kwargs)
    except Exception as error:  # torch may raise anything, and the user's code too
        why = str(error).strip().splitlines() or [type(error).__name__]
        with fake_cuda.placing_line(line):
            fake_cuda.report_guess(f"{_IGNORED}: {why[0]}")
        with fake_cuda.compiling(None):
            return function(*args, **kwargs)
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
    with fake_cuda.placing_line(line):
        return program.run(tensors)


def _user_line_of_call(function: Callable[..., Any]) -> str:
    """Return the user's line that calls a function, else that of its definition."""
    line = fake_cuda.user_line()
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        function = type(owner).forward
    code = getattr(function, "__code__", None)
    if line != "unknown line" or code is None:
        return line
    return f"{code.co_filename}:{code.co_firstlineno}"


def _traced_program(
    function: Callable[..., Any],
    options: Mapping[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Program:
    leaves, structure = tree_flatten((args, kwargs))
    key = id(function), repr(sorted(options.items())), str(structure), *map(_dependence, leaves)
    entry = _programs.get(key)
    if entry is not None and entry[0] is function:
        return entry[1]
    with _disable_current_modes(), fake_cuda.compiling(None):
        from solkit.adapters import compiled_functions  # takes seconds

        program = compiled_functions.compile_function(function, args, kwargs, _settings(options))
    if len(_programs) >= _KEPT:
        _programs.clear()
    _programs[key] = function, program
    return program


def _dependence(leaf: Any) -> Any:
    """Return what a program depends on of an argument."""
    if isinstance(leaf, torch.Tensor):
        return tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.device
    return leaf if isinstance(leaf, (bool, int, float, str, type(None))) else id(leaf)


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Inductor's settings: those of a mode, then the user's own."""
    settings: dict[str, Any] = {}
    if options.get("mode"):
        settings |= torch._inductor.list_mode_options(options["mode"])
    own = options.get("options") or {}
    return settings | {name.replace("-", "_"): value for name, value in own.items()}
