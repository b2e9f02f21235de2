"""The row of SolKit's measured data: one configuration of one kernel, as it was tried once.

Every row stands for itself: what was run, how, on what, and what came of it, failures included.
Rows of one configuration (`TimedConfiguration.key`) add up; what tells one from another is the run
and the place in it (`ROW_KEY`). The form is version `SCHEMA_VERSION`: fields may be added, with
defaults; none is renamed, removed or changes its unit or meaning.

No package is needed here, so that rows can be written beside a GPU with nothing but torch: see
`solkit.datasets.runlog`. At rest they are Parquet: see `solkit.datasets.store`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime, timezone
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote

from solkit.core import Value, Verdict
from solkit.errors import InputError

__all__ = [
    "CONFIGURATION",
    "ROW_KEY",
    "SCHEMA_VERSION",
    "Source",
    "TimedConfiguration",
    "TimedDemand",
    "TimedLaunch",
    "canonical",
    "from_json",
    "kernel_id",
    "problem_id",
    "source_of",
    "to_json",
]

SCHEMA_VERSION = 1
"""Of rows as they are written now."""

CONFIGURATION = ("kernel_id", "problem_id", "params", "device")
"""The columns that say which configuration a row is of: rows that share them are repeats."""

ROW_KEY = ("run_id", "sequence")
"""The columns that tell a row from every other one."""

_ID_DIGITS = 16  # 64 bits: two of a million kernels share one with a chance of 3 in 10^8
_T = TypeVar("_T")
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class TimedDemand:
    """What a launch asks of the GPU by its code: `solkit.core.Demand`, as far as a row keeps it.

    Followed with no GPU, as `solkit.analysis` does; without the machine code, which takes longer to
    read than to compile.

    Attributes:
        load_requests, store_requests, atomic_requests: of global memory, counted a warp.
        load_sectors, store_sectors, atomic_sectors: of 32 bytes that those touch.
        load_bytes, store_bytes, atomic_bytes: of the elements asked for.
        copied_sectors: of `load_sectors`, those that are copied to shared memory by themselves
            (``cp.async``, TMA).
        operations: by pipe.
        l1_wavefronts, l2_read_bytes, l2_write_bytes, dram_read_bytes: as in `Demand`.
        dram_write_bytes, loop_requests, steps, imbalance, unevenness, iterations: likewise.
        chain_cycles, tensor_shared_bytes, barriers, instructions: likewise.
        shared_wavefronts, shared_least_wavefronts: of shared memory; and how many would do if no
            two words met in a bank.
        guesses: how many things were taken for granted.
        model_ms: `solkit.core.KernelModel.time_ms`.
        terms: its terms, in ms by name.
    """

    load_requests: int = 0
    load_sectors: int = 0
    load_bytes: int = 0
    store_requests: int = 0
    store_sectors: int = 0
    store_bytes: int = 0
    atomic_requests: int = 0
    atomic_sectors: int = 0
    atomic_bytes: int = 0
    copied_sectors: int = 0
    operations: Mapping[str, int] = field(default_factory=dict)
    l1_wavefronts: int = 0
    l2_read_bytes: int = 0
    l2_write_bytes: int = 0
    dram_read_bytes: int = 0
    dram_write_bytes: int = 0
    loop_requests: int = 0
    steps: float = 0.0
    imbalance: float = 1.0
    unevenness: float = 1.0
    iterations: float = 0.0
    chain_cycles: float = 0.0
    shared_wavefronts: int = 0
    shared_least_wavefronts: int = 0
    tensor_shared_bytes: int = 0
    barriers: float = 0.0
    instructions: float = 0.0
    guesses: int = 0
    model_ms: float | None = None
    terms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TimedLaunch:
    """One kernel launch of a call: `solkit.core.KernelAnalysis`, as far as a row keeps it.

    Attributes:
        name: the kernel's function name.
        grid: thread blocks in x, y and z.
        num_warps: warps per block.
        num_stages: software-pipelining depth.
        num_ctas: blocks per cluster.
        count: how often a call launches it alike.
        constants: compile-time constants by argument name.
        signature: argument types by name, in Triton's notation.
        registers: per thread; ``None`` (and so for all below) where it is not known.
        spills: spilled 32-bit words per thread.
        shared_bytes: shared memory per block.
        occupancy: resident warps / the SM's maximum, in theory.
        waves: grid / blocks that fit on the whole device.
        tensor_cores: whether it has tensor-core instructions.
        demand: what its code asks for; ``None`` where that was not followed.
    """

    name: str
    grid: tuple[int, ...]
    num_warps: int | None = None
    num_stages: int | None = None
    num_ctas: int | None = None
    count: int = 1
    constants: Mapping[str, Value] = field(default_factory=dict)
    signature: Mapping[str, str] = field(default_factory=dict)
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None
    waves: float | None = None
    tensor_cores: bool | None = None
    demand: TimedDemand | None = None


@dataclass(frozen=True)
class Source:
    """A file that rows refer to by its hash; kept once, however many rows do.

    Attributes:
        sha256: of its bytes, in hexadecimal.
        name: the file's name, or its path in the collection it is from.
        text: what it holds.
    """

    sha256: str
    name: str
    text: str


@dataclass(frozen=True)
class TimedConfiguration:
    """One configuration of one kernel on one problem and GPU, as it was tried once.

    What is not known is ``None``, or empty. Times are of a call: last end minus first start over
    all that it runs on the GPU.

    Attributes:
        kernel_id: which kernel: `kernel_id` of its sources and entry point.
        family: what it computes, e.g. ``"softmax"``; of Inductor's, the template.
        kind: the kind of the family, e.g. ``"matmul"``, ``"norm"``, ``"inductor"``.
        origin: where the kernel is from: ``"zoo"``, ``"inductor"``, ``"trace"``, or the format that
            it was imported from.
        problem_id: family, shape and dtypes, readable: `problem_id`.
        device: the GPU: the catalogue's key, e.g. ``"h100-sxm"``, or a name that it lacks.
        params: the configuration: every tuning parameter with its value.
        verdict: what became of it.
        created: when that was known, in UTC.
        chosen_by: how the configuration was come by: ``"random"``, ``"latin_hypercube"``,
            ``"near_best"``, ``"repeat"`` (timed before, in another run), ``"default"``,
            ``"exhaustive"``, ``"search"``, ``"tuned"`` (the best somebody found).
        time_ms: median time.
        bound_ms: the roofline.
        clock_mhz: median SM clock while it was timed.
        run_id, sequence: the run and the place in it, given by the `solkit.datasets.runlog.RunLog`;
            of imported rows the format, and the day where it is told, and a digest of the row.
        implementation: the kernel's file, its name in its collection.
        entry_point: the function that is called.
        source_sha256, problem_sha256: of the kernel's file and of the reference's, in hexadecimal:
            a `Source` each.
        shape: every size, and others such as dtypes, with its value.
        dtypes: of the inputs, then of the outputs, e.g. ``"bfloat16"``.
        low_ms, high_ms: 95 % interval of the median.
        samples_ms: every time that counts, in the order taken; at rest in single precision.
        kernel_sum_ms: median of the summed kernel times.
        reference_ms: median time of the reference, taken in the same way.
        method: ``"cupti"``, ``"events"``, ``"graph replay"`` or ``"wall clock"``.
        protocol: the name of the timing protocol.
        l2: ``"cold"`` or ``"warm"``.
        flush: how, in words.
        launched: ``"eager"`` or ``"graph"``.
        warmup_calls: untimed calls before.
        hard_bound_ms: what no correct implementation can beat.
        limiter: the resource behind the roofline.
        precision: what contractions may be computed in, for the bound.
        operations: at the least, by pipe: FLOPs, or ops of pipes that have no floating point.
        read_bytes, write_bytes: that must cross DRAM.
        launches: what a call launches, as it was compiled.
        launch_count: kernels, copies and memsets that a call ran on the GPU.
        compile_s: seconds that compiling took; 0 from a cache.
        first_call_s: seconds of the first call, by the host's clock.
        max_error: largest ``|got - want|`` over all outputs.
        message: why it failed, or what is to be known of it.
        clock_low_mhz, memory_clock_mhz: lowest SM clock and median memory clock meanwhile.
        power_w, temperature_c: median power and highest temperature meanwhile.
        throttle_reasons: what held the clock down: its share of the looks at it, 0 to 1.
        seed: of the inputs.
        device_name, device_uuid: as the driver gives them.
        driver_version, cuda_version, torch_version, triton_version, python_version, solkit_version:
            of what it was run with.
        extra: what an imported file tells beside, under its own names.
        schema_version: of this form.
    """

    kernel_id: str
    family: str
    kind: str
    origin: str
    problem_id: str
    device: str
    params: Mapping[str, Value]
    verdict: Verdict
    created: datetime
    chosen_by: str
    time_ms: float | None = None
    bound_ms: float | None = None
    clock_mhz: float | None = None
    run_id: str = ""
    sequence: int = 0
    implementation: str | None = None
    entry_point: str | None = None
    source_sha256: str | None = None
    problem_sha256: str | None = None
    shape: Mapping[str, Value] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    low_ms: float | None = None
    high_ms: float | None = None
    samples_ms: tuple[float, ...] = ()
    kernel_sum_ms: float | None = None
    reference_ms: float | None = None
    method: str | None = None
    protocol: str | None = None
    l2: str | None = None
    flush: str | None = None
    launched: str | None = None
    warmup_calls: int | None = None
    hard_bound_ms: float | None = None
    limiter: str | None = None
    precision: str | None = None
    operations: Mapping[str, int] = field(default_factory=dict)
    read_bytes: int | None = None
    write_bytes: int | None = None
    launches: tuple[TimedLaunch, ...] = ()
    launch_count: int | None = None
    compile_s: float | None = None
    first_call_s: float | None = None
    max_error: float | None = None
    message: str | None = None
    clock_low_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle_reasons: Mapping[str, float] = field(default_factory=dict)
    seed: int | None = None
    device_name: str | None = None
    device_uuid: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    torch_version: str | None = None
    triton_version: str | None = None
    python_version: str | None = None
    solkit_version: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The values of `CONFIGURATION`: equal for repeats, and for them alone."""
        return self.kernel_id, self.problem_id, canonical(self.params), self.device


