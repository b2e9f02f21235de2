"""Read JSON larger than memory: the members of an object, and its list of events, in parts.

A trace of 100 MB has about 10^6 small objects in one list. Python's decoder can read one value from
the middle of a text, so only a window that slides over the file is in memory.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from solkit.errors import InputError

_CHUNK = 1 << 20
_LARGEST = 1 << 26
"""The most characters of one value: a longer one is the rest of a damaged file."""
_GZIP_MAGIC = b"\x1f\x8b"
_BLANK = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


def read_members(path: str, listed: str) -> Iterator[tuple[str, Any]]:
    """Yield the members of the object in a JSON file, one after the other.

    The file may be gzip or plain text, under any name. The member `listed` is a long list: each of
    its items comes separately, under its name.

    Yields:
        Name and value. A file that is a bare list counts as that member.

    Raises:
        InputError: the file cannot be read, is not a JSON object or list, or is truncated.
    """
    try:
        with _open_trace(path) as file:
            yield from _Window(file, path).iterate_members(listed)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot read {path}: {why}") from error


def _open_trace(path: str) -> IO[str]:
    with Path(path).open("rb") as file:
        is_gzip = file.read(2) == _GZIP_MAGIC
    if is_gzip:
        return gzip.open(path, "rt", encoding="utf-8")
    return Path(path).open(encoding="utf-8")


class _Window:
    """A part of the text: values are taken from its front, and the file refills it."""

    def __init__(self, file: IO[str], path: str) -> None:
        self._file, self._path = file, path
        self._text = ""
        self._at = 0  # of the next character to look at
        self._ended = False
        self._items = 0

    def iterate_members(self, listed: str) -> Iterator[tuple[str, Any]]:
        opening = self._peek_character()
        if opening == "[":
            yield from ((listed, item) for item in self._read_list())
            return
        if opening != "{":
            raise InputError(f"{self._path}: expected a JSON object, found {opening!r}")
        for _ in self._iterate_separated("}"):
            name = self._read_value()
            self._expect_character(":")
            if name == listed and self._peek_character() == "[":
                yield from ((name, item) for item in self._read_list())
            else:
                yield name, self._read_value()

    def _read_list(self) -> Iterator[Any]:
        for _ in self._iterate_separated("]"):
            value = self._read_value()
            self._items += 1
            yield value

    def _iterate_separated(self, closing: str) -> Iterator[None]:
        """Stop at each member or item, up to the closing bracket."""
        self._at += 1
        while self._peek_character() != closing:
            yield
            if self._peek_character() != closing:
                self._expect_character(",")
        self._at += 1

    def _expect_character(self, character: str) -> None:
        actual = self._peek_character()
        if actual != character:
            wrong = f"expected {character!r}, found {actual!r}"
            raise InputError(f"{self._path}: {wrong}{self._describe_place()}")
        self._at += 1

    def _peek_character(self) -> str:
        """Return the next non-blank character."""
        while True:
            self._at = _BLANK.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            self._fill_window()

    def _read_value(self) -> Any:
        """Return the next value, complete: a number may continue behind the window."""
        self._peek_character()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise InputError(
                    f"{self._path}: nested too deeply{self._describe_place()}"
                ) from error
            except json.JSONDecodeError as error:
                if self._ended or len(self._text) - self._at > _LARGEST:
                    raise InputError(
                        f"{self._path}: {error.msg}{self._describe_place()}"
                    ) from error
            else:
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            self._fill_window(len(self._text) - self._at)

    def _fill_window(self, least: int = 0) -> None:
        """Drop what was taken and read on; an incomplete value doubles the window."""
        more = self._file.read(max(_CHUNK, least))
        if not more and self._ended:
            raise InputError(f"{self._path}: the file is cut off{self._describe_place()}")
        self._ended = not more
        self._text = self._text[self._at :] + more
        self._at = 0

    def _describe_place(self) -> str:
        return f" after {self._items:,} events" if self._items else ""
