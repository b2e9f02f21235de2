"""The modelled time of a launch as written.

A closed form over the code's demand (`solkit.core.Demand`) and a block's dependences, with nothing
fitted to measured kernels. Notation: G blocks on S SMs, B of them on one SM at once (as many as
fit, or as exist), W = ceil(G / (S B)) waves; the longest block does I times the mean.

::

    memory     the longest of dram, l2 (bytes / rate, shared by all SMs)
               and l1 (a wavefront per clock and SM, x unevenness), spilled registers among them
    tensor.*   operations / rate x unevenness                               the busiest SM counts
    scalar     the longest of fp32, sfu, fp64, issue and shared (a wavefront per clock and SM)
    latency    (W-1+I) x ( t + steps x t / ahead + chain )                  t: a trip to memory
    dispatch   G x the cycles between the starts of two blocks              whatever a block does
    launch     an empty kernel

    time = launch + longest + exposed x (sum of the others)
    exposed = 1 / (1 + B x ahead)

`ahead` is how many steps of its loop a block requests before it needs the first (see `ahead`
below). `chain` is the time of a block's operations in sequence. `exposed` is the part of one kind
of work that another does not hide: with B blocks on an SM and `ahead` steps of each in flight, one
part in 1 + B x ahead has nothing else to overlap with. Beside matrix products, only other blocks
hide scalar work and latency, 1 / (1 + B), since a block's own products wait for them; with plain
loads only other blocks hide anything, 1 / B. If asynchronous copies run several steps ahead, memory
and tensor cores overlap fully: the longer counts.

A PyTorch operator (`Launch.library`), whose code is not seen, has only dram, its pipes and launch;
the longest of the first two hides the others. A library is taken to lose nothing to tiles, waves
and latency.

Rates are calibrated, sustained ones (`Device.calibrated`) if there are any, else the ceilings times
`_SUSTAINED`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from solkit.core import Demand, Device, KernelAnalysis, KernelModel, Occupancy, Term, quantities

__all__ = ["LAUNCH_US", "ahead", "model", "rate", "resident", "spilled", "together", "unrolling"]

_SUSTAINED = 0.92
"""Share of a catalogued ceiling that a stream of bytes or products reaches: reads and writes on an
H100 and an H200, docs/calibration.md. The scalar pipes reach theirs."""

_L2_LATENCY_CYCLES = 262.0
_DRAM_LATENCY_CYCLES = 660.0
"""Memory latency of an H100 under light load. Luo et al., "Benchmarking and Dissecting the Nvidia
Hopper GPU Architecture via Microbenchmarking" (2024), table of memory latencies: L2 262 cycles,
global memory 479 for pointer chasing; the rest is the TLB and queues for cold data."""

_MMA_SYNC_SHARE = 0.63
"""Share of Hopper's peak (``wgmma``'s) that ``mma.sync`` reaches. Luo et al., section 4."""

_DISPATCH_CYCLES = 1.19
"""Time between the starts of two blocks on a GPU, which starts them one by one. Measured by
``solkit data collect zoo`` on two H100 80GB HBM3, SMs at 1980 MHz, 2026-11-22: each additional
block of ``stencil3d/seven_loads``, ``dequantise/interleaved`` and ``rope/cuda_pairs`` took 0.601
ns, with 1, 2 and 4 warps alike (docs/analysis.md). Its dependence on the SM clock is an assumption:
all was measured at one clock."""

LAUNCH_US = 1.0
"""An empty kernel, on a GPU without a measurement: an H100 took 0.95 and an H200 0.66
(docs/calibration.md), another H100 1.2 (roofline/catalogue.toml)."""


def model(kernel: KernelAnalysis, device: Device) -> KernelModel:
    """The modelled time of a launch, over all blocks.

    Args:
        kernel: with its demand and its occupancy.
        device: the target.

    Raises:
        ValueError: the demand or the occupancy is not known.
    """
    if kernel.demand is not None and kernel.launch.library:
        terms = list(_library_terms(kernel.demand, device))
        *work, launch = terms
        time_ms = launch.time_ms + max(term.time_ms for term in work)
        return KernelModel(time_ms, tuple(sorted(terms, key=lambda term: -term.time_ms)))
    if kernel.demand is None or kernel.occupancy is None:
        raise ValueError(f"{kernel.launch.name} has not been analysed")
    terms = list(_terms(kernel, kernel.demand, kernel.occupancy, device))
    time_ms = together(terms, resident(kernel, device), ahead(kernel))
    return KernelModel(time_ms, tuple(sorted(terms, key=lambda term: -term.time_ms)))


def resident(kernel: KernelAnalysis, device: Device) -> float:
    """Blocks on an SM at once: as many as fit, or as exist."""
    if kernel.launch.library:
        return 1.0
    assert kernel.occupancy is not None
    there_are = math.prod(kernel.launch.grid) / device.sm_count
    return min(float(kernel.occupancy.blocks_per_sm), max(there_are, 1.0))


def together(terms: Sequence[Term], blocks: float, steps_ahead: float) -> float:
    """The time of all terms, in ms, with that many blocks on an SM and steps of each in flight."""
    tensor = any(term.name.startswith("tensor.") for term in terms)
    kinds: dict[str, float] = {}
    for term in terms:
        kind = _KINDS.get(term.name, term.name)
        if steps_ahead > 1 and kind.startswith("tensor."):
            kind = "memory"
        kinds[kind] = max(kinds.get(kind, 0.0), term.time_ms)
    fixed = kinds.pop("launch", 0.0)
    first = max(kinds, key=lambda kind: kinds[kind])
    longest = kinds.pop(first)
    exposed = 1 / (1 + blocks * steps_ahead)
    if tensor and steps_ahead <= 1:
        exposed = 1 / max(blocks, 1.0)
    by_blocks = max(exposed, 1 / (1 + blocks)) if tensor else exposed
    rest = sum(
        time_ms * (by_blocks if kind in ("scalar", "latency") else exposed)
        for kind, time_ms in kinds.items()
    )
    return fixed + longest + rest


_MOST_UNROLLED = 8.0

_KINDS = {"dram": "memory", "l2": "memory", "l1": "memory"} | dict.fromkeys(
    ("fp32", "sfu", "fp64", "issue", "shared"), "scalar"
)
"""Terms that overlap anyway: data streams from DRAM through L2, and issued instructions keep the
pipes busy."""


def ahead(kernel: KernelAnalysis) -> float:
    """Steps of its loop that a block requests before it needs the first.

    The pipeline's stages less one if all loads that matter are asynchronous copies: one plain load
    waits for all. Plain loads are issued together if the compiler unrolled their loop, but not
    beside matrix products, whose operands go through shared memory at each step.
    """
    demand = kernel.demand
    if demand is None:
        return 1.0
    loads = [a for a in demand.accesses if a.kind == "load"]
    most = max((a.requested_bytes for a in loads), default=0)
    heavy = [a for a in loads if a.requested_bytes * 8 > most]
    if heavy and all(a.path in ("async", "tma") for a in heavy):
        return float(max(kernel.launch.num_stages - 1, 1))
    if any(pipe.startswith("tensor.") for pipe in demand.operations):
        return 1.0
    return max(min(unrolling(kernel) - 1, demand.steps), 1.0)


def unrolling(kernel: KernelAnalysis) -> float:
    """How often the machine code's loops contain one iteration of the source.

    Memory instructions in loops over those of one iteration. LLVM unrolls by four and keeps a loop
    for the rest, which makes five.
    """
    demand, mix = kernel.demand, kernel.facts.instructions
    if demand is None or mix is None or not demand.loop_requests or not demand.iterations:
        return 1.0
    kinds = ("global_load", "global_store", "async_copy", "global_atomic")
    standing = sum(n.count for n in mix.counts if n.depth and n.kind in kinds)
    warps = kernel.launch.num_warps * math.prod(kernel.launch.grid)
    made = demand.loop_requests / (demand.iterations * warps)
    return min(max(standing / made, 1.0), _MOST_UNROLLED) if made else 1.0


def _terms(
    kernel: KernelAnalysis, demand: Demand, occupancy: Occupancy, device: Device
) -> Iterator[Term]:
    blocks = math.prod(kernel.launch.grid)
    stacks, in_l1 = spilled(kernel, device)
    yield _traffic("dram", demand.dram_read_bytes + demand.dram_write_bytes, device)
    if "l2" in device.ceilings:
        asked = demand.l2_read_bytes + demand.l2_write_bytes
        yield _traffic("l2", asked + (0 if in_l1 else stacks), device)
    yield _l1(demand, stacks if in_l1 else 0.0, device)
    if demand.shared:
        yield _shared(demand, device)
    for pipe, amount in demand.operations.items():
        if pipe in device.ceilings:
            yield _pipe(pipe, amount, blocks, kernel, device)
    yield from _issue(kernel, demand, blocks, device)
    yield _latency(kernel, demand, occupancy, blocks, device)
    yield _dispatch(kernel, blocks, device)
    yield _launch(device)


def _library_terms(demand: Demand, device: Device) -> Iterator[Term]:
    """The launch comes last."""
    yield _traffic("dram", demand.dram_read_bytes + demand.dram_write_bytes, device)
    for name, amount in demand.operations.items():
        if name in device.ceilings:
            per_s, unit = rate(name, device), device.ceilings[name].unit.removesuffix("/s")
            told = f"{quantities.amount(amount, unit)} at {quantities.amount(per_s, unit)}/s"
            yield Term(name, 1e3 * amount / per_s, told)
    yield _launch(device)


def _launch(device: Device) -> Term:
    launch_us = device.launch_us if device.launch_us is not None else LAUNCH_US
    return Term("launch", launch_us / 1e3, "an empty kernel")


def rate(name: str, device: Device) -> float:
    """A resource's sustained rate per second."""
    if name in device.calibrated:
        return device.calibrated[name].value
    shared = name in ("dram", "l2") or name.startswith("tensor.")
    return device.ceilings[name].value * (_SUSTAINED if shared else 1.0)


