"""One kernel launch, its instruction mix and its memory accesses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from solkit.core.kernel_programs import Binding, KernelProgram
from solkit.core.values import Value


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
        signature: argument types by name, in Triton's notation; empty for CUDA C++.
        count: identical launches in one call.
        library: whether it is a kernel of a PyTorch operator, named as in ATen (``"aten.mm"``): its
            grid is all 0 and its warps and stages are 0, since they are not known.
        line: ``file:line`` of the user's code that called the operator, the file without its
            folder; else empty.
        arguments: what each parameter gets, by name, from the first of identical launches; empty if
            that is not known, as for CUDA C++.
        storages: numbers of the storages that each parameter gets in any of the identical launches,
            the first one's first, as in `solkit.core.kernel_programs.TensorLayout`; empty likewise.
        program: the text of the kernel and of all it calls; ``None`` likewise. Neither this nor
            `arguments` and `storages` decide whether launches are equal: what differs in them
            differs in `signature` and `constants`, or in nothing that a compiler knows.
    """

    name: str
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    num_ctas: int = 1
    constants: Mapping[str, Value] = field(default_factory=dict)
    signature: Mapping[str, str] = field(default_factory=dict)
    count: int = 1
    library: bool = False
    line: str = ""
    arguments: Mapping[str, Binding] = field(default_factory=dict, compare=False, repr=False)
    storages: Mapping[str, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)
    program: KernelProgram | None = field(default=None, compare=False, repr=False)


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


@dataclass(frozen=True)
class InstructionCount:
    """The instructions of one kind at one loop depth of a kernel's machine code.

    Attributes:
        kind: from `solkit.analysis.common.instructions.KINDS`, e.g. ``"fp32"`` or
            ``"global_load"``.
        opcode: the whole opcode for ``"tensor"``, which names shape and types; else empty.
        depth: number of enclosing loops.
        count: how many.
        predicated: those of them that run under a predicate.
        width_bytes: bytes that one thread moves per instruction; 0 if none or the opcode does not
            say.
        warp_flops: floating-point operations of one warp per instruction (a multiply-add is two); a
            quarter of a warp group's; 0 if the opcode does not say (tcgen05).
    """

    kind: str
    opcode: str
    depth: int
    count: int
    predicated: int
    width_bytes: int
    warp_flops: int


@dataclass(frozen=True)
class Pace:
    """Time that one warp alone takes for the code at one loop depth, once.

    A warp issues in order and waits for operands, so this counts what the code itself lets overlap.

    Attributes:
        depth: number of enclosing loops.
        cycles: SM cycles of issuing and of waiting for results on the SM.
        trips: waits for global memory besides, in latencies; loads that are on their way together
            count once.
        local_trips: the same for spilled registers and other local memory.
    """

    depth: int
    cycles: float
    trips: float
    local_trips: float


@dataclass(frozen=True)
class WarpRole:
    """One part of a warp-specialised kernel: the code of the warps that share a role.

    Attributes:
        name: by what it has: ``"loads"`` (bulk copies into shared memory), ``"products"``,
            ``"stores"`` (bulk copies out of it), or ``"computes"``; several joined by ``+``.
        instructions: that only this role runs.
        tensor: products among them.
        bulk_copies: bulk copies among them, in either direction.
        multicasts: those that go to several blocks of a cluster.
    """

    name: str
    instructions: int
    tensor: int = 0
    bulk_copies: int = 0
    multicasts: int = 0


@dataclass(frozen=True)
class InstructionMix:
    """A kernel's static instruction mix: each instruction counted as often as its code contains it.

    Attributes:
        counts: by kind, then by depth.
        loops: number of loops, including waits for a barrier.
        lines: instructions per ``file:line`` of the source, files without their folders; empty if
            the code has no line table.
        paces: of one warp alone, by depth; empty if unknown.
        roles: of the warps of a block, if they branch to code of their own; else empty.
    """

    counts: tuple[InstructionCount, ...]
    loops: int
    lines: Mapping[str, int] = field(default_factory=dict)
    paces: tuple[Pace, ...] = ()
    roles: tuple[WarpRole, ...] = ()

    @property
    def total(self) -> int:
        """All instructions that can be reached."""
        return sum(count.count for count in self.counts)

    def of(self, *kinds: str) -> int:
        """Return the number of instructions of these kinds."""
        return sum(count.count for count in self.counts if count.kind in kinds)


