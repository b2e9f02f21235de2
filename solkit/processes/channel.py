"""Frames over a local socket: a JSON header, a byte payload, and file descriptors.

The candidate's code runs at one end, so from there only JSON of bounded length is accepted: no
pickle, no descriptors. The trusted end may send all three.
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

_PREFIX = struct.Struct("!II")  # lengths of header and payload
_MOST_HEADER_BYTES = 4 << 20  # enough for the description of a candidate's launches
_MOST_DESCRIPTORS = 8
_PART = 1 << 20


class ClosedError(Exception):
    """The other end closed the socket."""


class NonsenseError(Exception):
    """The received data is not a frame or is too long."""


@dataclass(frozen=True)
class Frame:
    """One message.

    Attributes:
        header: the message.
        payload: its bytes.
        descriptors: open files sent with it; the receiver closes them.
    """

    header: dict[str, Any]
    payload: bytes = b""
    descriptors: tuple[int, ...] = ()


class Channel:
    """One end of a socket.

    Args:
        end: the socket; the channel sets its timeout.
        trusting: whether to accept payloads and descriptors from the other end.
    """

    def __init__(self, end: socket.socket, *, trusting: bool) -> None:
        self._socket, self._trusting = end, trusting

    @classmethod
    def of(cls, descriptor: int, *, trusting: bool) -> Channel:
        """Return the channel of an inherited or received descriptor, which it then owns."""
        return cls(socket.socket(fileno=descriptor), trusting=trusting)

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def detach(self) -> int:
        """Return the socket's descriptor, which the caller owns then."""
        return self._socket.detach()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def is_waiting(self, timeout_s: float) -> bool:
        """Tell whether a frame arrives, or the other end closes, within that time."""
        return is_readable(self._socket, timeout_s)

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
            TimeoutError: it did not receive the frame in time.
        """
        head = json.dumps(header).encode()
        data = memoryview(_PREFIX.pack(len(head), len(payload)) + head + payload)
        ancillary = [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors).tobytes())
        ]
        deadline = _deadline_after(timeout_s)
        try:
            self._socket.settimeout(_remaining_s(deadline))
            sent = self._socket.sendmsg([data[:_PART]], ancillary if descriptors else [])
            while sent < len(data):
                self._socket.settimeout(_remaining_s(deadline))
                sent += self._socket.send(data[sent : sent + _PART])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ClosedError from error

    def receive(self, timeout_s: float | None = None) -> Frame:
        """Return the next frame.

        Raises:
            ClosedError: the other end is gone.
            NonsenseError: the data is not an acceptable frame.
            TimeoutError: no frame came in time.
        """
        deadline = _deadline_after(timeout_s)
        descriptors: list[int] = []
        head_size, payload_size = _PREFIX.unpack(
            self._read_bytes(_PREFIX.size, deadline, descriptors)
        )
        if head_size > _MOST_HEADER_BYTES or (payload_size and not self._trusting):
            raise NonsenseError(f"a frame of {head_size} and {payload_size} bytes")
        head = self._read_bytes(head_size, deadline, descriptors)
        payload = self._read_bytes(payload_size, deadline, descriptors)
        try:
            header = json.loads(head)
        except ValueError as error:
            raise NonsenseError(f"invalid JSON: {head[:200]!r}") from error
        if not isinstance(header, dict):
            raise NonsenseError(f"not an object: {head[:200]!r}")
        return Frame(header, payload, tuple(descriptors))

    def _read_bytes(self, size: int, deadline: float | None, descriptors: list[int]) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._socket.settimeout(_remaining_s(deadline))
            part_bytes = min(size - len(parts), _PART)
            try:
                part = self._receive_some(part_bytes, descriptors)
            except ConnectionResetError as error:
                raise ClosedError from error
            if not part:
                raise ClosedError
            parts += part
        return bytes(parts)

    def _receive_some(self, size: int, descriptors: list[int]) -> bytes:
        if not self._trusting:
            return self._socket.recv(size)  # the system closes descriptors that nobody requests
        part, files, _, _ = socket.recv_fds(self._socket, size, _MOST_DESCRIPTORS)
        descriptors += files
        return part


def connected_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a socket that children inherit only on request."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def is_readable(end: socket.socket, timeout_s: float) -> bool:
    """Tell whether a socket has data, or the other end closes, within that time."""
    poll = select.poll()
    poll.register(end, select.POLLIN)
    return bool(poll.poll(max(timeout_s, 0.0) * 1e3))


def _deadline_after(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s


def _remaining_s(deadline: float | None) -> float | None:
    """Remaining seconds; raises instead of returning 0, which makes a socket non-blocking."""
    if deadline is None:
        return None
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError
    return remaining_s
