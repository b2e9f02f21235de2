"""The JSON form of a report, ``solkit.score/1``: fields may be added, never renamed.

Numbers that are not finite have no JSON form: a measured or derived one is written as ``null``, a
shape size or parameter as the word ``"inf"``, ``"-inf"`` or ``"nan"``.

::

    ReportJson ─┬─ kernel, device
                └─ results: ResultJson ─┬─ protocol, work, analysis, score
                                        ├─ bound ── resources, at
                                        ├─ launches: LaunchJson
                                        └─ measurement ── launches: LaunchJson
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from solkit.core import (
    Analysis,
    AnalysisStatus,
    Bound,
    ClockKind,
    Device,
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

__all__ = [
    "AnalysisJson",
    "BoundJson",
    "BoundTimesJson",
    "DeviceJson",
    "KernelJson",
    "LaunchJson",
    "MeasurementJson",
    "ProtocolJson",
    "ReportJson",
    "ResourceJson",
    "ResultJson",
    "ScoreJson",
    "WorkJson",
    "dumps",
    "read",
    "to_json",
    "to_model",
]


def _null_unless_finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _word_unless_finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


Number = Annotated[float | None, BeforeValidator(_null_unless_finite)]
"""A measured or derived number; ``None`` where it is not finite."""
Setting = Annotated[Value, BeforeValidator(_word_unless_finite)]
"""A shape size, tuning parameter or compile-time constant."""


class _Json(BaseModel):
    """A part of the contract. Unknown fields are ignored, since later versions may add some."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class KernelJson(_Json):
    """`solkit.core.KernelFile`; `path` is the candidate's file where there is a candidate."""

    path: str
    format: str
    name: str


class DeviceJson(_Json):
    """`solkit.core.Device`, without its ceilings: those used stand in the bound."""

    name: str
    source: Literal["catalogue", "nvml"]
    key: str
    compute_capability: tuple[int, int]
    sm_count: int
    clock_mhz: Number
    clock_kind: ClockKind
    notes: list[str]


class ProtocolJson(_Json):
    """`solkit.core.Protocol`."""

    method: str
    l2: str
    flush: str
    warmup_calls: int
    samples: int
    time_limit_s: Number
    seed: int


class WorkJson(_Json):
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


class ResourceJson(_Json):
    """`solkit.core.Resource`, without its name: the key it stands under."""

    amount: int
    unit: str
    ceiling: Number
    source: str
    time_ms: Number


class BoundTimesJson(_Json):
    """`solkit.core.BoundTimes`, in milliseconds."""

    roofline: Number
    hard: Number
    datasheet: Number
    calibrated: Number
    observed_clock: Number


class BoundJson(_Json):
    """`solkit.core.Bound`; `time_ms` is the roofline."""

    time_ms: Number
    limiter: str
    resources: dict[str, ResourceJson]
    precision: str
    assumptions: list[str]
    at: BoundTimesJson


class AnalysisJson(_Json):
    """`solkit.core.Analysis`; its kernels are `ResultJson.launches`."""

    status: AnalysisStatus
    notes: list[str]


class LaunchJson(_Json):
    """`solkit.core.KernelAnalysis` with its launch and occupancy, flat; ``None``: not known."""

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


class MeasurementJson(_Json):
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


class ScoreJson(_Json):
    """`solkit.core.Score`."""

    gap: Number
    gap_calibrated: Number
    sol_score: Number
    fraction_of_sol: Number


class ResultJson(_Json):
    """`solkit.core.Result`: one shape."""

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


class ReportJson(_Json):
    """`solkit.core.Report`: what ``solkit score --json`` writes."""

    schema_: Literal["solkit.score/1"] = Field(alias="schema")
    environment: dict[str, str | None]
    kernel: KernelJson
    device: DeviceJson
    results: list[ResultJson]


def to_model(report: Report) -> ReportJson:
    """A report in the shape of the JSON contract."""
    return ReportJson(
        schema="solkit.score/1",
        environment=dict(report.environment),
        kernel=_kernel(report.kernel),
        device=_device(report.device),
        results=[_result(result) for result in report.results],
    )


def to_json(report: Report) -> dict[str, Any]:
    """A report as what `json` can write: dicts, lists, strings, finite numbers and ``None``."""
    return to_model(report).model_dump(mode="json", by_alias=True)


def dumps(report: Report) -> str:
    """A report as indented JSON text, in ASCII."""
    return json.dumps(to_json(report), indent=2, allow_nan=False)


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


def _kernel(file: KernelFile) -> KernelJson:
    return KernelJson(path=file.path, format=file.problem.format, name=file.name)


def _device(device: Device) -> DeviceJson:
    fields = {name: getattr(device, name) for name in DeviceJson.model_fields}
    return DeviceJson.model_validate(fields | {"notes": list(device.notes)})


def _result(result: Result) -> ResultJson:
    measurement, protocol, score = result.measurement, result.protocol, result.score
    return ResultJson(
        shape=dict(result.shape),
        params=dict(result.params),
        verdict=result.verdict,
        protocol=ProtocolJson(**asdict(protocol)) if protocol else None,
        errors=list(result.errors),
        work=_work(result.work, result.bound),
        bound=_bound(result.bound),
        analysis=_analysis(result.analysis),
        launches=[_launch(kernel) for kernel in result.analysis.kernels],
        measurement=_measurement(measurement) if measurement else None,
        score=ScoreJson(**asdict(score)) if score else None,
    )


def _work(work: Work, bound: Bound) -> WorkJson:
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


def _bound(bound: Bound) -> BoundJson:
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
    )


def _measurement(measurement: Measurement) -> MeasurementJson:
    fields = {name: getattr(measurement, name) for name in MeasurementJson.model_fields}
    return MeasurementJson.model_validate(
        fields | {"launches": [_launch(kernel) for kernel in measurement.launches]}
    )
