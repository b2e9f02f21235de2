"""SolKit as tools of a coding agent, over the Model Context Protocol.

An answer is a short text with what matters most first, and a few numbers as structured content. A
tool that takes long gives a job id; `job` waits for it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import solkit
from solkit.errors import InputError, SolkitError
from solkit.extras import needed
from solkit.service.queue import JobQueue
from solkit.service.requests import KINDS, Candidate
from solkit.service.store import Job, Status
from solkit.service.summaries import MOST_CHARACTERS, result_facts, shorten_text, summarize_result

with needed("mcp"):
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import CallToolResult, TextContent, ToolAnnotations

from pydantic import Field

INSTRUCTIONS = (
    "SolKit tells how fast a GPU kernel could run at best (its speed of light), how far a kernel "
    "is from that and why. Start with bound, then score or analyse your kernel, then follow the "
    "advice. Use rank before measuring many candidates, compare to prove a speedup, tune for "
    "parameters, evolve for rewrites. A source is the path of a kernel file, or its text: it "
    "defines reference(...), inputs(...) and kernel(...). Long calls give a job id, which the tool "
    "job takes."
)

_OWNER = "mcp"
_QUICK_S = 45.0
_LONGEST_S = 50.0
"""Clients give up on a call after a minute."""

Setting = bool | int | float | str | None
Source = Annotated[str, Field(description="The path of a kernel file, or its text.")]
Problem = Annotated[
    str | None,
    Field(description="The file with reference() and inputs(), if the source lacks them."),
]
Settings = Annotated[
    dict[str, Setting] | None, Field(description='Sizes to override, such as {"M": 4096}.')
]
Params = Annotated[
    dict[str, Setting] | None,
    Field(description='Parameters of kernel() to override, such as {"BLOCK": 1024}.'),
]
DeviceName = Annotated[
    str | None, Field(description='A GPU, such as "h100-sxm"; this machine\'s by default.')
]
GpuSeconds = Annotated[float, Field(gt=0, le=3600, description="Budget of GPU seconds.")]
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)


def make_server(desk: JobQueue) -> MCPServer[Any]:
    """The MCP server.

    Args:
        desk: does the work; it is open as long as the server runs.
    """
    server: MCPServer[Any] = MCPServer(
        "solkit", instructions=INSTRUCTIONS, version=solkit.__version__, log_level="WARNING"
    )
    _add_quick(server, desk)
    _add_candidates(server, desk)
    _add_long(server, desk)
    _add_jobs(server, desk)
    return server


# ------------------------------------------------------------------------------------------- tools


def _add_quick(server: MCPServer[Any], desk: JobQueue) -> None:
    @server.tool(annotations=_READS)
    async def bound(
        problem: Source, shape: Settings = None, device: DeviceName = None
    ) -> CallToolResult:
        """The speed of light of a problem: the least time of any kernel, and what limits it."""
        return await _answer_now(desk, "bound", problem=problem, shape=shape, device=device)

    @server.tool(annotations=_READS)
    async def analyse(
        source: Source,
        problem: Problem = None,
        shape: Settings = None,
        params: Params = None,
        device: DeviceName = None,
    ) -> CallToolResult:
        """Why a kernel is slow, without running it: launches, registers, modelled time, advice."""
        return await _answer_now(
            desk,
            "analyse",
            source=source,
            problem=problem,
            shape=shape,
            params=params,
            device=device,
        )

    @server.tool(annotations=_READS)
    async def score(
        source: Source, problem: Problem = None, shape: Settings = None, params: Params = None
    ) -> CallToolResult:
        """Check and time a kernel on the GPU: verdict, time, gap to the speed of light, advice."""
        return await _answer_now(
            desk, "score", source=source, problem=problem, shape=shape, params=params
        )

    @server.tool(annotations=_READS)
    async def profile(
        path: Annotated[
            str, Field(description="A Chrome trace of PyTorch's profiler, or a Python script.")
        ],
        arguments: list[str] | None = None,
        device: DeviceName = None,
    ) -> CallToolResult:
        """Which op of a model is worth working on; a trace needs no GPU, a script does."""
        file = _existing_path(path)
        return await _answer_now(desk, "profile", path=file, arguments=arguments, device=device)


def _add_candidates(server: MCPServer[Any], desk: JobQueue) -> None:
    @server.tool(annotations=_READS)
    async def rank(
        sources: Annotated[list[str], Field(min_length=1, description="Paths or texts.")],
        problem: Problem = None,
        shape: Settings = None,
        budget: Annotated[int, Field(ge=1, description="How many may be measured.")] = 10,
        device: DeviceName = None,
    ) -> CallToolResult:
        """Which configurations of one or several kernels deserve a measurement; without a GPU."""
        return await _answer_now(
            desk,
            "rank",
            candidates=sources,
            problem=problem,
            shape=shape,
            budget=budget,
            device=device,
        )

    @server.tool(annotations=_READS)
    async def evaluate(
        problem: Source,
        sources: Annotated[list[str], Field(min_length=1, description="Paths or texts.")],
        shape: Settings = None,
        most: Annotated[int | None, Field(description="Measured at the most.")] = None,
    ) -> CallToolResult:
        """Grade candidates for a search: forecasts reject the hopeless, the rest is measured."""
        return await _answer_now(
            desk, "evaluate", problem=problem, candidates=sources, shape=shape, most=most
        )

    @server.tool(annotations=_READS)
    async def compare(
        base: Source,
        candidates: Annotated[list[str], Field(min_length=1, max_length=16)],
        problem: Problem = None,
        shape: Settings = None,
    ) -> CallToolResult:
        """Which kernel is faster, timed in turns on the GPU, with a confidence interval."""
        return await _answer_now(
            desk, "compare", base=base, candidates=candidates, problem=problem, shape=shape
        )


def _add_long(server: MCPServer[Any], desk: JobQueue) -> None:
    @server.tool()
    async def tune(
        source: Source,
        problem: Problem = None,
        shape: Settings = None,
        params: Params = None,
        gpu_seconds: GpuSeconds = 60.0,
    ) -> CallToolResult:
        """Search faster parameters for a kernel; gives a job id at once."""
        return await _answer_later(
            desk,
            "tune",
            source=source,
            problem=problem,
            shape=shape,
            params=params,
            gpu_seconds=gpu_seconds,
        )

    @server.tool()
    async def evolve(
        source: Source,
        problem: Problem = None,
        shape: Settings = None,
        params: Params = None,
        gpu_seconds: GpuSeconds = 120.0,
    ) -> CallToolResult:
        """Search faster rewrites of a kernel; gives a job id at once."""
        return await _answer_later(
            desk,
            "evolve",
            source=source,
            problem=problem,
            shape=shape,
            params=params,
            gpu_seconds=gpu_seconds,
        )


def _add_jobs(server: MCPServer[Any], desk: JobQueue) -> None:
    @server.tool(annotations=_READS)
    async def job(
        id: Annotated[str, Field(description="From an earlier answer.")],  # noqa: A002 - its name
        wait_s: Annotated[float, Field(ge=0, le=_LONGEST_S)] = 30.0,
        part: Annotated[
            Literal["summary", "json", "source"],
            Field(description="The summary, the whole result, or the best variant of evolve."),
        ] = "summary",
        offset: Annotated[int, Field(ge=0, description="Where a long part goes on.")] = 0,
    ) -> CallToolResult:
        """Wait for a job, and tell how far it is or what it found."""
        try:
            job = await desk.wait(id, wait_s, _OWNER)
        except InputError as error:
            raise ToolError(str(error)) from error
        if part == "summary" or job.result is None:
            return _job_summary(job)
        return _text_part(job, _whole_result(job) if part == "json" else _best_source(job), offset)

    @server.tool()
    async def cancel(id: str) -> CallToolResult:  # noqa: A002 - its name for clients
        """Cancel a job."""
        try:
            return _job_summary(await desk.cancel(id, _OWNER))
        except InputError as error:
            raise ToolError(str(error)) from error


# ------------------------------------------------------------------------------------------ asking


async def _answer_now(desk: JobQueue, kind: str, **fields: Any) -> CallToolResult:
    """The answer, if it comes in time; else the job's id."""
    job = await _submit_request(desk, kind, fields)
    return _job_summary(await desk.wait(job.id, _QUICK_S))