# ------------------------------------------------------------------------------------------ names


def kernel_id(source_sha256: str, problem_sha256: str, entry_point: str) -> str:
    """The name of a kernel: the same function in the same files has the same one everywhere.

    Args:
        source_sha256: of the file that holds the kernel, in hexadecimal.
        problem_sha256: of the file that holds its reference; maybe the same.
        entry_point: the function's name.
    """
    text = "\0".join((source_sha256, problem_sha256, entry_point))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


def problem_id(family: str, shape: Mapping[str, Value]) -> str:
    """The name of a problem, e.g. ``softmax/M=4096,N=1000,dtype=bfloat16``; sizes by name.

    What would be taken for punctuation in a name or a word is percent-encoded.
    """
    sizes = ",".join(f"{_word(name)}={_word(shape[name])}" for name in sorted(shape))
    return f"{_word(family)}/{sizes}"


def source_of(data: bytes, name: str) -> Source:
    """A file as a `Source`.

    Raises:
        InputError: it is no UTF-8 text.
    """
    try:
        return Source(hashlib.sha256(data).hexdigest(), name, data.decode())
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is no UTF-8 text: {error}") from error


def canonical(values: Mapping[str, Any]) -> str:
    """A mapping as JSON text, equal for equal mappings; what is not finite as ``"Infinity"``..."""
    try:
        return _ENCODER.encode(dict(values))
    except ValueError:  # rarely: a number that is not finite
        return _ENCODER.encode(_finite(values))