def _traffic(name: str, amount: float, device: Device) -> Term:
    per_s = rate(name, device)
    evidence = f"{quantities.amount(amount, 'B')} at {quantities.amount(per_s, 'B/s')}"
    return Term(name, 1e3 * amount / per_s, evidence)


def _l1(demand: Demand, stacks: float, device: Device) -> Term:
    """Source of the rate: Nsight Compute, "Hardware Model": L1TEX looks up one line per cycle."""
    per_ms = device.sm_count * device.clock_mhz * 1e3
    lines = demand.l1_wavefronts + stacks / 128
    evidence = f"{quantities.count(lines, 'lines')} looked up, one per clock and SM"
    return Term("l1", lines / per_ms * demand.unevenness, evidence)


def _shared(demand: Demand, device: Device) -> Term:
    """Rate from CUDA C++ Programming Guide, shared memory: each bank 32 bits per clock."""
    wavefronts = sum(access.wavefronts for access in demand.shared)
    least = sum(access.least_wavefronts for access in demand.shared)
    told = quantities.count(wavefronts, "wavefronts")
    evidence = f"{told} of shared memory, one per clock and SM"
    if wavefronts > least:
        evidence += f"; {quantities.count(least)} without bank conflicts"
    per_ms = device.sm_count * device.clock_mhz * 1e3
    return Term("shared", wavefronts / per_ms * demand.unevenness, evidence)


