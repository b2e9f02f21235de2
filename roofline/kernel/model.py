"""The modelled time of a launch as written.

A closed form over the code's demand (`solkit.core.Demand`) and one warp's own pace
(`solkit.core.Pace`). Notation: G blocks on S SMs, B of them on one SM at once (as many as fit, or
as exist), w = their warps per scheduler, N = ceil(G / (S B)) waves; the longest block does I times
the mean.

::

    memory     the longest of dram, l2 (x unevenness) and l1 (a wavefront per clock and SM,
               x unevenness), spilled registers among them
    tensor.*   operations / rate x unevenness                               the busiest SM counts
    scalar     the longest of fp32, sfu, fp64, issue and shared (a wavefront per clock and SM)
    atomics    operations at the busiest sector, one by one
    latency    (N-1+I) x what one warp alone takes: cycles + trips x t      t: a trip to memory
    fetch      the code, once, from memory
    dispatch   G x the cycles between the starts of two blocks              whatever a block does
    launch     an empty kernel

    busy = longest + exposed x (sum of the other kinds),  exposed = 1 / (1 + w)
    time = launch + fetch + max(sqrt(busy² + latency²), dispatch)

Nothing hides entirely: of what w warps ask for, one part in 1 + w has nothing else to overlap with.
If copies run steps ahead of matrix products, memory and tensor cores overlap fully: the longer
counts. With plain loads beside matrix products the warps of a block wait together, and
only other blocks hide anything: exposed = 1 / B.

`busy` and `latency` are two lower bounds of the time, one for many warps, one for few. Where they
are alike, warps wait for resources as well as for themselves, so the root of the squares is taken.
Instructions and pace of a kernel that was only lowered are estimates in the same form
(`solkit.analysis.triton.machine`); if there are none either, `Machine.alone_cycles` count.

A PyTorch operator (`Launch.library`), whose code is not seen, has only dram, l2, its pipes, a
sort's shared memory, and launch; the longest but for the launch hides the others. A library is
taken to lose nothing to tiles, waves and latency, but for attention (`_ATTENTION_SHARE`).

Rates are calibrated, sustained ones (`Device.calibrated`) if there are any, else the ceilings times
`_SUSTAINED`.

What differs by architecture is in `solkit.roofline.kernel.machines`. Nothing is fitted to single
kernels. NVIDIA's `fetch_cycles` and `dram_latency_cycles` were chosen, within what their sources
leave open, on half of the families of the measured sets, and hold as well on the other half
(docs/lab/analysis_evidence.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from solkit.core import Demand, Device, KernelAnalysis, KernelModel, Occupancy, Term, quantities
from solkit.ops import Family, operator
from solkit.roofline.kernel.dram_traffic import dram_traffic
from solkit.roofline.kernel.machines import Machine, machine_of

_SUSTAINED = 0.92
"""Share of a catalogued ceiling that a stream of bytes or products reaches: reads and writes on an
H100 and an H200, docs/lab/calibration.md. The scalar pipes reach theirs."""

_ATTENTION = "aten.scaled_dot_product_attention"
_ATTENTION_SHARE = 0.42
"""Share of its sustained rates that PyTorch's attention reaches, but for products in 16 bits: an
H200's exponentials with heads of 64 (torch 2.11, cuDNN 0.43), products in fp32 0.38 to 0.46."""
_ATTENTION_PRODUCTS = 0.83
"""The same of products in 16 bits: 0.82 to 0.88 with heads of 128 and 256 and 4,096 keys, 0.74 with
1,024 keys; causal 0.64, with a mask half of that."""
_APART = 0.62
"""Sectors of different lines that an SM gets from L2 in a clock: 0.60 to 0.68 on an H200, for
copies of transposed tensors and for kernels that read a sector a line."""
_QUARTERS = 4
"""Schedulers of an SM, each with pipes of its own."""

LAUNCH_US = 1.0
"""An empty kernel, on a GPU without a measurement: an H100 took 0.95 and an H200 0.66
(docs/lab/calibration.md), another H100 1.2 (roofline/catalogue.toml)."""

