"""Read what a profiler recorded: the Chrome trace of PyTorch's profiler (Kineto).

Kineto writes one object per event, with times in microseconds of one clock (``libkineto/src/
output_json.cpp`` in pytorch/kineto). The relevant events, by category:

- ``kernel``, ``gpu_memcpy``, ``gpu_memset``: activities on a GPU, by CUPTI's clock;
- ``cuda_runtime``, ``cuda_driver``: calls of the host, joined to what they launched by
  ``correlation``;
- ``cpu_op``: ops, with their inputs under ``record_shapes=True``. ``External id`` joins them to the
  calls, and to what ran on the GPU, that they were the innermost op of;
- ``user_annotation`` named ``ProfilerStep#``: a step of the profiler's schedule.

Other events (Python's stack, allocations, arrows) are ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from solkit.errors import InputError
from solkit.profiling.json_stream import read_members

_ACTIVITIES = ("kernel", "gpu_memcpy", "gpu_memset")
_CALLS = ("cuda_runtime", "cuda_driver")
_ANNOTATIONS = ("user_annotation", "cpu_op")
_STEP = "ProfilerStep#"
_INPUTS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")

_SCALARS = ("", "None", "Scalar", "ScalarList")
_LISTED = 3
_SHORT = {
    # as torch.fx abbreviates dtypes (torch/utils/_dtype_abbrs.py)
    "float": "f32",
    "double": "f64",
    "c10::Half": "f16",
    "c10::BFloat16": "bf16",
    "c10::Float8_e4m3fn": "f8e4m3fn",
    "c10::Float8_e5m2": "f8e5m2",
    "unsigned char": "u8",
    "signed char": "i8",
    "short": "i16",
    "short int": "i16",
    "int": "i32",
    "long": "i64",
    "long int": "i64",
    "bool": "b8",
    "c10::complex<float>": "c64",
    "c10::complex<double>": "c128",
}


@dataclass(frozen=True)
class Signature:
    """An op and all that was recorded of its arguments, position by position."""

    name: str  # as recorded, e.g. ``"aten::mm"``
    # of a tensor, in elements; of each tensor of a list; empty for others
    shapes: tuple[Any, ...] = ()
    # C++ names (``"c10::BFloat16"``, ``"long int"``), ``"TensorList"``, ``"Scalar"``,
    # ``"ScalarList"``; empty if nothing was recorded
    types: tuple[str, ...] = ()
    strides: tuple[Any, ...] = ()  # as `shapes`; empty if not recorded
    values: tuple[str, ...] = ()  # scalars and lists of them as text; empty for tensors
    # whether it is a Triton kernel that launched itself (torch.compile's do)
    is_triton: bool = False
    has_inputs: bool = True  # whether arguments were recorded at all

    @property
    def tensors(self) -> tuple[str, ...]:
        """Tensors of the op for a reader: ``"bf16[8944, 1024]"``, a list in parentheses."""
        columns = (self.shapes, self.types, self.strides or ((),) * len(self.shapes))
        return tuple(_describe_tensor(*row) for row in zip(*columns) if row[1] not in _SCALARS)


def _describe_tensor(shape: Any, kind: str, stride: Any) -> str:
    if kind == "TensorList":
        strides = stride or ((),) * len(shape)
        listed = [
            f"{_format_sizes(sizes)}{_format_layout(sizes, step)}"
            for sizes, step in zip(shape, strides)
        ]
        more = f", {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
        return f"({', '.join(listed[:_LISTED])}{more})"
    return f"{_SHORT.get(kind, kind)}{_format_sizes(shape)}{_format_layout(shape, stride)}"


def _format_sizes(shape: Any) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _format_layout(shape: Any, stride: Any) -> str:
    """``" strided"`` unless the elements are contiguous."""
    dense = 1
    for size, step in zip(reversed(shape), reversed(stride)):
        if size != 1 and step != dense:
            return " strided"
        dense *= size
    return ""


@dataclass(frozen=True, slots=True)
class Op:
    """One call of an op on the host."""

    signature: Signature  # what was called on what
    thread: tuple[str, str]  # process and thread
    start_us: float
    end_us: float
    external_id: int  # what launches call it; 0 if none


@dataclass(frozen=True, slots=True)
class HostCall:
    """One call of the CUDA runtime or driver."""

    name: str  # e.g. ``"cudaLaunchKernel"``
    thread: tuple[str, str]  # process and thread
    start_us: float
    end_us: float
    correlation: int  # the activity that it launched has the same number
    external_id: int  # of the innermost op around it; 0 if none


@dataclass(frozen=True, slots=True)
class Activity:
    """One kernel, copy or memset on a GPU."""

    name: str  # of the kernel, or as CUPTI words it: ``"Memcpy HtoD (Pinned -> Device)"``
    category: str  # ``"kernel"``, ``"gpu_memcpy"`` or ``"gpu_memset"``
    device: int
    stream: str
    start_us: float
    end_us: float
    correlation: int  # of the host call that launched it; 0 if none
    external_id: int  # of the innermost op around that call; 0 if none

    @property
    def duration_us(self) -> float:
        """Duration of the activity."""
        return self.end_us - self.start_us


@dataclass(frozen=True)
class Step:
    """One step of the profiler's schedule, on the host: from here to there."""

    name: str
    start_us: float
    end_us: float


