"""What the referee is asked, and what it answers, in JSON."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args

from solkit.core import Conditions, Measurement, Protocol, Value, Verdict

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "ComparisonRequest",
    "JudgedTurns",
    "Judgement",
    "Request",
    "Samples",
    "Turns",
    "decode",
    "encode",
]

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """One candidate to measure on one shape.

    Attributes:
        path: the kernel file.
        reference: the file with the reference, where `path` lacks one.
        shape: sizes that override the file's defaults.
        params: the candidate's tuning parameters.
        time_limit_s: seconds after which the candidate's process is killed.
        seed: of the inputs that this candidate has to itself, which it is timed on.
        common_seed: of the others; `seed` where it is ``None``.
        custom_kernel: whether leaving the work to libraries is cheating.
        device: where the inputs are made; only ``"cuda"`` can be timed.
        protocol: the name of a `solkit.measure.timing.protocols.TimingProtocol`.
        skip: names of trials of which the reference is known to break the CUDA context.
    """

    path: str
    reference: str | None
    shape: Mapping[str, Value]
    params: Mapping[str, Value]
    time_limit_s: float
    seed: int
    device: str = "cuda"
    protocol: str = "cold"
    common_seed: int | None = None
    custom_kernel: bool = False
    skip: tuple[str, ...] = ()


@dataclass(frozen=True)
class Samples:
    """Every time that counts, in the order taken.

    Attributes:
        candidate_ms, reference_ms: times of single calls.
        conditions: clocks, power, temperature and throttle reasons meanwhile.
        neighbours: why it could not be seen who else was on the GPU; empty where it could.
        inputs_digest: `solkit.measure.checking.inputs.digest_of` the inputs that were timed.
    """

    candidate_ms: tuple[float, ...] = ()
    reference_ms: tuple[float, ...] = ()
    conditions: Conditions | None = None
    neighbours: tuple[str, ...] = ()
    inputs_digest: str | None = None


@dataclass(frozen=True)
class Judgement:
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


@dataclass(frozen=True)
class ComparisonRequest:
    """Candidates to time in turns on one shape.

    Attributes:
        candidates: the base first; alike but for `Request.path` and `Request.params`. The time
            limit is for all of them together.
        precision: turns are enough once every ratio to the base is sure to within this share.
        budget_s: no more turns than fit, beyond the least.
        repeats: how often they are compared, each time from warming up on.
    """

    candidates: tuple[Request, ...]
    precision: float
    budget_s: float
    repeats: int = 1


@dataclass(frozen=True)
class Turns:
    """Times of candidates that took turns.

    Attributes:
        times_ms: of each candidate, the base first: its time in every turn that counts.
        orders: of each such turn: the candidates' numbers in the order in which they were called.
        conditions: clocks, power, temperature and throttle reasons meanwhile.
        unstable: why the times are not to be relied upon; empty where they are.
        notes: what else is to be known.
    """

    times_ms: tuple[tuple[float, ...], ...]
    orders: tuple[tuple[int, ...], ...]
    conditions: Conditions | None = None
    unstable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class JudgedTurns:
    """What became of a comparison.

    Attributes:
        turns: one for each time that they were compared; empty where a candidate failed.
        errors: why it failed, a summary first.
        protocol: how the times were taken; ``None`` where none were.
        verdict: on the candidate that failed, else ``CORRECT``.
        failed: its number; ``None`` where none did, or where its process is gone.
    """

    turns: tuple[Turns, ...]
    errors: tuple[str, ...] = ()
    protocol: Protocol | None = None
    verdict: Verdict = Verdict.CORRECT
    failed: int | None = None


Message = Union[Request, Judgement, ComparisonRequest, JudgedTurns]


def encode(message: Message) -> str:
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

    return {kind: TypeAdapter(kind) for kind in get_args(Message)}
