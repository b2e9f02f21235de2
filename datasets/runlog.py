"""A run's own file: rows as lines of JSON, on disk before the next are tried.

What collects beside a GPU writes here, with nothing installed but Python; `solkit data import` puts
the rows into a store. A file has one writer, and is only ever appended to. It starts with a line
that names the run; each further one holds a row or a source::

    {"schema": "solkit.run/1", "run_id": "20261121T220000Z-1f0c9a3e", "created": ..., "about": {}}
    {"source": {"sha256": ..., "name": ..., "text": ...}}
    {"row": {"kernel_id": ..., ...}}

A batch that `RunLog.append` came back from is on disk. A line that a crash cut off is told by
`read`, costs no other, and the next batch starts on a line of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import io
import json
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from solkit.datasets.record import Source, TimedConfiguration, from_json, to_json
from solkit.errors import InputError, TraceError

__all__ = ["SCHEMA", "Run", "RunLog", "is_run", "new_run_id", "read", "tried"]

SCHEMA = "solkit.run/1"
_GZIP = b"\x1f\x8b"  # what gzip's files begin with: RFC 1952, 2.3.1


@dataclass(frozen=True)
class Run:
    """What a run's file holds.

    Attributes:
        run_id: the run.
        about: what the writer told of it: its plan, its command.
        rows, sources: in the order written.
        faults: what is wrong with lines that hold neither, a sentence each.
    """

    run_id: str
    about: Mapping[str, Any]
    rows: tuple[TimedConfiguration, ...]
    sources: tuple[Source, ...]
    faults: tuple[str, ...]


def new_run_id() -> str:
    """A name that no other run has: the time in UTC, and chance."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


class RunLog:
    """Writes a run's file; goes on with it where it is there already.

    Args:
        path: the file, ``*.jsonl``; its folder must exist.
        about: what is to be known of the run; kept as it was where the file is there already.

    Attributes:
        run_id: the run that the rows belong to.

    Raises:
        InputError: the file cannot be written, holds something else, or another process writes it.
    """

    def __init__(
        self, path: str | os.PathLike[str], about: Mapping[str, Any] | None = None
    ) -> None:
        self.path = Path(path)
        try:
            self._file = os.open(
                self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666
            )
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {error.strerror}") from error
        try:
            self._lock()
            self.run_id, self._lines = self._start(about or {})
            self._sources = _told_sources(self.path)
        except BaseException:
            os.close(self._file)
            raise

    def append(
        self, rows: Iterable[TimedConfiguration], sources: Iterable[Source] = ()
    ) -> tuple[TimedConfiguration, ...]:
        """Write a batch and have it on disk, all of it or nothing, interrupted or not.

        Of one that is taken back empty lines are left, so that no number is given twice.

        Args:
            rows: what was tried; their `run_id` and `sequence` are given here.
            sources: files that they refer to; those that the run has already are left out.

        Returns:
            The rows as written.

        Raises:
            TraceError: they could not be written; what was there before is.
        """
        new = {each.sha256: each for each in sources if each.sha256 not in self._sources}
        lines = [_line(source=to_json(each)) for each in new.values()]
        first = self._lines + len(lines)
        numbered = tuple(
            replace(row, run_id=self.run_id, sequence=first + i) for i, row in enumerate(rows)
        )
        lines += [_line(row=to_json(row)) for row in numbered]
        self._commit(lines)
        self._sources.update(new)
        return numbered

    def close(self) -> None:
        """Let another process write it. Nothing is waiting to be written."""
        os.close(self._file)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{self.path}: another process writes this run") from None
        except OSError as error:
            raise InputError(f"cannot lock {self.path}: {error.strerror}") from error

    def _start(self, about: Mapping[str, Any]) -> tuple[str, int]:
        """The run's name and how many lines there are, after one for it has been written."""
        with self.path.open("rb") as file:
            head = file.readline()
            lines = 1 + sum(1 for _ in file)  # one that was cut off among them
        if head.endswith(b"\n") or not _is_cut_header(head):
            header = _header(head, self.path)
            _require_whole(header, self.path)
            return header["run_id"], lines
        os.ftruncate(self._file, 0)  # new, or killed before it had a name
        run_id, now = new_run_id(), datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._lines = 0
        self._commit([_line(schema=SCHEMA, run_id=run_id, created=now, about=dict(about))])
        _sync_folder(self.path.parent)
        return run_id, 1

    def _commit(self, lines: list[bytes]) -> None:
        size = os.fstat(self._file).st_size
        cut_off = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        rest = memoryview(b"\n" * cut_off + b"".join(lines))
        try:
            while rest:  # once, but where a disk is nearly full
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
            self._lines += len(lines)
        except BaseException as error:  # an interrupt too, after which the caller may go on
            os.ftruncate(self._file, size)
            self._pass_over(len(lines), cut_off)
            if not isinstance(error, OSError):
                raise
            raise TraceError(
                f"rows could not be written to {self.path}: {error.strerror}; "
                "those before them are there"
            ) from error

    def _pass_over(self, count: int, cut_off: bool) -> None:
        """Leave lines empty: who read rows before they were taken back has seen their numbers."""
        if not self._lines:
            return
        before = os.fstat(self._file).st_size
        try:
            with contextlib.suppress(OSError):
                os.write(self._file, b"\n" * (cut_off + count))
        finally:
            self._lines += max(os.fstat(self._file).st_size - before - cut_off, 0)


