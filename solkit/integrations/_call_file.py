"""The kernel file of a captured launch, as text."""

from __future__ import annotations

import ast
import importlib
import inspect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from solkit.adapters.live_calls import RequestedLaunch
from solkit.core.parsing import syntax_tree
from solkit.errors import UnsupportedError

__all__ = ["Grids", "kernel_file_text"]

_MOST_LISTED = 4096  # integers that are written into the file as they are
_KEPT = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.FunctionDef)


@dataclass(frozen=True)
class Grids:
    """The grid for each choice of the parameters that it reads."""

    names: tuple[str, ...]
    table: Mapping[tuple[int, ...], tuple[int, ...]]


_HEAD = '''"""A launch of {name}, captured by solkit.tune_call.

The reference is the launch with its own parameters. Inputs are drawn anew, in the layouts of the
call's own tensors.
"""

import torch
{imports}

SPACE = {space}
OUTPUTS = {outputs}
GRIDS = {grids}  # by {grid_names}


def reference({parameters}):
    kernel({parameters})


def inputs(device="cuda"):
    def floats(shape, strides, dtype, mean, std):
        drawn = torch.empty_strided(shape, strides, dtype=dtype, device=device)
        return drawn.copy_(torch.randn(shape, device=device) * std + mean)

    def integers(shape, strides, dtype, low, high):
        drawn = torch.empty_strided(shape, strides, dtype=dtype, device=device)
        return drawn.copy_(torch.randint(low, high + 1, shape, device=device))

    def listed(shape, strides, dtype, values):
        drawn = torch.empty_strided(shape, strides, dtype=dtype, device=device)
        return drawn.copy_(torch.tensor(values, device=device).reshape(shape))

{inputs}
    return {parameters},


def valid(params, shape):
    return {point} in GRIDS


def kernel({parameters}, *, {defaults}):
    {function}[GRIDS[{key}]](
        {passed},
    )
'''


def kernel_file_text(
    launch: RequestedLaunch, space: Mapping[str, Sequence[int]], grids: Grids
) -> str:
    """Return the kernel file of a launch.

    Args:
        launch: the launch.
        space: what may vary, each parameter's own value first.
        grids: the grid for each choice.

    Raises:
        UnsupportedError: an argument is neither tensor, number nor string; or the kernel's module
            cannot be imported elsewhere.
    """
    tensors = {name: v for name, v in launch.values.items() if isinstance(v, torch.Tensor)}
    if not tensors:
        raise UnsupportedError(f"{launch.name} takes no tensor: nothing of it can be verified")
    outputs = tuple(name for name in tensors if launch.may_write(name))
    if not outputs:
        raise UnsupportedError(f"{launch.name} writes to no tensor that it is given")
    imports, function = _kernel_origin(launch)
    fixed = {n: _literal_text(launch, n, v) for n, v in launch.values.items() if n not in tensors}
    fixed |= {n: _literal_text(launch, n, v) for n, v in launch.options.items()}
    passed = [f"{n}={n}" for n in tensors]
    passed += [f"{n}={n}" if n in space else f"{n}={text}" for n, text in fixed.items()]
    return _HEAD.format(
        name=launch.name,
        imports=imports,
        space=dict(space),
        outputs=outputs,
        grids=dict(grids.table),
        grid_names=", ".join(grids.names) or "nothing: it is always the same",
        parameters=", ".join(tensors),
        inputs="\n".join(f"    {line}" for line in _inputs_text(tensors)),
        point=_tuple_text(f'params["{n}"]' for n in grids.names),
        key=_tuple_text(grids.names),
        defaults=", ".join(f"{n}={listed[0]}" for n, listed in space.items()),
        function=function,
        passed=",\n        ".join(passed),
    )


def _tuple_text(parts: Iterable[str]) -> str:
    return "(" + "".join(f"{part}, " for part in parts) + ")"


def _literal_text(launch: RequestedLaunch, name: str, value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, torch.dtype):
        return str(value)
    dtype = getattr(value, "name", None)
    if type(value).__module__.startswith("triton.language") and dtype is not None:
        return f"__import__('triton').language.{_language_name(dtype)}"
    raise UnsupportedError(
        f"{launch.name}: the argument {name} is a {type(value).__name__}, which cannot be written "
        "into a kernel file; expected a tensor, a number, a string or a dtype"
    )


