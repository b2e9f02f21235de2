"""The JSON form of a report, ``solkit.score/1``: fields may be added, never renamed.

Numbers that are not finite have no JSON form: a measured or derived one is written as ``null``, a
shape size or parameter as the word ``"inf"``, ``"-inf"`` or ``"nan"``.

::

    ReportJson ─┬─ kernel, sources, failed
                ├─ device ── ceilings, datasheet, calibrated
                └─ results: ResultJson ─┬─ protocol, work, analysis, score, fusion
                                        ├─ gap ── factors
                                        ├─ bound ─┬─ at
                                        │         └─ resources ── contributors
                                        ├─ launches: LaunchJson ─┬─ demand ── accesses
                                        │                        ├─ model ── terms
                                        │                        ├─ instructions ── counts
                                        │                        └─ counters
                                        └─ measurement ── launches: LaunchJson
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from solkit.core import (
    Analysis,
    AnalysisStatus,
    Bound,
    ClockKind,
    Device,
    Fusion,
    InstructionMix,
    KernelAnalysis,
    KernelFile,
    Measurement,
    Report,
    Result,
    Value,
    Verdict,
    Work,
)
from solkit.errors import InputError
from solkit.report.advice import advise
from solkit.report.sources import Source, sources_of
from solkit.roofline.counted import compared
from solkit.roofline.hard import slack

__all__ = [
    "AccessJson",
    "AnalysisJson",
    "BoundJson",
    "BoundTimesJson",
    "CeilingJson",
    "ComparedJson",
    "ContributorJson",
    "CountersJson",
    "DemandJson",
    "DeviceJson",
    "FailedShapeJson",
    "FusionJson",
    "GapFactorJson",
    "GapJson",
    "InstructionCountJson",
    "InstructionMixJson",
    "JsonModel",
    "KernelJson",
    "KernelModelJson",
    "LaunchJson",
    "MeasurementJson",
    "ProtocolJson",
    "ReportJson",
    "ResourceJson",
    "ResultJson",
    "ScoreJson",
    "SharedAccessJson",
    "SourceJson",
    "TermJson",
    "WorkJson",
    "bound_model",
    "device_model",
    "dumps",
    "failed_models",
    "fusion_model",
    "kernel_model",
    "read",
    "to_json",
    "to_model",
    "work_model",
]


def _null_unless_finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _word_unless_finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


Number = Annotated[float | None, BeforeValidator(_null_unless_finite)]
"""A measured or derived number; ``None`` where it is not finite."""
Setting = Annotated[Value, BeforeValidator(_word_unless_finite)]
"""A shape size, tuning parameter or compile-time constant."""


class JsonModel(BaseModel):
    """A part of the contract. Unknown fields are ignored, since later versions may add some."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class KernelJson(JsonModel):
    """`solkit.core.KernelFile`; `path` is the candidate's file where there is a candidate."""

    path: str
    format: str
    name: str


class SourceJson(JsonModel):
    """`solkit.report.sources.Source`."""

    path: str
    sha256: str
    text: str | None


class CeilingJson(JsonModel):
    """`solkit.core.Ceiling`."""

    value: Number
    unit: str
    clock_mhz: Number
    source: str


class DeviceJson(JsonModel):
    """`solkit.core.Device`."""

    name: str
    source: Literal["catalogue", "nvml"]
    key: str
    compute_capability: tuple[int, int]
    sm_count: int
    clock_mhz: Number
    clock_kind: ClockKind
    notes: list[str]
    ceilings: dict[str, CeilingJson] = {}
    datasheet: dict[str, CeilingJson] = {}
    calibrated: dict[str, CeilingJson] = {}


class ProtocolJson(JsonModel):
    """`solkit.core.Protocol`."""

    method: str
    l2: str
    flush: str
    warmup_calls: int
    samples: int
    time_limit_s: Number
    seed: int
    name: str
    launched: str


