"""The work of ops that a profiler recorded: called again on fake tensors of the same kind.

It runs in a throw-away child process (`solkit.processes.jobs`), since it patches torch.

A recorded argument is a tensor's shape, strides and type, or a scalar's text; its place in the op's
schema shows which. Kineto does not record the tensors of an optional list (such as an index),
generators, or strings without a default: an op with such an argument cannot be replayed.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from solkit.adapters import fake_cuda
from solkit.analysis.worker import fake_device
from solkit.core import Device, default_tolerance
from solkit.profiling.trace_reader import Signature
from solkit.profiling.units import Asked, Replayed
from solkit.roofline.work import work_of, work_of_arguments


def replay_ops(device: Device, requests: Sequence[Sequence[Asked]]) -> list[Replayed]:
    """Replay ops: the innermost possible one of each list whose operations are all modelled.

    If there is none, the bytes of the innermost one that can be replayed. Each list in `requests`
    holds an op that launched kernels, followed by those around it.
    """
    fake_device(device)
    called: dict[Asked, Replayed] = {}

    def replay_once(op: Asked) -> Replayed:
        if op not in called:
            called[op] = _replay_signature(*op)
        return called[op]

    with fake_cuda.fake_tensors():
        return [_first_modelled([lambda op=op: replay_once(op) for op in ops]) for ops in requests]  # type: ignore[misc]


def _first_modelled(attempts: Sequence[Callable[[], Replayed]]) -> Replayed:
    bytes_alone: Replayed | None = None
    first: Replayed | None = None
    for level, attempt in enumerate(attempts):
        replayed = replace(attempt(), level=level)
        first = first or replayed
        if replayed.work is not None and not replayed.work.unmodelled:
            return replayed
        if replayed.work is not None:
            bytes_alone = bytes_alone or replayed
    return bytes_alone or replace(first or Replayed(), level=0)


_ARGUMENTS = (
    "What a Triton kernel computes is not recorded: each argument is assumed to cross DRAM once."
)
_NO_OP = "this torch has no such op, or one with other arguments"


class UnknownOpError(Exception):
    """Reason why an op cannot be replayed."""


def _replay_signature(signature: Signature, kernels: Sequence[str]) -> Replayed:
    try:
        run = _triton_call(signature) if signature.is_triton else _aten_call(signature, kernels)
        return run()
    except UnknownOpError as reason:
        return Replayed(reason=str(reason))
    except Exception as error:  # a meta function may raise anything: the op has no bound
        said = str(error).strip().partition("\n")[0]
        return Replayed(reason=f"it fails on fake tensors: {type(error).__name__}: {said}"[:200])


def _aten_call(signature: Signature, kernels: Sequence[str]) -> Callable[[], Replayed]:
    if not signature.has_inputs:
        raise UnknownOpError("its arguments were not recorded: profile with record_shapes=True")
    attention = ATTENTION.fullmatch(signature.name)
    if attention:
        signature, kernels = _as_attention(signature, backward=bool(attention[1])), ()
    call = recorded_call(signature, kernels)
    return lambda: _run_overload(*allocating_overload(*call))


def recorded_call(
    signature: Signature, kernels: Sequence[str]
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Return the overload that an op was called by, and its arguments on fake tensors.

    Raises:
        UnknownOpError: no overload fits what was recorded.
    """
    reasons = []
    for overload in _matching_overloads(signature):
        try:
            return overload, *_build_arguments(overload, signature, kernels)
        except UnknownOpError as reason:
            reasons.append(str(reason))
    raise UnknownOpError(reasons[0] if reasons else _NO_OP)


