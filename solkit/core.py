"""The nouns of SolKit: what passes between its rooms.

Frozen dataclasses with no behaviour beyond what can be read off their own fields, and no torch:
reading this page is reading the design. A numeric field's name ends in its unit. Dicts appear
only where JSON comes in or goes out (`solkit.report.schema`).

::

    KernelFile ─► Problem ─► Work ─┐
        │         Device ──────────┴─► Bound ──────────────┐
        └──────► Candidate ─► Launch ─► Analysis           ├─► Score
                                 └────► Measurement ───────┘
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Union

__all__ = [
    "Access",
    "Analysis",
    "AnalysisStatus",
    "Bound",
    "BoundTimes",
    "Candidate",
    "Case",
    "Ceiling",
    "ClockKind",
    "Comparison",
    "ComparisonReport",
    "Contributor",
    "Counters",
    "Demand",
    "Device",
    "Difference",
    "FailedShape",
    "Fusion",
    "Gap",
    "GapFactor",
    "IdleTime",
    "InstructionCount",
    "InstructionMix",
    "KernelAnalysis",
    "KernelFile",
    "KernelModel",
    "Launch",
    "Measurement",
    "Occupancy",
    "OpWork",
    "Part",
    "PartBound",
    "Problem",
    "Profile",
    "ProfiledKernel",
    "ProfiledOp",
    "Protocol",
    "Ratio",
    "Report",
    "Resource",
    "Result",
    "SMLimits",
    "Score",
    "SharedAccess",
    "Study",
    "Term",
    "Tolerance",
    "Value",
    "Verdict",
    "Work",
]

Value = Union[int, float, bool, str, None]
"""A shape size or a tuning parameter as it stands in a kernel file or on the command line."""


# ------------------------------------------------------------------------------------ devices


class ClockKind(str, enum.Enum):
    """What the SM clock behind a device's ceilings is."""

    MAXIMUM = "maximum"
    """The highest clock that NVML allows: no kernel runs above it."""
    BOOST = "boost"
    """The vendor's boost clock. Cards may exceed it, so no time is called impossible."""


@dataclass(frozen=True)
class Ceiling:
    """A rate that a resource cannot exceed.

    Attributes:
        value: the rate, in `unit`.
        unit: ``"FLOP/s"``, ``"op/s"`` or ``"B/s"``.
        clock_mhz: the clock at which it holds (SM clock, or memory clock for DRAM).
        source: where the number comes from (datasheet, whitepaper, NVML, calibration).
    """

    value: float
    unit: str
    clock_mhz: float
    source: str


@dataclass(frozen=True)
class SMLimits:
    """What one streaming multiprocessor (SM) can hold.

    Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".

    Attributes:
        threads: resident threads.
        blocks: resident thread blocks.
        registers: 32-bit registers.
        shared_bytes: shared memory that blocks may use together.
        shared_per_block_bytes: shared memory that one block may opt in to.
        reserved_shared_per_block_bytes: what the system takes from each block's share.
    """

    threads: int
    blocks: int
    registers: int
    shared_bytes: int
    shared_per_block_bytes: int
    reserved_shared_per_block_bytes: int


@dataclass(frozen=True)
class Device:
    """One GPU, or one MIG slice of it.

    Attributes:
        key: the catalogue's name of the SKU, e.g. ``"h100-sxm"``.
        name: the marketing name, as NVML gives it where it was asked.
        source: ``"catalogue"`` or ``"nvml"``.
        compute_capability: (major, minor).
        sm_count: streaming multiprocessors available.
        clock_mhz: the SM clock behind `ceilings`.
        clock_kind: what that clock is.
        datasheet_clock_mhz: the SM clock behind `datasheet`.
        memory_bytes: DRAM capacity.
        l2_bytes: L2 capacity.
        limits: per-SM limits.
        ceilings: rates at `clock_mhz`. Keys: ``dram``, ``l2`` (SM to L2), ``fp32``, ``fp64``,
            ``int32``, ``sfu`` and ``tensor.<dtype>`` (dense; fp32 or int32 accumulation), and
            ``tensor.<dtype>_acc16`` for fp16 accumulation, and ``issue``, the instructions that the
            schedulers issue to the scalar pipes. A pipe that the GPU lacks is absent.
        datasheet: the vendor's figures under the same keys.
        calibrated: figures measured on this GPU or one of its model, under the same keys, by
            `solkit calibrate`; empty where none are.
        uuid: NVML's identifier of a live GPU, else ``None``.
        notes: what a reader must know (a MIG slice, ECC off, a substituted clock).
        launch_us: what one launch of an empty kernel takes in a CUDA graph, where measured.
    """

    key: str
    name: str
    source: str
    compute_capability: tuple[int, int]
    sm_count: int
    clock_mhz: float
    clock_kind: ClockKind
    datasheet_clock_mhz: float
    memory_bytes: int
    l2_bytes: int
    limits: SMLimits
    ceilings: Mapping[str, Ceiling]
    datasheet: Mapping[str, Ceiling]
    calibrated: Mapping[str, Ceiling] = field(default_factory=dict)
    uuid: str | None = None
    notes: tuple[str, ...] = ()
    launch_us: float | None = None