_ALONE_US = 0.27
"""Time that a kernel takes longer alone than in a queue of empty kernels, where its start
overlaps with the end of the one before: calibration's writes of 256 KiB took 1.31 µs on an H100 and
1.09 on an H200, of which 0.1 are the write."""


def model_launch_time(kernel: KernelAnalysis, device: Device) -> KernelModel:
    """Return the modelled time of a launch, over all blocks.

    Args:
        kernel: with its demand and its occupancy.
        device: the target.

    Raises:
        ValueError: the demand or the occupancy is not known.
    """
    if kernel.demand is not None and kernel.launch.library:
        terms = list(_library_terms(kernel.launch.name, kernel.demand, device))
        *work, launch = terms
        time_ms = launch.time_ms + max(term.time_ms for term in work)
        return KernelModel(time_ms, tuple(sorted(terms, key=lambda term: -term.time_ms)))
    if kernel.demand is None or kernel.occupancy is None:
        raise ValueError(f"{kernel.launch.name} has not been analysed")
    terms = list(_resource_terms(kernel, kernel.demand, kernel.occupancy, device))
    blocks = resident(kernel, device)
    time_ms = together(terms, blocks, kernel.launch.num_warps, overlaps_products(kernel))
    return KernelModel(time_ms, tuple(sorted(terms, key=lambda term: -term.time_ms)))


def resident(kernel: KernelAnalysis, device: Device) -> float:
    """Return blocks on an SM at once: as many as fit, or as exist."""
    if kernel.launch.library:
        return 1.0
    assert kernel.occupancy is not None
    there_are = math.prod(kernel.launch.grid) / device.sm_count
    return min(float(kernel.occupancy.blocks_per_sm), max(there_are, 1.0))


def together(terms: Sequence[Term], blocks: float, warps: int, overlaps: bool) -> float:
    """Return the time of all terms, in ms.

    Args:
        terms: of the model.
        blocks: on an SM at once.
        warps: of a block.
        overlaps: whether a block's memory and matrix products overlap: `overlaps_products`.
    """
    alone = {term.name: term.time_ms for term in terms if term.name in _NO_RESOURCES}
    kinds: dict[str, float] = {}
    for term in terms:
        if term.name not in _NO_RESOURCES:
            kind = _term_kind(term.name)
            if overlaps and kind == "tensor":
                kind = "memory"
            kinds[kind] = max(kinds.get(kind, 0.0), term.time_ms)
    longest = max(kinds.values(), default=0.0)
    exposed = 1 / (1 + blocks * warps / _QUARTERS)
    if "tensor" in kinds:  # of plain loads: the warps of a block wait for each step together
        exposed = 1 / max(blocks, 1.0)
    busy = longest + (sum(kinds.values()) - longest) * exposed
    running = max(math.hypot(busy, alone.get("latency", 0.0)), alone.get("dispatch", 0.0))
    return alone.get("launch", 0.0) + alone.get("fetch", 0.0) + running


_NO_RESOURCES = ("latency", "dispatch", "fetch", "launch")
_KINDS = dict.fromkeys(("dram", "last_level", "l2", "l1"), "memory") | dict.fromkeys(
    ("fp32", "fp16", "bf16", "int32", "sfu", "fp64", "issue", "shared"), "scalar"
)
"""Terms that overlap anyway: data streams from DRAM through L2, and issued instructions keep the
pipes busy."""


def _term_kind(name: str) -> str:
    return "tensor" if name.startswith("tensor.") else _KINDS.get(name, name)


_MOST_UNROLLED = 8.0


def prefetched_steps(kernel: KernelAnalysis) -> float:
    """Return the steps of its loop that a block requests before it needs the first.

    The pipeline's stages less one if all loads that matter are asynchronous copies: one plain load
    waits for all. Plain loads are issued together if the compiler unrolled their loop, but not
    beside matrix products, whose operands go through shared memory at each step: registers hold one
    step, whatever the stages.
    """
    demand = kernel.demand
    if demand is None:
        return 1.0
    if _all_loads(demand, "async", "tma"):
        return float(max(kernel.launch.num_stages - 1, 1))
    if any(pipe.startswith("tensor.") for pipe in demand.operations):
        return 1.0
    return max(min(unrolling(kernel) - 1, demand.steps), 1.0)