def allocating_overload(
    overload: Any, positional: list[Any], named: dict[str, Any]
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Return the overload that allocates its results instead of one with output arguments.

    Both cost the same, but the bytes read of an input are known only for the former.
    """
    packet, arguments = overload.overloadpacket, overload._schema.arguments
    inputs = [
        (argument.name, str(argument.real_type)) for argument in arguments if not argument.is_out
    ]
    if len(inputs) == len(arguments):
        return overload, positional, named
    for other in (getattr(packet, name) for name in packet.overloads()):
        if [
            (argument.name, str(argument.real_type)) for argument in other._schema.arguments
        ] == inputs:
            kept = {name for name, _ in inputs}
            return other, positional, {k: v for k, v in named.items() if k in kept}
    return overload, positional, named


def _run_overload(overload: Any, positional: list[Any], named: dict[str, Any]) -> Replayed:
    outputs: list[torch.Tensor] = []

    def run() -> list[torch.Tensor]:
        result = overload(*positional, **named)
        tensors = [
            *_tensors_in(result),
            *_tensors_in(_mutated_arguments(overload, positional, named)),
        ]
        outputs.extend({id(tensor): tensor for tensor in tensors}.values())
        return outputs

    work = work_of(run)
    if not outputs:
        raise UnknownOpError("it returns no tensor")
    if not work.dram_bytes and not work.operations:
        raise UnknownOpError("on fake tensors it neither computes nor moves anything")
    tolerances = (default_tolerance(tensor.dtype) for tensor in outputs)
    return Replayed(work=work, tolerance=min(tolerances, key=lambda tolerance: tolerance.rtol))


def _mutated_arguments(
    overload: Any, positional: list[Any], named: dict[str, Any]
) -> Iterator[Any]:
    """Yield the arguments that the op writes."""
    for index, argument in enumerate(overload._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield positional[index] if index < len(positional) else named.get(argument.name)


def _tensors_in(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, Iterable) and not isinstance(tree, str):
        for item in tree:
            yield from _tensors_in(item)


def _triton_call(signature: Signature) -> Callable[[], Replayed]:
    """Return a Triton kernel records only its arguments, not what it computes."""
    tensors = [
        _fake_tensor(shape, recorded, _item_at(signature.strides, i))
        for i, (shape, recorded) in enumerate(zip(signature.shapes, signature.types))
        if recorded in _DTYPES
    ]
    if not tensors:
        raise UnknownOpError("no tensor among its arguments was recorded")
    work = replace(work_of_arguments(tensors, []), unmodelled=(), assumptions=(_ARGUMENTS,))
    return lambda: Replayed(work=work, tolerance=default_tolerance(tensors[0].dtype))


def _matching_overloads(signature: Signature) -> Iterator[Any]:
    """Yield the overloads with as many arguments as recorded; the trace does not name one."""
    namespace, _, name = signature.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None) if name.isidentifier() else None
    for overload in packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ():
        candidate = getattr(packet, overload)
        if len(candidate._schema.arguments) == len(signature.types):
            yield candidate


def _build_arguments(
    overload: Any, signature: Signature, kernels: Sequence[str]
) -> tuple[list[Any], dict[str, Any]]:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for index, argument in enumerate(overload._schema.arguments):
        value = _build_argument(argument, signature, index, kernels)
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    return positional, named


def _build_argument(argument: Any, signature: Signature, index: int, kernels: Sequence[str]) -> Any:
    """Return one argument, as its place in the schema requires; raise `UnknownOpError` if unfit."""
    kind = str(argument.real_type)
    recorded, value = signature.types[index], _item_at(signature.values, index)
    shape, stride = signature.shapes[index], _item_at(signature.strides, index)
    if recorded in _DTYPES and kind in ("Tensor", "Optional[Tensor]"):
        if not shape and recorded in _NUMBERS and argument.alias_info is None:
            return _NUMBERS[recorded]
        return _fake_tensor(shape, recorded, stride)
    if recorded == "TensorList" and kind == "List[Tensor]":
        dtype = _list_element_type(kernels)
        return [_fake_tensor(size, dtype, _item_at(stride, i)) for i, size in enumerate(shape)]
    if recorded in ("Scalar", "ScalarList") and "Tensor" not in kind and value:
        return _parse_scalar(kind, value)
    if recorded in ("", "None"):
        return _default_argument(argument, kind)
    problem = f"recorded as {recorded}, not {kind}" if value or shape else "not in the trace"
    raise UnknownOpError(f"its argument {argument.name!r} is {problem}")


def _default_argument(argument: Any, kind: str) -> Any:
    """Return the default of an argument that was not recorded."""
    if kind.startswith("Optional") and kind != "Optional[List[Tensor]]":
        return None
    if argument.has_default_value():
        return argument.default_value
    raise UnknownOpError(f"its argument {argument.name!r} is not in the trace")


def _parse_scalar(kind: str, text: str) -> Any:
    try:
        value = ast.literal_eval(_NOT_FINITE.sub(r"1e999", text))
    except (ValueError, SyntaxError) as error:
        raise UnknownOpError(f"a scalar reads {text[:40]!r}") from error
    for name, table in _ENUMS.items():
        if name in kind:
            if value not in table:
                raise UnknownOpError(f"{name} number {value}")
            return table[value]
    return value


def _fake_tensor(shape: Sequence[int], recorded: str, stride: Sequence[int]) -> torch.Tensor:
    dtype = _DTYPES[recorded]
    if len(stride) == len(shape):
        return torch.empty_strided(tuple(shape), tuple(stride), dtype=dtype, device="cuda")
    return torch.empty(tuple(shape), dtype=dtype, device="cuda")


def _item_at(items: Sequence[Any], index: int) -> Any:
    return items[index] if index < len(items) else ()


def _list_element_type(kernels: Sequence[str]) -> str:
    """Return the element type of a list of tensors, of which Kineto records only the shapes.

    PyTorch's kernels over lists name it: the functor's first parameter in ``multi_tensor_apply``
    (aten/src/ATen/native/cuda/ForeachFunctors.cuh), the size of the elements in ``cat``
    (Shape.cu), which determines the moved bytes. Raises `UnknownOpError` unless they agree.
    """
    functors = {name for kernel in kernels for name in _FUNCTOR.findall(kernel)}
    opaque = {_OPAQUE[int(n)] for kernel in kernels for n in _OPAQUE_TYPE.findall(kernel)}
    types = (functors & _DTYPES.keys()) | opaque
    if len(types) != 1:
        raise UnknownOpError("the dtypes of its list of tensors are not in the trace")
    return types.pop()


_FUNCTOR = re.compile(r"multi_tensor_apply_kernel<.*?Functor<([^,<>]+)")
_OPAQUE_TYPE = re.compile(r"OpaqueType<(\d+)u?>")
_OPAQUE = {1: "signed char", 2: "short", 4: "int", 8: "long int", 16: "c10::complex<double>"}
_NOT_FINITE = re.compile(r"\binf\b")
_NUMBERS = {"double": 1.0, "long int": 1}
"""A Python number reaches an op as a zero-dimensional tensor of one of these types."""

_DTYPES = {
    # the names of C++'s types, as caffe2::TypeMeta spells them (c10/util/typeid.h)
    "float": torch.float32,
    "double": torch.float64,
    "c10::Half": torch.float16,
    "c10::BFloat16": torch.bfloat16,
    "c10::Float8_e4m3fn": torch.float8_e4m3fn,
    "c10::Float8_e5m2": torch.float8_e5m2,
    "c10::Float8_e4m3fnuz": torch.float8_e4m3fnuz,
    "c10::Float8_e5m2fnuz": torch.float8_e5m2fnuz,
    "c10::Float8_e8m0fnu": torch.float8_e8m0fnu,
    "unsigned char": torch.uint8,
    "signed char": torch.int8,
    "short": torch.int16,
    "short int": torch.int16,
    "int": torch.int32,
    "long": torch.int64,
    "long int": torch.int64,
    "bool": torch.bool,
    "c10::complex<c10::Half>": torch.complex32,
    "c10::complex<float>": torch.complex64,
    "c10::complex<double>": torch.complex128,
}
_SCALAR_TYPES = """uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64
complex128 bool qint8 quint8 qint32 bfloat16""".split()
_ENUMS: dict[str, dict[int, Any]] = {
    # an enumeration is recorded as its number: c10/core/ScalarType.h, Layout.h, MemoryFormat.h
    "ScalarType": {
        **{i: getattr(torch, name) for i, name in enumerate(_SCALAR_TYPES)},
        23: torch.float8_e5m2,
        24: torch.float8_e4m3fn,
    },
    "Layout": {0: torch.strided},
    "MemoryFormat": {
        **{0: torch.contiguous_format, 1: torch.preserve_format},
        **{2: torch.channels_last, 3: torch.channels_last_3d},
    },
}

ATTENTION = re.compile(
    r"aten::_scaled_dot_product_(?:fused|flash|efficient|cudnn|flex)_?attention\w*?(_backward)?"
)


def _as_attention(signature: Signature, *, backward: bool) -> Signature:
    """Attention as the single op of `fake_cuda`, whichever kernel PyTorch had chosen."""
    overload = next(_matching_overloads(signature), None)
    if overload is None:
        raise UnknownOpError(_NO_OP)
    names = [argument.name.removesuffix("_") for argument in overload._schema.arguments]
    roles = ["query", "key", "value", "attn_bias", "is_causal"]
    roles = ["grad_out", *roles] if backward else roles
    places = [names.index(name) if name in names else None for name in roles]

    def fill_column(recorded: Sequence[Any], missing: Any) -> tuple[Any, ...]:
        return tuple(missing if place is None else _item_at(recorded, place) for place in places)

    types, values = fill_column(signature.types, ""), fill_column(signature.values, "")
    shapes, strides = fill_column(signature.shapes, ()), fill_column(signature.strides, ())
    if backward:  # no gradient of the mask
        types, values = (*types, "Scalar"), (*values, "False")
        shapes, strides = (*shapes, ()), (*strides, ())
    name = "solkit::attention_backward" if backward else "solkit::attention"
    return Signature(name, shapes, types, strides, values)
