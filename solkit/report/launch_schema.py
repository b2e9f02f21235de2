"""The JSON form of a launch: what it is and requests, its modelled time, and GPU counters."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from solkit.core import KernelAnalysis, Value
from solkit.roofline.kernel.counter_comparison import compared

__all__ = [
    "AccessJson",
    "ComparedJson",
    "ContentionJson",
    "CountersJson",
    "DemandJson",
    "InstructionCountJson",
    "InstructionMixJson",
    "JsonModel",
    "KernelModelJson",
    "LaunchJson",
    "Number",
    "PaceJson",
    "Setting",
    "SharedAccessJson",
    "TermJson",
    "launch_model",
]


def _null_unless_finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _word_unless_finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


Number = Annotated[float | None, BeforeValidator(_null_unless_finite)]
"""A measured or derived number; ``None`` if it is not finite."""
Setting = Annotated[Value, BeforeValidator(_word_unless_finite)]
"""A shape size, tuning parameter or compile-time constant."""


class JsonModel(BaseModel):
    """A part of the contract, made from a noun with the same fields by `model_validate`.

    Unknown fields are ignored: later versions may add some.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, from_attributes=True
    )


class ContentionJson(JsonModel):
    """`solkit.core.Contention`."""

    operations: int
    warp_addresses: int
    addresses: int
    busiest_address: int
    busiest_sector: int
    is_assumed: bool = False


class AccessJson(JsonModel):
    """`solkit.core.Access`."""

    kind: str
    path: str
    argument: str
    line: str
    requests: int
    sectors: int
    block_sectors: int = 0
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
    contention: ContentionJson | None = None
    outside_bytes: int = 0


class SharedAccessJson(JsonModel):
    """`solkit.core.SharedAccess`."""

    kind: str
    line: str
    requests: int
    wavefronts: int
    least_wavefronts: int


class DemandJson(JsonModel):
    """`solkit.core.Demand`."""

    accesses: list[AccessJson]
    operations: dict[str, int]
    loop_requests: int = 0
    l1_wavefronts: int
    l2_read_bytes: int
    l2_write_bytes: int
    dram_read_bytes: int
    dram_write_bytes: int
    steps: Number
    imbalance: Number = 1.0
    unevenness: Number = 1.0
    iterations: Number = 0.0
    chain_cycles: Number = 0.0
    shared: list[SharedAccessJson] = []
    tensor_shared_bytes: int = 0
    barriers: Number = 0.0
    programs_sampled: int
    guesses: list[str]


class TermJson(JsonModel):
    """`solkit.core.Term`."""

    name: str
    time_ms: Number
    evidence: str


class KernelModelJson(JsonModel):
    """`solkit.core.KernelModel`."""

    time_ms: Number
    terms: list[TermJson]


class InstructionCountJson(JsonModel):
    """`solkit.core.InstructionCount`."""

    kind: str
    opcode: str
    depth: int
    count: int
    predicated: int
    width_bytes: int
    warp_flops: int


class PaceJson(JsonModel):
    """`solkit.core.Pace`."""

    depth: int
    cycles: Number
    trips: Number
    local_trips: Number


class InstructionMixJson(JsonModel):
    """`solkit.core.InstructionMix`."""

    counts: list[InstructionCountJson]
    loops: int
    lines: dict[str, int]
    paces: list[PaceJson] = []


class CountersJson(JsonModel):
    """`solkit.core.Counters`; ``None``: the GPU lacks the counter, or it could not be read."""

    name: str
    grid: tuple[int, int, int]
    time_ms: Number
    registers: int | None
    load_sectors: int | None
    load_requests: int | None
    async_sectors: int | None
    store_sectors: int | None
    store_requests: int | None
    atomic_sectors: int | None
    tma_read_sectors: int | None
    tma_write_sectors: int | None
    local_sectors: int | None
    l2_read_bytes: int | None
    l2_write_bytes: int | None
    dram_read_bytes: int | None
    dram_write_bytes: int | None
    operations: dict[str, int]
    multiply_adds: int | None
    occupancy: Number
    achieved_occupancy: Number
    waves: Number
    stalls: dict[str, Number]
    missing: list[str]


class ComparedJson(JsonModel):
    """`solkit.roofline.kernel.counter_comparison.CounterComparison`."""

    name: str
    unit: str
    modelled: Number
    counted: Number
    disagrees: bool


class LaunchJson(JsonModel):
    """`solkit.core.KernelAnalysis` with its launch and occupancy, flat; ``None``: unknown.

    `compared` has the figures that were both modelled and counted. `library` marks an operator of
    PyTorch, called at `line`: its grid, warps and stages are 0, since they are not known.
    """

    name: str
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    num_ctas: int
    count: int
    constants: dict[str, Setting]
    registers: int | None
    spills: int | None
    shared_bytes: int | None
    occupancy: Number
    occupancy_limiter: str | None
    blocks_per_sm: int | None
    waves: Number
    tail_efficiency: Number
    tensor_cores: bool | None
    error: str | None
    demand: DemandJson | None = None
    model: KernelModelJson | None = None
    instructions: InstructionMixJson | None = None
    counters: CountersJson | None = None
    compared: list[ComparedJson] = []
    library: bool = False
    line: str = ""


def launch_model(kernel: KernelAnalysis) -> LaunchJson:
    """Return a launch as JSON."""
    launch, occupancy, mix = kernel.launch, kernel.occupancy, kernel.facts.instructions
    return LaunchJson(
        name=launch.name,
        grid=launch.grid,
        num_warps=launch.num_warps,
        num_stages=launch.num_stages,
        num_ctas=launch.num_ctas,
        count=launch.count,
        constants=dict(launch.constants),
        registers=kernel.facts.registers,
        spills=kernel.facts.spills,
        shared_bytes=kernel.facts.shared_bytes,
        occupancy=occupancy.fraction if occupancy else None,
        occupancy_limiter=occupancy.limiter if occupancy else None,
        blocks_per_sm=occupancy.blocks_per_sm if occupancy else None,
        waves=occupancy.waves if occupancy else None,
        tail_efficiency=occupancy.tail_efficiency if occupancy else None,
        tensor_cores=kernel.facts.tensor_cores,
        error=kernel.error,
        demand=DemandJson.model_validate(kernel.demand) if kernel.demand else None,
        model=KernelModelJson.model_validate(kernel.model) if kernel.model else None,
        instructions=InstructionMixJson.model_validate(mix) if mix else None,
        counters=CountersJson.model_validate(kernel.counters) if kernel.counters else None,
        compared=[ComparedJson.model_validate(counter) for counter in compared(kernel)],
        library=launch.library,
        line=launch.line,
    )