# ----------------------------------------------------------------------------- kernel files


@dataclass(frozen=True)
class Tolerance:
    """How close is correct: ``|got - want| <= atol + rtol * |want|`` elementwise."""

    rtol: float
    atol: float


@dataclass(frozen=True)
class Problem:
    """What must be computed.

    Attributes:
        name: the file's stem, or the name that a problem folder gives.
        path: the file that holds the reference.
        format: ``"native"``, ``"kernelbench"``, ``"triton"``, ``"sol-execbench"`` or
            ``"flashinfer-bench"``.
        reference: the reference's name in that file; ``None`` where the file has none.
        sizes: the sizes that `inputs` takes, with their defaults; dtypes as ``"bfloat16"``.
        shapes: the workloads, each a subset of `sizes` with values; at least one, maybe ``{}``.
        held_out_shapes: workloads kept for checking a tuned kernel.
        tolerance: as the file says it; ``None`` leaves it to the dtype of the outputs.
        outputs: arguments that are written, for destination passing.
    """

    name: str
    path: str
    format: str
    reference: str | None
    sizes: Mapping[str, Value]
    shapes: tuple[Mapping[str, Value], ...]
    held_out_shapes: tuple[Mapping[str, Value], ...] = ()
    tolerance: Tolerance | None = None
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """One kernel for a problem.

    Attributes:
        name: the entry point's name.
        path: the file that holds it.
        params: tuning parameters it takes, with the values chosen.
        space: the values that each parameter may take; empty where nothing may be tuned.
    """

    name: str
    path: str
    params: Mapping[str, Value]
    space: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelFile:
    """A file as read: a problem, and a candidate unless the file holds a reference alone."""

    problem: Problem
    candidate: Candidate | None

    @property
    def path(self) -> str:
        """The file that was asked about: the candidate's where there is one."""
        return self.candidate.path if self.candidate is not None else self.problem.path

    @property
    def name(self) -> str:
        """That file's stem, or the problem's name where there is no candidate."""
        return self.problem.name if self.candidate is None else PurePath(self.path).stem


# ---------------------------------------------------------------------------- work and bound


@dataclass(frozen=True)
class OpWork:
    """What one traced op costs at the least.

    Attributes:
        op: its ATen name, e.g. ``"aten.mm"``.
        operations: operations by kind. ``contraction.<dtype>`` counts floating-point operations
            of a matrix product (a multiply-add is two); ``fp32``, ``fp64`` and ``int32`` those of
            the scalar pipes; ``sfu`` results of the special-function unit.
        hard_flops: the part of its contraction that no known algorithm avoids.
        position: its number among the ops that the results depend on, in program order.
        read_bytes: DRAM bytes of the inputs that it is the first to need.
        write_bytes: DRAM bytes of the results that it is the last to write.
        line: ``file:line`` of the user's code that called it; empty where not known.
    """

    op: str
    operations: Mapping[str, int]
    hard_flops: int = 0
    position: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    line: str = ""


