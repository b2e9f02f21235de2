"""Answers of a service: a job, with its result or its error."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from solkit.report.bounds import BoundReportJson
from solkit.report.comparison import ComparisonReportJson
from solkit.report.schema import ReportJson
from solkit.service.store import Job

T = TypeVar("T")

STATUS_OF = {"InputError": 422, "UnsupportedError": 501, "GpuBusyError": 503}
"""HTTP's status of a failed job, by the type of its error; any other is 500."""


class Fault(BaseModel):
    """Error of a request or a job."""

    type: str = Field(description="InputError if the request is at fault.")
    message: str


class ErrorAnswer(BaseModel):
    """A refused request, or a job that failed."""

    error: Fault


class Answer(BaseModel, Generic[T]):
    """A job."""

    model_config = ConfigDict(extra="allow")

    job: str = Field(description="Its id, for GET /v1/jobs/{id}.")
    kind: str
    status: Literal["queued", "running", "done", "failed", "cancelled"]
    queue: str
    progress: str = ""
    created: str
    started: str | None = None
    finished: str | None = None
    error: Fault | None = None
    result: T | None = None


class GradedJson(BaseModel):
    """`solkit.integrations.grading.Graded`."""

    verdict: str
    stage: Literal["refused", "rejected by forecast", "passed stage 1", "measured"]
    combined_score: float
    params: dict[str, Any]
    time_ms: float | None
    gap: float | None
    sol_score: float | None
    sol_ms: float | None
    forecast_ms: float | None
    forecast_low_ms: float | None
    forecast_high_ms: float | None
    limiter: str
    behaviour: list[str]
    features: dict[str, float]
    reasons: list[str]


class RewardJson(BaseModel):
    """`solkit.integrations.grading.Reward`."""

    value: float
    verdict: str
    gap: float | None
    sol_score: float | None
    time_ms: float | None
    reasons: list[str]


class EvaluateJson(BaseModel):
    """Grades or rewards, in the order of the candidates."""

    schema_: Literal["solkit.evaluate/1"] = Field(alias="schema")
    device: str
    results: list[GradedJson] | None = None
    rewards: list[RewardJson] | None = None
    best_ms: float | None
    gpu_s: float


class BoundAnswer(Answer[BoundReportJson]):
    """A bound."""


class ScoreAnswer(Answer[ReportJson]):
    """An analysis, or a score."""


class CompareAnswer(Answer[ComparisonReportJson]):
    """A comparison."""


class EvaluateAnswer(Answer[EvaluateJson]):
    """Grades or rewards."""


class OneQueue(BaseModel):
    """A queue and its worker."""

    name: str
    worker_pid: int | None
    worker_deaths: int
    queued: int
    running: int
    done: int
    failed: int
    cancelled: int


class QueueAnswer(BaseModel):
    """All queues, and the newest jobs of who asks."""

    queues: list[OneQueue]
    jobs: list[Answer[None]]


def job_answer(job: Job, with_result: bool = True) -> str:
    """Return a job as JSON; its result goes in as it is."""
    document: dict[str, Any] = {
        "job": job.id,
        "kind": job.kind,
        "status": job.status.value,
        "queue": job.queue,
        "progress": job.progress,
        "created": _format_time(job.created_s),
        "started": _format_time(job.started_s),
        "finished": _format_time(job.finished_s),
        "error": None if job.error is None else json.loads(job.error),
    }
    result = job.result if with_result and job.result is not None else "null"
    return f'{json.dumps(document)[:-1]}, "result": {result}}}'


def error_answer(kind: str, message: str) -> str:
    """Return an error as JSON."""
    return json.dumps({"error": {"type": kind, "message": message}})


def _format_time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
