"""The source files of a report, as they are when it is written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from solkit.core import Report

__all__ = ["Source", "sources_of"]

_MOST_BYTES = 2**18  # longer files are named, not copied


@dataclass(frozen=True)
class Source:
    """A file of user code.

    Attributes:
        path: as the report names it.
        sha256: of its bytes, in hexadecimal.
        text: what it says; ``None`` where it is longer than 256 KiB or no UTF-8.
    """

    path: str
    sha256: str
    text: str | None


def sources_of(report: Report) -> tuple[Source, ...]:
    """The candidate's file, the problem's, and those of the candidate's CUDA C++.

    A file that is not there any more is left out: a report may outlive its kernel.
    """
    paths = dict.fromkeys(_paths(report))
    known = {Path(path).resolve(): path for path in reversed(paths)}
    return tuple(_read(path) for path in reversed(known.values()) if Path(path).is_file())


def _paths(report: Report) -> Iterator[str]:
    yield report.kernel.path
    yield report.kernel.problem.path
    for result in report.results:
        yield from result.analysis.files


def _read(path: str) -> Source:
    data = Path(path).read_bytes()
    return Source(path, hashlib.sha256(data).hexdigest(), _text(data))


def _text(data: bytes) -> str | None:
    if len(data) > _MOST_BYTES:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