def spilled(kernel: KernelAnalysis, device: Device) -> tuple[float, bool]:
    """Bytes of spilled registers that a launch moves, and whether L1 holds them all.

    Without machine code, each word is assumed to be stored and loaded once an iteration.
    """
    spills, mix = kernel.facts.spills, kernel.facts.instructions
    if not spills or kernel.occupancy is None:
        return 0.0, True
    rounds = (kernel.demand.iterations if kernel.demand else 0.0) or 1.0
    each = 2 * 4 * 32 * spills * rounds
    if mix is not None:
        each = sum(
            n.count * 32 * n.width_bytes * (rounds if n.depth else 1.0)
            for n in mix.counts
            if n.kind in ("local_load", "local_store")
        )
    stack = 4 * 32 * spills * kernel.launch.num_warps
    resident = kernel.occupancy.blocks_per_sm * (stack + (kernel.facts.shared_bytes or 0))
    moved = each * kernel.launch.num_warps * math.prod(kernel.launch.grid)
    return moved, resident <= device.limits.shared_bytes


def _pipe(name: str, amount: int, blocks: int, kernel: KernelAnalysis, device: Device) -> Term:
    per_s = rate(name, device)
    how = ""
    grouped = name.startswith("tensor.") and name != "tensor.fp64"  # wgmma has no doubles
    if grouped and device.compute_capability[0] == 9 and not _wgmma(kernel):
        per_s, how = per_s * _MMA_SYNC_SHARE, ", by mma.sync"
    uneven = kernel.demand.unevenness if kernel.demand else 1.0
    unit = device.ceilings[name].unit.removesuffix("/s")
    told = f"{quantities.amount(amount, unit)} at {quantities.amount(per_s, unit)}/s{how}"
    if uneven > 1.005:
        told += (
            f", {uneven:.3g} times that on the busiest SM ({blocks} blocks, {device.sm_count} SMs)"
        )
    return Term(name, 1e3 * amount / per_s * uneven, told)


