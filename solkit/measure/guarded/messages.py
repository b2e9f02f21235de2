"""The session's requests and the referee's answers, in JSON."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args

from solkit.core import Conditions, Measurement, Needed, Protocol, Value, Verdict

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
    """One candidate to measure at one shape.

    Attributes:
        path: the kernel file.
        reference: the file with the reference, if `path` has none.
        shape: sizes that override the file's defaults.
        params: the candidate's tuning parameters.
        time_limit_s: seconds after which the candidate's process is killed.
        seed: of the inputs that only this candidate sees and is timed on.
        common_seed: of the other inputs; ``None`` for the same seed.
        custom_kernel: whether calling libraries for the work counts as cheating.
        device: where the inputs are made; only ``"cuda"`` can be timed.
        protocol: the name of a `solkit.measure.timing.protocols.TimingProtocol`.
        skip: trials on which the reference is known to break the CUDA context.
        hard_ms: the hard bound as far as it is known: for a shorter time it is measured what the
            timed inputs need.
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
    hard_ms: float = 0.0


@dataclass(frozen=True)
class Samples:
    """All times that count, in the order measured.

    Attributes:
        candidate_ms, reference_ms: times of single calls.
        conditions: clocks, power, temperature and throttle reasons meanwhile.
        neighbours: why other users of the GPU could not be seen; empty if they could.
        inputs_digest: `solkit.measure.checking.inputs.digest_of` the timed inputs.
    """

    candidate_ms: tuple[float, ...] = ()
    reference_ms: tuple[float, ...] = ()
    conditions: Conditions | None = None
    neighbours: tuple[str, ...] = ()
    inputs_digest: str | None = None


@dataclass(frozen=True)
class Judgement:
    """The result for one candidate.

    Attributes:
        verdict: only correct, unstable and degenerate ones have a measurement.
        errors: why it failed, a summary first. Otherwise what limits the measurement, such as
            CUPTI not being usable.
        protocol: how the time was measured; ``None`` without a time.
        measurement: the time; ``None`` without one.
        needed: what the timed inputs make compulsory; ``None`` if it was not measured.
    """

    verdict: Verdict
    errors: tuple[str, ...]
    protocol: Protocol | None
    measurement: Measurement | None
    samples: Samples = Samples()
    needed: Needed | None = None


@dataclass(frozen=True)
class ComparisonRequest:
    """Candidates to time in turns at one shape.

    Attributes:
        candidates: the base first; they differ only in `Request.path` and `Request.params`. The
            time limit is for all of them together.
        precision: turns stop when the interval of every ratio to the base is this narrow, as a
            share of the ratio.
        budget_s: seconds for turns beyond the minimum.
        repeats: how often to compare, each time including the warm-up.
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
        orders: of each such turn: the candidates' numbers in the order of their calls.
        conditions: clocks, power, temperature and throttle reasons meanwhile.
        unstable: why the times are unreliable; empty if they are reliable.
        notes: other remarks.
    """

    times_ms: tuple[tuple[float, ...], ...]
    orders: tuple[tuple[int, ...], ...]
    conditions: Conditions | None = None
    unstable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class JudgedTurns:
    """The result of a comparison.

    Attributes:
        turns: one for each repeat; empty if a candidate failed.
        errors: why it failed, a summary first.
        protocol: how the times were measured; ``None`` without times.
        verdict: of the candidate that failed, else ``CORRECT``.
        failed: its number; ``None`` if none failed, or if its process ended.
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
        ValueError: it is not JSON, or not of that kind.
    """
    message: T = _adapters()[kind].validate_python(json.loads(line))
    return message


@functools.cache
def _adapters() -> dict[type, TypeAdapter[Any]]:
    from pydantic import TypeAdapter  # 0.1 s, too slow for `import solkit`

    return {kind: TypeAdapter(kind) for kind in get_args(Message)}