async def _answer_later(desk: JobQueue, kind: str, **fields: Any) -> CallToolResult:
    """The job's id."""
    return _job_summary(await _submit_request(desk, kind, fields))


async def _submit_request(desk: JobQueue, kind: str, fields: dict[str, Any]) -> Job:
    """Queue a request; what the tool was not given is at the request's default."""
    arguments = {name: value for name, value in fields.items() if value is not None}
    model = KINDS[kind]
    if "shapes" in model.model_fields and "shape" in arguments:
        arguments["shapes"] = [arguments.pop("shape")]
    try:
        for name in ("source", "problem"):
            if name in arguments:
                arguments[name] = _resolve_source(arguments[name])
        if "base" in arguments:
            arguments["base"] = _candidate(arguments["base"])
        if "candidates" in arguments:
            arguments["candidates"] = list(map(_candidate, arguments["candidates"]))
        return await desk.submit(kind, model(**arguments), _OWNER)
    except SolkitError as error:
        raise ToolError(str(error)) from error


def _resolve_source(source: str) -> str:
    """A source: a text as it is, a path made absolute.

    Raises:
        ToolError: there is no such file.
    """
    return source if "\n" in source else _existing_path(source)


def _existing_path(path: str) -> str:
    existing = Path(path).expanduser()
    if not existing.exists():
        raise ToolError(
            f"{path[:200]}: no such file in {Path.cwd()}; give a path, or the text of a kernel file"
        )
    return str(existing.resolve())


