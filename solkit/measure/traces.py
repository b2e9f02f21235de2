"""Traces: every measurement as one line of JSON, on disk before the next one starts.

The form is ``solkit.trace/1``, described in docs/traces.md: fields may be added, with defaults,
never renamed; those of `solkit.core.Protocol`, `solkit.core.Measurement` and the like count among
them. A file is only ever appended to, by as many processes as there are; a line is written whole,
or the file is as it was. What a crash of the machine cut off all the same is told by `read`, and
the next trace starts on a line of its own.

::

    Trace ─┬─ candidate, problem, device, software
           ├─ verdict, evidence, bound
           ├─ protocol, measurement, samples
           └─ comparison ── base
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import ClassVar, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError

from solkit import userdata
from solkit.core import (
    Comparison,
    Device,
    Difference,
    KernelFile,
    Measurement,
    Protocol,
    Ratio,
    Result,
    Tolerance,
    Value,
    Verdict,
)
from solkit.errors import InputError, TraceError
from solkit.measure.messages import Samples

__all__ = [
    "SCHEMA",
    "VARIABLE",
    "Digests",
    "Trace",
    "TraceWriter",
    "TracedBound",
    "TracedCandidate",
    "TracedComparison",
    "TracedDevice",
    "TracedProblem",
    "default_path",
    "digests",
    "read",
    "trace_of",
    "trace_of_comparison",
]

SCHEMA: Final = "solkit.trace/1"

VARIABLE = "SOLKIT_TRACES"
"""The environment variable that names another folder for traces."""

_FAMILY, _, _VERSION = SCHEMA.partition("/")
_START = f'{{"schema":"{_FAMILY}/'.encode()  # of every line
_SOURCES = (".json", ".jsonl", ".py")  # of a problem folder: not its tensors


@dataclass(frozen=True)
class TracedCandidate:
    """`solkit.core.Candidate`, and which version of it.

    Attributes:
        name: the entry point's name.
        path: its file, absolute.
        sha256: of that file, in hexadecimal; what it imports is not covered.
        params: the tuning parameters that were chosen.
    """

    name: str
    path: str
    sha256: str
    params: Mapping[str, Value]


@dataclass(frozen=True)
class TracedProblem:
    """`solkit.core.Problem` at one shape.

    Attributes:
        name, format: as there.
        path: its file or folder, absolute.
        sha256: of that file, or of a folder's JSON and Python files, in hexadecimal.
        shape: every size with its value.
        tolerance: the file's own; ``None`` left it to the dtype of the outputs.
    """

    name: str
    format: str
    path: str
    sha256: str
    shape: Mapping[str, Value]
    tolerance: Tolerance | None


@dataclass(frozen=True)
class TracedDevice:
    """`solkit.core.Device`, as far as it tells one GPU from another.

    Attributes:
        key, name, uuid, sm_count, compute_capability: as there.
        max_sm_clock_mhz: the SM clock that the bound is for.
        notes: power limit, ECC, MIG slice and the like.
    """

    key: str
    name: str
    uuid: str | None
    compute_capability: tuple[int, int]
    sm_count: int
    max_sm_clock_mhz: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TracedBound:
    """The figures of `solkit.core.Bound` that a time is held against.

    Attributes:
        roofline_ms, hard_ms, calibrated_ms, observed_clock_ms: as in `solkit.core.BoundTimes`.
        limiter, precision: as in `solkit.core.Bound`.
    """

    roofline_ms: float
    hard_ms: float
    calibrated_ms: float | None
    observed_clock_ms: float | None
    limiter: str
    precision: str


@dataclass(frozen=True)
class TracedComparison:
    """`solkit.core.Comparison`: what the traced candidate took turns with.

    Attributes:
        base: the other candidate, for the same problem.
        difference, ratio: as there.
        base_ms: its times, one for each of the trace's `Samples.candidate_ms`.
    """

    base: TracedCandidate
    difference: Difference
    ratio: Ratio | None
    base_ms: tuple[float, ...]


@dataclass(frozen=True)
class Trace:
    """One measurement: what was measured, on what, how, and what came of it.

    Attributes:
        schema: this form of record.
        created: when the measurement was over, in UTC.
        candidate, problem, device: what was measured, and on what.
        software: versions by name (``solkit``, ``torch``, ``triton``, ``driver``, ...).
        verdict: what became of the candidate.
        evidence: why, a sentence each, a summary first.
        bound: what the time is held against; ``None`` where none is known.
        protocol, measurement: how it was timed and what came out, the launches made with it;
            ``None`` where it was not timed.
        samples: the times behind it, and clocks, power and the like meanwhile.
        comparison: where the candidate took turns with another: `protocol` and `samples` are of
            that, and `measurement` is ``None``; the measurement of either has a trace of its own.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="ignore", ser_json_inf_nan="strings")

    schema: str
    created: datetime
    candidate: TracedCandidate
    problem: TracedProblem
    device: TracedDevice
    software: Mapping[str, str | None]
    verdict: Verdict
    evidence: tuple[str, ...] = ()
    bound: TracedBound | None = None
    protocol: Protocol | None = None
    measurement: Measurement | None = None
    samples: Samples = field(default_factory=Samples)
    comparison: TracedComparison | None = None


