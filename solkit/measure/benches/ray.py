"""The GPUs of many machines, through Ray: a worker (an actor) for each GPU of a cluster.

::

    driver ──pipe──► broker: the only process that talks to Ray ──► worker: 1 GPU of a node
     log              ManyBench of RemoteBench, Cluster                BenchServer: a bench, no log

Ray ends a process that loses the head of its cluster, so it is kept out of the driver's: the driver
gets a `ClusterLostError`, and everything measured so far is in its log. A worker or node that is
lost is replaced as soon as the cluster has a free GPU; others measure meanwhile what it had.

No shared folder is needed: kernel files travel with their configurations, and outcomes come back.
Nodes without a GPU compile ahead for those with one (`solkit.measure.benches.remote_compile`).

SolKit must be installed on all nodes, in the driver's version.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from solkit.errors import (
    ClusterLostError,
    UnsupportedError,
    WorkerError,
)
from solkit.extras import check, library
from solkit.measure.benches._base import Bench
from solkit.measure.benches.bench_server import (
    BenchServer,
    Guarded,
    Kind,
    Surroundings,
    Trusted,
    answer_request,
)
from solkit.measure.benches.local import ProcessLink
from solkit.measure.benches.multi_gpu import ManyBench
from solkit.measure.benches.remote import RemoteBench, Trade
from solkit.measure.benches.remote_compile import Done, Job, Lender, run_helper_job

HEAD_S = 5.0
_PLACE_S = 120.0  # for a free GPU, and for the worker to start there
_ANSWER_S = 300.0
_START_S = 180.0  # for a helper to load torch, and for its other jobs
_FREE_S = 10.0
_LOOK_S = 0.5  # between two looks at the head
_CONNECT_S = 2.0
_THREADS = 4  # of a worker: one waits for outcomes while another takes orders


def ray_bench(
    address: str,
    kind: Kind,
    trade: Trade,
    *,
    gpus: int | None = None,
    place_s: float = _PLACE_S,
    head_s: float = HEAD_S,
) -> RemoteBench:
    """Open a bench of the GPUs of a Ray cluster; see this module.

    Args:
        address: of the cluster's head, as ``host:port``; ``"auto"``: the one that this machine
            belongs to, or that ``$RAY_ADDRESS`` names.
        kind: which bench each worker opens.
        trade: what the driver gives; its log gets every outcome.
        gpus: at most so many; all that are free by default.
        place_s: seconds to wait for a free GPU, and for a worker to start there.
        head_s: seconds for which the head may be away: a restart may be quicker.

    Raises:
        UnsupportedError: Ray is not installed, there is no such cluster, or it has no free GPU.
        WorkerError: no worker starts.
    """
    check("ray")
    cluster = Cluster(address, kind, gpus, place_s, head_s)
    limit_s = _ANSWER_S + 2 * place_s
    return RemoteBench(partial(ProcessLink, cluster, f"Ray at {address}", limit_s), trade)


def _ray_package() -> Any:
    """Return the package; it is loaded by those alone that talk to a cluster."""
    return library("ray")


@dataclass(frozen=True)
class Cluster:
    """The bench of a broker: one member for each GPU; see `ray_bench`."""

    address: str
    kind: Kind
    gpus: int | None = None
    place_s: float = _PLACE_S
    head_s: float = HEAD_S

    def open(self, around: Surroundings) -> Bench:
        """Connect, and start the workers all at once."""
        head = around.stack.enter_context(_connect_cluster(self.address, self.head_s))
        seats = [_Seat(self.kind, head, self.place_s) for _ in range(self._count_free_gpus(head))]
        prospects = around.prospects if isinstance(self.kind, Guarded) else None
        trade = Trade(around.log, prospects, tell=around.tell)
        benches: list[Bench] = []
        with ExitStack() as opened:
            for seat in seats:
                seat.start()
            for seat in seats:
                bench = RemoteBench(seat.open_link, trade, sends_files=True)
                opened.callback(bench.close)
                benches.append(bench)
            many = ManyBench(benches, log=around.log, tell=around.tell)
            opened.pop_all()
        return many

    def _count_free_gpus(self, head: _Head) -> int:
        """Return the number of GPUs to use."""
        ray = _ray_package()
        deadline = time.monotonic() + min(_FREE_S, self.place_s)
        while not (free := int(ray.available_resources().get("GPU", 0))):
            if time.monotonic() >= deadline:
                break
            time.sleep(_LOOK_S)  # a worker that has just ended may still count
        every = int(ray.cluster_resources().get("GPU", 0))
        if not free:
            raise UnsupportedError(
                f"the Ray cluster at {head.address} has {every} GPUs, none of them free: see "
                "`ray status`"
            )
        return free if self.gpus is None else min(free, self.gpus)


# ---------------------------------------------------------------------------------------- the head


class _Head:
    """Watches the head of the cluster that this process is connected to.

    Attributes:
        address: as ``host:port``.
    """

    def __init__(self, address: str, patience_s: float) -> None:
        self.address, self._patience_s = address, patience_s
        self._is_lost = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch_head, daemon=True)
        self._thread.start()

    def require_alive(self) -> None:
        """Raise `ClusterLostError` if the head is gone."""
        if self._is_lost.is_set():
            raise ClusterLostError(
                f"the head of the Ray cluster at {self.address} is lost; all that was measured is "
                "in the log: start the cluster again and resume the run (--resume)"
            )

    def close(self) -> None:
        """Watch no more."""
        self._is_over.set()

    def _watch_head(self) -> None:
        away_s = 0.0
        while not self._is_over.wait(_LOOK_S):
            begun_s = time.monotonic()
            away_s = 0.0 if _is_listening(self.address) else away_s + _LOOK_S
            away_s += time.monotonic() - begun_s if away_s else 0.0
            if away_s >= self._patience_s:
                self._is_lost.set()
                return


def _is_listening(address: str) -> bool:
    """Tell whether something listens there; an address of another form counts as if it did."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        return True
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), _CONNECT_S):
        return True
    return False


