"""What the referee is asked, and what it answers, in JSON."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from solkit.core import Measurement, Protocol, Tolerance, Value, Verdict
from solkit.roofline.calibration.record import Conditions

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["Outcome", "Request", "Samples", "decode", "encode"]

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """One candidate to measure on one shape.

    Attributes:
        path: the kernel file.
        reference: the file with the reference, where `path` lacks one.
        shape: sizes that override the file's defaults.
        params: the candidate's tuning parameters.
        tolerance: instead of the file's own; ``None`` leaves it to the file.
        time_limit_s: seconds after which the candidate's process is killed.
        seed: of the inputs.
        device: where the inputs are made; only ``"cuda"`` can be timed.
        protocol: the name of a `solkit.measure.protocols.TimingProtocol`.
    """

    path: str
    reference: str | None
    shape: Mapping[str, Value]
    params: Mapping[str, Value]
    tolerance: Tolerance | None
    time_limit_s: float
    seed: int
    device: str = "cuda"
    protocol: str = "cold"


@dataclass(frozen=True)
class Samples:
    """Every time that counts, in the order taken.

    Attributes:
        candidate_ms, reference_ms: times of single calls.
        conditions: clocks, power, temperature and throttle reasons meanwhile.
        neighbours: why it could not be seen who else was on the GPU; empty where it could.
    """

    candidate_ms: tuple[float, ...] = ()
    reference_ms: tuple[float, ...] = ()
    conditions: Conditions | None = None
    neighbours: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of a candidate.

    Attributes:
        verdict: what it is; ``CORRECT`` and ``DEGENERATE_PROBLEM`` alone have a measurement.
        errors: why it failed, a summary first. With ``CORRECT``: what limits the measurement, such
            as CUPTI not being usable.
        protocol: how the time was taken; ``None`` where none was.
        measurement: the time; ``None`` where none was taken.
    """

    verdict: Verdict
    errors: tuple[str, ...]
    protocol: Protocol | None
    measurement: Measurement | None
    samples: Samples = Samples()


def encode(message: Request | Outcome) -> str:
    """One line of JSON."""
    return json.dumps(_adapters()[type(message)].dump_python(message))


def decode(kind: type[T], line: str) -> T:
    """The message of that kind in a line of JSON.

    Raises:
        ValueError: it is no JSON, or not of that kind.
    """
    message: T = _adapters()[kind].validate_python(json.loads(line))
    return message


@functools.cache
def _adapters() -> dict[type, TypeAdapter[Any]]:
    from pydantic import TypeAdapter  # 0.1 s, and not wanted by `import solkit`

    return {kind: TypeAdapter(kind) for kind in (Request, Outcome)}
