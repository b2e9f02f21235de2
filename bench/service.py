"""The service under load: nothing lost, nothing answered twice, and how fast a cached bound is.

    python bench/service.py                               # no GPU; some 5 minutes on 2 cores
    python bench/service.py --clients 8 --requests 200 --kills 2

A server replays the shipped H100 set. First one client asks for one bound, again and again: the
time from sending to the whole answer is told. Then many clients at once send requests (bounds of
many problems, scores and grades of recorded kernels), each with an id of its own and each twice, as
a client does that lost its connection; meanwhile workers are killed, one after the other.

Printed: requests without an answer (lost); ids with more than one job or answer (answered twice);
jobs that failed; and the median and the 99th percentile of a cached bound. It exits with 1 if a
request was lost or answered twice, or the median of a cached bound is over 10 ms.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from solkit.datasets.kernels import ZOO
from solkit.datasets.shipped import folder

SOFTMAX = ZOO / "softmax"
SHAPE = {"M": 8192, "N": 4096, "dtype": "bfloat16"}
TARGET_MS = 10.0
PROBLEM = """
import torch
def inputs(N={size}, device="cuda"):
    return (torch.randn(N, 64, device=device),)
def reference(x):
    return x * 2
"""
_LIMIT_S = 900.0


@dataclass
class Server:
    """A server in a process of its own."""

    state: Path
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    url: str = ""

    def __enter__(self) -> Server:
        options = [
            "--port",
            "0",
            "--state",
            str(self.state),
            "--recorded",
            str(folder("h100") / "h100"),
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "solkit", "serve", "--token-env", "SERVICE_TOKEN", *options],
            env={**os.environ, "SERVICE_TOKEN": self.token},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[2]
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)

    def client(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=120)

    def workers(self) -> list[int]:
        with self.client() as client:
            queues = client.get("/v1/queue").json()["queues"]
        return [queue["worker_pid"] for queue in queues if queue["worker_pid"]]


def cached_ms(server: Server, times: int) -> list[float]:
    """Milliseconds of a cached bound, one client."""
    request = {"problem": PROBLEM.format(size=4096)}
    results = []
    with server.client() as client:
        finished(client, client.post("/v1/bound", json=request))
        for _ in range(times):
            begun_s = time.perf_counter()
            answer = client.post("/v1/bound", json=request)
            results.append(1e3 * (time.perf_counter() - begun_s))
            assert answer.json()["status"] == "done"
    return results


def finished(client: httpx.Client, answer: httpx.Response) -> dict[str, Any]:
    """The job of a request, when it is over; empty if it was not taken."""
    deadline_s = time.monotonic() + _LIMIT_S
    data: dict[str, Any] = answer.json()
    while data.get("status") in ("queued", "running") and time.monotonic() < deadline_s:
        data = client.get(f"/v1/jobs/{data['job']}", params={"wait_s": 30}).json()
    return data


def requests(count: int, seed: int) -> list[tuple[str, dict[str, Any]]]:
    """What is asked: mostly bounds, a third of them of problems not seen before."""
    draw = random.Random(seed)
    names = ("whole_row", "three_pass", "rows_tile", "held_chunks")
    texts = [(SOFTMAX / f"{name}.py").read_text() for name in names]
    problem = (SOFTMAX / "problem.py").read_text()
    results: list[tuple[str, dict[str, Any]]] = []
    for _ in range(count):
        kind = draw.choices(("bound", "score", "evaluate"), (6, 2, 2))[0]
        source = draw.choice(texts)
        if kind == "bound":
            request: dict[str, Any] = {"problem": PROBLEM.format(size=1024 * draw.randint(1, 200))}
        elif kind == "score":
            request = {"source": source, "problem": problem, "shapes": [SHAPE]}
        else:
            request = {"problem": problem, "shape": SHAPE, "stage": "2"}
            request["candidates"] = [{"source": source}]
        results.append((kind, request))
    return results


def twice(server: Server, place: int, kind: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Both answers to a request that is sent twice with one id; of a failed connection none."""
    headers = {"idempotency-key": f"request-{place}"}
    messages = []
    with server.client() as client:
        for _ in range(2):
            answer = client.post(f"/v1/{kind}", json=request, headers=headers)
            messages.append(finished(client, answer))
    return messages


def killing(server: Server, kills: int, every_s: float, over: threading.Event) -> list[int]:
    """Kill workers in turns; the processes that were killed."""
    killed: list[int] = []
    while len(killed) < kills and not over.wait(every_s):
        workers = [pid for pid in server.workers() if pid not in killed]
        if workers:
            killed.append(workers[len(killed) % len(workers)])
            os.kill(killed[-1], signal.SIGKILL)
    return killed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between kills")
    parser.add_argument("--cached", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as state, Server(Path(state) / "jobs") as server:
        alone = cached_ms(server, options.cached)
        p50, p99 = np.percentile(alone, [50, 99])
        print(f"cached bound, one client: p50 {p50:.2f} ms, p99 {p99:.2f} ms", flush=True)
        expected, over = requests(options.requests, options.seed), threading.Event()
        begun_s = time.monotonic()
        with ThreadPoolExecutor(options.clients) as clients, ThreadPoolExecutor(1) as other:
            kills = other.submit(killing, server, options.kills, options.every, over)
            jobs = [
                clients.submit(twice, server, place, *item) for place, item in enumerate(expected)
            ]
            results = [job.result() if job.exception() is None else [] for job in jobs]
            over.set()
        took_s = time.monotonic() - begun_s
        killed = kills.result()
    answered = [
        items
        for items in results
        if items and all(result.get("status") == "done" for result in items)
    ]
    failed = sum(any(result.get("status") == "failed" for result in items) for items in results)
    lost = len(results) - len(answered) - failed
    double = sum(
        len({(result["job"], result["finished"]) for result in items}) > 1 for items in answered
    )
    print(
        f"{options.clients} clients, {len(results)} requests in {took_s:.0f} s, each sent twice; "
        f"{len(killed)} workers killed: {lost} lost, {double} answered twice, {failed} failed"
    )
    return int(lost > 0 or double > 0 or failed > 0 or p50 > TARGET_MS)


if __name__ == "__main__":
    sys.exit(main())
