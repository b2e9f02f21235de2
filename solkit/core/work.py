"""The minimum cost of a problem, and the time that it takes on a device."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class OpWork:
    """The minimum cost of one traced op.

    Attributes:
        op: its ATen name, e.g. ``"aten.mm"``.
        operations: operations by kind. ``contraction.<kind>`` counts floating-point operations of
            a matrix product (a multiply-add is two; the kinds: `solkit.roofline.precision_routes`);
            ``fp32``, ``fp64`` and ``int32`` those of the scalar pipes; ``sfu`` results of the
            special-function unit.
        hard_flops: the part of its contraction that no known algorithm avoids.
        shortcut: why that is not all of it, a key of `solkit.roofline.hard_bound.SHORTCUTS`; after
            a colon the op that it is about.
        position: its index among the ops that the results depend on, in program order.
        read_bytes: DRAM bytes of the inputs that it needs first.
        write_bytes: DRAM bytes of the results that it writes last.
        line: ``file:line`` of the calling user code; empty if unknown.
        one_sign: whether all terms of its contraction may have one sign, so that roundings of
            factors average out.
    """

    op: str
    operations: Mapping[str, int]
    hard_flops: int = 0
    shortcut: str = ""
    position: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    line: str = ""
    one_sign: bool = False

    @property
    def hard_by_kind(self) -> dict[str, int]:
        """`hard_flops` under ``contraction.<dtype>``, of the narrowest dtypes first.

        A ``+`` marks those of one sign.
        """
        rest, mark = self.hard_flops, "+" if self.one_sign else ""
        by_kind: Counter[str] = Counter()
        kinds = [key for key in self.operations if key.startswith("contraction.")]
        for key in sorted(kinds, key=lambda key: (key.startswith("contraction.fp32"), key)):
            flops = min(rest, self.operations[key])
            by_kind[re.split("[*~>]", key)[0] + mark] += flops
            rest -= flops
        return {key: flops for key, flops in by_kind.items() if flops}


@dataclass(frozen=True)
class Chain:
    """The longest chain of dependent steps of a program as it was traced.

    Attributes:
        steps: each needs a whole result of the step before: products, time steps of a recurrence.
        columns: of factorisations and triangular solves; many of them can share an exchange.
        alone: operations of the smallest part that needs nothing of the others in the whole chain
            (a row, a sequence, a matrix of a batch), under the keys of `OpWork.operations`.
        op: the last op of the chain.
        line: ``file:line`` of the user's code that called it; empty if unknown.
    """

    steps: int
    columns: int
    alone: Mapping[str, int]
    op: str
    line: str = ""


@dataclass(frozen=True)
class InputNeed:
    """An argument that the results depend on, and that no other argument tells.

    Attributes:
        position: among the tensors of the arguments, in their order.
        name: as the reference calls it.
        bytes: of it that one op reads, at the most.
    """

    position: int
    name: str
    bytes: int


@dataclass(frozen=True)
class Work:
    """The minimum cost of a problem, on any device.

    Attributes:
        operations: the sum over `ops`, under the keys of `OpWork.operations`.
        hard_operations: contractions that no known algorithm avoids, ``contraction.<dtype>``.
        dram_read_bytes: input bytes that the result depends on, each once.
        dram_write_bytes: output bytes, each once.
        hard_read_bytes: those of `dram_read_bytes` that rest on no assumption.
        hard_write_bytes: those of `dram_write_bytes` that rest on no assumption.
        unmodelled: ops counted as zero cost, by name.
        assumptions: each a sentence.
        ops: one entry per traced op that costs anything, in program order.
        guesses: the `assumptions` about guessed values, on which no hard bound may rest.
        chain: of dependent steps; ``None`` if there are few.
        needs: arguments that every correct implementation reads; not all of them are known.
    """

    operations: Mapping[str, int]
    hard_operations: Mapping[str, int]
    dram_read_bytes: int
    dram_write_bytes: int
    hard_read_bytes: int
    hard_write_bytes: int
    unmodelled: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    ops: tuple[OpWork, ...] = ()
    guesses: tuple[str, ...] = ()
    chain: Chain | None = None
    needs: tuple[InputNeed, ...] = ()

    @property
    def dram_bytes(self) -> int:
        """Bytes that must cross DRAM."""
        return self.dram_read_bytes + self.dram_write_bytes


@dataclass(frozen=True)
class NeededProducts:
    """One contraction as it ran on the inputs at hand.

    Attributes:
        flops: its operations; a multiply-add is two.
        needed: those that multiply two nonzeros and depend on inputs that must be read.
    """

    flops: int
    needed: int


@dataclass(frozen=True)
class Needed:
    """Work that the inputs at hand make compulsory for any correct kernel, as measured on them.

    Attributes:
        read_bytes: of the arguments; at least so many with a probability of 1 - 10^-6.
        write_bytes: of the outputs, as far as they differ from what stood there.
        products: the contractions, in the order in which they ran.
        samples: how many sectors were changed.
    """

    read_bytes: int
    write_bytes: int
    products: tuple[NeededProducts, ...] = ()
    samples: int = 0


@dataclass(frozen=True)
class Contributor:
    """Use of a resource by the ops of one name on one line.

    Attributes:
        name: the op, e.g. ``"aten.mm"``.
        amount: in the resource's unit, over all of them.
        share: of the resource's total, 0 to 1.
        line: ``file:line`` of the calling user code; empty if unknown.
        count: how many ops.
    """

    name: str
    amount: int
    share: float
    line: str = ""
    count: int = 1


@dataclass(frozen=True)
class Resource:
    """The least time that one resource needs.

    Attributes:
        name: the ceiling's key in `Device.ceilings`; ``"tensor"`` if several dtypes share the
            tensor cores.
        amount: what must pass through it, in `unit`.
        unit: ``"FLOP"``, ``"op"`` or ``"B"``.
        ceiling: amount per second, divided by the passes that precision needs (three tf32 passes: a
            third).
        source: of the ceiling.
        time_ms: amount / ceiling.
        contributors: the ops behind the amount, largest first.
    """

    name: str
    amount: int
    unit: str
    ceiling: float
    source: str
    time_ms: float
    contributors: tuple[Contributor, ...] = ()


@dataclass(frozen=True)
class BoundTimes:
    """The same bound under other ceilings, in milliseconds.

    Attributes:
        roofline_ms: every resource at its highest clock: the SOL of gap and score.
        hard_ms: what no correct implementation can beat on this device; never above the roofline.
        datasheet_ms: at the vendor's rates.
        calibrated_ms: at `Device.calibrated` rates; not part of `hard_ms`.
        observed_clock_ms: at the SM clock seen during timing.
        launch_floor_ms: launch time of an empty kernel; not part of the others; ``None`` if not
            measured.
        chain_floor_ms: the latency of the problem's chain of dependent steps, by
            `solkit.roofline.latency_floor`; not part of the others; ``None`` without a long chain.
        strict_ms: the roofline if every fp32 product took three tf32 passes; ``None`` if that is no
            other, or another precision is asked for.
    """

    roofline_ms: float
    hard_ms: float
    datasheet_ms: float
    calibrated_ms: float | None = None
    observed_clock_ms: float | None = None
    launch_floor_ms: float | None = None
    chain_floor_ms: float | None = None
    strict_ms: float | None = None


@dataclass(frozen=True)
class PricedRoute:
    """A way to compute the products of a kind: how exact and how fast it is.

    Attributes:
        kind: of the products, in words, e.g. ``"fp32 before an exponential"``.
        route: dtype and passes in words, e.g. ``"fp16 in 3 passes"``.
        error: the largest, relative to the results and their sensitivity; ``None`` if that is the
            reference's own.
        allowed: the error that the referee accepts.
        rate: operations of the product per second; 0 where the device lacks the pipe.
        is_taken: whether the bound rests on it: the fastest that is accepted.
        is_strict: whether `BoundTimes.strict_ms` rests on it.
    """

    kind: str
    route: str
    error: float | None
    allowed: float
    rate: float
    is_taken: bool = False
    is_strict: bool = False

    @property
    def is_accepted(self) -> bool:
        """True if the referee accepts results of that error."""
        return self.error is None or self.error <= self.allowed


@dataclass(frozen=True)
class Bound:
    """The least time that a problem needs on a device.

    Attributes:
        time_ms: the roofline: the longest of `resources`.
        limiter: that resource's name.
        resources: one entry per used resource, longest first.
        flops_by_pipe: `Work.operations` after precision has chosen the pipes.
        precision: the precision rule and its choice, e.g. ``"tolerance: fp32 as tf32"``.
        assumptions: the bound's assumptions, each a sentence.
        at: the bound under other ceilings.
        protocol: where inputs lie at the start: ``"cold"`` in DRAM, ``"warm"`` in L2 if they fit.
        hard_evidence: what `BoundTimes.hard_ms` rests on: ``"static"``, the traced program, or
            ``"measured"``, what the timed inputs make compulsory as well.
        routes: ways to compute the products whose precision is chosen, those considered included.
    """

    time_ms: float
    limiter: str
    resources: tuple[Resource, ...]
    flops_by_pipe: Mapping[str, int]
    precision: str
    assumptions: tuple[str, ...]
    at: BoundTimes
    protocol: str = "cold"
    hard_evidence: str = "static"
    routes: tuple[PricedRoute, ...] = ()


@dataclass(frozen=True)
class Part:
    """Some ops of a problem that one kernel computes: its inputs and results cross DRAM.

    Attributes:
        positions: the ops, as in `OpWork.position`.
        names: their names, e.g. ``("aten.addmm", "aten.relu")``.
        line: ``file:line`` of the first one.
        work: their own cost, not split by op.
    """

    positions: tuple[int, ...]
    names: tuple[str, ...]
    line: str
    work: Work


@dataclass(frozen=True)
class PartBound:
    """A `Part` and the least time that it needs."""

    part: Part
    bound: Bound

    @property
    def time_ms(self) -> float:
        """The least time of its launch: the bound, or what an empty kernel's launch takes."""
        return max(self.bound.time_ms, self.bound.at.launch_floor_ms or 0.0)


@dataclass(frozen=True)
class Fusion:
    """A problem as one kernel, as one kernel per op, and as groups in between.

    Attributes:
        fused_ms: the bound of the whole problem: one kernel.
        unfused: one kernel per op, in program order.
        grouped: the requested kernels; empty if none.
    """

    fused_ms: float
    unfused: tuple[PartBound, ...]
    grouped: tuple[PartBound, ...] = ()

    @property
    def unfused_ms(self) -> float:
        """The least time of one kernel per op, in sequence."""
        return sum(part.time_ms for part in self.unfused)

    @property
    def grouped_ms(self) -> float:
        """The least time of the requested kernels, in sequence."""
        return sum(part.time_ms for part in self.grouped)

    @property
    def worth(self) -> float:
        """Speedup of one kernel over one kernel per op; at least 1."""
        floors = (part.bound.at.launch_floor_ms or 0.0 for part in self.unfused)
        fused_ms = max(self.fused_ms, *floors, 0.0)
        return max(1.0, self.unfused_ms / fused_ms) if fused_ms else 1.0
