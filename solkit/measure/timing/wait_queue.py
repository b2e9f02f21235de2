"""Order of processes that wait for a lock: each locks one byte of a file, the place where it came.

A byte's number is the time of arrival, in nanoseconds since the machine started, which all its
processes share. The locks belong to an open file (fcntl(2), ``F_OFD_SETLK``): they end with the
waiter, however it ends, so no place is left behind. Nothing is written into the file.
"""

from __future__ import annotations

import errno
import fcntl
import struct
import time

_GETLK, _SETLK = 36, 37  # F_OFD_GETLK and F_OFD_SETLK: a Python for old systems lacks the names
_FORMAT = "hhqqi4x"
"""``struct flock`` of 64-bit Linux: type, whence, start, length (0: up to the end), process."""


def join_queue(file: int) -> int | None:
    """Return the place of a new waiter, behind all others; it is left by closing the file.

    Args:
        file: a descriptor of the queue's file that nobody else uses, open for writing.

    Returns:
        ``None`` where the system has no such locks: then nobody waits in turn.
    """
    place = time.monotonic_ns()
    while True:
        try:
            _lock_bytes(file, _SETLK, place, 1)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                return None
            place += 1  # another one came in the same nanosecond
        else:
            return place


def is_first(file: int, place: int) -> bool:
    """Tell whether nobody waits at an earlier place."""
    return not _is_locked(file, 1, place - 1)


def has_waiter(file: int) -> bool:
    """Tell whether anybody waits, but whoever joined by this descriptor."""
    return _is_locked(file, 1, 0)


def _is_locked(file: int, start: int, length: int) -> bool:
    try:
        return _lock_bytes(file, _GETLK, start, length) != fcntl.F_UNLCK
    except OSError:
        return False


def _lock_bytes(file: int, command: int, start: int, length: int) -> int:
    """Lock bytes, or query who does; returns the type of the lock in the way."""
    wish = struct.pack(_FORMAT, fcntl.F_WRLCK, 0, start, length, 0)
    answer = struct.unpack(_FORMAT, fcntl.fcntl(file, command, wish))
    return int(answer[0])
