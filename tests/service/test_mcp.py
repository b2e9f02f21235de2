"""`solkit mcp` with the SDK's own client: in this process, and over stdin and stdout."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys

import pytest

pytest.importorskip("httpx")
# looked for, not imported: that takes a second of each process that collects tests
if importlib.util.find_spec("mcp") is None:
    pytest.skip("this needs solkit[mcp]", allow_module_level=True)
from serving import FAST, PROBLEM, SHAPE, SLOW, SOFTMAX, workers_here

TOOLS = {"bound", "analyse", "score", "rank", "evaluate", "compare", "profile", "tune", "evolve"}
MOST = 4000


class Tools:
    """Calls tools, and checks what holds of every answer."""

    def __init__(self, client):
        self.client = client

    async def __call__(self, name, **arguments):
        answer = await self.client.call_tool(name, arguments)
        (content,) = answer.content
        assert len(content.text) <= MOST
        return answer.is_error, content.text, answer.structured_content

    async def done(self, name, **arguments):
        """The text and facts of what is over, however long that takes."""
        is_error, text, facts = await self(name, **arguments)
        while not is_error and facts["status"] in ("queued", "running"):
            is_error, text, facts = await self("job", id=facts["job"], wait_s=30)
        assert not is_error, text
        assert len(json.dumps(facts)) <= MOST
        return text, facts


async def session(client, own, *, forecasts):
    """A coding agent uses the tools; `own` is a kernel file of its own.

    Args:
        forecasts: use those too that load the surrogate, which takes several seconds.
    """
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert listed.keys() == TOOLS | {"job", "cancel"}
    assert all(item.description for item in listed.values())
    call = Tools(client)
    on = {"problem": str(SOFTMAX / "problem.py"), "shape": SHAPE}

    text, facts = await call.done("bound", **on)
    assert "limited by dram" in text
    assert facts["results"][0]["sol_ms"] == pytest.approx(0.04004, rel=0.01)
    text, facts = await call.done("analyse", source=SLOW, **on)
    assert "gap: " in text
    assert facts["results"][0]["modelled_ms"] > 0.04
    text, _ = await call.done("score", source=str(own), **on)
    assert text
    if forecasts:
        text, facts = await call.done(
            "rank", sources=[str(own)], problem=PROBLEM, shape=SHAPE, budget=3
        )
        assert "1. measure" in text
        text, facts = await call.done("evaluate", sources=[FAST, SLOW], **on)
        assert facts["results"][0]["verdict"] == "correct"

    is_error, text, facts = await call("tune", source=FAST, gpu_seconds=5, **on)
    assert not is_error
    job = facts["job"]
    assert job in text
    text, facts = await call.done("job", id=job)
    assert facts["measured"] > 3
    _, text, facts = await call("job", id=job, part="json")
    assert text.startswith("{")
    _, rest, _ = await call("job", id=job, part="json", offset=20)
    assert rest[:50] == text[20:70]

    for name, arguments, why in (
        ("score", {"source": "missing.py"}, "no such file"),
        ("bound", {"problem": "x = 1\n"}, "failed"),
        ("job", {"id": "none"}, "no job 'none'"),
        ("tune", {"source": FAST, "gpu_seconds": -1}, "greater than 0"),
        ("profile", {"path": "missing.json"}, "no such file"),
    ):
        is_error, text, _ = await call(name, **arguments)
        assert is_error, name
        assert why in text


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FAST)
    return path


def test_a_coding_agent_uses_the_tools(recording, own, tmp_path):
    from mcp import Client

    from solkit.service.mcp import make_server
    from solkit.service.queue import JobQueue
    from solkit.service.settings import ServiceSettings

    settings = ServiceSettings(tmp_path / "state", device="h100-sxm", recorded=str(recording))

    async def connected():
        async with JobQueue(settings) as queue, Client(make_server(queue)) as client:
            await session(client, own, forecasts=False)

    with workers_here():
        asyncio.run(connected())


@pytest.mark.slow
def test_a_coding_agent_starts_the_server_and_uses_every_tool(recording, own):
    from mcp import Client, StdioServerParameters

    async def connected():
        command = ["-m", "solkit", "mcp", "--recorded", str(recording)]
        async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
            await session(client, own, forecasts=True)

    asyncio.run(connected())