def _word(value: Value) -> str:
    text = value if isinstance(value, str) else json.dumps(_finite(value)).strip('"')
    return quote(text, safe=" .:+-_()[]")


# ------------------------------------------------------------------------------------------- JSON


def to_json(record: TimedConfiguration | TimedLaunch | TimedDemand | Source) -> dict[str, Any]:
    """A row or source as JSON values; fields that are as by default are left out."""
    told = {}
    for name, default in _defaults(type(record)).items():  # type: ignore[arg-type]
        value = getattr(record, name)
        if value != default or name == "schema_version":
            told[name] = _plain(value)
    return told


def from_json(form: type[_T], told: object) -> _T:
    """The row or source that `to_json` gave; fields that it does not know are passed over.

    Args:
        form: `TimedConfiguration` or `Source`.
        told: what `json.loads` gave.

    Raises:
        ValueError: it is none; names the field.
    """
    if not isinstance(told, dict):
        raise ValueError(f"expected an object, not {type(told).__name__}")
    version = told.get("schema_version", SCHEMA_VERSION)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise ValueError(
            f"schema_version {version} is newer than {SCHEMA_VERSION}, the newest known"
        )
    values: dict[str, Any] = {}
    for name, (reader, required) in _readers(form).items():  # type: ignore[arg-type]
        if name in told:
            try:
                values[name] = reader(told[name])
            except (TypeError, ValueError) as error:
                raise ValueError(f"{name}: {error}") from None
        elif required:
            raise ValueError(f"{name} is missing")
    return form(**values)


@functools.cache
def _defaults(form: Any) -> Mapping[str, Any]:
    """By field: its default; `MISSING`, which equals nothing else, where it has none."""
    return {
        each.name: each.default if each.default_factory is MISSING else each.default_factory()
        for each in fields(form)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="microseconds")
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, TimedLaunch | TimedDemand):
        return to_json(value)
    return _finite(value)


def _finite(value: Any) -> Any:
    """JSON has no numbers that are not finite: they become words."""
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


@functools.cache
def _readers(form: Any) -> Mapping[str, tuple[Callable[[Any], Any], bool]]:
    """By field: what reads its JSON value, and whether it must be there."""
    hints, defaults = get_type_hints(form), _defaults(form)
    return {name: (_reader(hints[name]), defaults[name] is MISSING) for name in defaults}


def _reader(hint: Any) -> Callable[[Any], Any]:
    """What reads a JSON value as a field of that type, or raises `ValueError`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        inner = _reader(args[0])
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        each = _reader(args[0])
        return lambda value: tuple(map(each, _of(list, value)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return functools.partial(_of, dict)
    readers: dict[Any, Callable[[Any], Any]] = {
        float: _number,
        datetime: _instant,
        Verdict: Verdict,
        TimedDemand: functools.partial(from_json, TimedDemand),
        TimedLaunch: functools.partial(from_json, TimedLaunch),
    }
    return readers.get(hint, functools.partial(_of, hint))


def _number(value: Any) -> float:
    if isinstance(value, float) or value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"expected a number, not {value!r:.80}")
    return float(value)


def _instant(value: Any) -> datetime:
    return datetime.fromisoformat(_of(str, value)).astimezone(timezone.utc)


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"expected {kind.__name__}, not {value!r:.80}")
    return value