def _candidate(source: str) -> Candidate:
    return Candidate(source=_resolve_source(source))


# ----------------------------------------------------------------------------------------- answers


def _job_summary(job: Job) -> CallToolResult:
    """A job in words, and its few numbers."""
    facts: dict[str, Any] = {"job": job.id, "kind": job.kind, "status": job.status.value}
    if job.status is Status.FAILED and job.error is not None:
        fault = json.loads(job.error)
        return _tool_result(
            f"{job.kind} failed: {fault['message']}", {**facts, "error": fault}, True
        )
    if job.status is Status.DONE and job.result is not None:
        result = json.loads(job.result)
        return _tool_result(
            summarize_result(job.kind, result), {**facts, **result_facts(job.kind, result)}
        )
    if job.status is Status.CANCELLED:
        return _tool_result(f"Job {job.id} ({job.kind}) is cancelled.", facts)
    doing = f": {job.progress}" if job.progress else ""
    text = f'Job {job.id} ({job.kind}) is {job.status.value}{doing}. Ask again: job(id="{job.id}").'
    return _tool_result(text, {**facts, "progress": job.progress})


def _whole_result(job: Job) -> str:
    return json.dumps(json.loads(job.result or "null"), indent=1)


def _best_source(job: Job) -> str:
    """The text of the best variant.

    Raises:
        ToolError: the job has none.
    """
    result = json.loads(job.result or "null")
    for variant in result.get("variants", ()):
        if variant["id"] == result["best"]["id"]:
            return str(variant["source"])
    raise ToolError(f"job {job.id} ({job.kind}) has no source; evolve has")


def _text_part(job: Job, text: str, offset: int) -> CallToolResult:
    """A piece of a long text, and where it goes on."""
    room = MOST_CHARACTERS - 200
    piece, ends = text[offset : offset + room], offset + room
    goes_on = ends < len(text)
    more = f"\n... {len(text) - ends:,} characters follow: offset={ends}" if goes_on else ""
    facts = {"job": job.id, "characters": len(text), "next_offset": ends if goes_on else None}
    return _tool_result(piece + more, facts)


def _tool_result(text: str, facts: dict[str, Any], is_error: bool = False) -> CallToolResult:
    content = [TextContent(type="text", text=shorten_text(text))]
    return CallToolResult(content=list(content), structured_content=facts, is_error=is_error)
