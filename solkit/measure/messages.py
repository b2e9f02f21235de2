"""What the measuring process is asked, and what it answers: one JSON object a line.

JSON and not pickle, since the candidate's code runs on the answering side.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TypeVar

from solkit.core import Measurement, Protocol, Tolerance, Value, Verdict

__all__ = ["Outcome", "Request", "decode", "encode"]

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
        time_limit_s: seconds after which the process is killed.
        seed: of the inputs.
        device: where the inputs are made; only ``"cuda"`` can be timed.
    """

    path: str
    reference: str | None
    shape: Mapping[str, Value]
    params: Mapping[str, Value]
    tolerance: Tolerance | None
    time_limit_s: float
    seed: int
    device: str = "cuda"


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


def encode(message: Request | Outcome) -> str:
    """One line of JSON."""
    return json.dumps(asdict(message))


def decode(kind: type[T], line: str) -> T:
    """The message of that kind in a line of JSON.

    Raises:
        ValueError: it is no JSON, or not of that kind.
    """
    from pydantic import TypeAdapter  # 0.1 s, and not wanted by `import solkit`

    return TypeAdapter(kind).validate_python(json.loads(line))