class WorkJson(JsonModel):
    """`solkit.core.Work`, with the operations on the pipes that the bound chose.

    `flops` sums the floating-point pipes of `flops_by_pipe`, special functions included; a
    multiply-add counts as two.
    """

    flops: int
    flops_by_pipe: dict[str, int]
    dram_bytes: int
    dram_read_bytes: int
    dram_write_bytes: int
    unmodelled: list[str]


class ContributorJson(JsonModel):
    """`solkit.core.Contributor`."""

    name: str
    amount: int
    share: Number
    line: str
    count: int


class ResourceJson(JsonModel):
    """`solkit.core.Resource`, without its name: the key it stands under."""

    amount: int
    unit: str
    ceiling: Number
    source: str
    time_ms: Number
    contributors: list[ContributorJson] = []


class BoundTimesJson(JsonModel):
    """`solkit.core.BoundTimes`, in milliseconds."""

    roofline: Number
    hard: Number
    datasheet: Number
    calibrated: Number
    observed_clock: Number
    launch_floor: Number = None


class BoundJson(JsonModel):
    """`solkit.core.Bound`; `time_ms` is the roofline, `slack` why the hard bound lies below it."""

    time_ms: Number
    limiter: str
    resources: dict[str, ResourceJson]
    precision: str
    assumptions: list[str]
    at: BoundTimesJson
    protocol: str = "cold"
    slack: list[str] = []


class FusionJson(JsonModel):
    """The times of `solkit.core.Fusion`, in milliseconds, and how many kernels each counts."""

    fused_ms: Number
    unfused_ms: Number
    unfused_kernels: int
    worth: Number
    grouped_ms: Number = None
    grouped_kernels: int | None = None


class FailedShapeJson(JsonModel):
    """`solkit.core.FailedShape`."""

    shape: dict[str, Setting]
    error: str


class AnalysisJson(JsonModel):
    """`solkit.core.Analysis`; its kernels are `ResultJson.launches`."""

    status: AnalysisStatus
    notes: list[str]


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


class GapFactorJson(JsonModel):
    """`solkit.core.GapFactor`."""

    name: str
    factor: Number
    evidence: str
    advice: str


class GapJson(JsonModel):
    """`solkit.core.Gap`: the factors' product is ``time_ms / sol_ms``."""

    sol_ms: Number
    time_ms: Number
    measured: bool
    factors: list[GapFactorJson]


class InstructionCountJson(JsonModel):
    """`solkit.core.InstructionCount`."""

    kind: str
    opcode: str
    depth: int
    count: int
    predicated: int
    width_bytes: int
    warp_flops: int


class InstructionMixJson(JsonModel):
    """`solkit.core.InstructionMix`."""

    counts: list[InstructionCountJson]
    loops: int
    lines: dict[str, int]


class CountersJson(JsonModel):
    """`solkit.core.Counters`; ``None``: the GPU has no such counter, or it could not be read."""

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
    """`solkit.roofline.counted.Compared`."""

    name: str
    unit: str
    modelled: Number
    counted: Number
    disagrees: bool


