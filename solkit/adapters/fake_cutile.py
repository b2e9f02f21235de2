"""Capture cuTile's launches without a GPU.

``cuda.tile.launch`` is C code that needs the driver. It is replaced by one that describes the
arguments as cuTile would, and records the launch among Triton's: there is no second recording.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from solkit.adapters import launch_recording, versions
from solkit.adapters.cutile import (
    CutileKernel,
    Signature,
    array_constraint,
    common_constraint,
    compiler_options,
)
from solkit.adapters.cutile_configs import choose_config, cutile_tuner, kernel_name, result_of
from solkit.adapters.fake_cuda import user_line
from solkit.adapters.triton_compiler import Specialisation
from solkit.errors import UnsupportedError

Record = Callable[[Specialisation, tuple[int, int, int], Sequence[Any]], None]

_WARPS = 4
"""Of a block, until it is compiled: a warp group."""
_DTYPES = {
    **{torch.float16: ("float16", "fp16"), torch.bfloat16: ("bfloat16", "bf16")},
    **{torch.float32: ("float32", "fp32"), torch.float64: ("float64", "fp64")},
    **{torch.bool: ("bool_", "i1"), torch.uint8: ("uint8", "u8"), torch.int8: ("int8", "i8")},
    **{torch.int16: ("int16", "i16"), torch.int32: ("int32", "i32"), torch.int64: ("int64", "i64")},
    **{torch.uint16: ("uint16", "u16"), torch.uint32: ("uint32", "u32")},
    **{torch.uint64: ("uint64", "u64")},
    **{torch.float8_e4m3fn: ("float8_e4m3fn", "fp8e4nv")},
    **{torch.float8_e5m2: ("float8_e5m2", "fp8e5")},
}
"""Names in cuTile and in Triton's notation."""

_kernels: dict[int, CutileKernel] = {}  # by cuTile's object, which they keep
_specialisations: dict[tuple[int, tuple[Any, ...]], Specialisation] = {}


def install(module: Any, record: Record) -> None:
    """Fake launches; `module` is ``cuda.tile``.

    Args:
        module: as it was imported.
        record: takes a kernel, a grid and the arguments.
    """
    versions.warn_if_untested("cuda-tile", importlib.metadata.version("cuda-tile"))
    module.launch = partial(_launch, record)
    tune: Any = importlib.import_module("cuda.tile.tune")
    tune.exhaustive_search, tune.is_faked = _search, True


def _launch(
    record: Record,
    stream: Any,
    grid: Sequence[int],
    kernel: Any,
    kernel_args: Sequence[Any],
    /,
    **options: Any,
) -> None:
    """``cuda.tile.launch``."""
    del stream, options
    steps = launch_recording.current_steps()
    if steps is not None:
        steps.mark_unrepeatable("cuTile compiles for the values that it gets")
        kernel_args, grid = steps.pin_values((kernel_args, grid))
    x, y, z = (*map(int, grid), 1, 1)[:3]
    args = tuple(kernel_args)
    record(_specialisation(kernel, args), (x, y, z), args)


def _search(
    search_space: Sequence[Any],
    stream: Any,
    grid_fn: Callable[[Any], Sequence[int]],
    kernel: Any,
    args_fn: Callable[[Any], Sequence[Any]],
    hints_fn: Callable[[Any], Mapping[str, Any]] | None = None,
    **options: Any,
) -> Any:
    """``cuda.tile.tune.exhaustive_search``: a configuration is chosen, none is timed."""
    del stream, grid_fn, args_fn, hints_fn, options
    seen, steps = launch_recording.current_recording(), launch_recording.current_steps()
    configs, name = list(search_space), kernel_name(kernel)
    if steps is not None:
        steps.mark_unrepeatable("cuda.tile.tune chooses by the parameters")
    config = choose_config(configs, seen.params if seen else {}, name)
    if seen is not None:
        seen.tuners.setdefault(name, cutile_tuner(configs))
    which = f"{len(configs)} configurations, showing {config}"
    launch_recording.add_remark(f"{user_line()}: cuda.tile.tune on {name}: {which}")
    return result_of(config)


def _specialisation(kernel: Any, args: Sequence[Any]) -> Specialisation:
    """Return the compiler's input for a launch; equal launches get the same object.

    Raises:
        UnsupportedError: an argument is of a kind that is not understood.
    """
    function = _kernels.setdefault(id(kernel), CutileKernel(kernel))
    annotated = kernel._annotated_function
    names = list(annotated.pysig.parameters)
    if len(names) != len(args):
        listed = ", ".join(names)
        raise TypeError(
            f"{function.__name__} takes {len(names)} arguments ({listed}), got {len(args)}"
        )
    parameters = [
        _parameter(name, arg, annotation)
        for name, arg, annotation in zip(names, args, annotated.parameter_annotations)
    ]
    key = id(kernel), tuple(parameter.key for parameter in parameters)
    if key not in _specialisations:
        _specialisations[key] = _make_specialisation(kernel, function, names, parameters)
    return _specialisations[key]


