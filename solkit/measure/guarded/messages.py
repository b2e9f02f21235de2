"""The session's requests and the referee's answers, in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar, Union

from solkit.core import Conditions, Measurement, Needed, Protocol, Value, Verdict
from solkit.core.codec import from_json, to_json
from solkit.core.tuned import TunerChoice

T = TypeVar("T")

TUNING = "timing an autotuner's list"
"""Step of a candidate whose autotuner compiles and times configurations."""
TUNING_S = 120.0
"""Seconds for that, beyond the time limit: a user's program waits for its autotuner as well."""


@dataclass(frozen=True)
class Request:
    """One candidate to measure at one shape."""

    path: str  # the kernel file
    reference: str | None  # the file with the reference, if `path` has none
    shape: Mapping[str, Value]  # sizes that override the file's defaults
    params: Mapping[str, Value]  # the candidate's tuning parameters
    time_limit_s: float  # seconds after which the candidate's process is killed
    seed: int  # of the inputs that only this candidate sees and is timed on
    device: str = "cuda"  # where the inputs are made; only ``"cuda"`` can be timed
    protocol: str = "cold"  # the name of a `solkit.measure.timing.protocols.TimingProtocol`
    common_seed: int | None = None  # of the other inputs; ``None`` for the same seed
    custom_kernel: bool = False  # whether calling libraries for the work counts as cheating
    skip: tuple[str, ...] = ()  # trials on which the reference is known to break the CUDA context
    # the hard bound as far as it is known: below it, the needs of the timed inputs are measured
    hard_ms: float = 0.0
    spent_s: float = 0.0  # seconds of the time limit that earlier attempts took
    checks_limit_s: float | None = None  # seconds for distributions, and for judging timed calls
    searching: bool = False  # whether few calls are timed if they agree, and the reference briefly
    hopeless_ms: float | None = None  # a call that takes longer is timed only a few times
    is_right_elsewhere: bool = False  # whether it was checked at held-out shapes before
    excused: tuple[str, ...] = ()  # distributions on which the original of a search is wrong
    tried_on: str = ""  # the only distribution that it is tried on; empty for all
    tuned: tuple[TunerChoice, ...] = ()  # what the file's autotuners chose before, and keep


@dataclass(frozen=True)
class Samples:
    """All times that count, in the order measured."""

    candidate_ms: tuple[float, ...] = ()  # times of single calls
    reference_ms: tuple[float, ...] = ()
    # clocks, power, temperature and throttle reasons meanwhile
    conditions: Conditions | None = None
    # why other users of the GPU could not be seen; empty if they could
    neighbours: tuple[str, ...] = ()
    inputs_digest: str | None = (
        None  # `solkit.measure.checking.inputs.digest_inputs` the timed inputs
    )


@dataclass(frozen=True)
class Judgement:
    """The result for one candidate."""

    verdict: Verdict  # only correct, unstable and degenerate ones have a measurement
    # why it failed, a summary first. Otherwise what limits the measurement, such as CUPTI not being
    # usable
    errors: tuple[str, ...]
    protocol: Protocol | None  # how the time was measured; ``None`` without a time
    measurement: Measurement | None  # the time; ``None`` without one
    samples: Samples = Samples()
    needed: Needed | None = None  # what the timed inputs make compulsory, if it was measured
    is_right_elsewhere: bool = False  # whether it was checked at held-out shapes, in time
    failed_on: str = ""  # the distribution on which it is wrong; empty for other inputs
    tuned: tuple[TunerChoice, ...] = ()  # what its autotuners chose, as its process says
    compiled_s: float = 0.0  # of calls in which they did, in Triton's compiler, as it says


@dataclass(frozen=True)
class ComparisonRequest:
    """Candidates to time in turns at one shape."""

    # the base first; they differ only in `Request.path` and `Request.params`. The time limit is for
    # all of them together
    candidates: tuple[Request, ...]
    # turns stop when the interval of every ratio to the base is this narrow, as a share of the
    # ratio
    precision: float
    budget_s: float  # seconds for turns beyond the minimum
    repeats: int = 1  # how often to compare, each time including the warm-up


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
    """The result of a comparison."""

    turns: tuple[Turns, ...]  # one for each repeat; empty if a candidate failed
    errors: tuple[str, ...] = ()  # why it failed, a summary first
    protocol: Protocol | None = None  # how the times were measured; ``None`` without times
    verdict: Verdict = Verdict.CORRECT  # of the candidate that failed, else ``CORRECT``
    failed: int | None = None  # its number; ``None`` if none failed, or if its process ended
    failed_on: str = ""  # as in `Judgement`
    tuned: tuple[tuple[TunerChoice, ...], ...] = ()  # of each candidate, unless one failed


Message = Union[Request, Judgement, ComparisonRequest, JudgedTurns]


def encode(message: Message) -> str:
    """Encode a message as one line of JSON."""
    return json.dumps(to_json(message), allow_nan=False)


def decode(kind: type[T], line: str) -> T:
    """Return the message of that kind in a line of JSON.

    Raises:
        ValueError: it is not JSON, or not of that kind.
    """
    return from_json(kind, json.loads(line))
