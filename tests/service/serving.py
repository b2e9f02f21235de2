"""A service in a process of its own, as a user starts it, and what clients ask of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from solkit.datasets.kernels import ZOO
from solkit.service import queue, worker

SOFTMAX = ZOO / "softmax"
PROBLEM = (SOFTMAX / "problem.py").read_text()
SHAPE = {"M": 8192, "N": 4096, "dtype": "bfloat16"}
FAST, SLOW = ((SOFTMAX / f"{name}.py").read_text() for name in ("whole_row", "three_pass"))
TOKEN, OTHER = "a-token-that-is-long-enough", "another-token-of-somebody-else"
START_S = 180  # a machine of two cores may be busy


def problem(number: int) -> str:
    """One of many problems, each with its own bound."""
    return f"""
import torch
def inputs(N={4096 + 1024 * number}, device="cuda"):
    return (torch.randn(N, 64, device=device),)
def reference(x):
    return x * 2
"""


class Served:
    """`solkit serve`, in a ``with`` block.

    Args:
        state: the folder of the jobs.
        options: of the command.
    """

    def __init__(self, state: Path, *options: str) -> None:
        tokens = state.with_suffix(".tokens")
        tokens.write_text(f"{TOKEN}\n{OTHER}\n")
        command = [sys.executable, "-m", "solkit", "serve", "--port", "0", "--state", str(state)]
        command += ["--token-file", str(tokens), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("SolKit serves "), line
        self.url = line.split()[2]

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process.stdout.close()

    def kill(self) -> None:
        """Kill the server; its workers end by themselves."""
        self.process.kill()
        self.process.wait()

    def client(self, token: str = TOKEN) -> httpx.Client:
        """A client with a token."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=START_S)

    def workers(self) -> dict[str, int]:
        """The process of each queue that has one."""
        with self.client() as client:
            queues = client.get("/v1/queue").json()["queues"]
        return {queue["name"]: queue["worker_pid"] for queue in queues if queue["worker_pid"]}

    def kill_worker(self, queue: str) -> int:
        """Kill a queue's worker, when it has one."""
        deadline = time.monotonic() + START_S
        while queue not in (results := self.workers()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.kill(results[queue], signal.SIGKILL)
        return results[queue]


class _StoppedError(BaseException):
    """The queue is closed: a thread that takes jobs from it ends."""


class WorkerHere(worker._Worker):
    """A worker of a queue in this process, whose jobs fork from servers that tests share."""

    def __init__(self, how: queue.QueueSettings, answers: int) -> None:
        super().__init__(how, answers)
        claim, self.is_stopped = self._store.claim, False

        def claimed(name: str) -> object:
            if self.is_stopped:
                raise _StoppedError
            return claim(name)

        self._store.claim = claimed

    def _work_on_jobs(self) -> None:
        with contextlib.suppress(_StoppedError):
            super()._work_on_jobs()

    def write(self, _: bytes) -> None:
        """Wake it, as what arrives at a worker's standard input does."""
        self.wake()


@contextlib.asynccontextmanager
async def _worker_here(state: queue.QueueState) -> AsyncIterator[SimpleNamespace]:
    """In place of `solkit.service.queue._process`."""
    reading, answers = os.pipe()
    stdout = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(stdout)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(reading, "rb"))
    taker = WorkerHere(state.how, answers)
    taker.start()
    state.pid, state.process = os.getpid(), SimpleNamespace(stdin=taker)
    try:
        yield SimpleNamespace(stdout=stdout)
    finally:
        taker.is_stopped = True
        taker.wake()
        transport.close()


@contextlib.contextmanager
def workers_here() -> Iterator[None]:
    """Let queues that open meanwhile have workers in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "_worker_process", _worker_here)
        yield


def finished_job(
    client: httpx.Client, kind: str, key: str | None = None, **request: object
) -> dict:
    """The finished job of a request, however long that takes."""
    headers = {} if key is None else {"idempotency-key": key}
    answer = client.post(f"/v1/{kind}", json=request, headers=headers)
    assert answer.status_code in (200, 202), answer.text
    return finished(client, answer.json())


def finished(client: httpx.Client, job: dict) -> dict:
    """A job when it is over."""
    deadline = time.monotonic() + START_S
    while job["status"] in ("queued", "running"):
        assert time.monotonic() < deadline, job
        job = client.get(f"/v1/jobs/{job['job']}", params={"wait_s": 30}).json()
    return job