@contextlib.contextmanager
def _connect_cluster(address: str, head_s: float) -> Iterator[_Head]:
    """Connect this process to a cluster.

    Raises:
        UnsupportedError: there is none.
    """
    ray = _ray_package()
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # as future versions of Ray
    if address not in ("auto", "local") and not _is_listening(address):
        raise UnsupportedError(f"no Ray cluster at {address}: nothing listens there")
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        why = str(error).strip().splitlines()[0].rstrip(".")
        raise UnsupportedError(
            f"no Ray cluster at {address}: {why}; start one with `ray start --head`"
        ) from error
    head = _Head(ray.get_runtime_context().gcs_address, head_s)
    try:
        yield head
    finally:
        head.close()
        with contextlib.suppress(ClusterLostError):
            head.require_alive()
            ray.shutdown()


# --------------------------------------------------------------------------------------- a worker


class _Worker:
    """Actor on a GPU of the cluster: holds a `BenchServer`."""

    def __init__(self, kind: Kind) -> None:
        self._host = BenchServer(_fit_to_node(kind), lender=_find_lender())

    def answer(self, method: str, args: Sequence[Any]) -> tuple[bool, Any]:
        """See `solkit.measure.benches.bench_server.answer_request`."""
        return answer_request(self._host, method, args)


