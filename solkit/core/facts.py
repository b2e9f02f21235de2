"""Facts about one launch: known without a GPU, the same on every GPU that can run it.

`Facts` depend only on source, parameters, shape, compute capability, SM count and Triton version
(`solkit.datasets.facts.facts_key`), so one analysis serves an H100 and an H200. What depends on the
rest of a device (DRAM bytes, occupancy, the modelled time) is computed from them by
`solkit.roofline.kernel.evaluate` and never stored. See docs/decisions/0013-facts.md.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from solkit.core.launches import Access, InstructionMix, Launch, SharedAccess

FACTS_VERSION = 3
"""Version of what facts hold and how they are found; part of their key. Raise it with every change
that alters a figure."""

CAPTURED_VERSION = 1
"""Version of captured records, which is in their key in place of `FACTS_VERSION`: what a launch
says of its arguments and its program changes apart from what follows from code."""

LOWERED_VERSION = 2
"""Version of the estimates in lowered facts, which their key has in addition."""

PTX_VERSION = 2
"""Version of what is followed in PTX, which compiled facts of CUDA C++, TileLang and CuTe DSL have
in their key in addition: products by their factors' pipe, tensors in packed parameters, shares of
threads and bulk copies count otherwise than in version 1. Facts of kernels that are followed in
Triton's IR do not change with it."""


class Depth(str, enum.Enum):
    """Depth of a launch's analysis: each depth knows more and costs more."""

    CAPTURED = "captured"
    """Launch and constants; no compiler."""
    LOWERED = "lowered"
    """Triton's own IR; no LLVM, no ptxas. Estimates are marked. CUDA C++ is compiled instead."""
    COMPILED = "compiled"
    """The machine code: registers, spills, shared memory, instructions."""
    MACHINE = "machine"
    """The machine code alone, of a kernel whose program is not known: no trips of loops, no bytes
    and no operations, so no modelled time."""


SOURCE_DEPTHS = (Depth.CAPTURED, Depth.LOWERED, Depth.COMPILED)
"""Depths at which a kernel's source is analysed, ranked and learned from."""


@dataclass(frozen=True)
class Stream:
    """The bytes of one tensor's storage that cross between L2 and DRAM in one direction.

    Bytes that a launch reuses cross again if L2 has evicted them, which depends on how many bytes
    were used in between: the stack distance. A stream counts bytes by distance, so that it can be
    evaluated for any L2 size (`solkit.roofline.kernel.dram_traffic`).

    Of a large grid only the first blocks are followed (`followed_...`); the rest are assumed to
    behave like the last of them. The bytes that cross are at most `most_bytes` times how often, on
    average, the followed blocks moved each of their `distinct_bytes`.

    Attributes:
        cold_bytes: cross for any L2 size: first reads and final writes.
        distances_bytes: ascending stack distances, each the mean of a narrow range.
        again_bytes: bytes reused at each distance.
        followed_cold_bytes, followed_again_bytes: of the followed blocks alone; 0 and empty if all
            blocks were followed.
        distinct_bytes: of the followed blocks; 0 if there is no limit.
        most_bytes: distinct bytes of all blocks.
        argument: the pointer argument behind it, as in `Access`; of several the first; empty if
            unknown. A name, no figure: it decides about no equality.
    """

    cold_bytes: int
    distances_bytes: tuple[int, ...] = ()
    again_bytes: tuple[int, ...] = ()
    followed_cold_bytes: int = 0
    followed_again_bytes: tuple[int, ...] = ()
    distinct_bytes: int = 0
    most_bytes: int = 0
    argument: str = field(default="", compare=False)


