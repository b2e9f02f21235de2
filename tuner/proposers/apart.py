"""A proposer in a process of its own.

Writing variants takes seconds of Python. In the process of a search that would hold up all of its
threads: those that rank, study and measure.

::

    propose(brief) ──► process ── the proposer's generator
        │ ▲               │ ▲
        │ └── a variant ──┘ │ one more
        └───────────────────┘
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import traceback
from collections.abc import Iterator

from solkit.core import Brief, Proposal
from solkit.errors import SolkitError, WorkerError
from solkit.processes.channel import Channel, ClosedError
from solkit.processes.forkserver import Fork, ForkServer
from solkit.processes.host import Host
from solkit.processes.priority import lower_priority
from solkit.tuner.proposers._base import Proposer

_LIMIT_S = 120.0
"""Seconds for one variant: the slowest known take 12."""


class Apart:
    """A proposer that runs in a process for each brief, and only as far as variants are taken.

    Where no process can be started it runs here. One that dies has written its last variant, which
    is followed by a `solkit.errors.WorkerError`.

    Args:
        proposer: picklable.
    """

    def __init__(self, proposer: Proposer) -> None:
        self.name, self._proposer = proposer.name, proposer
        self._server = ForkServer(f"{__name__}:warm_up", {})

    def start(self) -> None:
        """Load what the processes need, while something else is done."""
        self._server.start()

    def close(self) -> None:
        """End all processes."""
        self._server.close()

    def propose(self, brief: Brief) -> Iterator[Proposal]:
        """See `Proposer.propose`."""
        job = pickle.dumps((self._proposer, brief))

        def begin(descriptor: int) -> Fork:
            function = f"{__name__}:serve"
            return self._server.fork(function, (job,), env=os.environ, descriptors=(descriptor,))

        try:
            host = Host(begin, "writing variants")
        except (WorkerError, OSError):
            yield from self._proposer.propose(brief)
            return
        with contextlib.closing(host):
            while (proposal := _next_proposal(host)) is not None:
                yield proposal


def _next_proposal(host: Host[Fork]) -> Proposal | None:
    frame = host.call({"next": True}, limit_s=_LIMIT_S)
    answer: Proposal | SolkitError | None = pickle.loads(frame.payload)
    if isinstance(answer, SolkitError):
        raise answer
    return answer


def warm_up() -> None:
    """Load what the rewriter needs, in the server that forks these processes."""
    with contextlib.suppress(ImportError):  # of libcst: the rewriter says so
        importlib.import_module("solkit.tuner.proposers.rewriter._all")


def serve(job: bytes, descriptor: int) -> None:
    """Give a variant for each request, then nothing, until the other end closes."""
    channel = Channel.of(descriptor, trusting=True)
    proposer, brief = pickle.loads(job)
    if brief.device.source == "nvml":  # candidates may be measured meanwhile
        lower_priority(is_awaited=True)
    with contextlib.suppress(ClosedError):
        channel.receive()
        try:
            for proposal in proposer.propose(brief):
                channel.send({"given": True}, pickle.dumps(proposal))
                channel.receive()
            channel.send({"given": False}, pickle.dumps(None))
        except SolkitError as error:
            channel.send({"given": False}, pickle.dumps(error))
        except Exception as error:  # a fault of ours, which must not look like an end
            traceback.print_exc()
            fault = WorkerError(f"writing variants raised {type(error).__name__}: {error}")
            channel.send({"given": False}, pickle.dumps(fault))
