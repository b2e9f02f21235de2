"""The JSON form of a launch: what it is and requests, its modelled time, and GPU counters."""

from __future__ import annotations

from typing import Annotated

from solkit.core import Access, Counters, InstructionMix, KernelAnalysis, KernelModel, SharedAccess
from solkit.report.record_forms import Json, JsonModel, Number, RecordForm, Setting
from solkit.roofline.kernel.counter_comparison import CounterComparison, compared

_Access = Annotated[Access, RecordForm(added=(("block_sectors", 0),))]
_InstructionMix = Annotated[InstructionMix, RecordForm(required=("lines",))]
_Counters = Annotated[
    Counters,
    RecordForm(
        about="; ``None``: the GPU lacks the counter, or it could not be read", required=True
    ),
]
_Compared = Annotated[CounterComparison, RecordForm("ComparedJson", required=True)]


class DemandJson(JsonModel):
    """`solkit.core.Demand`."""

    accesses: list[_Access]
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
    iterations_by_depth: tuple[float, ...] = ()
    chain_cycles: Number = 0.0
    shared: list[Json[SharedAccess]] = []
    tensor_shared_bytes: int = 0
    barriers: Number = 0.0
    programs_sampled: int
    guesses: list[str]


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
    model: Json[KernelModel] | None = None
    instructions: _InstructionMix | None = None
    counters: _Counters | None = None
    compared: list[_Compared] = []
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
        model=kernel.model,
        instructions=mix,
        counters=kernel.counters,
        compared=list(compared(kernel)),
        library=launch.library,
        line=launch.line,
    )