@dataclass(frozen=True)
class Contention:
    """Addresses at which the atomics of one `Access` meet, over a whole launch.

    An operation is that of one lane on one element. Of a large launch some blocks are followed; the
    rest are assumed to spread their operations over addresses like those.

    Attributes:
        operations: of all lanes.
        warp_addresses: distinct addresses of one request, summed over the requests;
            `operations` / `warp_addresses` lanes of a warp meet at an address, on average.
        addresses: distinct addresses of the launch.
        busiest_address: operations at the address that meets the most.
        busiest_sector: operations in the 32-byte sector that meets the most.
        is_assumed: whether addresses depend on unknown data and are assumed to be spread evenly.
    """

    operations: int
    warp_addresses: int
    addresses: int
    busiest_address: int
    busiest_sector: int
    is_assumed: bool = False


@dataclass(frozen=True)
class Access:
    """One load, store or atomic of a kernel's code, over a whole launch.

    Attributes:
        kind: ``"load"``, ``"store"`` or ``"atomic"``.
        path: ``"global"``, ``"async"`` (straight to shared memory, ``cp.async``), ``"tma"``, or
            ``"staged"`` (a load that waits in registers until a later step of its loop stores it).
        argument: the pointer argument that its addresses derive from; empty if unknown.
        line: ``file:line`` of the kernel's source; empty if unknown.
        requests: instructions, counted per warp; bulk copies for ``"tma"``.
        sectors: 32-byte sectors that those touch; a sector that two requests touch counts twice.
        block_sectors: the same, but a sector counts once for each execution by a block.
        requested_bytes: bytes of the unmasked elements.
        unique_bytes: distinct bytes of those, in whole sectors.
        vector_bytes: the width of one thread's instruction.
        cache: the cache operator as in PTX: ``"ca"``, ``"cg"``, ``"cs"``, ``"cv"``, ``"lu"``,
            ``"wb"``, ``"wt"`` or ``"nc"`` (read-only); empty if the code names none.
        eviction: the eviction priority: ``"evict_first"``, ``"evict_last"``, ``"no_allocate"`` ...;
            empty if the code names none.
        is_volatile: whether it must reach memory.
        semantics: ``"relaxed"``, ``"acquire"``, ``"release"`` or ``"acq_rel"``; empty for a plain
            access.
        scope: of the semantics: ``"cta"``, ``"cluster"``, ``"gpu"`` or ``"sys"``; empty likewise.
        operation: of an atomic: ``"add"``, ``"max"``, ``"exch"``, ``"cas"`` ...; else empty.
        is_returned: whether an atomic's old value is used.
        contention: of an atomic; ``None`` for the rest.
        outside_bytes: how far beyond the ends of the argument's storage it is known to reach; 0 if
            it stays inside or nothing is known. Masked elements do not count.
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
    cache: str = ""
    eviction: str = ""
    is_volatile: bool = False
    semantics: str = ""
    scope: str = ""
    operation: str = ""
    is_returned: bool = False
    contention: Contention | None = None
    outside_bytes: int = 0

    @property
    def sector_bytes(self) -> int:
        """Bytes moved between L1 and an SM."""
        return 32 * self.sectors

    @property
    def efficiency(self) -> float:
        """Requested bytes / bytes moved: 1 if coalesced; above 1 if lanes share bytes."""
        return self.requested_bytes / self.sector_bytes if self.sectors else 1.0


@dataclass(frozen=True)
class SharedAccess:
    """One line's shared-memory accesses of one kind, over a whole launch.

    Attributes:
        kind: ``"load"``, ``"store"`` or ``"copy"`` (from global memory, ``cp.async``).
        line: ``file:line`` of the kernel's source.
        requests: instructions, counted per warp.
        wavefronts: passes over the 32 banks that those take.
        least_wavefronts: passes without bank conflicts.
    """

    kind: str
    line: str
    requests: int
    wavefronts: int
    least_wavefronts: int

    @property
    def conflicts(self) -> float:
        """Wavefronts over the least: 1 without bank conflicts."""
        return self.wavefronts / self.least_wavefronts if self.least_wavefronts else 1.0