@dataclass(frozen=True)
class Work:
    """What a problem costs at the least, on any device.

    Attributes:
        operations: the sum over `ops`, under the keys of `OpWork.operations`.
        hard_operations: contractions that no known algorithm avoids, ``contraction.<dtype>``.
        dram_read_bytes: bytes of inputs that the result depends on, each once.
        dram_write_bytes: bytes of outputs, each once.
        hard_read_bytes: those of `dram_read_bytes` that rest on no assumption.
        hard_write_bytes: those of `dram_write_bytes` that rest on no assumption.
        unmodelled: ops counted as nothing, by name.
        assumptions: what was taken for granted, each a sentence.
        ops: one entry per traced op that costs anything, in program order.
        guesses: those of `assumptions` on which nothing hard can rest: values that were guessed.
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

    @property
    def dram_bytes(self) -> int:
        """Bytes that must cross DRAM."""
        return self.dram_read_bytes + self.dram_write_bytes


@dataclass(frozen=True)
class Contributor:
    """What the ops of one name on one line take of a resource.

    Attributes:
        name: the op, e.g. ``"aten.mm"``.
        amount: in the resource's unit, over all of them.
        share: of the resource's whole amount, 0 to 1.
        line: ``file:line`` of the user's code that called them; empty where not known.
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
        name: the ceiling's key in `Device.ceilings`; ``"tensor"`` where several dtypes share the
            tensor cores.
        amount: what must pass through it, in `unit`.
        unit: ``"FLOP"``, ``"op"`` or ``"B"``.
        ceiling: amount per second, after what precision asks (three tf32 passes: a third).
        source: where the ceiling comes from.
        time_ms: amount / ceiling.
        contributors: the ops that the amount comes from, largest first.
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
        roofline_ms: every resource at its highest clock: the SOL that gap and score refer to.
        hard_ms: what no correct implementation can beat on this device; never above the roofline.
        datasheet_ms: at the vendor's rates.
        calibrated_ms: at `Device.calibrated` rates; no part of `hard_ms`.
        observed_clock_ms: at the SM clock seen while timing.
        launch_floor_ms: what launching one kernel that does nothing takes; no part of the others,
            and ``None`` where it was not measured.
    """

    roofline_ms: float
    hard_ms: float
    datasheet_ms: float
    calibrated_ms: float | None = None
    observed_clock_ms: float | None = None
    launch_floor_ms: float | None = None


@dataclass(frozen=True)
class Bound:
    """The least time that a problem needs on a device.

    Attributes:
        time_ms: the roofline: the longest of `resources`.
        limiter: that resource's name.
        resources: one entry per resource that is used, longest first.
        flops_by_pipe: `Work.operations` after precision has chosen the pipes.
        precision: the precision rule and what it chose, e.g. ``"tolerance: fp32 as tf32"``.
        assumptions: what the bound takes for granted, each a sentence.
        at: the bound under other ceilings.
        protocol: where inputs lie at the start: ``"cold"`` in DRAM, ``"warm"`` in L2 if they fit.
    """

    time_ms: float
    limiter: str
    resources: tuple[Resource, ...]
    flops_by_pipe: Mapping[str, int]
    precision: str
    assumptions: tuple[str, ...]
    at: BoundTimes
    protocol: str = "cold"


@dataclass(frozen=True)
class Part:
    """Some ops of a problem that one kernel computes: its inputs and results cross DRAM.

    Attributes:
        positions: the ops, as in `OpWork.position`.
        names: theirs, e.g. ``("aten.addmm", "aten.relu")``.
        line: ``file:line`` of the first one.
        work: what they cost on their own, not told by op.
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


@dataclass(frozen=True)
class Fusion:
    """A problem as one kernel, as one kernel an op, and as what lies between.

    Attributes:
        fused_ms: the bound of the whole problem: one kernel.
        unfused: one kernel an op, in program order.
        grouped: the kernels that were asked for; empty where none were.
    """

    fused_ms: float
    unfused: tuple[PartBound, ...]
    grouped: tuple[PartBound, ...] = ()

    @property
    def unfused_ms(self) -> float:
        """The least time of one kernel an op, one after the other; launches not counted."""
        return sum(part.bound.time_ms for part in self.unfused)

    @property
    def grouped_ms(self) -> float:
        """The least time of the kernels asked for, one after the other."""
        return sum(part.bound.time_ms for part in self.grouped)

    @property
    def worth(self) -> float:
        """How many times less one kernel needs than one kernel an op; at least 1."""
        return max(1.0, self.unfused_ms / self.fused_ms) if self.fused_ms else 1.0


# --------------------------------------------------------------------------------- analysis


@dataclass(frozen=True)
class Launch:
    """One kernel launch that a candidate makes.

    Attributes:
        name: the kernel's function name.
        grid: thread blocks (programs) in x, y and z.
        num_warps: warps per block.
        num_stages: software-pipelining depth.
        num_ctas: blocks per cluster.
        constants: compile-time constants by argument name.
        signature: argument types by name, in Triton's notation; empty of CUDA C++.
        count: how often it is launched alike in one call.
    """

    name: str
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    num_ctas: int = 1
    constants: Mapping[str, Value] = field(default_factory=dict)
    signature: Mapping[str, str] = field(default_factory=dict)
    count: int = 1


@dataclass(frozen=True)
class Occupancy:
    """Theoretical occupancy of one launch.

    Attributes:
        fraction: resident warps / the SM's maximum.
        limiter: ``"registers"``, ``"shared"``, ``"warps"`` or ``"blocks"``.
        blocks_per_sm: resident blocks per SM.
        waves: grid / blocks that fit on the whole device; 2.5 means a half-empty third wave.
        tail_efficiency: waves / ceil(waves); 1 means no tail.
    """

    fraction: float
    limiter: str
    blocks_per_sm: int
    waves: float
    tail_efficiency: float


