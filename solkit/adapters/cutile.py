"""Compile cuTile kernels for any GPU, and say what they do as Triton's GPU IR.

The only module that touches cuTile's compiler. It is asked for the tile IR and for a cubin: the
first tells loops, tiles and products, the second registers, shared memory and instructions.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import math
import re
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solkit.adapters import cubin, cutile_ir
from solkit.adapters.cubin import CubinError, Function
from solkit.adapters.cutile_exits import TileIrError
from solkit.adapters.cutile_ir import Machine
from solkit.adapters.foreign_kernels import ForeignKernel
from solkit.adapters.sass import Code, machine_code
from solkit.adapters.triton_compiler import Compiled, Specialisation, load_error
from solkit.adapters.triton_ptx import Widths
from solkit.core import Device
from solkit.core.kernel_programs import KernelFunction, KernelProgram
from solkit.errors import UnsupportedError

_LANES = 32
_BULK = ("UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED")
_ACCESSES = {"LDG": "load", "LD": "load", "STG": "store", "ST": "store", "LDGSTS": "load"}
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "32": 4, "64": 8, "128": 16, "256": 32}
_MOST_DIMENSIONS = 5  # cuTile's cext/tile_kernel.cpp: TMA_MAX_NDIM
_ALIGNED = 16
_STORES = ("store", "scatter", "atomic_")
_TARGET = re.compile(r"gpu-name|not supported|unsupported.*(arch|target|sm_)", re.IGNORECASE)


@dataclass(frozen=True)
class Signature:
    """Types and constants that cuTile compiles a kernel for.

    Attributes:
        constraints: its parameters, as cuTile describes them.
        values: of the parameters of its IR, which a launch fixes: shapes and strides of arrays;
            ``None`` for the others.
    """

    constraints: tuple[Any, ...]
    values: tuple[int | None, ...]


class CutileKernel(ForeignKernel):
    """A ``cuda.tile.kernel``.

    Args:
        kernel: the object.
    """

    language = "cuTile"

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.fn = kernel._pyfunc

    def compile(self, kernel: Specialisation, device: Device) -> Compiled:
        """See `ForeignKernel`."""
        if device.vendor != "NVIDIA":
            return Compiled(unread=f"cuTile makes no code for {device.name}")
        start, signature = time.perf_counter(), kernel.options["signature"]
        compiler = importlib.import_module("cuda.tile._compile")
        errors = importlib.import_module("cuda.tile._exception")
        architecture = compiler.format_sm_arch(*device.compute_capability)
        try:
            result = compiler.compile_tile(
                self.kernel._annotated_function,
                (_kernel_signature(self.__name__, signature),),
                architecture,
                self.kernel._compiler_options,
                return_final_ir=True,
            )
        except FileNotFoundError as error:  # of tileiras, which is a wheel of its own
            return Compiled(unread=f"{error}; pip install 'solkit[cutile]' brings it")
        except errors.TileError as error:
            return _failed(error, architecture)
        try:
            (function,) = cubin.parse_functions(result.cubin).values()
        except (CubinError, ValueError) as error:
            return Compiled(unread=f"the cubin of {self.__name__}: {error}")
        seconds = time.perf_counter() - start
        return _compiled(self.__name__, result, function, signature, device, seconds)

    def program(self) -> KernelProgram:
        """See `ForeignKernel`."""
        return KernelProgram(self.__name__, {self.__name__: KernelFunction(_source(self.fn))})

    def may_write(self, parameter: str) -> bool:
        """See `ForeignKernel`; what it passes to functions of the user's, these may write to."""
        try:
            tree = ast.parse(_source(self.fn))
        except SyntaxError:
            return True
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        return any(_may_write(call, parameter) for call in calls)