def _language_name(dtype: str) -> str:
    """Triton's name of a dtype, e.g. ``"bfloat16"`` of ``"bf16"``."""
    import triton.language as tl

    named = (n for n, v in vars(tl).items() if isinstance(v, tl.dtype) and v.name == dtype)
    return str(next(named))


# ------------------------------------------------------------------------------------------ inputs


def _inputs_text(tensors: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """Yield a line per argument; those that are one tensor, or share a storage, still do."""
    whole: dict[int, str] = {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage().data_ptr()
        owner = whole.setdefault(storage, name)
        if owner == name:
            yield f"{name} = {_random_integers(tensor)}"
            continue
        first = tensors[owner]
        same = first.dtype, first.shape, first.stride(), first.storage_offset()
        if same != (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()):
            raise UnsupportedError(
                f"the arguments {owner} and {name} are different views of one tensor"
            )
        yield f"{name} = {owner}"


def _random_integers(tensor: torch.Tensor) -> str:
    layout = f"{tuple(tensor.shape)}, {tuple(tensor.stride())}, {tensor.dtype}"
    if tensor.dtype.is_floating_point:
        mean, std = _mean_and_deviation(tensor)
        return f"floats({layout}, {mean!r}, {std!r})"
    if tensor.dtype.is_complex:
        raise UnsupportedError("complex tensors are not supported")
    if tensor.numel() <= _MOST_LISTED:
        values = tensor.detach().cpu().reshape(-1).tolist()
        return f"listed({layout}, {values})"
    low, high = int(tensor.min()), int(tensor.max())
    return f"integers({layout}, {low}, {high})"


def _mean_and_deviation(tensor: torch.Tensor) -> tuple[float, float]:
    """Mean and standard deviation; 0 and 1 if they are not finite, as of memory never written."""
    values = tensor.detach().double() if tensor.numel() else torch.zeros(1)
    mean, std = float(values.mean()), float(values.std(correction=0))
    if not (math.isfinite(mean) and math.isfinite(std) and abs(mean) < 1e4 and std < 1e4):
        return 0.0, 1.0
    return mean, std


# ---------------------------------------------------------------------------------- the kernel


def _kernel_origin(launch: RequestedLaunch) -> tuple[str, str]:
    """Return the lines that import the kernel or copy it from a script, and its name there."""
    python = launch.kernel.fn
    module, name = python.__module__, python.__qualname__
    try:
        imported = importlib.import_module(module) if module != "__main__" else None
        wrapped = getattr(imported, name, None)
        while wrapped is not None and wrapped is not launch.kernel:
            wrapped = getattr(wrapped, "fn", None)
    except ImportError:
        wrapped = None
    if wrapped is launch.kernel:
        return _imported_kernel(module, name), "jit_function"
    return _copied_definitions(launch), launch.name


def _imported_kernel(module: str, name: str) -> str:
    return (
        f"from {module} import {name} as jit_function\n"
        "\nwhile type(jit_function).__name__ in ('Autotuner', 'Heuristics'):\n"
        "    jit_function = jit_function.fn"
    )


def _copied_definitions(launch: RequestedLaunch) -> str:
    """Return the definitions at a script's top level that a kernel can use."""
    try:
        file = inspect.getsourcefile(launch.kernel.fn)
        text = Path(file or "").read_text(encoding="utf-8")
        statements = syntax_tree(text).body
    except (OSError, TypeError, SyntaxError, UnicodeDecodeError):
        raise UnsupportedError(
            f"the source of {launch.name} cannot be read: put the kernel into a file"
        ) from None
    kept = [
        statement
        for statement in statements
        if isinstance(statement, _KEPT) and _is_plain_statement(statement)
    ]
    return "\n\n".join(ast.unparse(statement) for statement in kept)


def _is_plain_statement(statement: ast.stmt) -> bool:
    """Return an import, a constant, or a ``@triton.jit`` function without autotuning."""
    if isinstance(statement, ast.FunctionDef):
        jit = [d for d in statement.decorator_list if "jit" in ast.unparse(d)]
        statement.decorator_list = jit
        return bool(jit)
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        value = statement.value
        if isinstance(value, ast.Call):
            return ast.unparse(value.func).endswith("constexpr")
        return isinstance(value, ast.Constant)
    return True