class AnalysisStatus(str, enum.Enum):
    """How far compile-time analysis came."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    """Launches were captured, but something did not compile, or is no Triton kernel."""
    NO_KERNEL = "no_kernel"
    """The file holds a reference alone."""
    NOT_CAPTURED = "not_captured"
    """The candidate could not be run on fake tensors, or launched nothing."""
    UNSUPPORTED_DEVICE = "unsupported_device"
    """Older than sm_80: bounds only."""


@dataclass(frozen=True)
class InstructionCount:
    """The instructions of one kind that stand at one loop depth of a kernel's machine code.

    Attributes:
        kind: of `solkit.analysis.instructions.KINDS`, e.g. ``"fp32"`` or ``"global_load"``.
        opcode: for ``"tensor"`` the whole opcode, which names shape and types; else empty.
        depth: loops around them; 0 outside all.
        count: how many.
        predicated: those of them that run under a predicate.
        width_bytes: what one thread moves by one of them; 0 where it moves nothing or the opcode
            does not tell.
        warp_flops: floating-point operations that one warp does by one of them, a multiply-add
            being two; a quarter of a warp group's. 0 where the opcode does not tell (tcgen05).
    """

    kind: str
    opcode: str
    depth: int
    count: int
    predicated: int
    width_bytes: int
    warp_flops: int


@dataclass(frozen=True)
class InstructionMix:
    """What a kernel's machine code holds, each instruction counted as often as it stands there.

    Attributes:
        counts: by kind, then by depth.
        loops: how many loops there are, waits for a barrier among them.
        lines: how many instructions each ``file:line`` of the source became; empty where the code
            carries no line table.
    """

    counts: tuple[InstructionCount, ...]
    loops: int
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All instructions that can be reached."""
        return sum(each.count for each in self.counts)

    def of(self, *kinds: str) -> int:
        """How many instructions are of one of these kinds."""
        return sum(each.count for each in self.counts if each.kind in kinds)


@dataclass(frozen=True)
class Access:
    """One load, store or atomic of a kernel's code, over a whole launch.

    Attributes:
        kind: ``"load"``, ``"store"`` or ``"atomic"``.
        path: ``"global"``, ``"async"`` (straight to shared memory, ``cp.async``) or ``"tma"``.
        argument: the pointer argument that its addresses derive from; empty where not known.
        line: ``file:line`` of the kernel's source; empty where not known.
        requests: instructions, counted a warp; bulk copies for ``"tma"``.
        sectors: 32-byte sectors that those touch, one that two requests touch twice.
        block_sectors: the same, those that one execution by a block touches counted once.
        requested_bytes: bytes of the elements that the masks let through.
        unique_bytes: distinct bytes of those, in whole sectors.
        vector_bytes: the width of one thread's instruction.
    """

    kind: str
    path: str
    argument: str
    line: str
    requests: int
    sectors: int
    block_sectors: int
    requested_bytes: int
    unique_bytes: int
    vector_bytes: int

    @property
    def sector_bytes(self) -> int:
        """Bytes that move for it between L1 and an SM."""
        return 32 * self.sectors

    @property
    def efficiency(self) -> float:
        """Requested bytes / bytes moved: 1 where coalesced; above 1 where lanes share bytes."""
        return self.requested_bytes / self.sector_bytes if self.sectors else 1.0


@dataclass(frozen=True)
class SharedAccess:
    """What one line of a kernel's code does to shared memory in one way, over a whole launch.

    Attributes:
        kind: ``"load"``, ``"store"`` or ``"copy"`` (from global memory, ``cp.async``).
        line: ``file:line`` of the kernel's source.
        requests: instructions, counted a warp.
        wavefronts: passes over the 32 banks that those take.
        least_wavefronts: how many would do if no two words of one pass met in a bank.
    """

    kind: str
    line: str
    requests: int
    wavefronts: int
    least_wavefronts: int

    @property
    def conflicts(self) -> float:
        """Wavefronts over the least: 1 where words never meet in a bank."""
        return self.wavefronts / self.least_wavefronts if self.least_wavefronts else 1.0