_JSON = TypeAdapter(Trace)


# ----------------------------------------------------------------------------------- making one


@dataclass(frozen=True)
class Digests:
    """SHA-256 of what is measured, taken before it runs: it may change its own file."""

    candidate: str
    problem: str


def digests(kernel: KernelFile) -> Digests:
    """Which version of candidate and problem a kernel file is now.

    Raises:
        InputError: a file cannot be read.
    """
    return Digests(_sha256(Path(kernel.path)), _sha256(Path(kernel.problem.path)))


def trace_of(
    kernel: KernelFile,
    sources: Digests,
    device: Device,
    software: Mapping[str, str | None],
    result: Result,
    samples: Samples,
) -> Trace:
    """The trace of a result that was just measured."""
    problem, found = kernel.problem, result.bound
    return Trace(
        schema=SCHEMA,
        created=datetime.now(timezone.utc),
        candidate=_candidate(kernel, sources, result),
        problem=TracedProblem(
            problem.name,
            problem.format,
            _absolute(problem.path),
            sources.problem,
            result.shape,
            problem.tolerance,
        ),
        device=TracedDevice(
            device.key,
            device.name,
            device.uuid,
            device.compute_capability,
            device.sm_count,
            device.clock_mhz,
            device.notes,
        ),
        software=software,
        verdict=result.verdict,
        evidence=result.errors,
        bound=TracedBound(
            found.at.roofline_ms,
            found.at.hard_ms,
            found.at.calibrated_ms,
            found.at.observed_clock_ms,
            found.limiter,
            found.precision,
        ),
        protocol=result.protocol,
        measurement=result.measurement,
        samples=samples,
    )


def trace_of_comparison(
    kernels: tuple[KernelFile, KernelFile],
    sources: tuple[Digests, Digests],
    device: Device,
    software: Mapping[str, str | None],
    found: Comparison,
    times: tuple[Samples, Samples],
) -> Trace:
    """The trace of two candidates that just took turns; base first in each pair.

    Args:
        kernels: their files.
        sources: which versions of them.
        device: the GPU.
        software: versions by name.
        found: what came of it.
        times: `Samples.candidate_ms` of each, one a turn.
    """
    base = _candidate(kernels[0], sources[0], found.base)
    trace = trace_of(kernels[1], sources[1], device, software, found.candidate, times[1])
    return replace(
        trace,
        evidence=found.errors,
        protocol=found.protocol,
        measurement=None,
        comparison=TracedComparison(base, found.difference, found.ratio, times[0].candidate_ms),
    )


def _candidate(kernel: KernelFile, sources: Digests, result: Result) -> TracedCandidate:
    assert kernel.candidate is not None
    path = _absolute(kernel.path)
    return TracedCandidate(kernel.candidate.name, path, sources.candidate, result.params)


