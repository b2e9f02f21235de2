"""Facts about a candidate known without running it, and the GPU's hardware counters."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from solkit.core.deployments import Deployment
from solkit.core.facts import Facts, Requests
from solkit.core.launches import Launch, Occupancy
from solkit.core.problems import KernelFile, Tolerance
from solkit.core.values import Value
from solkit.core.work import Part, Work


class AnalysisStatus(str, enum.Enum):
    """Extent of a compile-time analysis."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    """Launches were captured, but something did not compile or is not a Triton kernel."""
    NO_KERNEL = "no_kernel"
    """The file holds only a reference."""
    NOT_CAPTURED = "not_captured"
    """The candidate could not be run on fake tensors, or launched nothing."""
    NOT_ANALYSED = "not_analysed"
    """The candidate launches a language, or a library, that is not analysed; the notes name it."""
    OUT_OF_TIME = "out_of_time"
    """The analysis was given up at its time limit; the notes name it."""
    UNSUPPORTED_DEVICE = "unsupported_device"
    """Older than sm_80: bounds only."""


@dataclass(frozen=True)
class Term:
    """One part of a modelled time.

    Attributes:
        name: ``"dram"``, ``"l2"``, ``"tensor.bfloat16"``, ``"latency"``, ``"launch"`` ...
        time_ms: its time alone.
        evidence: the figures behind it, as a sentence.
    """

    name: str
    time_ms: float
    evidence: str


@dataclass(frozen=True)
class KernelModel:
    """The modelled time of a launch as written; see `solkit.roofline.kernel.model`.

    Attributes:
        time_ms: all terms together.
        terms: longest first.
    """

    time_ms: float
    terms: tuple[Term, ...]

    @property
    def limiter(self) -> str:
        """The name of the longest term."""
        return self.terms[0].name


@dataclass(frozen=True)
class Cause:
    """The cause of a large factor of the gap, according to its evidence.

    Attributes:
        name: from `solkit.roofline.kernel.causes.CAUSES`; `solkit.report.advice` has advice for
            each.
        figures: the evidence by name: the kernel, a line, counts, ratios.
    """

    name: str
    figures: Mapping[str, Value]


@dataclass(frozen=True)
class GapFactor:
    """One reason why a kernel takes longer than the speed of light.

    Attributes:
        name: from `solkit.roofline.kernel.gap.FACTORS`.
        factor: what it multiplies the time by; 1 if it costs nothing.
        evidence: the figures behind it, as a sentence.
        cause: why it is large; ``None`` if it is small or the cause is unknown.
        speedup: the time over what the launches that the cause names leave without it, at the most;
            1 if others of their resources take as long; ``None`` if no cause is known.
    """

    name: str
    factor: float
    evidence: str
    cause: Cause | None = None
    speedup: float | None = None


@dataclass(frozen=True)
class Gap:
    """A time over the speed of light as a product of named factors.

    Attributes:
        sol_ms: the roofline.
        time_ms: the measured time, or the modelled one if nothing was measured.
        measured: which of the two.
        factors: in the order in which they multiply; their product is ``time_ms / sol_ms``.
    """

    sol_ms: float
    time_ms: float
    measured: bool
    factors: tuple[GapFactor, ...]


@dataclass(frozen=True)
class Forecast:
    """Forecast of one candidate's time, before it is measured.

    Attributes:
        time_ms: the kernel model's where the surrogate abstains; ``None`` if neither knows.
        low_ms, high_ms: 90 % interval; ``None`` if there is none.
        p_fail: chance that it does not compile in reasonable time or does not run, 0 to 1.
        abstains: whether the surrogate does not trust itself.
    """

    time_ms: float | None
    low_ms: float | None
    high_ms: float | None
    p_fail: float
    abstains: bool


@dataclass(frozen=True)
class Counters:
    """Hardware counters of one launch, from Nsight Compute.

    A figure is ``None`` if the GPU lacks its counter or it could not be read.

    Attributes:
        name: the kernel's function name.
        grid: thread blocks in x, y and z.
        time_ms: run time, replayed under the profiler.
        registers: per thread.
        load_sectors, store_sectors: 32-byte sectors that plain loads and stores of global memory
            request from L1; a sector that two requests touch counts twice; without `async_sectors`.
        load_requests, store_requests: the instructions behind them, counted per warp.
        async_sectors: the same for copies straight to shared memory (``cp.async``).
        atomic_sectors: of atomics and reductions.
        tma_read_sectors, tma_write_sectors: of TMA bulk copies, between L2 and the SMs.
        local_sectors: of spilled registers and other local memory.
        l2_read_bytes, l2_write_bytes: traffic between the SMs and L2; atomics count as writes.
        dram_read_bytes, dram_write_bytes: traffic between L2 and DRAM, without writes that L2 still
            held at the end.
        operations: by pipe, under the keys of `Demand.operations`: ``tensor.<dtype>`` and ``fp32``
            (its additions, multiplications and, twice, its multiply-adds).
        multiply_adds: fp32 multiply-adds of the scalar pipe, counted per thread.
        occupancy: theoretical: warps that fit on an SM / its maximum.
        achieved_occupancy: mean resident warps / its maximum.
        waves: grid / blocks that fit on the whole device.
        stalls: mean number of warps in each stall reason per issued instruction, including those
            that issued or could have.
        missing: requested metrics that Nsight Compute did not return.
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


