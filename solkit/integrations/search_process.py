"""The search of `solkit.compile`, in a process of its own.

A search starts processes and threads, locks the GPU and waits: nothing of that belongs into the
user's program. One process does it all, and may load while the model is compiled. When its time is
over, or the program ends, it ends with all that it started.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from solkit.core import BatchSettings, MeasureSettings
from solkit.errors import JobDiedError, SolkitError, WorkerError
from solkit.processes.channel import Channel, ClosedError
from solkit.processes.host import OWN_PYTHON, Host, Program
from solkit.processes.startup import STARTERS

if TYPE_CHECKING:
    from solkit.core import BatchStatus
    from solkit.core.tuned import TunedFolder
    from solkit.pipeline.batch import BatchProcesses

_WORTH: dict[str, Any] = {
    "prior": False,
    "stop_at": 1 / 1.3,
    "least_gain": 3e-3,
    "least_share": 0.01,
}
"""What a program waits for: kernels over 1.3 times the speed of light, of a hundredth of the time
of all Triton kernels each, and no ranks, which took longer than the search (decision 82)."""
_SEARCHING = 0.8
"""The share of the time limit after which a search ends, so that its finals can follow."""


class SearchProcess:
    """A process that tunes a recording; it loads at once what it needs.

    Args:
        on: the GPU, e.g. ``"cuda:1"``; ``None`` for the first.
    """

    def __init__(self, on: str | None) -> None:
        self._on = on
        self._host: Host[Program] | None = Host(self._start, "tuning")
        atexit.register(self.close)
        _searches.add(self)

    def _start(self, descriptor: int) -> Program:
        code = f"from {__name__} import main; main({descriptor}, {self._on!r})"
        variables = {**_environment(), "PYTHONPATH": OWN_PYTHON.path()}
        return Program(OWN_PYTHON.command(code), env=variables, descriptors=(descriptor,))

    def tune(self, folder: str, extended: TunedFolder | None, gpu_s: float, limit_s: float) -> bool:
        """Tune a recording by `solkit.batch`, which writes the tuned folder.

        Args:
            folder: of the recording.
            extended: what is tuned already.
            gpu_s: GPU seconds to spend.
            limit_s: seconds after which the process is killed.

        Returns:
            Whether the time was over before all was searched.

        Raises:
            WorkerError: nothing could be tuned, or not in time; the message says why.
        """
        if self._host is None:
            raise WorkerError("the search was closed, or is that of the program that forked this")
        how = BatchSettings(on=self._on, extended=extended, **_WORTH)
        payload = pickle.dumps(how)
        header = {
            "folder": folder,
            "gpu_s": gpu_s,
            "until_s": time.monotonic() + _SEARCHING * limit_s,
            "path": sys.path,
            "environment": _environment(),
        }
        try:
            answer: Mapping[str, Any] = self._host.call(header, payload, limit_s=limit_s).header
        except JobDiedError as error:
            if not error.timed_out:
                raise WorkerError(f"the search failed: {error}") from error
            answer = {"over": True}
        if "over" in answer:
            raise WorkerError(f"the search did not end within {limit_s:g} s (wall_seconds)")
        if "error" in answer:
            raise WorkerError(answer["error"])
        return bool(answer["interrupted"])

    def close(self) -> None:
        """End the process and all that it started."""
        atexit.unregister(self.close)
        host, self._host = self._host, None
        if host is not None:
            host.close()

    def forget(self) -> None:
        """Drop it in a fork of the program, which owns it: it ends with the program alone."""
        atexit.unregister(self.close)
        host, self._host = self._host, None
        if host is not None:
            host.hang_up()


_searches: weakref.WeakSet[SearchProcess] = weakref.WeakSet()


def _forget_searches() -> None:
    for search in list(_searches):
        search.forget()


os.register_at_fork(after_in_child=_forget_searches)


def _environment() -> dict[str, str]:
    """Return this process's environment, without what SolKit does at a program's start."""
    return {name: value for name, value in os.environ.items() if name not in STARTERS}


# ----------------------------------------------------------------------------- in the process


def main(descriptor: int, on: str | None) -> NoReturn:
    """Load, wait for a request, do it and end; also when the other end closes.

    Args:
        descriptor: of the channel.
        on: the GPU, as for `SearchProcess`.
    """
    channel = Channel.of(descriptor, trusting=True)
    try:
        answer = _answer(channel, on)
    except ClosedError:
        os._exit(0)
    except SolkitError as error:
        answer = {"error": str(error)}
    except KeyboardInterrupt:  # before anything was measured
        answer = {"over": True}
    except Exception as error:  # the model runs on as it is
        answer = {"error": repr(error)}
    channel.send(answer)
    sys.stderr.flush()
    os._exit(0)  # the servers that it started end with it


def _answer(channel: Channel, on: str | None) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        try:
            processes = stack.enter_context(_load(on))
        except Exception:  # an answer before the request would never be read
            channel.receive()
            raise
        frame = channel.receive()
        header = frame.header
        threading.Thread(target=_end_with, args=(channel,), daemon=True).start()
        os.environ.update(header["environment"])
        sys.path[:] = header["path"]
        settings: BatchSettings = pickle.loads(frame.payload)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        left_s = header["until_s"] - time.monotonic()  # a machine has one such clock
        signal.setitimer(signal.ITIMER_REAL, max(left_s, 1e-3))
        result = processes.batch(
            header["folder"],
            gpu_minutes=header["gpu_s"] / 60,
            settings=replace(settings, on=on),
            show=_leave_time_to_finals,
        )
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {"interrupted": result.interrupted}


def _leave_time_to_finals(status: BatchStatus) -> None:
    """Let the time limit of a search interrupt none of its finals, without which nothing counts."""
    if status.stage == "final":
        signal.setitimer(signal.ITIMER_REAL, 0)


def _load(on: str | None) -> BatchProcesses:
    from solkit.pipeline.batch import BatchProcesses
    from solkit.pipeline.target import target_device
    from solkit.processes import jobs

    jobs.start()
    return BatchProcesses(target_device(None, MeasureSettings(on=on)))


def _end_with(channel: Channel) -> None:
    """End this process when the program that asked is gone, or waits no longer."""
    while not channel.is_waiting(60.0):
        pass
    os._exit(1)