def overlaps_products(kernel: KernelAnalysis) -> bool:
    """Tell whether a block's memory and matrix products overlap.

    They do if copies run steps ahead, or if registers hold the next step while this one multiplies.
    """
    staged = kernel.demand is not None and _all_loads(kernel.demand, "staged")
    return staged or prefetched_steps(kernel) > 1


def _all_loads(demand: Demand, *paths: str) -> bool:
    """Tell whether all loads that matter, those of an eighth of the most bytes, go such a way."""
    loads = [a for a in demand.accesses if a.kind == "load"]
    most = max((a.requested_bytes for a in loads), default=0)
    heavy = [a for a in loads if a.requested_bytes * 8 > most]
    return bool(heavy) and all(a.path in paths for a in heavy)


def unrolling(kernel: KernelAnalysis) -> float:
    """Count the iterations of the source in one of the machine code's loops.

    Memory instructions in loops over those of one iteration. LLVM unrolls by four and keeps a loop
    for the rest, which makes five.
    """
    demand, mix = kernel.demand, kernel.facts.instructions
    if demand is None or mix is None or not demand.loop_requests or not demand.iterations:
        return 1.0
    kinds = ("global_load", "global_store", "async_copy", "global_atomic")
    rounds = _rounds_by_depth(kernel)
    standing = sum(n.count * rounds[n.depth] for n in mix.counts if n.depth and n.kind in kinds)
    warps = kernel.launch.num_warps * math.prod(kernel.launch.grid)
    executed = demand.loop_requests / warps
    return min(max(standing / executed, 1.0), _MOST_UNROLLED) if executed else 1.0


def _rounds_by_depth(kernel: KernelAnalysis) -> Sequence[float]:
    """Return how often a block would run code in so many loops, if none were unrolled.

    The machine code's loops are the source's if they are as deep. Else the compiler made some of
    them straight code, and it is not known which.
    """
    demand, mix = kernel.demand, kernel.facts.instructions
    if demand is None or mix is None:
        return (1.0,)
    depths = [*(n.depth for n in mix.counts), *(pace.depth for pace in mix.paces)]
    deepest = max(depths, default=0)
    if len(demand.iterations_by_depth) == deepest:
        return (1.0, *demand.iterations_by_depth)
    return (1.0, *[demand.iterations or 1.0] * deepest)


def _resource_terms(
    kernel: KernelAnalysis, demand: Demand, occupancy: Occupancy, device: Device
) -> Iterator[Term]:
    blocks = math.prod(kernel.launch.grid)
    stacks, level = spill_traffic(kernel, device)
    yield _dram_term(demand, device, stacks if level == "dram" else 0.0)
    if "l2" in device.ceilings:
        yield _l2_term(demand, 0.0 if level == "l1" else stacks, device)
    if "last_level" in device.ceilings:
        yield _last_level_term(demand, device)
    yield _l1_term(demand, stacks if level == "l1" else 0.0, device)
    if demand.shared:
        yield _shared_memory_term(demand, device)
    for pipe, amount in demand.operations.items():
        if pipe in device.ceilings:
            yield _pipe_term(pipe, amount, blocks, kernel, device)
    yield from _issue_terms(kernel, demand, blocks, device)
    yield from _atomics_term(demand, device)
    yield _latency_term(kernel, demand, occupancy, blocks, device)
    yield from _instruction_fetch_term(kernel, device)
    yield _dispatch(kernel, blocks, device)
    yield _launch_overhead_term(device)