@dataclasses.dataclass(frozen=True)
class _Parameter:
    """One parameter of a launch.

    Attributes:
        kind: in Triton's notation; of a tuple, those of its parts.
        constraint: cuTile's.
        values: of its flat parameters in the IR; ``None`` where the launch passes them.
        constants: compile-time constants in it, by path.
        key: all that decides these.
    """

    kind: Any
    constraint: Any
    values: tuple[int | None, ...]
    constants: Mapping[tuple[int, ...], Any]
    key: tuple[Any, ...]


def _make_specialisation(
    kernel: Any, function: CutileKernel, names: Sequence[str], parameters: Sequence[_Parameter]
) -> Specialisation:
    major, minor = torch.cuda.get_device_capability()
    blocks = compiler_options(kernel, "num_ctas", f"sm_{major}{minor}") or 1
    values = tuple(value for parameter in parameters for value in parameter.values)
    constraints = tuple(parameter.constraint for parameter in parameters)
    return Specialisation(
        function,
        {name: parameter.kind for name, parameter in zip(names, parameters)},
        {
            (at, *path): value
            for at, parameter in enumerate(parameters)
            for path, value in parameter.constants.items()
        },
        {},
        {
            "num_warps": _WARPS,
            "num_stages": 1,
            "num_ctas": blocks,
            "signature": Signature(constraints, values),
        },
    )


def _parameter(name: str, arg: Any, annotation: Any) -> _Parameter:
    if isinstance(arg, tuple):
        return _tuple(name, arg, annotation)
    if isinstance(arg, list):
        return _list(name, arg, annotation)
    if getattr(annotation, "constant", False):
        return _constant(arg)
    if isinstance(arg, torch.Tensor):
        return _array(name, arg, annotation)
    if isinstance(arg, bool | int | float):
        return _scalar(arg, annotation)
    raise UnsupportedError(f"cuTile's argument {name} is a {type(arg).__name__}: not understood")


def _constant(value: Any) -> _Parameter:
    signature = importlib.import_module("cuda.tile.compilation")
    constraint = signature.ConstantConstraint(value)
    return _Parameter("constexpr", constraint, (), {(): value}, ("constant", type(value), value))


def _scalar(value: Any, annotation: Any) -> _Parameter:
    tile, signature = (importlib.import_module(f"cuda.tile{n}") for n in ("", ".compilation"))
    own = getattr(annotation, "scalar", None)
    if isinstance(value, bool):
        kind, dtype = "i1", tile.bool_
    elif isinstance(value, int):
        kind, dtype = "i32", tile.int32
    else:
        kind, dtype = "fp32", tile.float32
    dtype = own.dtype if own is not None else dtype
    kind = {"int64": "i64", "float64": "fp64"}.get(str(dtype), kind)
    return _Parameter(kind, signature.ScalarConstraint(dtype), (None,), {}, ("scalar", str(dtype)))


def _array(name: str, tensor: torch.Tensor, annotation: Any) -> _Parameter:
    if tensor.dtype not in _DTYPES:
        raise UnsupportedError(f"cuTile's argument {name} is of {tensor.dtype}: not understood")
    own, tritons = _DTYPES[tensor.dtype]
    shape, strides = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
    offset = int(tensor.storage_offset()) * tensor.element_size()
    constraint = array_constraint(
        getattr(importlib.import_module("cuda.tile"), own),
        shape,
        strides,
        offset,
        8 * tensor.element_size(),
        getattr(annotation, "array", None),
    )
    key = ("array", own, shape, strides, offset % 16)
    return _Parameter(f"*{tritons}", constraint, (None, *shape, *strides), {}, key)


def _list(name: str, arrays: list[Any], annotation: Any) -> _Parameter:
    """Describe a list of arrays, which a kernel reads from memory: where they are is not followed.

    Source: cuTile's cext/tile_kernel.cpp; what is assumed of an array must hold for all.
    """
    if not arrays or not all(isinstance(array, torch.Tensor) for array in arrays):
        raise UnsupportedError(f"cuTile's argument {name} is no list of tensors: not understood")
    own = getattr(getattr(annotation, "list", None), "element", None)
    parts = [_array(f"{name}[{n}]", array, None) for n, array in enumerate(arrays)]
    signature = importlib.import_module("cuda.tile.compilation._signature")
    element = common_constraint([part.constraint for part in parts], own)
    constraint = signature.ListConstraint(element, alias_groups=(), elements_may_alias=True)
    values = (None, len(arrays))
    return _Parameter("*i64", constraint, values, {}, ("list", *(part.key for part in parts)))


def _tuple(name: str, values: tuple[Any, ...], annotation: Any) -> _Parameter:
    repeated = getattr(annotation, "each", annotation)
    annotations = getattr(annotation, "items", None) or [repeated] * len(values)
    parts = [
        _parameter(f"{name}[{at}]", value, own)
        for at, (value, own) in enumerate(zip(values, annotations))
    ]
    signature = importlib.import_module("cuda.tile.compilation")
    constants = {
        (at, *path): value
        for at, part in enumerate(parts)
        for path, value in part.constants.items()
    }
    return _Parameter(
        tuple(part.kind for part in parts),
        signature.TupleConstraint([part.constraint for part in parts]),
        tuple(value for part in parts for value in part.values),
        constants,
        ("tuple", *(part.key for part in parts)),
    )
