"""A key that no candidate, log or record can read.

Candidates run in children of this process, which inherit its environment. So the key is taken out
of the environment before the first child starts, and its bytes there are overwritten, because
``/proc/<pid>/environ`` shows them even after ``unsetenv``. What remains is this process's memory,
which a candidate outside the sandbox (`solkit.processes.sandbox`) may be able to trace.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

from solkit.errors import InputError

_SECRET_LENGTH = 8  # shorter ones ("none", "EMPTY") are placeholders, and words of honest texts
_MASK = "[key]"

_taken: dict[str, Key] = {}


class Key:
    """A key whose text shows only on request."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal_key(self) -> str:
        """Return the key itself: for the request's header alone."""
        return self._text

    def hide_in(self, text: str) -> str:
        """Return a text with the key masked."""
        return text.replace(self._text, _MASK) if len(self._text) >= _SECRET_LENGTH else text

    def __repr__(self) -> str:
        return f"Key({_MASK})"

    def __reduce__(self) -> str:
        raise TypeError("a key stays in its process")


def take_key(variable: str) -> Key | None:
    """Take the key from an environment variable, and remove it for this process and children.

    A later call for the same variable gives the same key, unless the variable was set anew.

    Returns:
        ``None`` if the variable is not set, or empty.

    Raises:
        InputError: the key cannot be sent in a header.
    """
    text = os.environ.get(variable, "").strip()
    if text:
        _erase_variable(variable)
        if not (text.isascii() and text.isprintable()):
            raise InputError(f"the key in {variable} has characters that no HTTP header may have")
        _taken[variable] = Key(text)
    return _taken.get(variable)


def _erase_variable(variable: str) -> None:
    with contextlib.suppress(OSError, AttributeError, ValueError):
        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_void_p
        place = libc.getenv(variable.encode())
        if place:
            ctypes.memset(place, ord("*"), len(ctypes.string_at(place)))
    os.environ.pop(variable, None)