def _library_terms(name: str, demand: Demand, device: Device) -> Iterator[Term]:
    """Yield the terms; the launch comes last."""
    yield _dram_term(demand, device)
    if "l2" in device.ceilings:
        yield _l2_term(demand, 0.0, device)
    if demand.l1_wavefronts:
        apart_ms = demand.l1_wavefronts / (_APART * device.sm_count * device.clock_mhz * 1e3)
        evidence = f"{quantities.count(demand.l1_wavefronts, 'sectors')} of different lines"
        yield Term("l1", apart_ms, f"{evidence}, {_APART} per clock and SM")
    if demand.shared:
        yield _shared_memory_term(demand, device)
    for pipe, amount in demand.operations.items():
        if pipe in device.ceilings:
            unit = device.ceilings[pipe].unit.removesuffix("/s")
            per_s = sustained_rate(pipe, device) * operator_share(name, pipe)
            evidence = f"{quantities.amount(amount, unit)} at {quantities.amount(per_s, unit)}/s"
            yield Term(pipe, 1e3 * amount / per_s, evidence)
    yield _launch_overhead_term(device)


def operator_share(name: str, pipe: str) -> float:
    """Return the share of a pipe's sustained rate that a PyTorch operator reaches."""
    if name != _ATTENTION and operator(name).family is not Family.ATTENTION:
        return 1.0
    return _ATTENTION_PRODUCTS if pipe in _HALVES else _ATTENTION_SHARE


_HALVES = ("tensor.fp16", "tensor.bf16")


def _launch_overhead_term(device: Device) -> Term:
    launch_us = device.launch_us if device.launch_us is not None else LAUNCH_US
    return Term("launch", (launch_us + _ALONE_US) / 1e3, "an empty kernel")


def sustained_rate(name: str, device: Device) -> float:
    """Return a resource's sustained rate per second."""
    if name in device.calibrated:
        return device.calibrated[name].value
    return device.ceilings[name].value * _sustained_share(name, device)


def _sustained_share(name: str, device: Device) -> float:
    """Return the share of its ceiling that a resource sustains on an uncalibrated device."""
    kind = name.split(".")[0]
    default = _SUSTAINED if kind in ("dram", "last_level", "l2", "tensor") else 1.0
    shares = machine_of(device).sustained
    return shares.get(name, shares.get(kind, default))


def dram_rate(read_bytes: float, write_bytes: float, device: Device) -> float:
    """DRAM's sustained rate in bytes per second for a mix of reads and writes.

    Times are interpolated between reads, copies and writes alone, where those were measured.
    """
    moved, rates = read_bytes + write_bytes, _dram_mixes(device)
    if not rates or not moved:
        return sustained_rate("dram", device)
    read, copy, write = (1 / per_s for per_s in rates)
    at = 2 * write_bytes / moved
    return 1 / (read + (copy - read) * at if at <= 1 else copy + (write - copy) * (at - 1))


def _dram_mixes(device: Device) -> tuple[float, ...]:
    """Return rates of reads, copies and writes alone, in bytes per second; empty if unknown."""
    names = "dram.read", "dram.copy", "dram.write"
    if "dram.copy" in device.calibrated:
        return tuple(device.calibrated[name].value for name in names)
    if "dram.copy" in machine_of(device).sustained:
        peak = device.ceilings["dram"].value
        return tuple(peak * _sustained_share(name, device) for name in names)
    return ()


def _dram_term(demand: Demand, device: Device, stacks: float = 0.0) -> Term:
    """Time reads and writes, half of those of spilled registers each."""
    read, written = demand.dram_read_bytes + stacks / 2, demand.dram_write_bytes + stacks / 2
    return _traffic_term("dram", read + written, dram_rate(read, written, device))


def _l2_term(demand: Demand, stacks: float, device: Device) -> Term:
    """Time reads and writes, each at its rate; the busiest SM has no more than its share of it."""
    reads = sustained_rate("l2", device)
    measured = device.calibrated.get("l2.write")
    writes = measured.value if measured else reads * machine_of(device).l2_write_share
    read, written = demand.l2_read_bytes + stacks, demand.l2_write_bytes
    time_ms = 1e3 * (read / reads + written / writes) * demand.unevenness
    evidence = f"{quantities.amount(read, 'B')} at {quantities.amount(reads, 'B/s')}"
    if written:
        written_at = f"at {quantities.amount(writes, 'B/s')}"
        evidence += f", {quantities.amount(written, 'B')} written {written_at}"
    return Term("l2", time_ms, evidence)


