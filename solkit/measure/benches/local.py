"""Several GPUs of this machine: a worker process for each."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from solkit.core import Device, MeasureSettings
from solkit.errors import InputError, UnsupportedError, WorkerError
from solkit.measure.benches.bench_server import (
    BenchServer,
    Guarded,
    Kind,
    Trusted,
    answer_request,
    make_portable,
)
from solkit.measure.benches.multi_gpu import ManyBench
from solkit.measure.benches.remote import RemoteBench, Trade
from solkit.processes.channel import Channel, ClosedError
from solkit.processes.host import Host, Program, python_command, python_path

_ANSWER_S = 300.0  # opening a bench takes seconds; an answer hardly any
_END_S = 3.0


class ProcessLink:
    """A worker process of this machine; see `solkit.measure.benches.remote.Link`.

    Args:
        kind: which bench it opens.
        name: of the worker, in messages.
        limit_s: after which a worker that does not answer is ended.

    Raises:
        WorkerError: the worker does not start.
        SolkitError: the bench cannot be opened there.
    """

    def __init__(self, kind: Kind, name: str, limit_s: float = _ANSWER_S) -> None:
        self.name, self._limit_s = name, limit_s
        # behind the standard library: a kernel's folder, which may hold a select.py, is in ours
        code = f"sys.path.extend({sys.path!r}); from {__name__} import serve; serve"
        env = os.environ | {"PYTHONPATH": python_path()}

        def start(descriptor: int) -> Program:
            return Program(
                python_command(f"{code}({descriptor})"), env=env, descriptors=(descriptor,)
            )

        # it ends when the channel closes, and has a moment to end its own processes
        self.host = Host(start, f"serving {name}", grace_s=_END_S)
        try:
            self._send_request(kind)
        except BaseException:
            self.close()
            raise

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the worker's `BenchServer`."""
        return self._send_request((method, args))

    def close(self) -> None:
        """End the worker."""
        self.host.close()

    def _send_request(self, request: object) -> Any:
        try:
            answer = self.host.call({}, pickle.dumps(request), limit_s=self._limit_s)
        except WorkerError as death:
            raise WorkerError(f"{self.name}: {death}") from None
        done, value = pickle.loads(answer.payload)
        if not done:
            raise value
        return value


def local_bench(kinds: Sequence[Kind], trade: Trade, names: Sequence[str] = ()) -> ManyBench:
    """Open a bench of worker processes, one a kind of bench; `gpus_named` gives those of GPUs.

    A worker that ends is started again; what it had is measured elsewhere meanwhile.

    Args:
        kinds: what each worker opens.
        trade: what the driver gives; its log gets every outcome.
        names: of the workers, in messages.

    Raises:
        InputError: no kind is given.
        SolkitError: a bench cannot be opened.
    """
    if not kinds:
        raise InputError("no GPU is named: a bench of several needs one")
    labels = [*names, *(f"worker {n + 1}" for n in range(len(names), len(kinds)))]
    benches = _open_benches(
        [partial(ProcessLink, *pair) for pair in zip(kinds, labels, strict=True)], trade
    )
    with contextlib.ExitStack() as stack:
        for bench in benches:
            stack.callback(bench.close)
        many = ManyBench(benches, log=trade.log, tell=trade.tell)
        stack.pop_all()
    return many


def _open_benches(links: Sequence[Callable[[], ProcessLink]], trade: Trade) -> list[RemoteBench]:
    """Open a bench for each worker. They start at once: each takes many seconds to load torch."""
    starting = ThreadPoolExecutor(len(links), thread_name_prefix="solkit-worker")
    begun = [starting.submit(RemoteBench, link, trade) for link in links]
    try:
        return [future.result() for future in begun]
    except BaseException:  # those that are still starting are closed once they have started
        for future in begun:
            future.add_done_callback(_close_when_open)
        raise
    finally:
        starting.shutdown(wait=False)


def _close_when_open(opened: Future[RemoteBench]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()


def gpus_named(kind: Trusted | Guarded, named: str) -> tuple[list[Kind], list[str]]:
    """Return the kinds of bench for GPUs of this machine, with their names.

    Compiling cores are shared out among trusted ones.

    Args:
        kind: for each GPU.
        named: ``"all"``, a number of GPUs, or places such as ``"cuda:0,cuda:2"``.

    Raises:
        InputError: `named` is none of these, or names a GPU twice.
        UnsupportedError: this machine has no GPU, or fewer.
        UnknownDeviceError: a place or its GPU is unknown.
    """
    devices = _select_devices(named)
    share = max(((os.cpu_count() or 2) - len(devices)) // len(devices), 1)
    kinds: list[Kind] = []
    for device in devices:
        assert device.uuid is not None
        own = replace(kind, gpu=device.uuid)
        if isinstance(own, Trusted) and not own.workers:
            own = replace(own, workers=share)
        kinds.append(own)
    return kinds, [f"{device.name} ({(device.uuid or '')[:12]})" for device in devices]


def _select_devices(named: str) -> list[Device]:
    from solkit.roofline.nvml import live_device, live_devices

    if named == "all" or named.isdecimal():
        devices = list(live_devices())
        count = len(devices) if named == "all" else int(named)
        if not 0 < count <= len(devices):
            raise UnsupportedError(f"--gpus {named}: this machine has {len(devices)} GPUs")
        return devices[:count]
    places = [place.strip() for place in named.split(",")]
    if len(set(places)) < len(places) or not all(place.startswith("cuda") for place in places):
        raise InputError(
            f"--gpus {named}: expected 'all', a number, or places such as 'cuda:0,cuda:2', "
            "each once"
        )
    return [live_device(MeasureSettings(on=place).gpu_index) for place in places]


def serve(descriptor: int) -> None:
    """Answer requests in the worker until the driver hangs up."""
    channel = Channel.of(descriptor, trusting=True)

    def receive_request() -> Any:
        return pickle.loads(channel.receive().payload)

    def send_answer(done: bool, value: object) -> None:
        channel.send({}, pickle.dumps((done, value)))

    try:
        server = BenchServer(receive_request())
    except Exception as error:
        send_answer(False, make_portable(error))
        return
    try:
        send_answer(True, None)
        while True:
            send_answer(*answer_request(server, *receive_request()))
    except ClosedError:
        pass  # the driver closed the channel, or has ended
    finally:
        server.close()
        sys.stdout.flush()
        os._exit(0)  # threads of a bench may still be timing