@dataclass(frozen=True)
class Demand:
    """What one launch asks of the GPU by its own code, whatever the problem would need.

    Attributes:
        accesses: of global memory, in program order.
        operations: by pipe, under the keys of `Device.ceilings`: floating-point operations (a
            multiply-add is two), and instructions' lanes for ``int32`` and ``sfu``.
        l1_wavefronts: passes that L1 makes for them: one for each 128-byte line of a request.
        l2_read_bytes, l2_write_bytes: what passes between the SMs and L2, atomics as writes.
        dram_read_bytes, dram_write_bytes: what passes between L2 and DRAM, from a cold L2.
        loop_requests: requests of the accesses that stand within loops.
        steps: executions of the load that one block makes most often, of one loop after the other,
            the mean over the blocks: how often it waits for memory, but for what it asks for ahead.
        imbalance: the most `steps` of a block over their mean; 1 where all do alike.
        unevenness: steps of the SM that gets most over the mean, blocks going in their order to
            whichever SM has least; 1 where all SMs are busy to the end.
        iterations: how often the code within loops is run by one block, the mean over that code.
        chain_cycles: SM cycles of one block's operations one after the other, as if each needed
            the one before and the pipes were free; the mean over the blocks.
        shared: accesses of shared memory by the lanes of warps, by line and kind.
        tensor_shared_bytes: what ``wgmma`` reads of shared memory besides, as its operands.
        barriers: how often all warps of a block wait for each other, the mean over the blocks.
        instructions: of PTX, but for moves, that a warp of a block executes, the mean over the
            blocks; 0 where warps do different things.
        programs_sampled: blocks that were followed lane by lane; the rest are scaled from them.
        guesses: what could not be known and was taken for granted, each a sentence.
    """

    accesses: tuple[Access, ...]
    operations: Mapping[str, int]
    l1_wavefronts: int
    l2_read_bytes: int
    l2_write_bytes: int
    dram_read_bytes: int
    dram_write_bytes: int
    loop_requests: int = 0
    steps: float = 0.0
    imbalance: float = 1.0
    unevenness: float = 1.0
    iterations: float = 0.0
    chain_cycles: float = 0.0
    shared: tuple[SharedAccess, ...] = ()
    tensor_shared_bytes: int = 0
    barriers: float = 0.0
    instructions: float = 0.0
    programs_sampled: int = 0
    guesses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Term:
    """One part of a modelled time.

    Attributes:
        name: ``"dram"``, ``"l2"``, ``"tensor.bfloat16"``, ``"latency"``, ``"launch"`` ...
        time_ms: what it alone would take.
        evidence: the figures it comes from, a sentence.
    """

    name: str
    time_ms: float
    evidence: str


@dataclass(frozen=True)
class KernelModel:
    """The time that a launch should take as it is written; see `solkit.roofline.kernel_model`.

    Attributes:
        time_ms: all terms together.
        terms: in falling order of time.
    """

    time_ms: float
    terms: tuple[Term, ...]

    @property
    def limiter(self) -> str:
        """The name of the longest term."""
        return self.terms[0].name


@dataclass(frozen=True)
class GapFactor:
    """One reason why a kernel takes longer than the speed of light.

    Attributes:
        name: of `solkit.roofline.gap.FACTORS`.
        factor: by how much it multiplies the time; 1 where it costs nothing.
        evidence: the figures behind it, a sentence.
        advice: the one change most likely to shrink it; empty where the evidence carries none.
    """

    name: str
    factor: float
    evidence: str
    advice: str = ""


@dataclass(frozen=True)
class Gap:
    """A time over the speed of light as a product of named factors.

    Attributes:
        sol_ms: the roofline.
        time_ms: the measured time, or the modelled one where nothing was measured.
        measured: which of the two.
        factors: in the order in which they multiply; their product is ``time_ms / sol_ms``.
    """

    sol_ms: float
    time_ms: float
    measured: bool
    factors: tuple[GapFactor, ...]