def _last_level_term(demand: Demand, device: Device) -> Term:
    """Time what leaves L2 for the cache behind it.

    Where L2 is in several dies, what their blocks share is in each of them, so that it has room for
    one die's part only.
    """
    room = device.l2_bytes / machine_of(device).l2_dies
    traffic = dram_traffic(demand.reuse, room)
    per_s = sustained_rate("last_level", device)
    return _traffic_term("last_level", traffic.read + traffic.written, per_s)


def _traffic_term(name: str, amount: float, per_s: float) -> Term:
    evidence = f"{quantities.amount(amount, 'B')} at {quantities.amount(per_s, 'B/s')}"
    return Term(name, 1e3 * amount / per_s, evidence)


def _l1_term(demand: Demand, stacks: float, device: Device) -> Term:
    """Source of the rate: Nsight Compute, "Hardware Model": L1TEX looks up one line per cycle."""
    per_ms = device.sm_count * device.clock_mhz * 1e3
    lines = demand.l1_wavefronts + stacks / 128
    evidence = f"{quantities.count(lines, 'lines')} looked up, one per clock and SM"
    return Term("l1", lines / per_ms * demand.unevenness, evidence)


def _shared_memory_term(demand: Demand, device: Device) -> Term:
    """Rate from CUDA C++ Programming Guide, shared memory: each bank 32 bits per clock.

    Where loads are wider, a clock takes several of their wavefronts.
    """
    load_bytes = machine_of(device).shared_load_bytes
    shares = [128 / load_bytes if access.kind == "load" else 1.0 for access in demand.shared]
    pairs = list(zip(demand.shared, shares, strict=True))
    wavefronts = sum(access.wavefronts * share for access, share in pairs)
    least = sum(access.least_wavefronts * share for access, share in pairs)
    amount = quantities.count(wavefronts, "wavefronts")
    evidence = f"{amount} of shared memory, one per clock and SM"
    if wavefronts > least:
        evidence += f"; {quantities.count(least)} without bank conflicts"
    per_ms = device.sm_count * device.clock_mhz * 1e3
    return Term("shared", wavefronts / per_ms * demand.unevenness, evidence)


def spill_traffic(kernel: KernelAnalysis, device: Device) -> tuple[float, str]:
    """Return bytes of spilled registers that a launch moves, and what holds them all.

    Without machine code, each word is assumed to be stored and loaded once an iteration. Between
    two uses of a word lie those of all blocks that run: ``"l1"`` if an SM's L1 has room for its
    blocks' stacks, ``"l2"`` if the last cache has room for those of all, else ``"dram"``.
    """
    spills, mix = kernel.facts.spills, kernel.facts.instructions
    if not spills or kernel.occupancy is None:
        return 0.0, "l1"
    threads = device.limits.warp_threads
    if mix is None:
        rounds = (kernel.demand.iterations if kernel.demand else 0.0) or 1.0
        bytes_per_warp = 2 * 4 * threads * spills * rounds
    else:
        times = _rounds_by_depth(kernel)
        bytes_per_warp = sum(
            n.count * threads * n.width_bytes * times[n.depth]
            for n in mix.counts
            if n.kind in ("local_load", "local_store")
        )
    stack = 4 * threads * spills * kernel.launch.num_warps
    blocks = math.prod(kernel.launch.grid)
    moved = bytes_per_warp * kernel.launch.num_warps * blocks
    on_sm = kernel.occupancy.blocks_per_sm
    if on_sm * (stack + (kernel.facts.shared_bytes or 0)) <= device.limits.shared_bytes:
        return moved, "l1"
    fits = min(blocks, on_sm * device.sm_count) * stack <= device.cached_bytes
    return moved, "l2" if fits else "dram"


