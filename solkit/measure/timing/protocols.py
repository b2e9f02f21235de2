"""Timing protocols: small named records; each measurement keeps the one it used.

========== ==== ======== ==================== ====================================================
name       L2   launched timers, best first   for
========== ==== ======== ==================== ====================================================
cold       cold eager    cupti, events        the default: inputs come from DRAM
warm       warm eager    cupti, events        kernels that run right after their producer
cold-graph cold graph    cupti, events        many small kernels, without their launches
warm-graph warm graph    cupti, events        both
replay     warm graph    graph replay         a check on the others: no profiler, no event within
========== ==== ======== ==================== ====================================================

`as_deployed` gives the protocol of a recorded launch: cold or warm, eager or in a graph; or
``replayed`` if L2 holds some of its tensors: after the flush these are read, and no others.

Every protocol is interleaved: the compared kernels (a candidate and the reference, or two
candidates) are called in turns, each pair in random order, under one timer throughout. Strict
alternation biased kernels under 10 µs by 2 % on an H100, and separate runs of one GEMM differed by
11 to 15 %, because the power limit moves the clock; the ratio within pairs is stable.

Sampling stops when the 95 % interval is narrow enough or the time is used up
(`solkit.measure.timing.sampling.SamplingPlan`).
"""

from __future__ import annotations

from dataclasses import dataclass

from solkit.core import L2State
from solkit.errors import InputError


@dataclass(frozen=True)
class TimingProtocol:
    """Method by which calls are timed."""

    name: str  # on the command line
    # ``"cold"``: flushed before each call; ``"warm"``: preceded by an untimed call on other inputs,
    # and a read of the timed ones; ``"replayed"``: by a read of what a program leaves there
    l2: str
    launched: str  # ``"eager"``, or ``"graph"``: captured in a CUDA graph that is replayed
    # best first; the first one that works here is used throughout
    timers: tuple[str, ...] = ("cupti", "events")
    calls: int = 1  # how many calls one graph holds

    @property
    def calls_in_graph(self) -> int:
        """The same; 0 if calls are eager."""
        return self.calls if self.launched == "graph" else 0


_ALL = (
    TimingProtocol("cold", "cold", "eager"),
    TimingProtocol("warm", "warm", "eager"),
    TimingProtocol("cold-graph", "cold", "graph"),
    TimingProtocol("warm-graph", "warm", "graph"),
    TimingProtocol("replay", "warm", "graph", ("graph replay",), calls=20),
)

PROTOCOLS = {protocol.name: protocol for protocol in _ALL}
"""Every protocol by its name."""


def as_deployed(l2: L2State, launched: str) -> TimingProtocol:
    """Return the protocol of launches that begin with such an L2, eager or in a graph."""
    name = l2 if launched == "eager" else f"{l2}-{launched}"
    return PROTOCOLS.get(name) or TimingProtocol(name, l2, launched)


def find_protocol(name: str) -> TimingProtocol:
    """Return the protocol of that name.

    Raises:
        InputError: there is none.
    """
    if name not in PROTOCOLS:
        raise InputError(f"no timing protocol {name!r}; expected one of: {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]
