"""The JSON form of a report, ``solkit.score/1``: fields may be added, never renamed.

JSON has no numbers that are not finite: a measured or derived one becomes ``null``, a shape size or
parameter the word ``"inf"``, ``"-inf"`` or ``"nan"``.

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
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError

from solkit.core import (
    AnalysisStatus,
    BestAlgorithm,
    Bound,
    Ceiling,
    ClockKind,
    Contributor,
    Device,
    FailedShape,
    Forecast,
    Fusion,
    Gap,
    KernelFile,
    Measurement,
    OutputBytes,
    PricedRoute,
    Protocol,
    Report,
    Result,
    Score,
    Verdict,
    Work,
)
from solkit.errors import InputError
from solkit.report.advice import Advice, advice_of_rules
from solkit.report.launch_schema import LaunchJson, launch_model
from solkit.report.record_forms import Json, JsonModel, Number, RecordForm, Setting
from solkit.report.remedies import advice_on
from solkit.report.sources import Source, sources_of
from solkit.roofline.hard_bound import slack_reasons

if TYPE_CHECKING:
    from solkit.pipeline.hinting import Hint


ProtocolForm = Annotated[Protocol, RecordForm(required=("name", "launched"))]
"""How a time was measured."""
_Contributor = Annotated[Contributor, RecordForm(required=("line", "count"))]
_Forecast = Annotated[
    Forecast, RecordForm(about=": what the surrogate expects, with its 90 % interval")
]
_Advice = Annotated[
    Advice, RecordForm(about=": what to do, and what it saves at the most", required=True)
]


class KernelJson(JsonModel):
    """`solkit.core.KernelFile`; `path` is the candidate's file if there is a candidate."""

    path: str
    format: str
    name: str


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
    ceilings: dict[str, Json[Ceiling]] = {}
    datasheet: dict[str, Json[Ceiling]] = {}
    calibrated: dict[str, Json[Ceiling]] = {}


class WorkJson(JsonModel):
    """`solkit.core.Work`, with operations on the pipes that the bound chose.

    `flops` sums the floating-point pipes of `flops_by_pipe`, with special functions; a multiply-add
    counts as two.
    """

    flops: int
    flops_by_pipe: dict[str, int]
    dram_bytes: int
    dram_read_bytes: int
    dram_write_bytes: int
    unmodelled: list[str]


class ResourceJson(JsonModel):
    """`solkit.core.Resource` without its name, which is its key."""

    amount: int
    unit: str
    ceiling: Number
    source: str
    time_ms: Number
    contributors: list[_Contributor] = []


class BoundTimesJson(JsonModel):
    """`solkit.core.BoundTimes`, in milliseconds."""

    roofline: Number
    hard: Number
    datasheet: Number
    calibrated: Number
    observed_clock: Number
    launch_floor: Number = None
    chain_floor: Number = None
    strict: Number = None


class BoundJson(JsonModel):
    """`solkit.core.Bound`; `time_ms` is the roofline, `slack` says why the hard bound is lower."""

    time_ms: Number
    limiter: str
    resources: dict[str, ResourceJson]
    precision: str
    assumptions: list[str]
    at: BoundTimesJson
    protocol: str = "cold"
    slack: list[str] = []
    hard_evidence: str = "static"
    routes: list[Json[PricedRoute]] = []


class FusionJson(JsonModel):
    """The times of `solkit.core.Fusion`, in milliseconds, and the number of kernels of each."""

    fused_ms: Number
    unfused_ms: Number
    unfused_kernels: int
    worth: Number
    grouped_ms: Number = None
    grouped_kernels: int | None = None


class AnalysisJson(JsonModel):
    """`solkit.core.Analysis`; its kernels are `ResultJson.launches`."""

    status: AnalysisStatus
    notes: list[str]
    written: list[Json[OutputBytes]] = []
    is_whole: bool = True


class GapFactorJson(JsonModel):
    """`solkit.core.GapFactor`, with advice on its cause."""

    name: str
    factor: Number
    evidence: str
    advice: str


class GapJson(JsonModel):
    """`solkit.core.Gap`: the product of the factors is ``time_ms / sol_ms``."""

    sol_ms: Number
    time_ms: Number
    measured: bool
    factors: list[GapFactorJson]


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


class HintJson(JsonModel):
    """`solkit.pipeline.hinting.Hint`: a configuration that is expected to be faster."""

    params: dict[str, Setting]
    speedup: Number
    least_speedup: Number
    depth: str


class ResultJson(JsonModel):
    """`solkit.core.Result`: one shape; `advice` has the texts of `advised`."""

    shape: dict[str, Setting]
    params: dict[str, Setting]
    verdict: Verdict
    protocol: ProtocolForm | None
    errors: list[str]
    work: WorkJson
    bound: BoundJson
    analysis: AnalysisJson
    launches: list[LaunchJson]
    forecast: _Forecast | None = None
    measurement: MeasurementJson | None
    score: Json[Score] | None
    fusion: FusionJson | None = None
    best: Json[BestAlgorithm] | None = None
    gap: GapJson | None = None
    advice: list[str] = []
    advised: list[_Advice] = []
    hint: HintJson | None = None


class ReportJson(JsonModel):
    """`solkit.core.Report`: what ``solkit score --json`` writes.

    `sources` are the files of the kernel and its problem; `written` is when the command ran, in ISO
    8601.
    """

    schema_: Literal["solkit.score/1"] = Field(alias="schema")
    environment: dict[str, str | None]
    kernel: KernelJson
    device: DeviceJson
    results: list[ResultJson]
    failed: list[Json[FailedShape]] = []
    sources: list[Json[Source]] = []
    written: str | None = None


