"""Heads of the kernels of a PTX text: their parameters, and how they must be launched.

Source: PTX ISA 8.7, kernel function directives and performance-tuning directives.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_HEAD = re.compile(r"\.entry\s+([\w$.]+)\s*(?:\(([^)]*)\))?([^{;]*)\{")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.([a-z]+)(\d+)[^,]*?([\w$%]+)\s*(?:\[\s*(\d+)\s*\])?$"
)


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter.

    Attributes:
        name: in PTX.
        size_bytes: of it.
        is_struct: whether it is a struct or class, passed as bytes.
        alignment_bytes: of its address.
    """

    name: str
    size_bytes: int
    is_struct: bool
    alignment_bytes: int = 8


@dataclass(frozen=True)
class Entry:
    """The head of a kernel.

    Attributes:
        parameters: in order.
        threads: of a block in x, y and z, if it must have so many; else ``None``.
        cluster: blocks of a cluster, likewise.
        body_start: the place in the text behind the brace that opens its code.
    """

    parameters: tuple[Parameter, ...]
    threads: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    body_start: int


@functools.lru_cache(maxsize=8)
def entries_of(ptx: str) -> Mapping[str, Entry]:
    """Return the kernels of a text by name, in their order."""
    return {
        head[1]: Entry(
            tuple(_parameters(_COMMENT.sub(" ", head[2] or ""))),
            _axes("reqntid", head[3]),
            _axes("reqnctapercluster", head[3]),
            head.end(),
        )
        for head in _HEAD.finditer(ptx)
    }


def _parameters(text: str) -> Iterator[Parameter]:
    for part in text.split(","):
        match = _PARAMETER.search(part.strip())
        if match:
            alignment, _, bits, name, length = match.groups()
            width = int(bits) // 8
            aligned = int(alignment or width)
            yield Parameter(name, width * int(length or 1), length is not None, aligned)


def _axes(directive: str, text: str) -> tuple[int, int, int] | None:
    required = re.search(rf"\.{directive}\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", text)
    if required is None:
        return None
    x, y, z = (int(number or 1) for number in required.groups())
    return x, y, z