class LaunchJson(JsonModel):
    """`solkit.core.KernelAnalysis` with its launch and occupancy, flat; ``None``: not known.

    `compared` holds what was both modelled and counted.
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


class MeasurementJson(JsonModel):
    """`solkit.core.Measurement`."""

    median_ms: Number
    low_ms: Number
    high_ms: Number
    kernel_sum_ms: Number
    reference_ms: Number
    method: str
    max_error: Number
    samples: int
    sm_clock_mhz: Number
    launches: list[LaunchJson]


class ScoreJson(JsonModel):
    """`solkit.core.Score`."""

    gap: Number
    gap_calibrated: Number
    sol_score: Number
    fraction_of_sol: Number


class ResultJson(JsonModel):
    """`solkit.core.Result`: one shape; `advice` is what to look at next."""

    shape: dict[str, Setting]
    params: dict[str, Setting]
    verdict: Verdict
    protocol: ProtocolJson | None
    errors: list[str]
    work: WorkJson
    bound: BoundJson
    analysis: AnalysisJson
    launches: list[LaunchJson]
    forecast: None = None
    measurement: MeasurementJson | None
    score: ScoreJson | None
    fusion: FusionJson | None = None
    gap: GapJson | None = None
    advice: list[str] = []


class ReportJson(JsonModel):
    """`solkit.core.Report`: what ``solkit score --json`` writes.

    `sources` are the files that the kernel and its costs lie in; `written` is when the command ran,
    in ISO 8601.
    """

    schema_: Literal["solkit.score/1"] = Field(alias="schema")
    environment: dict[str, str | None]
    kernel: KernelJson
    device: DeviceJson
    results: list[ResultJson]
    failed: list[FailedShapeJson] = []
    sources: list[SourceJson] = []
    written: str | None = None


def to_model(report: Report, written: datetime | None = None) -> ReportJson:
    """A report in the shape of the JSON contract; reads the kernel's source files.

    Args:
        report: what was found.
        written: when.
    """
    return ReportJson(
        schema="solkit.score/1",
        environment=dict(report.environment),
        kernel=kernel_model(report.kernel),
        device=device_model(report.device),
        results=[_result(result, report.device) for result in report.results],
        failed=failed_models(report),
        sources=[_source(source) for source in sources_of(report)],
        written=written.isoformat(timespec="seconds") if written else None,
    )


def to_json(report: Report | ReportJson) -> dict[str, Any]:
    """A report as what `json` can write: dicts, lists, strings, finite numbers and ``None``."""
    model = to_model(report) if isinstance(report, Report) else report
    return model.model_dump(mode="json", by_alias=True)


def dumps(report: Report | ReportJson, indent: int | None = 2) -> str:
    """A report as JSON text, in ASCII; on one line where `indent` is ``None``."""
    return json.dumps(to_json(report), indent=indent, allow_nan=False)


def read(path: Path | str) -> ReportJson:
    """Read and validate a file that ``solkit score --json`` wrote.

    Raises:
        InputError: there is no such file, or it is not a report; names the offending field.
    """
    try:
        return ReportJson.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        first, *others = error.errors()
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        more = f" ({len(others)} more faults)" if others else ""
        raise InputError(
            f"{path} is no solkit.score/1 report: {place}: {first['msg']}{more}"
        ) from error


def kernel_model(file: KernelFile) -> KernelJson:
    """A kernel file in the shape of the JSON contract."""
    return KernelJson(path=file.path, format=file.problem.format, name=file.name)


def device_model(device: Device) -> DeviceJson:
    """A device in the shape of the JSON contract."""
    fields = {name: getattr(device, name) for name in DeviceJson.model_fields}
    rates = {
        name: {key: asdict(ceiling) for key, ceiling in getattr(device, name).items()}
        for name in ("ceilings", "datasheet", "calibrated")
    }
    return DeviceJson.model_validate(fields | rates | {"notes": list(device.notes)})


def _source(source: Source) -> SourceJson:
    return SourceJson(path=source.path, sha256=source.sha256, text=source.text)


def failed_models(report: Report) -> list[FailedShapeJson]:
    """The shapes without a result in the shape of the JSON contract."""
    return [FailedShapeJson(shape=dict(each.shape), error=each.error) for each in report.failed]


def _result(result: Result, device: Device) -> ResultJson:
    measurement, protocol, score = result.measurement, result.protocol, result.score
    return ResultJson(
        shape=dict(result.shape),
        params=dict(result.params),
        verdict=result.verdict,
        protocol=ProtocolJson(**asdict(protocol)) if protocol else None,
        errors=list(result.errors),
        work=work_model(result.work, result.bound),
        bound=bound_model(result.bound, slack(result.work, result.bound, device)),
        analysis=_analysis(result.analysis),
        launches=[_launch(kernel) for kernel in result.analysis.kernels],
        measurement=_measurement(measurement) if measurement else None,
        score=ScoreJson(**asdict(score)) if score else None,
        fusion=fusion_model(result.fusion) if result.fusion else None,
        gap=GapJson.model_validate(asdict(result.gap)) if result.gap else None,
        advice=list(advise(result, device)),
    )


def work_model(work: Work, bound: Bound) -> WorkJson:
    """Work, on the pipes that a bound chose, in the shape of the JSON contract."""
    return WorkJson(
        flops=_floating_point(bound.flops_by_pipe),
        flops_by_pipe=dict(bound.flops_by_pipe),
        dram_bytes=work.dram_bytes,
        dram_read_bytes=work.dram_read_bytes,
        dram_write_bytes=work.dram_write_bytes,
        unmodelled=list(work.unmodelled),
    )


def _floating_point(by_pipe: Mapping[str, int]) -> int:
    """Operations on all pipes but the integer ones (``int32``, ``tensor.int8``)."""
    return sum(n for pipe, n in by_pipe.items() if not pipe.split(".")[-1].startswith("int"))


def bound_model(bound: Bound, reasons: Sequence[str]) -> BoundJson:
    """A bound, and why it may be beaten, in the shape of the JSON contract."""
    resources = {}
    for resource in bound.resources:
        fields = asdict(resource)
        resources[fields.pop("name")] = ResourceJson(**fields)
    times = {name.removesuffix("_ms"): value for name, value in asdict(bound.at).items()}
    return BoundJson(
        time_ms=bound.time_ms,
        limiter=bound.limiter,
        resources=resources,
        precision=bound.precision,
        assumptions=list(bound.assumptions),
        at=BoundTimesJson(**times),
        protocol=bound.protocol,
        slack=list(reasons),
    )


def fusion_model(fusion: Fusion) -> FusionJson:
    """The levels' totals in the shape of the JSON contract."""
    return FusionJson(
        fused_ms=fusion.fused_ms,
        unfused_ms=fusion.unfused_ms,
        unfused_kernels=len(fusion.unfused),
        worth=fusion.worth,
        grouped_ms=fusion.grouped_ms if fusion.grouped else None,
        grouped_kernels=len(fusion.grouped) or None,
    )


