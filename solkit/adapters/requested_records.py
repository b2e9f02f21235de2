"""Records of launches as they are asked for: what `solkit.core.RecordedLaunch` says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from triton.runtime.jit import JITFunction

from solkit.adapters.kernel_programs import binding_of_value, context_of_kernel, program_of_kernel
from solkit.adapters.live_calls import RequestedLaunch, tensor_behind
from solkit.core import Binding, KernelProgram, Launch, TensorLayout, Value
from solkit.core.recordings import RecordedLaunch

_ALIGNED_BYTES = 128
_SPECIALISED_BYTES = 16
"""Triton compiles another kernel for pointers that are no multiples of it."""
_PLAIN = (bool, int, float, str, type(None))
_DTYPES: Mapping[torch.dtype, str] = {
    torch.bool: "i1",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e5m2: "fp8e5",
    torch.float8_e4m3fnuz: "fp8e4b8",
    torch.float8_e5m2fnuz: "fp8e5b16",
}
_POINTER_TYPE = "triton.language.core.pointer_type"
_DEVICE_DESCRIPTORS = ("_experimental_descriptor", "reinterpret_tensor_descriptor")


def recorded_launch(requested: RequestedLaunch) -> RecordedLaunch:
    """Return the record of a launch, without its space, answers and contents of tensors.

    What keeps it from being launched again elsewhere is its `obstacle`.
    """
    kernel = requested.kernel
    passed = tuple(v for v in requested.values.values() if isinstance(v, JITFunction))
    try:
        program, context = program_of_kernel(kernel, passed), context_of_kernel(kernel, passed)
    except (AttributeError, OSError, SyntaxError, TypeError, ValueError) as error:
        launch = Launch(requested.name, (0, 0, 0), 0, 0)
        return RecordedLaunch(launch, obstacle=f"the kernel's source cannot be read: {error}")
    recorder = _Recorder(requested, program)
    options, foreign = _plain_options(requested.options)
    launch = Launch(
        name=requested.name,
        grid=(0, 0, 0),
        num_warps=int(options.get("num_warps") or 0),
        num_stages=int(options.get("num_stages") or 0),
        num_ctas=int(options.get("num_ctas") or 1),
        constants={
            name: requested.values[name]
            for name in requested.constants
            if isinstance(requested.values[name], _PLAIN)
        },
        signature={name: _kind(requested, name, v) for name, v in requested.values.items()},
        arguments={name: recorder.binding(name, v) for name, v in requested.values.items()},
        program=program,
    )
    obstacles = [*recorder.obstacles, *foreign, *_program_obstacles(program)]
    return RecordedLaunch(
        launch,
        launcher=requested.launcher,
        options=options,
        imports=context.imports,
        decorators=context.decorators,
        helpers=context.helpers,
        origins=context.origins,
        inductor_source=requested.file_text,
        obstacle="; ".join(obstacles),
    )


def _kind(requested: RequestedLaunch, name: str, value: Any) -> str:
    """Return a parameter's type in Triton's notation, as far as a caller can tell."""
    if name in requested.constants or value is None:
        return "constexpr"
    tensor = tensor_behind(value)
    if tensor is not None:
        return f"*{_DTYPES.get(tensor.dtype, tensor.dtype)}"
    if type(value) is int:
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    return {bool: "i1", float: "fp32"}.get(type(value), "")


def _plain_options(options: Mapping[str, Any]) -> tuple[dict[str, Value], list[str]]:
    plain = {name: value for name, value in options.items() if isinstance(value, _PLAIN)}
    foreign = [f"the option {name} is no number or text" for name in options if name not in plain]
    return plain, foreign


def _program_obstacles(program: KernelProgram) -> list[str]:
    """Name what a program gets that no recording can draw again."""
    texts = {b.text for part in program.functions.values() for b in part.names.values()}
    obstacles = []
    if _POINTER_TYPE in texts:
        obstacles.append("it makes pointers of integers, as of a table of pointers")
    if any(word in text for text in texts for word in _DEVICE_DESCRIPTORS):
        obstacles.append("it reads a descriptor from the GPU's memory")
    return obstacles


def _alignment(tensor: torch.Tensor) -> int:
    """Return the alignment that a place in its storage gives, or the less that the address has."""
    address, offset = tensor.data_ptr(), int(tensor.storage_offset()) * tensor.element_size()
    place = offset if address % _SPECIALISED_BYTES == 0 else address
    return min(place & -place, _ALIGNED_BYTES) if place else _ALIGNED_BYTES


class _Recorder:
    """Records the arguments of one launch."""

    def __init__(self, requested: RequestedLaunch, program: KernelProgram) -> None:
        self._requested, self._program = requested, program
        self._storages: dict[int, int] = {}
        self.obstacles: list[str] = []

    def binding(self, name: str, value: Any) -> Binding:
        """Return the binding of a parameter."""
        return self._binding(name, name, value)

    def _binding(self, name: str, path: str, value: Any) -> Binding:
        tensor = tensor_behind(value)
        if tensor is not None:
            return Binding("tensor", tensor=self._layout(name, value, tensor))
        if isinstance(value, torch.dtype):
            return Binding("library", text=str(value))
        is_constant = name in self._requested.constants
        if type(value) in (bool, int, float) and not is_constant:
            return Binding("scalar", value)
        if isinstance(value, (tuple, list)):
            items = [self._binding(name, f"{path}[{n}]", item) for n, item in enumerate(value)]
            return Binding("items", items=tuple(items))
        binding = binding_of_value(value, self._program)
        if binding.kind == "unknown":
            self.obstacles.append(
                f"the argument {path} is a {type(value).__name__}, which cannot be written into a "
                "kernel file; expected a tensor, a number, a string or a dtype"
            )
        return binding

    def _layout(self, name: str, value: Any, tensor: torch.Tensor) -> TensorLayout:
        block = tuple(map(int, value.block_shape)) if hasattr(value, "block_shape") else ()
        shape, strides = (value.shape, value.strides) if block else (tensor.shape, tensor.stride())
        dtype = _DTYPES.get(tensor.dtype, "")
        if not dtype:
            self.obstacles.append(f"the tensor {name} has the dtype {tensor.dtype}")
        storage = tensor.untyped_storage()
        return TensorLayout(
            dtype=dtype,
            element_bytes=tensor.element_size(),
            shape=tuple(map(int, shape)),
            strides=tuple(map(int, strides)),
            offset_elements=int(tensor.storage_offset()),
            storage_bytes=int(storage.nbytes()),
            alignment_bytes=_alignment(tensor),
            storage=self._storages.setdefault(storage._cdata, len(self._storages)),
            is_written=self._requested.may_write(name),
            block=block,
        )
