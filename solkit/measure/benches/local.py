"""Several GPUs of this machine: a worker process for each."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from solkit.core import Device, MeasureSettings
from solkit.errors import InputError, UnsupportedError, WorkerError
from solkit.measure.benches.hosting import Guarded, Host, Kind, Trusted, call, portable
from solkit.measure.benches.multi_gpu import ManyBench
from solkit.measure.benches.remote import RemoteBench, Trade
from solkit.processes.jobs import ending

__all__ = ["ProcessLink", "gpus_named", "local_bench"]

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
        spawned = multiprocessing.get_context("spawn")
        self._connection, other = spawned.Pipe()
        # no daemon: benches start processes of their own; it ends when the pipe closes
        self.process = spawned.Process(target=_serve, args=(other, kind), daemon=False)
        self.process.start()
        other.close()
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the worker's `Host`."""
        try:
            self._connection.send((method, args))
        except OSError:
            raise WorkerError(self._ended()) from None
        return self._answer()

    def close(self) -> None:
        """End the worker: it has a moment to end its own processes."""
        with contextlib.suppress(OSError):
            self._connection.close()
        self.process.join(_END_S)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()

    def _answer(self) -> Any:
        try:
            if not self._connection.poll(self._limit_s):
                self.process.kill()
                raise WorkerError(f"{self.name}: its worker did not answer for {self._limit_s:g} s")
            done, value = self._connection.recv()
        except (EOFError, OSError):
            raise WorkerError(self._ended()) from None
        if not done:
            raise value
        return value

    def _ended(self) -> str:
        self.process.join(_END_S)
        code = self.process.exitcode
        return f"{self.name}: " + ("its worker hung up" if code is None else ending(code))


def local_bench(kinds: Sequence[Kind], trade: Trade, names: Sequence[str] = ()) -> ManyBench:
    """A bench of worker processes, one for each kind of bench; `gpus_named` gives those of GPUs.

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
    told = [*names, *(f"worker {n + 1}" for n in range(len(names), len(kinds)))]
    benches = _opened(
        [partial(ProcessLink, *each) for each in zip(kinds, told, strict=True)], trade
    )
    with contextlib.ExitStack() as stack:
        for bench in benches:
            stack.callback(bench.close)
        many = ManyBench(benches, log=trade.log, tell=trade.tell)
        stack.pop_all()
    return many


def _opened(links: Sequence[Callable[[], ProcessLink]], trade: Trade) -> list[RemoteBench]:
    """A bench for each worker. They start at once: each takes many seconds to load torch."""
    starting = ThreadPoolExecutor(len(links), thread_name_prefix="solkit-worker")
    begun = [starting.submit(RemoteBench, link, trade) for link in links]
    try:
        return [each.result() for each in begun]
    except BaseException:  # those that are still starting are closed once they have started
        for each in begun:
            each.add_done_callback(_close)
        raise
    finally:
        starting.shutdown(wait=False)


def _close(opened: Future[RemoteBench]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()


def gpus_named(kind: Trusted | Guarded, named: str) -> tuple[list[Kind], list[str]]:
    """The kinds of bench for GPUs of this machine, with their names.

    Compiling cores are shared out among trusted ones.

    Args:
        kind: for each GPU.
        named: ``"all"``, a number of GPUs, or places such as ``"cuda:0,cuda:2"``.

    Raises:
        InputError: `named` is none of these, or names a GPU twice.
        UnsupportedError: this machine has no GPU, or fewer.
        UnknownDeviceError: a place or its GPU is unknown.
    """
    devices = _named(named)
    share = max(((os.cpu_count() or 2) - len(devices)) // len(devices), 1)
    kinds: list[Kind] = []
    for device in devices:
        assert device.uuid is not None
        own = replace(kind, gpu=device.uuid)
        if isinstance(own, Trusted) and not own.workers:
            own = replace(own, workers=share)
        kinds.append(own)
    return kinds, [f"{each.name} ({(each.uuid or '')[:12]})" for each in devices]


def _named(named: str) -> list[Device]:
    from solkit.roofline.nvml import live_device, live_devices

    if named == "all" or named.isdecimal():
        found = list(live_devices())
        wanted = len(found) if named == "all" else int(named)
        if not 0 < wanted <= len(found):
            raise UnsupportedError(f"--gpus {named}: this machine has {len(found)} GPUs")
        return found[:wanted]
    places = [each.strip() for each in named.split(",")]
    if len(set(places)) < len(places) or not all(each.startswith("cuda") for each in places):
        raise InputError(
            f"--gpus {named}: expected 'all', a number, or places such as 'cuda:0,cuda:2', "
            "each once"
        )
    return [live_device(MeasureSettings(on=each).gpu_index) for each in places]


def _serve(connection: Connection, kind: Kind) -> None:
    """In the worker: answer requests until the driver hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the driver ends this process
    try:
        host = Host(kind)
    except Exception as error:
        connection.send((False, portable(error)))
        return
    connection.send((True, None))
    try:
        while True:
            method, args = connection.recv()
            connection.send(call(host, method, args))
    except (EOFError, OSError):
        pass  # the caller has closed the pipe, or has ended
    finally:
        host.close()
        sys.stdout.flush()
        os._exit(0)  # threads of a bench may still be timing
