"""What tests of the service share: a small recording, and services that replay it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def recording(tmp_path_factory):
    """A store with the rows of two kernels at one shape, and their sources."""
    pytest.importorskip("polars", reason="a store needs solkit[data]")
    from serving import FAST, PROBLEM, SHAPE, SLOW

    from solkit.core import Source
    from solkit.datasets.store import Store, shipped
    from solkit.integrations.recordings import text_digest

    whole = shipped("h100")
    names = ("softmax/whole_row", "softmax/three_pass")
    rows = [
        row
        for row in whole.rows(whole.where("family = 'softmax'"))
        if row.implementation in names and row.shape == SHAPE
    ]
    texts = {"problem.py": PROBLEM, "whole_row.py": FAST, "three_pass.py": SLOW}
    folder = tmp_path_factory.mktemp("recording") / "store"
    sources = [Source(text_digest(text), name, text) for name, text in texts.items()]
    Store(folder, create=True).add(rows, sources)
    return folder


@pytest.fixture(scope="session")
def served(recording, tmp_path_factory):
    """A server that replays the recording."""
    pytest.importorskip("fastapi", reason="the service needs solkit[serve]")
    pytest.importorskip("uvicorn", reason="the service needs solkit[serve]")
    pytest.importorskip("httpx")
    from serving import Served

    state = tmp_path_factory.mktemp("service") / "state"
    with Served(state, "--recorded", str(recording), "--max-body", "200000") as server:
        yield server


@pytest.fixture(scope="session")
def service(recording, tmp_path_factory):
    """Open clients, by token, of a service in this process that replays the recording."""
    pytest.importorskip("fastapi", reason="the service needs solkit[serve]")
    pytest.importorskip("httpx")
    from serving import OTHER, TOKEN, workers_here
    from starlette.testclient import TestClient

    from solkit.service.app import make_app
    from solkit.service.settings import ServiceSettings

    settings = ServiceSettings(
        tmp_path_factory.mktemp("service") / "state",
        device="h100-sxm",
        recorded=str(recording),
        max_body=200_000,
    )
    with workers_here(), TestClient(make_app(settings, [TOKEN, OTHER])) as client:

        def opened(token=TOKEN):
            headers = {"authorization": f"Bearer {token}"} if token else {}
            other = TestClient(client.app, headers=headers)
            other.portal = client.portal  # the loop of the queues
            return other

        yield opened
