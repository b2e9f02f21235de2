"""The HTTP service: JSON under ``/v1``, and a web page.

Every POST is a job, on disk before it is answered. A quick one is waited for, and answers with its
result; after ``wait_s`` seconds, or at once for a long one, the answer is 202 with the job's id.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Annotated, Any

import solkit
from solkit.errors import InputError, UnsupportedError
from solkit.extras import needed
from solkit.service import answers, page, reports, requests
from solkit.service.answers import STATUS_OF, error_answer, job_answer
from solkit.service.authentication import COOKIE, Authenticator
from solkit.service.idempotency import IdempotentAnswers
from solkit.service.queue import REUSED, JobQueue
from solkit.service.settings import ServiceSettings
from solkit.service.store import ConflictError, Job, QueueFullError, Status

with needed("serve"):
    from fastapi import Depends, FastAPI, Header, Query, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, RedirectResponse
    from starlette.exceptions import HTTPException

_QUICK_S, _LONGEST_S = 30.0, 60.0
_LONG = ("compare", "tune", "evolve")
"""Kinds that are not waited for, unless the client asks for it."""
_RETRY_S = 5
_MOST_LISTED = 50


@dataclass(frozen=True)
class _Call:
    """Who asks, and how.

    Attributes:
        desk: takes the request.
        owner: who asks.
        key: the client's id of the request.
        wait_s: seconds to wait for the result; ``None`` for the kind's own.
        state: of the request, which tells `solkit.service.idempotency` what it may keep.
    """

    desk: JobQueue
    owner: str
    key: str | None
    wait_s: float | None
    state: Any


async def _call_of_request(
    request: Request,
    wait_s: Annotated[
        float | None,
        Query(ge=0, le=_LONGEST_S, description="Seconds to wait for the result, at the most."),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=200,
            description="Your id of this request: repeating it gives the same job.",
        ),
    ] = None,
) -> _Call:
    return _Call(
        request.app.state.desk, request.state.owner, idempotency_key, wait_s, request.state
    )


_CallOf = Annotated[_Call, Depends(_call_of_request)]


def make_app(settings: ServiceSettings, tokens: Collection[str]) -> Authenticator:
    """Yield the service as an ASGI application.

    Args:
        settings: how it runs.
        tokens: each of which is let in.

    Raises:
        InputError: there is no token; or, at the start, another service uses its folder.
    """
    if not tokens:
        raise InputError("a service needs an access token at least")

    @contextlib.asynccontextmanager
    async def opened(app: FastAPI) -> AsyncIterator[None]:
        async with JobQueue(settings) as app.state.desk:
            yield

    app = FastAPI(
        title="SolKit",
        version=solkit.__version__,
        description="How fast a GPU kernel could run, how far it is from that, and why.",
        lifespan=opened,
        docs_url=None,  # its page loads scripts of others
        redoc_url=None,
    )
    _add_errors(app)
    _add_kinds(app)
    _add_jobs(app)
    _add_pages(app)
    return Authenticator(IdempotentAnswers(app), tokens, settings.max_body, settings.rate)


# ------------------------------------------------------------------------------------------- kinds


def _describe_answer(answer: type[Any]) -> dict[str, Any]:
    """Arguments of a route: what it may answer with."""
    fault = {"model": answers.ErrorAnswer}
    return {
        "responses": {
            200: {"model": answer, "description": "The result."},
            202: {"model": answer, "description": "Not finished: ask for the job later."},
            **dict.fromkeys((401, 408, 409, 413, 422, 429, 500, 501, 503), fault),
        }
    }


def _add_kinds(app: FastAPI) -> None:
    @app.post("/v1/bound", **_describe_answer(answers.BoundAnswer))
    async def bound(body: requests.Bound, call: _CallOf) -> Response:
        """Return the speed of light of a problem."""
        return await _answer_request("bound", body, call)

    @app.post("/v1/analyse", **_describe_answer(answers.ScoreAnswer))
    async def analyse(body: requests.Analyse, call: _CallOf) -> Response:
        """What a kernel launches, what that compiles to, and its gap; nothing is measured."""
        return await _answer_request("analyse", body, call)

    @app.post("/v1/score", **_describe_answer(answers.ScoreAnswer))
    async def score(body: requests.Score, call: _CallOf) -> Response:
        """Bound, analysis, verdict, time and score of a kernel."""
        return await _answer_request("score", body, call)

    @app.post("/v1/rank", **_describe_answer(answers.Answer[dict[str, Any]]))
    async def rank(body: requests.Rank, call: _CallOf) -> Response:
        """Which candidates deserve GPU time; the result is solkit.rank/1."""
        return await _answer_request("rank", body, call)

    @app.post("/v1/compare", **_describe_answer(answers.CompareAnswer))
    async def compare(body: requests.Compare, call: _CallOf) -> Response:
        """Which of several kernels is faster."""
        return await _answer_request("compare", body, call)

    @app.post("/v1/evaluate", **_describe_answer(answers.EvaluateAnswer))
    async def evaluate(body: requests.Evaluate, call: _CallOf) -> Response:
        """Grades or rewards of candidates, for a search loop."""
        return await _answer_request("evaluate", body, call)

    @app.post("/v1/tune", **_describe_answer(answers.Answer[dict[str, Any]]))
    async def tune(body: requests.Tune, call: _CallOf) -> Response:
        """Faster parameters for a kernel; the result is solkit.tune/1."""
        return await _answer_request("tune", body, call)

    @app.post("/v1/evolve", **_describe_answer(answers.Answer[dict[str, Any]]))
    async def evolve(body: requests.Evolve, call: _CallOf) -> Response:
        """Faster variants of a kernel; the result is solkit.evolve/1."""
        return await _answer_request("evolve", body, call)


async def _answer_request(kind: str, ask: requests.Ask, call: _Call) -> Response:
    """Return the answer to a request: its result, if that comes in time."""
    requests.refuse_paths(ask)
    job = await call.desk.submit(kind, ask, call.owner, call.key)
    wait_s = call.wait_s
    if wait_s is None:
        wait_s = 0.0 if kind in _LONG else _QUICK_S
    if not job.status.is_over and wait_s > 0:
        job = await call.desk.wait(job.id, wait_s)
    call.state.keeps = job.kind in REUSED and job.status is Status.DONE
    return _answer_job(job, fails=True)


def _answer_job(job: Job, fails: bool = False) -> Response:
    """Return a job as a response; `fails` if a failed job is a failed request."""
    code = 200 if job.status.is_over else 202
    if fails and job.status is Status.FAILED and job.error is not None:
        code = STATUS_OF.get(json.loads(job.error)["type"], 500)
    headers = {"location": f"/v1/jobs/{job.id}"}
    return Response(job_answer(job), code, headers, "application/json")


# -------------------------------------------------------------------------------------------- jobs


def _add_jobs(app: FastAPI) -> None:
    @app.get("/v1/jobs/{name}", **_describe_answer(answers.Answer[dict[str, Any]]))
    async def job(name: str, call: _CallOf) -> Response:
        """Return a job of yours; wait_s waits until it is over."""
        return _answer_job(await call.desk.wait(name, call.wait_s or 0.0, call.owner))

    @app.delete("/v1/jobs/{name}", **_describe_answer(answers.Answer[dict[str, Any]]))
    async def cancel(name: str, call: _CallOf) -> Response:
        """Cancel a job of yours; one that is over stays as it is."""
        return _answer_job(await call.desk.cancel(name, call.owner))

    @app.get("/v1/queue", response_model=answers.QueueAnswer)
    async def queue(call: _CallOf) -> Response:
        """All queues, and your newest jobs."""
        jobs = call.desk.store.latest(_MOST_LISTED, call.owner)
        listed = [json.loads(job_answer(job, with_result=False)) for job in jobs]
        listing = {"queues": _queue_states(call.desk), "jobs": listed}
        return Response(json.dumps(listing), media_type="application/json")

    @app.get("/v1/health")
    async def health(request: Request) -> dict[str, Any]:
        """Tell whether the service works; this needs no token."""
        desk: JobQueue = request.app.state.desk
        works = all(queue.pid is not None for queue in desk.queues.values())
        return {"status": "ok" if works else "starting", "version": solkit.__version__}


def _queue_states(desk: JobQueue) -> list[dict[str, Any]]:
    counts = desk.store.counts()
    return [
        {
            "name": name,
            "worker_pid": state.pid,
            "worker_deaths": state.deaths,
            **{status.value: counts.get((name, status.value), 0) for status in Status},
        }
        for name, state in desk.queues.items()
    ]


# ------------------------------------------------------------------------------------------- pages


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def overview(request: Request) -> Response:
        if "token" in request.query_params:  # it goes into a cookie, not into the history
            answer = RedirectResponse("/", 303, page.HEADERS)
            answer.set_cookie(COOKIE, request.state.token, httponly=True, samesite="strict")
            return answer
        desk: JobQueue = request.app.state.desk
        jobs = desk.store.latest(_MOST_LISTED, request.state.owner)
        points = {job.id: desk.store.points(job) for job in jobs}
        text = page.overview_page(_queue_states(desk), jobs, solkit.__version__, points)
        return HTMLResponse(text, headers=page.HEADERS)

    @app.get("/jobs/{name}", include_in_schema=False)
    async def job(name: str, request: Request) -> Response:
        desk: JobQueue = request.app.state.desk
        try:
            job = desk.store.get(name, request.state.owner)
        except InputError as error:
            return HTMLResponse(page.missing_page(str(error)), 404, page.HEADERS)
        text = page.job_page(job, desk.store.points(job))
        return HTMLResponse(text, headers=page.HEADERS)

    @app.get("/jobs/{name}/report", include_in_schema=False)
    async def report(name: str, request: Request) -> Response:
        try:
            job = request.app.state.desk.store.get(name, request.state.owner)
            text = await asyncio.to_thread(reports.report_page, job)
        except (InputError, UnsupportedError) as error:
            return HTMLResponse(page.missing_page(str(error)), 404, page.HEADERS)
        return HTMLResponse(text, headers=reports.HEADERS)


# ------------------------------------------------------------------------------------------ errors


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return _refuse_request(
            422, "InputError", "; ".join(map(_describe_fault, error.errors()[:5]))
        )

    @app.exception_handler(QueueFullError)
    async def full(_: Request, error: QueueFullError) -> Response:
        return _refuse_request(429, "QueueFullError", str(error), {"retry-after": str(_RETRY_S)})

    @app.exception_handler(ConflictError)
    async def conflict(_: Request, error: ConflictError) -> Response:
        return _refuse_request(409, "ConflictError", str(error))

    @app.exception_handler(InputError)
    async def wrong(request: Request, error: InputError) -> Response:
        is_missing = request.url.path.startswith("/v1/jobs/")
        return _refuse_request(404 if is_missing else 422, "InputError", str(error))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        return _refuse_request(error.status_code, "HTTPError", str(error.detail), error.headers)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        return _refuse_request(
            500, "WorkerError", f"SolKit failed: {type(error).__name__}: {error}"
        )


def _refuse_request(code: int, kind: str, why: str, headers: Any = None) -> Response:
    return Response(error_answer(kind, why), code, dict(headers or {}), "application/json")


def _describe_fault(error: Any) -> str:
    """Return the place in a request that is wrong, and the reason."""
    place = ".".join(str(part) for part in error["loc"] if part != "body") or "the request"
    return f"{place}: {error['msg']}"
