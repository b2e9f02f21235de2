"""Terms of the kernel model that an architecture sets, besides the rates of the device.

One record an architecture. `solkit.roofline.kernel.model` names no vendor: it asks here. A figure
that nobody measured says so, and a machine on which no kernel was timed is not validated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from solkit.core import Device

_ALU_CYCLES = {"int32": 1.5, "move": 1.0, "convert": 2.0, "fp32": 0.5}
"""Cycles that an instruction takes the pipe of integers, 16 lanes wide: CUDA C++ Programming Guide,
"Throughput of Native Arithmetic Instructions". Half of the integer multiplications and moves have
another pipe (calibration: both pipes together do 1.45 times one's, docs/lab/calibration.md), and
some fp32 instructions (comparisons, selections) run there."""

_EXCHANGED = (
    *("warp", "global_load", "global_store", "shared_load", "shared_store"),
    *("local_load", "local_store", "async_copy"),
)
"""Kinds of which an SM takes one a clock: 32 lanes (the same table; 32 load/store units)."""

_VECTOR = dict.fromkeys(("int32", "move", "fp32", "fp16", "convert", "warp"), 1.0) | {
    "sfu": 4.0,
    "fp64": 1.0,
}
"""Slots of 4 cycles that a wave's instruction takes its SIMD of 16 lanes: CDNA 3 ISA guide,
"Vector ALU Operations"; transcendentals run at a quarter of the rate."""


@dataclass(frozen=True)
class Machine:
    """One architecture.

    Attributes:
        l1_latency_cycles, l2_latency_cycles, dram_latency_cycles: of one dependent load.
        l2_write_share: rate of writes to L2 over that of reads, where calibration did not measure.
        fetch_cycles: of an instruction that no cache holds.
        instruction_bytes: of an instruction, at the most.
        alone_cycles: of an instruction of one warp alone, besides waiting for results, if its
            machine code has no pace.
        atomic_cycles: of one lane's atomic at a contended sector.
        dispatch_cycles: between the starts of two blocks.
        pipe_cycles: slots of a scheduler that instructions of a kind take their pipe.
        exchanged: kinds of which an SM takes one a clock.
        issue_per_clock: instructions of a warp that an SM issues in a clock, where the catalogue
            has no rate of ``issue``; 0 where it has.
        issues_all: whether these are all instructions, not only those of `pipe_cycles`.
        pipe_name: of the pipe.
        shared_load_bytes: of shared memory that an SM reads in a clock.
        sustained: shares of the ceilings that were measured, by resource (``"tensor.bf16"``) or by
            kind (``"tensor"``); ``"dram.read"``, ``"dram.copy"`` and ``"dram.write"`` are of mixes
            of reads and writes.
        mma_sync_shares: share of the matrix rate that ``mma.sync`` reaches where ``wgmma`` has it
            all, by major compute capability.
        l2_dies: dies that have an L2 of their own.
        validated: whether kernels were timed there and compared with the model.
    """

    l1_latency_cycles: float
    l2_latency_cycles: float
    dram_latency_cycles: float
    l2_write_share: float
    fetch_cycles: float
    alone_cycles: float
    atomic_cycles: float
    dispatch_cycles: float
    instruction_bytes: int = 16
    pipe_cycles: Mapping[str, float] = field(default_factory=lambda: _ALU_CYCLES)
    pipe_name: str = "the pipe of integers"
    exchanged: tuple[str, ...] = _EXCHANGED
    issue_per_clock: float = 0.0
    issues_all: bool = True
    shared_load_bytes: int = 128
    sustained: Mapping[str, float] = field(default_factory=dict)
    mma_sync_shares: Mapping[int, float] = field(default_factory=dict)
    l2_dies: int = 1
    validated: bool = True


_NVIDIA = Machine(
    # Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via
    # Microbenchmarking" (2024), table of memory latencies: L1 41 cycles, L2 262, global memory 479
    # for pointer chasing. Calibration's first touch of 256 KiB takes 760 cycles longer from DRAM
    # than from L2 on an H100, and 820 on an H200: TLBs and queues. 800 is in between.
    l1_latency_cycles=41.0,
    l2_latency_cycles=262.0,
    dram_latency_cycles=800.0,
    # 4.1 of 7.9 TB/s on an H100, 4.8 of 9.2 on an H200 (docs/lab/calibration.md)
    l2_write_share=0.52,
    # Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking" (2018),
    # section 3.5, see instructions slow down to several cycles each beyond the caches' sizes;
    # straight-line code of 1,000 to 6,000 instructions takes 1 to 4 cycles longer each on an H100
    # than its warps' own pace.
    fetch_cycles=1.5,
    # 2 to 3 by the paces of 2,700 launches
    alone_cycles=2.0,
    # The least that any kernel took per operation at its busiest sector:
    # ``histogram/global_atomics`` on an H100, 882,431 of them in 707 µs; the next took 2.4 to 3.0
    # cycles, other work included.
    atomic_cycles=1.6,
    # Measured by ``solkit data collect zoo`` on two H100 80GB HBM3, SMs at 1980 MHz, 2026-11-22:
    # each additional block of ``stencil3d/seven_loads``, ``dequantise/interleaved`` and
    # ``rope/cuda_pairs`` took 0.601 ns, with 1, 2 and 4 warps alike
    # (docs/lab/analysis_evidence.md). Its dependence on the SM clock is an assumption: all was
    # measured at one clock.
    dispatch_cycles=1.19,
    mma_sync_shares={9: 0.63},  # Luo et al., section 4
)

_BLACKWELL = replace(
    _NVIDIA,
    # Chips and Cheese, "Nvidia's B200: Keeping the CUDA Juggernaut Rolling" (2025): L1 19.6 ns, L2
    # about 150 ns in a die's own part; at 1965 MHz
    l1_latency_cycles=39.0,
    l2_latency_cycles=295.0,
    # SemiAnalysis, https://github.com/SemiAnalysisAI/microbench-blackwell (2026),
    # ldgsts_latency_results: median of the 12 configurations with a block an SM, each reading
    # DRAM for the first time. By TMA 1,410 to 2,090 cycles for up to 8 KiB (tma2d_latency).
    dram_latency_cycles=1190.0,
    # four schedulers, of an instruction a clock each, as before; the catalogue has no ceiling of
    # instructions, as FFMA2 leaves slots free
    issue_per_clock=4.0,
    mma_sync_shares={},
    sustained={
        # tma2d_tput_results of the same: 7.26 of 7.67 TB/s. Its plain loads reach 6.69.
        "dram.read": 0.946,
        "dram": 0.946,
        # an assumption: as the H200's, whose memory is HBM3e too (docs/lab/calibration.md)
        "dram.copy": 0.829,
        "dram.write": 0.943,
        # tma2dmcast_sweep_results of the same: 14.2 of 18.6 TB/s leave L2 where 4 to 16 blocks read
        # the same tiles
        "l2": 0.765,
        # NVIDIA, Tilus documentation, "Matmul (Blackwell)" (2026): cuBLAS reaches 1610 TFLOP/s in
        # fp16 of 8192 cubed. The power limit lowers the clock: its tensor cores were busy for
        # 96.6 % of the time, and umma_throughput reaches 99.5 % of the rate a clock. The other
        # types are assumed to be limited alike.
        "tensor": 0.676,
    },
)

_CDNA = Machine(
    # mt4g, https://github.com/caps-tum/mt4g, sample_results of an MI300X (August 2025): pointer
    # chases; 6562 GiB/s written to L2, 14365 read. Its DRAM of an H100 takes 834 cycles.
    l1_latency_cycles=116.0,
    l2_latency_cycles=288.0,
    dram_latency_cycles=900.0,
    l2_write_share=0.457,
    # assumptions: as on an H100
    fetch_cycles=1.5,
    # CDNA 3 ISA guide: a wave of 64 takes its SIMD of 16 lanes for 4 cycles, and issues no
    # faster alone
    alone_cycles=4.0,
    atomic_cycles=1.6,
    # One block a clock from each of 8 XCDs, as each has a dispatcher of its own (CDNA 3 white
    # paper); as slow as NVIDIA's otherwise
    dispatch_cycles=1.19 / 8,
    instruction_bytes=8,
    pipe_cycles=_VECTOR,
    pipe_name="the vector pipes",
    # addresses of a wave take 4 cycles, 16 lanes each; LDS has a term of its own
    exchanged=("global_load", "global_store", "async_copy"),
    # a CU has 4 SIMDs, each of which starts a wave's vector instruction every 4 cycles; scalar
    # instructions, branches and waits have units of their own
    issue_per_clock=1.0,
    issues_all=False,
    l2_dies=8,  # XCDs: CDNA 3 white paper
    validated=False,
    sustained={
        # Ambati et al., "AMD MI300X GPU Performance Analysis" (arXiv, October 2025): 81 %
        "dram": 0.81,
        # Chips and Cheese, "Testing AMD's Giant MI300X" (June 2024): 11.9 of 17.2 TB/s
        "last_level": 0.69,
        # AMD, "Measuring Max-Achievable FLOPs - Part 2" (ROCm blogs, 28 February 2025), table 1:
        # 654, 708 and 1273 TFLOP/s; the power limit lowers the clock to 1.1 to 1.2 GHz
        "tensor.fp16": 0.50,
        "tensor.bf16": 0.54,
        "tensor.fp8": 0.487,
        "tensor.int8": 0.487,  # an assumption: as fp8
    },
)

_MI325X = replace(
    _CDNA,  # the same table: 794, 843 and 1519 TFLOP/s at 1.35 to 1.46 GHz
    sustained={
        **_CDNA.sustained,
        **{"tensor.fp16": 0.607, "tensor.bf16": 0.645, "tensor.fp8": 0.581, "tensor.int8": 0.581},
    },
)

_MI308X = replace(
    _CDNA,
    # what lies behind L2 has clocks of its own: as long as on an MI300X, which runs at 2100 MHz
    dram_latency_cycles=288.0 + (900.0 - 288.0) * 1420 / 2100,
    dispatch_cycles=1.19 / 4,
    l2_dies=4,
    sustained={
        # https://github.com/AFDEAPAC/roofline-calibrate (2026), an MI308X: 3.97 TB/s read, 3.58
        # copied, 2.83 written
        "dram": 0.745,
        "dram.read": 0.745,
        "dram.copy": 0.673,
        "dram.write": 0.531,
        # an assumption: a CU takes 64 bytes a clock from L2, which serves 20 of 38 CUs
        "l2": 0.625,
        "last_level": 0.69,  # an assumption: as the MI300X's
        # AITER, aiter/configs (2026): the highest rates of kernels that are not Triton's, of those
        # within the ceiling: 186.6 TFLOP/s in bf16, 458 in fp8, 379 in int8
        "tensor.fp16": 0.80,  # an assumption: as bf16
        "tensor.bf16": 0.80,
        "tensor.fp8": 0.985,
        "tensor.int8": 0.815,
    },
)

_CDNA4 = replace(
    _CDNA,
    # mt4g, sample_results of an MI350P (September 2026)
    l1_latency_cycles=112.0,
    l2_latency_cycles=256.0,
    dram_latency_cycles=768.0,
    # AMD, "FP8 GEMM Optimization on AMD CDNA 4 Architecture" (ROCm blogs, 10 March 2026), table 1
    shared_load_bytes=256,
    # AITER, aiter/configs (2026): the highest rates of kernels that are not Triton's, on an MI355X:
    # 1597 TFLOP/s in bf16 (8192 cubed), 2997 in fp8, 2518 in int8, 5806 in fp4; 6.48 TB/s where 0.9
    # GB of weights are read once
    sustained={
        "dram": 0.79,
        "last_level": 0.69,  # an assumption: as CDNA 3's
        "tensor.fp16": 0.634,
        "tensor.bf16": 0.634,
        "tensor.fp8": 0.595,
        "tensor.int8": 0.5,
        "tensor.fp4": 0.577,
    },
)

_MACHINES: Mapping[str, Machine] = {
    "sm_100": _BLACKWELL,
    "sm_103": _BLACKWELL,
    "gfx942": _CDNA,
    "mi308x": _MI308X,
    "mi325x": _MI325X,
    "gfx950": _CDNA4,
}
"""By device or architecture; all others are NVIDIA's, whose figures are Hopper's."""


def machine_of(device: Device) -> Machine:
    """Return the machine of a device, or of its architecture."""
    return _MACHINES.get(device.key) or _MACHINES.get(device.architecture, _NVIDIA)


def unvalidated(device: Device) -> str:
    """Return why a modelled time on a device is not to be trusted; empty if kernels were timed."""
    if machine_of(device).validated:
        return ""
    return (
        f"no kernel was ever timed on {device.name}: the kernel model is not validated for "
        f"{device.architecture}, and the surrogate says nothing (bounds, registers, spills and "
        "shared memory do not rest on it)"
    )