@dataclass(frozen=True)
class Counters:
    """What the GPU counted while one launch ran, as Nsight Compute tells it.

    A figure is ``None`` where the GPU has no counter for it, or it could not be read.

    Attributes:
        name: the kernel's function name.
        grid: thread blocks in x, y and z.
        time_ms: how long it ran, replayed under the profiler.
        registers: per thread.
        load_sectors, store_sectors: 32-byte sectors that plain loads and stores of global memory
            asked L1 for, a sector that two requests touch counted twice; without `async_sectors`.
        load_requests, store_requests: the instructions behind them, counted a warp.
        async_sectors: likewise of copies straight to shared memory (``cp.async``).
        atomic_sectors: of atomics and reductions.
        tma_read_sectors, tma_write_sectors: of bulk copies, between L2 and the SMs.
        local_sectors: of spilled registers and other local memory.
        l2_read_bytes, l2_write_bytes: what passed between the SMs and L2, atomics as writes.
        dram_read_bytes, dram_write_bytes: what passed between L2 and DRAM; writes that L2 still
            held at the end are not among them.
        operations: by pipe, under the keys of `Demand.operations`: ``tensor.<dtype>`` and ``fp32``
            (its additions, multiplications and, twice, its multiply-adds).
        multiply_adds: fp32 multiply-adds of the scalar pipe, counted a thread.
        occupancy: theoretical: the warps that fit on an SM / its maximum.
        achieved_occupancy: the warps that were there on average / its maximum.
        waves: grid / blocks that fit on the whole device.
        stalls: what warps waited for, by reason: the mean number of them for each instruction
            issued, those that issued or could have included.
        missing: metrics that were asked for and not had.
    """

    name: str
    grid: tuple[int, int, int]
    time_ms: float | None = None
    registers: int | None = None
    load_sectors: int | None = None
    load_requests: int | None = None
    async_sectors: int | None = None
    store_sectors: int | None = None
    store_requests: int | None = None
    atomic_sectors: int | None = None
    tma_read_sectors: int | None = None
    tma_write_sectors: int | None = None
    local_sectors: int | None = None
    l2_read_bytes: int | None = None
    l2_write_bytes: int | None = None
    dram_read_bytes: int | None = None
    dram_write_bytes: int | None = None
    operations: Mapping[str, int] = field(default_factory=dict)
    multiply_adds: int | None = None
    occupancy: float | None = None
    achieved_occupancy: float | None = None
    waves: float | None = None
    stalls: Mapping[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelAnalysis:
    """What compiling one launch for the target tells.

    Attributes:
        launch: the launch as captured.
        registers: per thread; ``None`` (and so for all below) where it did not compile.
        spills: spilled 32-bit words per thread.
        shared_bytes: shared memory per block.
        occupancy: theoretical occupancy on the device.
        tensor_cores: whether tensor-core instructions are there.
        compile_s: seconds the compile took; 0 from the cache.
        error: why it did not compile.
        demand: what its code asks for; ``None`` where that was not read.
        model: the time it should take; ``None`` without a demand.
        instructions: what its machine code holds; ``None`` where that was not read.
        counters: what the GPU counted as it ran; ``None`` where it was not asked.
    """

    launch: Launch
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    occupancy: Occupancy | None = None
    tensor_cores: bool | None = None
    compile_s: float = 0.0
    error: str | None = None
    demand: Demand | None = None
    model: KernelModel | None = None
    instructions: InstructionMix | None = None
    counters: Counters | None = None


@dataclass(frozen=True)
class Analysis:
    """What a candidate launches and what that compiles to.

    Attributes:
        status: how far the analysis came.
        kernels: one entry per distinct launch, in launch order.
        notes: guesses made and things not seen, each a sentence.
    """

    status: AnalysisStatus
    kernels: tuple[KernelAnalysis, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One shape of a kernel file: what is known of it without a GPU.

    Attributes:
        shape: every size that is a number, and others (a dtype) that were asked for.
        params: the candidate's parameters.
        work: what the problem costs.
        tolerance: the file's own, or that of its outputs' dtype.
        analysis: of the candidate.
        unfused: the problem cut into one kernel an op, where that was asked for.
        grouped: the problem cut as was asked for.
    """

    shape: Mapping[str, Value]
    params: Mapping[str, Value]
    work: Work
    tolerance: Tolerance
    analysis: Analysis
    unfused: tuple[Part, ...] = ()
    grouped: tuple[Part, ...] = ()


@dataclass(frozen=True)
class FailedShape:
    """A shape of which nothing is known, because the kernel file failed at it.

    Attributes:
        shape: as asked for.
        error: what was wrong.
    """

    shape: Mapping[str, Value]
    error: str


@dataclass(frozen=True)
class Study:
    """A kernel file and one `Case` per shape; at least one, and the shapes that failed."""

    kernel: KernelFile
    cases: tuple[Case, ...]
    failed: tuple[FailedShape, ...] = ()


# ------------------------------------------------------------------------------ measurement


class Verdict(str, enum.Enum):
    """What became of a candidate. Never ``None``."""

    NOT_MEASURED = "not_measured"
    CORRECT = "correct"
    WRONG = "wrong"
    DOES_NOT_COMPILE = "does_not_compile"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    BEATS_ALGORITHM = "beats_algorithm"
    """Between hard bound and roofline: to be explained, no accusation."""
    IMPOSSIBLE = "impossible"
    """Under the hard bound: no correct kernel can do this."""
    CHEATING = "cheating"
    """Proven to do something else than the work within the time: the evidence says what."""
    UNSTABLE = "unstable"
    """Right, but timed under conditions that make the time unreliable: the evidence says which."""
    DEGENERATE_PROBLEM = "degenerate_problem"
    """Right, but the reference gives the same on other inputs: its time says nothing."""

    @property
    def is_failure(self) -> bool:
        """Whether the candidate failed: it has no time that counts."""
        return self in _FAILURES


_FAILURES = frozenset(
    {
        Verdict.WRONG,
        Verdict.DOES_NOT_COMPILE,
        Verdict.CRASHED,
        Verdict.TIMED_OUT,
        Verdict.OUT_OF_MEMORY,
        Verdict.CHEATING,
    }
)


@dataclass(frozen=True)
class Protocol:
    """How a time was taken.

    Attributes:
        method: ``"cupti"`` (CUPTI activity through PyTorch's profiler), ``"events"`` (CUDA events)
            or ``"graph replay"``; ``"wall clock"`` for a candidate that waits for the GPU itself.
        l2: ``"cold"``: flushed before each call; ``"warm"``: after a call of the same.
        flush: how, in words.
        warmup_calls: untimed calls before.
        samples: timed calls.
        time_limit_s: seconds after which the candidate's process is killed.
        seed: of the inputs.
        name: of the `solkit.measure.protocols.TimingProtocol`.
        launched: ``"eager"``, or ``"graph"``: captured in a CUDA graph that is replayed.
    """

    method: str
    l2: str
    flush: str
    warmup_calls: int
    samples: int
    time_limit_s: float
    seed: int
    name: str = "cold"
    launched: str = "eager"


@dataclass(frozen=True)
class Measurement:
    """Real timing of one candidate on one shape.

    Attributes:
        median_ms: median time of a call, last end minus first start over all it runs.
        low_ms, high_ms: 95 % confidence interval of that median.
        kernel_sum_ms: median of the summed kernel times; ``None`` where only events were had.
        reference_ms: median time of the reference, taken in the same way.
        method: `Protocol.method`.
        max_error: largest ``|got - want|`` over all outputs.
        samples: how many calls were timed.
        sm_clock_mhz: median SM clock seen during the timing; ``None`` where NVML did not say.
        launches: Triton launches of the real run as `KernelAnalysis`, to hold against analysis.
    """

    median_ms: float
    low_ms: float
    high_ms: float
    kernel_sum_ms: float | None
    reference_ms: float
    method: str
    max_error: float
    samples: int
    sm_clock_mhz: float | None = None
    launches: tuple[KernelAnalysis, ...] = ()


@dataclass(frozen=True)
class Score:
    """How far a measured time is from the speed of light.

    Attributes:
        gap: time / roofline.
        gap_calibrated: time / the bound at calibrated rates; ``None`` without a calibration.
        sol_score: 1/(1 + (t - t_sol)/(t_base - t_sol)) in [0, 1], t_base the reference's time.
        fraction_of_sol: roofline / time.
    """

    gap: float
    gap_calibrated: float | None
    sol_score: float
    fraction_of_sol: float


# ----------------------------------------------------------------------------------- report


@dataclass(frozen=True)
class Result:
    """All that is known of one candidate on one shape."""

    shape: Mapping[str, Value]
    params: Mapping[str, Value]
    verdict: Verdict
    work: Work
    bound: Bound
    analysis: Analysis
    protocol: Protocol | None = None
    measurement: Measurement | None = None
    score: Score | None = None
    errors: tuple[str, ...] = ()
    fusion: Fusion | None = None
    gap: Gap | None = None


@dataclass(frozen=True)
class Report:
    """What ``solkit score`` found: one `Result` per shape.

    Attributes:
        environment: versions by name (``solkit``, ``python``, ``torch``, ``triton``, ``driver``).
        kernel: the file.
        device: the target.
        results: in the order of the shapes.
        failed: shapes that have no result.
    """

    environment: Mapping[str, str | None]
    kernel: KernelFile
    device: Device
    results: tuple[Result, ...]
    failed: tuple[FailedShape, ...] = ()


# ------------------------------------------------------------------------------- comparison


class Difference(str, enum.Enum):
    """What timing a candidate in turns with another shows. Never ``None``."""

    FASTER = "faster"
    SLOWER = "slower"
    NOT_SHOWN = "no_difference_shown"
    """The interval of the ratio holds 1: they may be alike, or the times too few."""
    UNSTABLE = "unstable"
    """Timed under conditions that make the ratio unreliable: the evidence says which."""
    NOT_COMPARED = "not_compared"
    """One of the two failed, or the two could not be timed in turns: the evidence says why."""


@dataclass(frozen=True)
class Ratio:
    """A candidate's time over that of its base; see `solkit.measure.ratios`.

    Attributes:
        value: under 1 where the candidate is faster.
        low, high: 95 % interval, widened by `resolution`.
        resolution: what no number of turns tells apart, as a share of the ratio.
        turns: how often both were called.
    """

    value: float
    low: float
    high: float
    resolution: float
    turns: int


@dataclass(frozen=True)
class Comparison:
    """A candidate beside its base on one shape, timed in turns.

    Attributes:
        kernel: the candidate's file.
        base, candidate: each as checked and timed on its own, against the reference.
        difference: what the ratio shows.
        ratio: ``None`` where nothing was compared.
        base_ms, candidate_ms: median times while they took turns; ``None`` where they did not.
        protocol: how; ``None`` where they were not timed.
        errors: the evidence, and notes.
    """

    kernel: KernelFile
    base: Result
    candidate: Result
    difference: Difference
    ratio: Ratio | None = None
    base_ms: float | None = None
    candidate_ms: float | None = None
    protocol: Protocol | None = None
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparisonReport:
    """What ``solkit compare`` found: one `Comparison` per shape and candidate.

    Attributes:
        environment: as in `Report`.
        base: the file that the others are held against.
        candidates: the others.
        device: the GPU.
        comparisons: shape by shape, the candidates of each in their order.
        failed: shapes that have no comparison.
    """

    environment: Mapping[str, str | None]
    base: KernelFile
    candidates: tuple[KernelFile, ...]
    device: Device
    comparisons: tuple[Comparison, ...]
    failed: tuple[FailedShape, ...] = ()


# ---------------------------------------------------------------------------------- profile


@dataclass(frozen=True)
class ProfiledKernel:
    """One kernel, copy or memset of a profiled run, all its calls together.

    Attributes:
        name: as the profiler recorded it.
        calls: how often it ran.
        time_ms: over all of them.
        op: the op that launched it, e.g. ``"aten::mm"``; empty where none is known.
        reason: why it has no bound; empty where its op has one.
    """

    name: str
    calls: int
    time_ms: float
    op: str = ""
    reason: str = ""


@dataclass(frozen=True)
class ProfiledOp:
    """One op of a profiled run on inputs of one kind, all its calls together.

    Attributes:
        name: as the profiler recorded it, e.g. ``"aten::mm"``.
        inputs: its tensors, e.g. ``"bf16[8944, 1024]"``.
        calls: how often it was called.
        time_ms: that its kernels took, over all calls.
        kernels: in falling order of time.
        bound: of one call; its inputs start in DRAM.
        target_ms: of one call: the bound, or what launching one kernel takes where that is more.
        saving_ms: what calls that take no longer than that would save of `Profile.span_ms`.
    """

    name: str
    inputs: tuple[str, ...]
    calls: int
    time_ms: float
    kernels: tuple[ProfiledKernel, ...]
    bound: Bound
    target_ms: float
    saving_ms: float

    @property
    def bound_ms(self) -> float:
        """The bound of all calls."""
        return self.calls * self.bound.time_ms

    @property
    def gap(self) -> float:
        """Time / bound."""
        return self.time_ms / self.bound_ms if self.bound_ms else float("inf")

    @property
    def excess_ms(self) -> float:
        """What all calls take beyond their targets; not all of it need be on the critical path."""
        return max(0.0, self.time_ms - self.calls * self.target_ms)


@dataclass(frozen=True)
class IdleTime:
    """The time in which nothing ran on the GPU, by what it waited for.

    Attributes:
        host_ms: the host launched what came next only after the GPU had run dry.
        wait_ms: the part of `host_ms` before which the host itself had waited for the GPU.
        queue_ms: gaps between what had been launched ahead.
    """

    host_ms: float
    wait_ms: float
    queue_ms: float


@dataclass(frozen=True)
class Profile:
    """Where the time of a profiled run went, and what is to be had.

    Attributes:
        path: the trace, or the script.
        device: the GPU.
        span_ms: the GPU's time from the first to the last step, its idle time included.
        steps: how many those are; 0 where none were counted.
        busy_ms: of `span_ms`: something ran on the GPU.
        idle: the rest.
        ops: those that have a bound; what saves most comes first.
        unbounded: what has none, in falling order of time.
        saving_ms: what all `ops` at their targets would save together.
        notes: what a reader must know, each a sentence.
        failure: how the script failed; empty where it did not, or where there was none.
    """

    path: str
    device: Device
    span_ms: float
    steps: int
    busy_ms: float
    idle: IdleTime
    ops: tuple[ProfiledOp, ...]
    unbounded: tuple[ProfiledKernel, ...]
    saving_ms: float
    notes: tuple[str, ...] = ()
    failure: str = ""

    def speedup(self, saving_ms: float) -> float:
        """How many times faster the run is that takes so much less; Amdahl's law."""
        left_ms = self.span_ms - saving_ms
        return self.span_ms / left_ms if left_ms > 0 else float("inf")