def _pipe_term(name: str, amount: int, blocks: int, kernel: KernelAnalysis, device: Device) -> Term:
    per_s = sustained_rate(name, device)
    how = ""
    grouped = name.startswith("tensor.") and name != "tensor.fp64"  # wgmma has no doubles
    share = machine_of(device).mma_sync_shares.get(device.compute_capability[0], 1.0)
    if grouped and share < 1 and not _uses_wgmma(kernel):
        per_s, how = per_s * share, ", by mma.sync"
    uneven = kernel.demand.unevenness if kernel.demand else 1.0
    unit = device.ceilings[name].unit.removesuffix("/s")
    evidence = f"{quantities.amount(amount, unit)} at {quantities.amount(per_s, unit)}/s{how}"
    if uneven > 1.005:
        evidence += (
            f", {uneven:.3g} times that on the busiest SM "
            f"({blocks:,} block{'s' * (blocks != 1)}, {device.sm_count} SMs)"
        )
    return Term(name, 1e3 * amount / per_s * uneven, evidence)


def _uses_wgmma(kernel: KernelAnalysis) -> bool:
    """Tell whether a warp group multiplies together; assumed if the machine code was not read."""
    if kernel.facts.instructions is None:
        return True
    return any(entry.opcode[1:].startswith("GMMA") for entry in kernel.facts.instructions.counts)


def _issue_terms(
    kernel: KernelAnalysis, demand: Demand, blocks: int, device: Device
) -> Iterator[Term]:
    """Yield the schedulers, the pipe of integers or the exchange unit, whichever takes longest.

    Of PTX (0.6 to 1.3 times as many instructions) if neither machine code nor an estimate is there.
    """
    by_kind = executed(kernel)
    per_warp = sum(by_kind.values()) or demand.instructions
    machine = machine_of(device)
    if "issue" in device.ceilings:
        per_s = sustained_rate("issue", device) / device.limits.warp_threads
    else:
        per_s = machine.issue_per_clock * device.sm_count * device.clock_mhz * 1e6
    if not per_warp or not per_s:
        return
    warps = blocks * kernel.launch.num_warps
    slots = {
        "": per_warp if machine.issues_all else 0.0,
        machine.pipe_name: sum(
            n * by_kind.get(kind, 0.0) for kind, n in machine.pipe_cycles.items()
        ),
        "loads, stores and shuffles": _QUARTERS
        * sum(by_kind.get(kind, 0.0) for kind in machine.exchanged),
    }
    longest = max(slots, key=slots.__getitem__)
    how = (
        " of PTX"
        if not by_kind
        else " (estimated)"
        if "instructions" in kernel.facts.estimated
        else ""
    )
    amount = f"{per_warp:.4g} instructions{how} per warp, {warps:,} warps"
    evidence = f"{amount}, {quantities.count(per_s)} a second"
    if longest:
        evidence += f"; {longest} take {slots[longest] / per_warp:.3g} times as long"
    yield Term("issue", 1e3 * slots[longest] * warps / per_s * demand.unevenness, evidence)


def executed(kernel: KernelAnalysis) -> Mapping[str, float]:
    """Machine instructions that a warp executes, by kind; empty if they were not read."""
    mix = kernel.facts.instructions
    executed_by_kind: dict[str, float] = {}
    rounds = _loop_rounds(kernel)
    for entry in mix.counts if mix else ():
        times = entry.count * rounds[entry.depth]
        executed_by_kind[entry.kind] = executed_by_kind.get(entry.kind, 0.0) + times
    return executed_by_kind


def _loop_rounds(kernel: KernelAnalysis) -> Sequence[float]:
    """Count how often a block runs the machine code in so many loops: innermost ones are unrolled.

    Where it is not known how often each depth runs, code at all of them runs as often.
    """
    rounds, copies = _rounds_by_depth(kernel), unrolling(kernel)
    if len(set(rounds[1:])) == 1:
        return (1.0, *(times / copies for times in rounds[1:]))
    return (*rounds[:-1], rounds[-1] / copies)


def _atomics_term(demand: Demand, device: Device) -> Iterator[Term]:
    """Atomics that meet in a sector of L2 go one by one."""
    met = sum(a.contention.busiest_sector for a in demand.accesses if a.contention is not None)
    if met:
        evidence = f"{quantities.count(met, 'operations')} at the busiest sector, one by one"
        yield Term(
            "atomics", machine_of(device).atomic_cycles * met / device.clock_mhz / 1e3, evidence
        )