def _source(function: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return f"def {function.__name__}(): ..."


def _may_write(call: ast.Call, parameter: str) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name and not name.startswith(_STORES):
        return False
    passed = call.args[:1] if name else [*call.args, *(k.value for k in call.keywords)]
    if isinstance(call.func, ast.Attribute):
        passed = [*passed, call.func.value]  # a view's or an array's own method
    return any(isinstance(n, ast.Name) and n.id == parameter for p in passed for n in ast.walk(p))


def _kernel_signature(name: str, signature: Signature) -> Any:
    """Return cuTile's own record, in the calling convention that the constraints need."""
    compilation = importlib.import_module("cuda.tile.compilation")
    fixed = any(any(n is not None for n in _fixed_sizes(c)) for c in signature.constraints)
    conventions = compilation.CallingConvention
    convention = conventions.cutile_python_v2() if fixed else conventions.cutile_python_v1()
    return compilation.KernelSignature(signature.constraints, convention, symbol=name)


def _fixed_sizes(constraint: Any) -> Sequence[int | None]:
    array = getattr(constraint, "element", constraint)
    return getattr(array, "shape_constant", None) or ()


def _failed(error: Exception, architecture: str) -> Compiled:
    """Return the result of a compilation that failed: the kernel's fault, or the compiler's."""
    lines = str(getattr(error, "message", "") or error).strip().splitlines() or [""]
    loc = getattr(error, "loc", None)
    place = f"{Path(loc.filename).name}:{loc.line}: " if loc is not None and loc.filename else ""
    text = f"{place}{type(error).__name__}: {lines[0]}"
    if type(error).__name__.startswith(("Internal", "TileInternal")) or _TARGET.search(str(error)):
        return Compiled(unread=f"cuTile makes no code for {architecture}: {text}")
    return Compiled(error=text, is_skipped=True)


def _compiled(
    name: str, result: Any, function: Function, signature: Signature, device: Device, seconds: float
) -> Compiled:
    """Return what a binary and its IR say."""
    threads = math.prod(function.threads or (function.most_threads or _LANES, 1, 1))
    shared = function.static_shared_bytes(device)
    body = result.final_ir[0]
    code, unread = _read_code(function, device)
    machine = _machine(code, threads // _LANES, device)
    try:
        ttgir = cutile_ir.triton_ir(name, body, signature.values, machine)
    except (AttributeError, KeyError, TileIrError) as error:
        ttgir, unread = "", f"cuTile's IR: {type(error).__name__}: {error}"
    loaded = cutile_ir.loop_tile_bytes(body)
    why = load_error(shared, threads // _LANES, device)
    return Compiled(
        error=why,
        is_skipped=why is not None,
        registers=function.registers,
        spills=function.stack_bytes // 4,
        shared_bytes=shared,
        num_warps=threads // _LANES,
        num_stages=max(shared // loaded, 1) if loaded else 1,
        tensor_cores=machine.has_tensor_cores if code is not None else None,
        seconds=seconds,
        cubin=result.cubin,
        unread=unread,
        ttgir=ttgir,
        widths=_widths(code) if code is not None else {},
        entry=name,
    )


def _read_code(function: Function, device: Device) -> tuple[Code | None, str | None]:
    major, minor = device.compute_capability
    try:
        (code,) = machine_code([function], f"{major}{minor}{'a' if major >= 9 else ''}")
    except (CubinError, UnsupportedError) as error:
        return None, str(error)
    return code, None


def _machine(code: Code | None, warps: int, device: Device) -> Machine:
    """Return what machine code says of how tiles are moved and multiplied."""
    computing = 1 << max(warps.bit_length() - 1, 0)
    major = device.compute_capability[0]
    if code is None:
        return Machine(computing, major)
    instructions = list(code.instructions)
    names = {instruction.name for instruction in instructions}
    bulk = (i.lines[:1] for i in instructions if i.name in _BULK)
    return Machine(
        warps=computing,
        major=major,
        bulk_lines=frozenset(_place(line) for lines in bulk for line in lines),
        has_tensor_cores=any("MMA" in name for name in names),
        is_warp_group=any(name.endswith("GMMA") for name in names),
    )


def _place(line: str) -> tuple[str, int]:
    file, _, number = line.rpartition(":")
    return Path(file).name, int(number)


def _widths(code: Code) -> Widths:
    """Return the widest access of a thread at each line, as `requests_of` takes them."""
    widths: dict[tuple[str, int, int, str], int] = {}
    for instruction in code.instructions:
        kind = _ACCESSES.get(instruction.name)
        if kind is None or not instruction.lines:
            continue
        widths_named = [_WIDTHS[m] for m in instruction.modifiers if m in _WIDTHS]
        key = (*_place(instruction.lines[0]), 0, kind)
        widths[key] = max(widths.get(key, 0), widths_named[-1] if widths_named else 4)
    return widths


# ------------------------------------------------------------------------------------- arguments


def compiler_options(kernel: Any, name: str, architecture: str) -> Any:
    """Return an option of a ``cuda.tile.kernel`` for an architecture; ``None`` if it is unset."""
    by_target = kernel._compiler_options.hints_by_target()
    own = by_target.get(architecture, {})
    return own.get(name, by_target.get("default", {}).get(name))


def array_constraint(
    dtype: Any,
    shape: Sequence[int],
    strides: Sequence[int],
    offset_bytes: int,
    element_bits: int,
    annotation: Any,
) -> Any:
    """Return cuTile's description of an array as a launch derives it from the array.

    Source: cuTile's cext/tile_kernel.cpp, compute_array_specialization_bits and what follows.

    Args:
        dtype: cuTile's.
        shape: of the array.
        strides: in elements.
        offset_bytes: of its first element in an allocation.
        element_bits: of an element.
        annotation: the parameter's ``ArrayAnnotation``; ``None`` without one.
    """
    signature = importlib.import_module("cuda.tile.compilation._signature")
    fixed_sizes = _normal(getattr(annotation, "static_shape_dims", ()), len(shape))
    fixed_strides = _normal(getattr(annotation, "static_stride_dims", ()), len(shape))
    small = len(shape) <= _MOST_DIMENSIONS

    def is_sixteenth(number: int) -> bool:
        return small and number % _ALIGNED == 0

    divisor = max(_ALIGNED * 8 // element_bits, 1)
    return signature.ArrayConstraint(
        dtype,
        len(shape),
        index_dtype=getattr(annotation, "index_dtype", None) or sys.modules["cuda.tile"].int32,
        stride_constant=[
            n if d in fixed_strides or (small and not fixed_strides and n == 1) else None
            for d, n in enumerate(strides)
        ],
        shape_constant=[
            n if d in fixed_sizes or (small and not fixed_sizes and n == 1) else None
            for d, n in enumerate(shape)
        ],
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=not _is_disjoint(shape, strides),
        stride_divisible_by=[
            divisor if is_sixteenth(n * element_bits // 8) else 1 for n in strides
        ],
        shape_divisible_by=[_ALIGNED if is_sixteenth(n) else 1 for n in shape],
        base_addr_divisible_by=_ALIGNED if offset_bytes % _ALIGNED == 0 else 1,
    )


def common_constraint(constraints: Sequence[Any], annotation: Any) -> Any:
    """Return what holds for all arrays of a list, which have one dtype and one rank.

    Args:
        constraints: of the arrays.
        annotation: the list's ``ArrayAnnotation`` of elements; ``None`` without one.
    """
    signature = importlib.import_module("cuda.tile.compilation._signature")
    first = constraints[0]

    def shared(field: str) -> list[int | None]:
        columns = zip(*(getattr(constraint, field) for constraint in constraints))
        return [column[0] if len(set(column)) == 1 else None for column in columns]

    def divisors(field: str) -> list[int]:
        columns = zip(*(getattr(constraint, field) for constraint in constraints))
        return [math.gcd(*column) for column in columns]

    return signature.ArrayConstraint(
        first.dtype,
        first.ndim,
        index_dtype=getattr(annotation, "index_dtype", None) or first.index_dtype,
        stride_constant=shared("stride_constant"),
        shape_constant=shared("shape_constant"),
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=any(c.may_alias_internally for c in constraints),
        stride_divisible_by=divisors("stride_divisible_by"),
        shape_divisible_by=divisors("shape_divisible_by"),
        base_addr_divisible_by=math.gcd(*(c.base_addr_divisible_by for c in constraints)),
    )


def _normal(dimensions: Sequence[int], rank: int) -> frozenset[int]:
    return frozenset(d % rank for d in dimensions)


def _is_disjoint(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Tell whether no two elements share a place."""
    pairs = sorted(zip(strides, shape))
    if pairs and pairs[0][0] <= 0:
        return False
    return all(pair[0] >= before[0] * before[1] for before, pair in itertools.pairwise(pairs))