def read(path: str | os.PathLike[str], whole: bool = False) -> Run:
    """All that a run's file holds; it may be written meanwhile.

    Args:
        path: the file, maybe gzipped.
        whole: refuse what `tried` wrote: its rows are named as those that they are short for.

    Raises:
        InputError: it cannot be read, or is no run's file.
    """
    path = Path(path)
    rows: list[TimedConfiguration] = []
    sources: list[Source] = []
    faults: list[str] = []
    try:
        with _opened(path) as file:
            head = _header(file.readline(), path)
            if whole:
                _require_whole(head, path)
            for number, line in enumerate(file, 2):
                if not line.strip():
                    continue
                try:
                    found = _decode(line)
                except ValueError as error:
                    faults.append(f"{path}:{number}: {error}")
                    continue
                if isinstance(found, TimedConfiguration):
                    rows.append(found)
                else:
                    sources.append(found)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error  # what gzip raises has none
        raise InputError(f"cannot read {path}: {why}") from error
    return Run(head["run_id"], head.get("about", {}), tuple(rows), tuple(sources), tuple(faults))


def is_run(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a run's own does: one that measured, no more of it is looked at."""
    try:
        with _opened(Path(path)) as file:
            _require_whole(_header(file.readline(), Path(path)), Path(path))
    except (InputError, OSError, EOFError, zlib.error):
        return False
    return True


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[io.BufferedIOBase]:
    """A file's bytes, unpacked where they are gzip's, whatever its name."""
    with path.open("rb") as file:
        if file.peek(len(_GZIP)).startswith(_GZIP):
            with gzip.open(file) as unpacked:
                yield unpacked
        else:
            yield file


def tried(rows: Iterable[TimedConfiguration]) -> str:
    """A run's file that tells which configurations were tried and what became of them, no more.

    It is what a collector needs of earlier runs (``solkit data collect --after``), in a seventh
    of the bytes, with nothing installed but Python. Rows keep their `run_id`.
    """
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    lines = [_line(schema=SCHEMA, run_id=new_run_id(), created=now, about=_IN_SHORT)]
    for row in rows:
        told = {name: getattr(row, name) for name in _TRIED}
        lines.append(_line(row=to_json(TimedConfiguration(**told))))
    return b"".join(lines).decode()


_IN_SHORT = {"holds": "what was tried and its time, no more"}
_TRIED = (
    *("kernel_id", "family", "kind", "origin", "problem_id", "device", "params", "verdict"),
    *("created", "chosen_by", "time_ms", "run_id", "sequence"),
)


def _require_whole(header: Mapping[str, Any], path: Path) -> None:
    if header.get("about") == _IN_SHORT:
        raise InputError(
            f"{path} holds {_IN_SHORT['holds']}, for `solkit data collect --after`: "
            "rows are taken from, and added to, the runs and stores that it was made of"
        )


def _line(**told: Any) -> bytes:
    return json.dumps(told, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _decode(line: bytes) -> TimedConfiguration | Source:
    """The row or source in a line.

    Raises:
        ValueError: there is none; says why.
    """
    try:
        told = json.loads(line)
    except ValueError:
        how = "damaged" if line.endswith(b"\n") else "cut off"
        raise ValueError(f"the line is {how}: {len(line)} bytes that are no JSON") from None
    if isinstance(told, dict) and "row" in told:
        return from_json(TimedConfiguration, told["row"])
    if isinstance(told, dict) and "source" in told:
        return from_json(Source, told["source"])
    raise ValueError("holds neither a row nor a source")


def _is_cut_header(head: bytes) -> bool:
    """Whether a file's only bytes are a part of what its first line begins with."""
    start = _line(schema=SCHEMA, run_id="")[:-3]
    return start.startswith(head[: len(start)])


def _header(head: bytes, path: Path) -> dict[str, Any]:
    try:
        told = json.loads(head)
    except ValueError:
        told = None
    if not isinstance(told, dict) or told.get("schema") != SCHEMA or "run_id" not in told:
        raise InputError(f"{path} is no run's file: its first line is no {SCHEMA}")
    return told


def _told_sources(path: Path) -> set[str]:
    """The hashes of a file's sources that can be read."""
    found = set()
    with path.open("rb") as file:
        for line in file:
            if line.startswith(b'{"source"'):
                try:
                    found.add(_decode(line).sha256)  # type: ignore[union-attr]
                except ValueError:
                    continue  # cut off: `read` tells it; here it is written once more
    return found


def _sync_folder(folder: Path) -> None:
    """Have a new name on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