def _fit_to_node(kind: Kind) -> Kind:
    """Return a kind of bench that shares the node's cores with those of its other GPUs."""
    if not isinstance(kind, Trusted) or kind.workers:
        return kind
    ray = _ray_package()
    node = ray.get_runtime_context().get_node_id()
    resources = [row["Resources"] for row in ray.nodes() if row["NodeID"] == node]
    gpus = max((int(amounts.get("GPU", 1)) for amounts in resources), default=1)
    return replace(kind, workers=max(((os.cpu_count() or 2) - gpus) // max(gpus, 1), 1))


def _find_lender() -> Lender | None:
    """List nodes without a GPU that compile for this worker and others; ``None`` without any."""
    nodes = [node for node in _ray_package().nodes() if node["Alive"]]
    gpus = sum(int(node["Resources"].get("GPU", 0)) for node in nodes)
    cores = {
        node["NodeID"]: int(node["Resources"].get("CPU", 0))
        for node in nodes
        if not node["Resources"].get("GPU")
    }
    helpers = _Helpers([node for node, count in cores.items() for _ in range(count)])
    slots = -(-sum(cores.values()) // max(gpus, 1))
    return Lender(slots, helpers.run) if slots else None


class _Helpers:
    """The cores of nodes without a GPU; a node that is lost is asked no more."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes, self._next = list(nodes), itertools.count()

    def run(self, job: Job) -> Done:
        """Have a job done; see `Lender`."""
        ray, error = _ray_package(), "there is none"
        alive = {row["NodeID"] for row in ray.nodes() if row["Alive"]}
        self._nodes = [node for node in self._nodes if node in alive]  # others would wait for long
        while nodes := self._nodes:  # a thread of another job may replace the list
            node = nodes[next(self._next) % len(nodes)]
            there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
            options = {"num_cpus": 1, "max_retries": 0, "scheduling_strategy": there}
            limit_s = _START_S + job.limit_s * len(job.choices)
            try:
                done: Done = ray.get(
                    _remote_helper().options(**options).remote(job), timeout=limit_s
                )
                return done
            except ray.exceptions.RayError as lost:
                error = _describe_ray_error(lost)
                self._nodes = [other for other in self._nodes if other != node]
        raise WorkerError(f"no machine without a GPU compiles: {error}")


@functools.cache
def _remote_helper() -> Any:
    return _ray_package().remote(run_helper_job)


@functools.cache
def _actor_class() -> Any:
    return _ray_package().remote(_Worker)


class _Seat:
    """A GPU's place: the worker there, and those that replace it."""

    def __init__(self, kind: Kind, head: _Head, place_s: float) -> None:
        self._kind, self._head, self._place_s = kind, head, place_s
        self._begun: Any = None

    def start(self) -> None:
        """Start a worker, without waiting for it."""
        self._begun = (
            _actor_class()
            .options(num_gpus=1, num_cpus=0, max_restarts=0, max_concurrency=_THREADS)
            .remote(self._kind)
        )

    def open_link(self) -> _ActorLink:
        """Return the link to the worker that was started, or to a new one.

        Raises:
            WorkerError: the cluster has no free GPU, or the worker does not start.
        """
        self._head.require_alive()
        if self._begun is None:
            self.start()
        actor, self._begun = self._begun, None
        return _ActorLink(actor, self._head, self._place_s)


class _ActorLink:
    """A worker on the cluster; see `solkit.measure.benches.remote.Link`."""

    def __init__(self, actor: Any, head: _Head, place_s: float) -> None:
        self.name, self._actor, self._head = f"Ray at {head.address}", actor, head
        try:
            self._call_actor("about", (), place_s)  # waits until it runs
        except BaseException:
            self.close()
            raise

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the worker's `BenchServer`."""
        return self._call_actor(method, args, _ANSWER_S)

    def close(self) -> None:
        """End the worker."""
        with contextlib.suppress(Exception):
            self._head.require_alive()
            _ray_package().kill(self._actor)

    def _call_actor(self, method: str, args: Sequence[Any], limit_s: float) -> Any:
        done, value = self._await_result(self._actor.answer.remote(method, args), limit_s)
        if not done:
            raise value
        return value

    def _await_result(self, call: Any, limit_s: float) -> Any:
        """Wait for the value of a call, and look at the head meanwhile."""
        ray, deadline = _ray_package(), time.monotonic() + limit_s
        while time.monotonic() < deadline:
            self._head.require_alive()
            try:
                return ray.get(call, timeout=_LOOK_S)
            except ray.exceptions.GetTimeoutError:
                continue
            except ray.exceptions.RayError as error:
                self._head.require_alive()
                raise WorkerError(f"{self.name}: {_describe_ray_error(error)}") from None
        raise WorkerError(
            f"{self.name}: no worker answered for {limit_s:g} s; is a GPU free? See `ray status`"
        )


def _describe_ray_error(error: Exception) -> str:
    """Return the cause of an error of Ray's, in one line."""
    text = str(getattr(error, "cause", None) or error)
    cause = [line.strip() for line in text.splitlines() if "Error:" in line or "died" in line]
    return (cause[-1] if cause else text.strip().splitlines()[0]) or type(error).__name__