def _analysis(analysis: Analysis) -> AnalysisJson:
    return AnalysisJson(status=analysis.status, notes=list(analysis.notes))


def _launch(kernel: KernelAnalysis) -> LaunchJson:
    launch, occupancy = kernel.launch, kernel.occupancy
    return LaunchJson(
        name=launch.name,
        grid=launch.grid,
        num_warps=launch.num_warps,
        num_stages=launch.num_stages,
        num_ctas=launch.num_ctas,
        count=launch.count,
        constants=dict(launch.constants),
        registers=kernel.registers,
        spills=kernel.spills,
        shared_bytes=kernel.shared_bytes,
        occupancy=occupancy.fraction if occupancy else None,
        occupancy_limiter=occupancy.limiter if occupancy else None,
        blocks_per_sm=occupancy.blocks_per_sm if occupancy else None,
        waves=occupancy.waves if occupancy else None,
        tail_efficiency=occupancy.tail_efficiency if occupancy else None,
        tensor_cores=kernel.tensor_cores,
        error=kernel.error,
        demand=DemandJson.model_validate(asdict(kernel.demand)) if kernel.demand else None,
        model=KernelModelJson.model_validate(asdict(kernel.model)) if kernel.model else None,
        instructions=_instructions(kernel.instructions) if kernel.instructions else None,
        counters=CountersJson.model_validate(asdict(kernel.counters)) if kernel.counters else None,
        compared=[ComparedJson.model_validate(asdict(each)) for each in compared(kernel)],
    )


def _instructions(mix: InstructionMix) -> InstructionMixJson:
    return InstructionMixJson.model_validate(asdict(mix))


def _measurement(measurement: Measurement) -> MeasurementJson:
    fields = {name: getattr(measurement, name) for name in MeasurementJson.model_fields}
    return MeasurementJson.model_validate(
        fields | {"launches": [_launch(kernel) for kernel in measurement.launches]}
    )