def _absolute(path: str) -> str:
    return str(Path(path).resolve())


def _sha256(path: Path) -> str:
    try:
        if not path.is_dir():
            return hashlib.sha256(path.read_bytes()).hexdigest()
        sources = sorted(each for each in path.iterdir() if each.suffix in _SOURCES)
        parts = (f"{each.name}\0{_sha256(each)}\n" for each in sources)
        return hashlib.sha256("".join(parts).encode()).hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


# -------------------------------------------------------------------------------------- writing


def default_path() -> Path:
    """This month's file in ``$SOLKIT_TRACES``, else in the user's data folder."""
    return userdata.folder("traces", VARIABLE) / f"{datetime.now(timezone.utc):%Y-%m}.jsonl"


class TraceWriter:
    """Appends traces to a file, which it opens for each: it may be shared by anybody.

    Args:
        path: the file; by default `default_path`, whose folder is made.

    Raises:
        InputError: it cannot be written, or holds something else than traces.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = default_path() if path is None else path
        try:
            if path is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            file = self._open()
            try:
                start = os.pread(file, len(_START), 0)
            finally:
                os.close(file)
        except OSError as error:
            raise InputError(f"cannot write traces to {self.path}: {error.strerror}") from error
        if not _START.startswith(start):
            raise InputError(f"{self.path} holds no traces: they are not appended to other things")

    def append(self, trace: Trace) -> None:
        """Write a trace and have it on disk; other processes wait meanwhile.

        Raises:
            TraceError: it could not be written; what was there before is.
        """
        try:
            file = self._open()
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                _append(file, _JSON.dump_json(trace) + b"\n")
            finally:
                os.close(file)
        except OSError as error:
            raise TraceError(
                f"this measurement could not be written to {self.path}: {error.strerror}; "
                "those before it are there"
            ) from error

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _append(file: int, line: bytes) -> None:
    """Write a line at the end of a locked file, all of it or nothing."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):  # such as /dev/null
        os.write(file, line)
        return
    if found.st_size and os.pread(file, 1, found.st_size - 1) != b"\n":
        line = b"\n" + line  # the last one was cut off
    try:
        rest = memoryview(line)
        while rest:  # once, but where a disk is nearly full
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    except OSError:
        os.ftruncate(file, found.st_size)
        raise


# -------------------------------------------------------------------------------------- reading


def read(path: Path | str) -> tuple[tuple[Trace, ...], tuple[str, ...]]:
    """The traces in a file, in the order written, and what is wrong with lines that hold none.

    Raises:
        InputError: the file cannot be read.
    """
    faults: list[str] = []
    try:
        with Path(path).open("rb") as file:
            return tuple(_traces(file, str(path), faults)), tuple(faults)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _traces(lines: Iterator[bytes], path: str, faults: list[str]) -> Iterator[Trace]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _decode(line)
        except ValueError as error:
            faults.append(f"{path}:{number}: {error}")


def _decode(line: bytes) -> Trace:
    """The trace in a line.

    Raises:
        ValueError: there is none; says why.
    """
    try:
        told = json.loads(line)
    except ValueError:
        how = "damaged" if line.endswith(b"\n") else "cut off"
        raise ValueError(f"the line is {how}: {len(line)} bytes that are no JSON") from None
    schema = told.get("schema") if isinstance(told, dict) else None
    if schema != SCHEMA:
        raise ValueError(_foreign(schema))
    try:
        return _JSON.validate_python(told)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"no {SCHEMA}: {place}: {first['msg']}") from None


def _foreign(schema: object) -> str:
    family, _, version = str(schema).partition("/")
    if family == _FAMILY and version.isdecimal() and int(version) > int(_VERSION):
        return f"{schema} is newer than {SCHEMA}, the newest form that this SolKit reads"
    return f"no {SCHEMA}: schema is {schema!r}"