@dataclass(frozen=True, kw_only=True)
class Demand(Requests):
    """Demand of one launch on a GPU with a given L2 size.

    Attributes:
        dram_read_bytes, dram_write_bytes: traffic between L2 and DRAM, starting from a cold L2.
    """

    dram_read_bytes: int
    dram_write_bytes: int


@dataclass(frozen=True)
class KernelAnalysis:
    """One launch on one device: its facts, what follows from them, and the GPU's counters.

    `solkit.roofline.kernel.evaluate` makes it from facts and a device.

    Attributes:
        facts: of the launch.
        occupancy: theoretical; ``None`` (like the next two) if unknown.
        demand: what its code demands of this device.
        model: the modelled time.
        error: why it cannot run on this device; ``None`` if it can.
        compile_s: seconds the compile took; 0 from the cache.
        counters: the GPU's hardware counters; ``None`` if they were not read.
    """

    facts: Facts
    occupancy: Occupancy | None = None
    demand: Demand | None = None
    model: KernelModel | None = None
    error: str | None = None
    compile_s: float = 0.0
    counters: Counters | None = None

    @property
    def launch(self) -> Launch:
        """The launch as captured."""
        return self.facts.launch


@dataclass(frozen=True)
class OutputBytes:
    """Part of an output that a candidate writes.

    Attributes:
        bytes: of the output.
        written_bytes: of these, how many its launches write at the most.
    """

    bytes: int
    written_bytes: int


@dataclass(frozen=True)
class Analysis:
    """Launches of a candidate, and what its kernels compile to.

    Attributes:
        status: how far the analysis got.
        kernels: one entry per distinct launch, in launch order; PyTorch's operators are among them.
        notes: guesses, and what could not be seen, each a sentence.
        outputs: number, dtypes and shapes of the candidate's output tensors; empty if it could not
            run.
        files: files that hold CUDA C++ sources.
        is_whole: whether the kernels are all that it launches.
        failure: how the candidate fails on any GPU: ``"crashed"`` or ``"timed_out"``; empty if it
            does not, or this is unknown.
        written: for each output that it makes, how much of it is written; empty if unknown.
        unread: arguments that nothing reads, as in `solkit.core.InputNeed.position`; empty if
            unknown.
        code: equal for calls that run the same compiled code alike; empty if unknown.
    """

    status: AnalysisStatus
    kernels: tuple[KernelAnalysis, ...] = ()
    notes: tuple[str, ...] = ()
    outputs: str = ""
    files: tuple[str, ...] = ()
    is_whole: bool = False
    failure: str = ""
    written: tuple[OutputBytes, ...] = ()
    unread: tuple[int, ...] = ()
    code: str = ""

    @property
    def own(self) -> tuple[KernelAnalysis, ...]:
        """The launches of its own kernels, without those of PyTorch's operators."""
        return tuple(kernel for kernel in self.kernels if not kernel.launch.library)


@dataclass(frozen=True)
class Case:
    """One shape of a kernel file: what is known without a GPU.

    Attributes:
        shape: every numeric size, and others (a dtype) that were requested.
        params: the candidate's parameters.
        work: what the problem costs.
        tolerance: the file's own, or the default of its outputs' dtype.
        analysis: of the candidate.
        unfused: the problem cut into one kernel per op, if requested.
        grouped: the problem cut as requested.
        outputs: number, dtypes and shapes of the reference's output tensors.
        deployed: how a program launches it; ``None`` if the file does not say.
    """

    shape: Mapping[str, Value]
    params: Mapping[str, Value]
    work: Work
    tolerance: Tolerance
    analysis: Analysis
    unfused: tuple[Part, ...] = ()
    grouped: tuple[Part, ...] = ()
    outputs: str = ""
    deployed: Deployment | None = None


@dataclass(frozen=True)
class FailedShape:
    """A shape at which the kernel file failed.

    Attributes:
        shape: as requested.
        error: what was wrong.
    """

    shape: Mapping[str, Value]
    error: str


@dataclass(frozen=True)
class Study:
    """A kernel file with one `Case` per shape (at least one), and the shapes that failed."""

    kernel: KernelFile
    cases: tuple[Case, ...]
    failed: tuple[FailedShape, ...] = ()
