"""The source files of a report, as they are when the report is written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from solkit.core import Report

_MOST_BYTES = 2**18  # the text of longer files is left out


@dataclass(frozen=True)
class Source:
    """A file of user code.

    Attributes:
        path: as the report names it.
        sha256: of its bytes, in hexadecimal.
        text: ``None`` if the file is longer than 256 KiB or is not UTF-8.
    """

    path: str
    sha256: str
    text: str | None


def sources_of(report: Report) -> tuple[Source, ...]:
    """Return the files of the candidate, its CUDA C++ and the problem, without missing ones."""
    paths = dict.fromkeys(_paths_of_sources(report))
    by_resolved = {Path(path).resolve(): path for path in reversed(paths)}
    return tuple(
        _read_source(path) for path in reversed(by_resolved.values()) if Path(path).is_file()
    )


def _paths_of_sources(report: Report) -> Iterator[str]:
    yield report.kernel.path
    yield report.kernel.problem.path
    for result in report.results:
        yield from result.analysis.files


def _read_source(path: str) -> Source:
    data = Path(path).read_bytes()
    return Source(path, hashlib.sha256(data).hexdigest(), _decode_source(data))


def _decode_source(data: bytes) -> str | None:
    if len(data) > _MOST_BYTES:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