@dataclass(frozen=True)
class Gpu:
    """A GPU as ``deviceProperties`` describes it; 0 if it does not say."""

    index: int  # the `Activity.device` it is
    name: str  # its marketing name
    sm_count: int  # its SMs


@dataclass
class Recording:
    """A trace, event by event, in the order of the file."""

    path: str  # the file
    gpus: tuple[Gpu, ...] = ()  # of the machine, not only those that were used
    activities: list[Activity] = field(default_factory=list)  # on all GPUs
    calls: list[HostCall] = field(default_factory=list)  # of CUDA
    ops: list[Op] = field(default_factory=list)  # on all threads
    steps: list[Step] = field(default_factory=list)  # in order of time

    @property
    def has_shapes(self) -> bool:
        """True if the arguments of ops were recorded."""
        return any(op.signature.has_inputs for op in self.ops)


def read_trace(path: str) -> Recording:
    """Read a Chrome trace of PyTorch's profiler; gzip or plain.

    Raises:
        InputError: the file cannot be read, is truncated, or is not such a trace.
    """
    recording = Recording(path)
    signatures: dict[str, Signature] = {}
    is_trace = False
    for name, value in read_members(path, "traceEvents"):
        if name == "traceEvents":
            is_trace = True
            _take_event(recording, value, signatures)
        elif name == "deviceProperties":
            recording.gpus = tuple(_read_gpus(value))
    if not is_trace:
        expected = "a trace as torch.profiler's export_chrome_trace writes it"
        raise InputError(f"{path}: no traceEvents; expected {expected}")
    recording.steps.sort(key=lambda step: step.start_us)
    return recording


def _take_event(recording: Recording, event: Any, signatures: dict[str, Signature]) -> None:
    """Add an event to the recording; raises `InputError` if it lacks a required field."""
    if not isinstance(event, Mapping) or event.get("ph") != "X":
        return
    category, name = event.get("cat"), str(event.get("name", ""))
    args = event.get("args")
    args = args if isinstance(args, Mapping) else {}
    try:
        if category in _ANNOTATIONS and name.startswith(_STEP):
            recording.steps.append(Step(name, *_event_times(event)))
        elif category == "cpu_op":
            recording.ops.append(_make_op(name, event, args, signatures))
        elif category in _CALLS:
            recording.calls.append(_make_call(name, event, args))
        elif category in _ACTIVITIES:
            recording.activities.append(_make_activity(name, category, event, args))
    except (KeyError, TypeError, ValueError) as error:
        what = f"{recording.path}: a {category} event, {name[:80]!r}"
        raise InputError(f"{what}, cannot be read: {type(error).__name__}: {error}") from error


def _event_times(event: Mapping[str, Any]) -> tuple[float, float]:
    start, duration = float(event["ts"]), float(event.get("dur", 0.0))
    if not (math.isfinite(start) and math.isfinite(duration) and duration >= 0.0):
        raise ValueError(f"it starts at {start} and lasts {duration}")
    return start, start + duration


def _event_thread(event: Mapping[str, Any]) -> tuple[str, str]:
    return str(event.get("pid")), str(event.get("tid"))


def _first_number(args: Mapping[str, Any], *names: str) -> int:
    """Return the first of these numbers that exists; 0 if none does."""
    return next((int(args[name]) for name in names if args.get(name) not in (None, "")), 0)


def _external_id(args: Mapping[str, Any]) -> int:
    return _first_number(args, "External id", "external id")  # the latter in older traces


def _make_op(
    name: str, event: Mapping[str, Any], args: Mapping[str, Any], signatures: dict[str, Signature]
) -> Op:
    key = json.dumps([name, *(args.get(part) for part in _INPUTS)])
    if key not in signatures:
        signatures[key] = _make_signature(name, args)
    return Op(signatures[key], _event_thread(event), *_event_times(event), _external_id(args))


def _make_signature(name: str, args: Mapping[str, Any]) -> Signature:
    shapes, types, strides, values = (_freeze_tree(args.get(part) or ()) for part in _INPUTS)
    signature = Signature(
        name=name,
        shapes=shapes,
        types=tuple(map(str, types)),
        strides=strides,
        values=tuple(map(str, values)),
        is_triton=args.get("kernel_backend") == "triton",
        has_inputs="Input Dims" in args,
    )
    signature.tensors  # noqa: B018 - raises TypeError if a shape is invalid
    return signature


def _freeze_tree(tree: Any) -> Any:
    return tuple(map(_freeze_tree, tree)) if isinstance(tree, (list, tuple)) else tree


def _make_call(name: str, event: Mapping[str, Any], args: Mapping[str, Any]) -> HostCall:
    ids = _first_number(args, "correlation"), _external_id(args)
    return HostCall(name, _event_thread(event), *_event_times(event), *ids)


def _make_activity(
    name: str, category: str, event: Mapping[str, Any], args: Mapping[str, Any]
) -> Activity:
    start, end = _event_times(event)
    return Activity(
        name=name,
        category=category,
        device=_first_number(args, "device"),
        stream=str(args.get("stream", event.get("tid"))),
        start_us=start,
        end_us=end,
        correlation=_first_number(args, "correlation"),
        external_id=_external_id(args),
    )


def _read_gpus(properties: Any) -> Iterator[Gpu]:
    for gpu in properties if isinstance(properties, list) else ():
        if isinstance(gpu, Mapping):
            yield Gpu(
                index=_first_number(gpu, "id"),
                name=str(gpu.get("name", "")),
                sm_count=_first_number(gpu, "numSms"),
            )