def _wgmma(kernel: KernelAnalysis) -> bool:
    """Whether a warp group multiplies together; assumed if the machine code was not read."""
    if kernel.facts.instructions is None:
        return True
    return any(each.opcode[1:].startswith("GMMA") for each in kernel.facts.instructions.counts)


def _issue(kernel: KernelAnalysis, demand: Demand, blocks: int, device: Device) -> Iterator[Term]:
    """Instructions of all warps; of PTX (0.6 to 1.3 times as many) if no machine code was read."""
    each, of_ptx = demand.instructions, " of PTX"
    if kernel.facts.instructions is not None:
        rounds = demand.iterations / unrolling(kernel) if demand.iterations else 1.0
        each = sum(n.count * (rounds if n.depth else 1.0) for n in kernel.facts.instructions.counts)
        of_ptx = ""
    if not each or "issue" not in device.ceilings:
        return
    warps = blocks * kernel.launch.num_warps
    per_s = rate("issue", device) / 32
    told = f"{each:.4g} instructions{of_ptx} per warp, {warps:,} warps"
    evidence = f"{told}, {quantities.count(per_s)} a second"
    yield Term("issue", 1e3 * each * warps / per_s * demand.unevenness, evidence)


def _latency(
    kernel: KernelAnalysis, demand: Demand, occupancy: Occupancy, blocks: int, device: Device
) -> Term:
    read = max(demand.l2_read_bytes, 1)
    cold = min(demand.dram_read_bytes / read, 1.0)
    cycles = _L2_LATENCY_CYCLES + cold * (_DRAM_LATENCY_CYCLES - _L2_LATENCY_CYCLES)
    trip_ms = cycles / device.clock_mhz / 1e3
    waves = math.ceil(blocks / (occupancy.blocks_per_sm * device.sm_count))
    under_way = ahead(kernel)
    chain_ms = demand.chain_cycles / device.clock_mhz / 1e3
    each_ms = trip_ms * (1 + demand.steps / under_way) + chain_ms
    time_ms = (waves - 1 + demand.imbalance) * each_ms
    at_a_time = f" ({under_way:.3g} at a time)" if under_way > 1 else ""
    evidence = (
        f"{waves} wave{'s' * (waves > 1)}; each block makes {demand.steps:.4g} memory "
        f"trip{'s' * (demand.steps != 1)} of {trip_ms * 1e6:.0f} ns{at_a_time}, then "
        f"{chain_ms * 1e6:.0f} ns of dependent work"
    )
    return Term("latency", time_ms, evidence)


def _dispatch(kernel: KernelAnalysis, blocks: int, device: Device) -> Term:
    each_ns = 1e3 * _DISPATCH_CYCLES / device.clock_mhz
    warps = f"{kernel.launch.num_warps} warp{'s' if kernel.launch.num_warps > 1 else ''}"
    told = f"{blocks:,} blocks of {warps}, one start every {each_ns:.3g} ns"
    return Term("dispatch", blocks * each_ns / 1e6, told)