@dataclass(frozen=True)
class Reuse:
    """DRAM traffic of a launch, for an L2 of any size that is cold at the start.

    Attributes:
        reads, writes: a `Stream` for each storage.
        partial_bytes: for each storage with partly written sectors, the bytes read to complete
            them, without what L2 still holds at the end.
    """

    reads: tuple[Stream, ...] = ()
    writes: tuple[Stream, ...] = ()
    partial_bytes: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Requests:
    """Requests of one launch's own code to a GPU, whatever the problem needs.

    L2 traffic is included: L1's size follows from the compute capability, and which blocks share an
    L1 from the SM count.

    Attributes:
        accesses: of global memory, in program order.
        operations: by pipe, under the keys of `Device.ceilings`: floating-point operations (a
            multiply-add is two), and instructions' lanes for ``int32`` and ``sfu``.
        l1_wavefronts: L1 passes for the accesses: one for each 128-byte line of a request.
        l2_read_bytes, l2_write_bytes: traffic between the SMs and L2; atomics count as writes.
        loop_requests: requests of accesses inside loops.
        steps: executions of a block's most frequent load, summed over successive loops, mean over
            the blocks: how often it waits for memory if nothing is prefetched.
        imbalance: the most `steps` of a block over their mean; 1 if all blocks are alike.
        unevenness: steps of the busiest SM over the mean, with blocks assigned in order to the
            least loaded SM; 1 if all SMs are busy to the end.
        iterations: how often one block runs the code inside loops, mean over that code.
        iterations_by_depth: the same of the code in so many loops, from one on; empty if unknown.
        chain_cycles: SM cycles of one block's operations in sequence, as if each depended on the
            one before and the pipes were free; mean over the blocks.
        shared: accesses of shared memory by the lanes of warps, by line and kind.
        tensor_shared_bytes: operands that ``wgmma`` reads from shared memory, in addition.
        barriers: how often all warps of a block synchronise, mean over the blocks.
        instructions: PTX instructions, without moves, that a warp of a block executes, mean over
            the blocks; 0 if warps do different things.
        programs_sampled: blocks followed lane by lane; the rest are scaled from them.
        is_complete: whether all blocks were followed and nothing was assumed, so that `accesses`
            touch what they are said to touch and nothing else. Of no other launch is it known what
            it leaves out.
        guesses: assumptions where something is unknown, each a sentence.
        reuse: DRAM traffic, for an L2 of any size.
    """

    accesses: tuple[Access, ...]
    operations: Mapping[str, int]
    l1_wavefronts: int
    l2_read_bytes: int
    l2_write_bytes: int
    loop_requests: int = 0
    steps: float = 0.0
    imbalance: float = 1.0
    unevenness: float = 1.0
    iterations: float = 0.0
    iterations_by_depth: tuple[float, ...] = ()
    chain_cycles: float = 0.0
    shared: tuple[SharedAccess, ...] = ()
    tensor_shared_bytes: int = 0
    barriers: float = 0.0
    instructions: float = 0.0
    programs_sampled: int = 0
    is_complete: bool = False
    guesses: tuple[str, ...] = ()
    reuse: Reuse = Reuse()


@dataclass(frozen=True)
class Facts:
    """One launch of a configuration, from its code alone.

    Attributes:
        launch: as captured.
        depth: how deeply it was analysed.
        registers: per thread; ``None`` (like all below) if unknown.
        spills: spilled 32-bit words per thread.
        shared_bytes: shared memory per block.
        tensor_cores: whether it has tensor-core instructions.
        instructions: its machine code's instruction mix; at the lowered depth an estimate of it.
        requests: what its code requests.
        error: why it cannot run on a GPU of this compute capability; ``None`` if it can.
        notes: what could not be read, each a sentence.
        estimated: names of the figures that are estimates at this depth.
        scalar_registers: per warp, on GPUs where scalars have registers of their own.
        accumulation_registers: those of `registers` that only matrix instructions compute with, on
            GPUs that have such.
        scratch_bytes: private memory per thread, on GPUs whose compiler reports it: spills, and
            arrays that are no registers.
    """

    launch: Launch
    depth: Depth = Depth.COMPILED
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    tensor_cores: bool | None = None
    instructions: InstructionMix | None = None
    requests: Requests | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()
    estimated: tuple[str, ...] = ()
    scalar_registers: int | None = None
    accumulation_registers: int | None = None
    scratch_bytes: int | None = None
