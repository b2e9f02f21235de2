"""Frames over a local socket: a header in JSON, bytes behind it, and file descriptors.

The candidate's code runs at one end, so what comes from there is JSON of a bounded length and
nothing else: no pickle, no descriptors. The trusted end may send all three.
"""

from __future__ import annotations

import array
import json
import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Channel", "ClosedError", "Frame", "NonsenseError", "pair"]

_PREFIX = struct.Struct("!II")  # lengths of the header and of the bytes behind it
_MOST_HEADER_BYTES = 4 << 20  # the launches of a candidate, described at length
_MOST_DESCRIPTORS = 8
_PART = 1 << 20


class ClosedError(Exception):
    """The other end is gone."""


class NonsenseError(Exception):
    """What came is no frame, or is longer than may come."""


@dataclass(frozen=True)
class Frame:
    """What was sent at once.

    Attributes:
        header: the message.
        payload: bytes that belong to it.
        descriptors: open files that came along; the receiver's to close.
    """

    header: dict[str, Any]
    payload: bytes = b""
    descriptors: tuple[int, ...] = ()


class Channel:
    """One end of a socket.

    Args:
        end: the socket, whose timeout the channel sets as it needs.
        trusting: whether payloads and descriptors are taken from the other end.
    """

    def __init__(self, end: socket.socket, *, trusting: bool) -> None:
        self._socket, self._trusting = end, trusting

    @classmethod
    def of(cls, descriptor: int, *, trusting: bool) -> Channel:
        """The channel behind an inherited or received descriptor, which it owns from now on."""
        return cls(socket.socket(fileno=descriptor), trusting=trusting)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def is_waiting(self, timeout_s: float) -> bool:
        """Whether there is something to receive, or the other end gone, within that time."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(max(timeout_s, 0.0) * 1e3))

    def send(
        self,
        header: Mapping[str, Any],
        payload: bytes = b"",
        descriptors: Sequence[int] = (),
        timeout_s: float | None = None,
    ) -> None:
        """Send a frame.

        Raises:
            ClosedError: the other end is gone.
            TimeoutError: it did not take the frame in time.
        """
        head = json.dumps(header).encode()
        data = memoryview(_PREFIX.pack(len(head), len(payload)) + head + payload)
        ancillary = [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors).tobytes())
        ]
        deadline = _deadline(timeout_s)
        try:
            self._socket.settimeout(_left(deadline))
            sent = self._socket.sendmsg([data[:_PART]], ancillary if descriptors else [])
            while sent < len(data):
                self._socket.settimeout(_left(deadline))
                sent += self._socket.send(data[sent : sent + _PART])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ClosedError from error

    def receive(self, timeout_s: float | None = None) -> Frame:
        """The next frame.

        Raises:
            ClosedError: the other end is gone.
            NonsenseError: what came is no frame that may come here.
            TimeoutError: it did not come in time.
        """
        deadline = _deadline(timeout_s)
        descriptors: list[int] = []
        head_size, payload_size = _PREFIX.unpack(self._read(_PREFIX.size, deadline, descriptors))
        if head_size > _MOST_HEADER_BYTES or (payload_size and not self._trusting):
            raise NonsenseError(f"a frame of {head_size} and {payload_size} bytes")
        head = self._read(head_size, deadline, descriptors)
        payload = self._read(payload_size, deadline, descriptors)
        try:
            header = json.loads(head)
        except ValueError as error:
            raise NonsenseError(f"no JSON: {head[:200]!r}") from error
        if not isinstance(header, dict):
            raise NonsenseError(f"no object: {head[:200]!r}")
        return Frame(header, payload, tuple(descriptors))

    def _read(self, size: int, deadline: float | None, descriptors: list[int]) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._socket.settimeout(_left(deadline))
            wanted = min(size - len(parts), _PART)
            try:
                part = self._receive_some(wanted, descriptors)
            except ConnectionResetError as error:
                raise ClosedError from error
            if not part:
                raise ClosedError
            parts += part
        return bytes(parts)

    def _receive_some(self, size: int, descriptors: list[int]) -> bytes:
        if not self._trusting:
            return self._socket.recv(size)  # the system drops descriptors that nobody asks for
        part, files, _, _ = socket.recv_fds(self._socket, size, _MOST_DESCRIPTORS)
        descriptors += files
        return part


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a socket that no child inherits unless told to."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s


def _left(deadline: float | None) -> float | None:
    """Seconds that are left; never 0, by which a socket means not to wait at all.

    Raises:
        TimeoutError: none are.
    """
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