def _latency_term(
    kernel: KernelAnalysis, demand: Demand, occupancy: Occupancy, blocks: int, device: Device
) -> Term:
    waves = math.ceil(blocks / (occupancy.blocks_per_sm * device.sm_count))
    waiting, cycles, local = _cycles_alone(kernel, demand, device)
    cycles += local
    each_ms = (waiting + cycles) / device.clock_mhz / 1e3
    waits, works = (
        quantities.duration(part_cycles / device.clock_mhz / 1e3)
        for part_cycles in (waiting, cycles)
    )
    evidence = (
        f"{waves:,} wave{'s' * (waves > 1)} of blocks one after another; a warp alone waits "
        f"{waits} for memory and works for {works}"
    )
    return Term("latency", (waves - 1 + demand.imbalance) * each_ms, evidence)


def spills_share(kernel: KernelAnalysis, device: Device) -> float:
    """Return the part of a warp's time alone in which it waits for registers that were spilled."""
    if not kernel.facts.spills or kernel.demand is None:
        return 0.0
    *others, local = _cycles_alone(kernel, kernel.demand, device)
    return local / max(sum(others) + local, 1.0)


def _cycles_alone(
    kernel: KernelAnalysis, demand: Demand, device: Device
) -> tuple[float, float, float]:
    """Count cycles in which one warp alone waits for global memory, works, and waits for local."""
    read = max(demand.l2_read_bytes, 1)
    cold = min(demand.dram_read_bytes / read, 1.0)
    machine = machine_of(device)
    near, far = machine.l2_latency_cycles, machine.dram_latency_cycles
    cycles, trips, local = _single_warp_latency(kernel, demand, machine)
    of_stacks = {"l1": machine.l1_latency_cycles, "l2": near, "dram": far}
    return (
        trips * (near + cold * (far - near)),
        cycles,
        local * of_stacks[spill_traffic(kernel, device)[1]],
    )


def _single_warp_latency(
    kernel: KernelAnalysis, demand: Demand, machine: Machine
) -> tuple[float, float, float]:
    """Return what one warp alone takes: cycles, and trips to global and to local memory."""
    mix = kernel.facts.instructions
    waits = 1 + demand.steps / prefetched_steps(kernel)
    if mix is None or not mix.paces:
        instructions = sum(executed(kernel).values()) or demand.instructions
        return demand.chain_cycles + machine.alone_cycles * instructions, waits, 0.0
    rounds, totals = _loop_rounds(kernel), [0.0, 0.0, 0.0]
    for pace in mix.paces:
        for place, spent in enumerate((pace.cycles, pace.trips, pace.local_trips)):
            totals[place] += spent * rounds[pace.depth]
    cycles, trips, local = totals
    if any(a.kind == "load" and a.path == "tma" for a in demand.accesses):
        trips = max(trips, waits)  # the code waits for TMA in loops of its own
    return cycles, trips, local


def _instruction_fetch_term(kernel: KernelAnalysis, device: Device) -> Iterator[Term]:
    mix = kernel.facts.instructions
    if mix is not None:
        machine = machine_of(device)
        size = machine.instruction_bytes
        evidence = f"{quantities.count(mix.total, 'instructions')} of {size} bytes, once"
        yield Term("fetch", machine.fetch_cycles * mix.total / device.clock_mhz / 1e3, evidence)


def _dispatch(kernel: KernelAnalysis, blocks: int, device: Device) -> Term:
    each_ns = 1e3 * machine_of(device).dispatch_cycles / device.clock_mhz
    warps = f"{kernel.launch.num_warps} warp{'s' if kernel.launch.num_warps > 1 else ''}"
    evidence = f"{blocks:,} block{'s' * (blocks != 1)} of {warps}, one start every {each_ns:.3g} ns"
    return Term("dispatch", blocks * each_ns / 1e6, evidence)