def to_model(report: Report, written: datetime | None = None) -> ReportJson:
    """Return a report as JSON models, with the kernel's source files, which are read now."""
    return ReportJson(
        schema="solkit.score/1",
        environment=dict(report.environment),
        kernel=kernel_model(report.kernel),
        device=device_model(report.device),
        results=[_result(result, report.device) for result in report.results],
        failed=list(report.failed),
        sources=list(sources_of(report)),
        written=written.isoformat(timespec="seconds") if written else None,
    )


def with_hints(model: ReportJson, hints: Mapping[int, Hint]) -> ReportJson:
    """Return a report with hints for some of its shapes, by place."""
    results = [
        result.model_copy(update={"hint": HintJson.model_validate(hints[place])})
        if place in hints
        else result
        for place, result in enumerate(model.results)
    ]
    return model.model_copy(update={"results": results})


def to_json(report: Report | ReportJson) -> dict[str, Any]:
    """Return a report as `json` takes it: dicts, lists, strings, finite numbers and ``None``."""
    model = to_model(report) if isinstance(report, Report) else report
    return model.model_dump(mode="json", by_alias=True)


def dumps(report: Report | ReportJson, indent: int | None = 2) -> str:
    """Return a report as JSON text in ASCII; on one line if `indent` is ``None``."""
    return text_of(to_model(report) if isinstance(report, Report) else report, indent)


def text_of(model: JsonModel, indent: int | None = 2) -> str:
    """Return a model as JSON text in ASCII; on one line if `indent` is ``None``."""
    data = model.model_dump(mode="json", by_alias=True)
    return json.dumps(data, indent=indent, allow_nan=False)


def read(path: Path | str) -> ReportJson:
    """Read and validate a file that ``solkit score --json`` wrote.

    Raises:
        InputError: the file is missing or is not a report; names the offending field.
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
            f"{path} is not a solkit.score/1 report: {place}: {first['msg']}{more}"
        ) from error


def kernel_model(file: KernelFile) -> KernelJson:
    """Return a kernel file as JSON."""
    return KernelJson(path=file.path, format=file.problem.format, name=file.name)


def device_model(device: Device) -> DeviceJson:
    """Return a device as JSON."""
    return DeviceJson.model_validate(device)


def _result(result: Result, device: Device) -> ResultJson:
    advice = advice_of_rules(result, device)
    return ResultJson(
        shape=dict(result.shape),
        params=dict(result.params),
        verdict=result.verdict,
        protocol=result.protocol,
        errors=list(result.errors),
        work=work_model(result.work, result.bound),
        bound=bound_model(result.bound, slack_reasons(result.work, result.bound, device)),
        analysis=AnalysisJson.model_validate(result.analysis),
        launches=[launch_model(kernel) for kernel in result.analysis.kernels],
        measurement=_measurement(result.measurement) if result.measurement else None,
        score=result.score,
        fusion=fusion_model(result.fusion) if result.fusion else None,
        best=result.best,
        gap=_gap(result.gap) if result.gap else None,
        forecast=result.forecast,
        advice=[piece.text for piece in advice],
        advised=list(advice),
    )


def _gap(gap: Gap) -> GapJson:
    factors = [
        GapFactorJson(
            name=factor.name,
            factor=factor.factor,
            evidence=factor.evidence,
            advice=advice_on(factor.cause),
        )
        for factor in gap.factors
    ]
    return GapJson(sol_ms=gap.sol_ms, time_ms=gap.time_ms, measured=gap.measured, factors=factors)


def work_model(work: Work, bound: Bound) -> WorkJson:
    """Work as JSON, on the pipes that a bound chose."""
    return WorkJson(
        flops=_floating_point(bound.flops_by_pipe),
        flops_by_pipe=dict(bound.flops_by_pipe),
        dram_bytes=work.dram_bytes,
        dram_read_bytes=work.dram_read_bytes,
        dram_write_bytes=work.dram_write_bytes,
        unmodelled=list(work.unmodelled),
    )


def _floating_point(by_pipe: Mapping[str, int]) -> int:
    """Count operations on all pipes but the integer ones (``int32``, ``tensor.int8``)."""
    return sum(n for pipe, n in by_pipe.items() if not pipe.split(".")[-1].startswith("int"))


def bound_model(bound: Bound, reasons: Sequence[str]) -> BoundJson:
    """Return a bound as JSON, with the reasons why the hard bound is lower."""
    resources = {
        resource.name: ResourceJson.model_validate(resource) for resource in bound.resources
    }
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
        hard_evidence=bound.hard_evidence,
        routes=list(bound.routes),
    )


def fusion_model(fusion: Fusion) -> FusionJson:
    """Return the totals of the fusion levels as JSON."""
    return FusionJson(
        fused_ms=fusion.fused_ms,
        unfused_ms=fusion.unfused_ms,
        unfused_kernels=len(fusion.unfused),
        worth=fusion.worth,
        grouped_ms=fusion.grouped_ms if fusion.grouped else None,
        grouped_kernels=len(fusion.grouped) or None,
    )


def _measurement(measurement: Measurement) -> MeasurementJson:
    fields = {name: getattr(measurement, name) for name in MeasurementJson.model_fields}
    return MeasurementJson.model_validate(
        fields | {"launches": [launch_model(kernel) for kernel in measurement.launches]}
    )
