"""A child process that may do anything, and its reliable cleanup."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from solkit.processes.forkserver import Fork, ForkServer, children_of

_KEPT_BYTES = 16 << 10
_READ_S = 10.0  # for what an ended process has printed; the reader may wait for a core
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Child:
    """A process in its own session, with all its descendants.

    Its standard input is empty; the last 16 KiB of its and its children's output are kept.

    Args:
        fork: the process.
        output: the descriptor of what it prints, which this closes.
    """

    def __init__(self, fork: Fork, output: int) -> None:
        self._fork, self._tail = fork, _Tail(output)

    @classmethod
    def start(
        cls,
        server: ForkServer,
        function: str,
        args: tuple[Any, ...] = (),
        *,
        env: Mapping[str, str],
        descriptors: Sequence[int] = (),
        folder: str | None = None,
        loads: Sequence[str] = (),
    ) -> Child:
        """Return a new process; arguments as for `ForkServer.fork`."""
        read, write = os.pipe()
        try:
            fork = server.fork(
                function,
                args,
                env=env,
                descriptors=descriptors,
                output=write,
                folder=folder,
                loads=loads,
            )
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        return cls(fork, read)

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._fork.pid

    @property
    def is_alive(self) -> bool:
        """True if the child is running."""
        return self._fork.is_alive

    def printed_lines(self) -> list[str]:
        """Return the last lines printed since `forget_printed`."""
        return self._tail.kept_text(wait=not self.is_alive).splitlines()

    def forget_printed(self) -> None:
        """Discard the output so far."""
        self._tail.forget()

    def resident_bytes(self) -> int:
        """Host memory of it and its descendants."""
        return family_bytes(self.pid)

    def end(self, grace_s: float = 0.0) -> int:
        """Kill it and its descendants; returns its return code as in `subprocess`.

        Args:
            grace_s: how long to wait for it to end by itself.

        Raises:
            WorkerError: it outlived being killed.
        """
        return self._fork.end(grace_s)


def family_bytes(pid: int) -> int:
    """Return the resident host memory of a process and its descendants."""
    return sum(map(_resident_bytes, _process_family(pid)))


def _process_family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants: none escapes, since it adopts orphans."""
    yield pid
    for child in children_of(pid):
        yield from _process_family(child)


def _resident_bytes(pid: int) -> int:
    try:  # proc(5), statm: the second figure is the resident set, in pages
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


class _Tail:
    """Keeps the end of a stream; reads in the background so that the writer never blocks."""

    def __init__(self, descriptor: int) -> None:
        self._stream = open(descriptor, "rb", buffering=0)  # noqa: SIM115  (the thread closes it)
        self._kept = b""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read_output, daemon=True)
        self._thread.start()

    def kept_text(self, *, wait: bool) -> str:
        """Return the kept output; waits for its end unless another process holds it open."""
        if wait:
            self._thread.join(_READ_S)
        return self._kept.decode(errors="replace")

    def forget(self) -> None:
        with self._lock:
            self._kept = b""

    def _read_output(self) -> None:
        with self._stream as stream:
            while part := stream.read(1 << 16):
                with self._lock:
                    self._kept = (self._kept + part)[-_KEPT_BYTES:]
