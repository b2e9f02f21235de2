"""The log: outcomes as lines of JSON, each saved before the next measurement starts.

Everything that measures appends to such a file, and writing needs Python alone;
``solkit data import`` puts the outcomes into a store. A file is only ever appended to. Each line
holds one thing::

    {"schema": "solkit.run/2", "run_id": "20261121T220000Z-1f0c9a3e", "created": ..., "about": {}}
    {"source": {"sha256": ..., "name": ..., "text": ...}}
    {"facts": {"id": ..., "value": {...}}}
    {"row": {"kernel_id": ..., ...}}
    {"facts_of": {"run_id": ..., "sequence": ..., "facts_id": ...}}

The first line begins a run: one `OutcomeLog`, resumed or not. Many runs may share a file; a row
names its run. Sources and facts come before the rows that refer to them. ``facts_of`` gives facts
to a row in another file.

A batch is on disk when `OutcomeLog.append` returns. A line that a crash cut off is reported by
`read` and affects no other line; the next batch starts on a line of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import io
import json
import os
import secrets
import stat
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from solkit import userdata
from solkit.core import Outcome, Source, StoredFacts
from solkit.core.codec import from_json, to_json
from solkit.errors import InputError, TraceError

SCHEMA = "solkit.run/2"

VARIABLE = "SOLKIT_TRACES"
"""The environment variable that names another folder for `default_path`."""

_FAMILY, _, _VERSION = SCHEMA.partition("/")
_START = f'{{"schema":"{_FAMILY}/'.encode()
_GZIP = b"\x1f\x8b"  # first bytes of gzip files: RFC 1952, 2.3.1
_PATIENCE_S = 30.0
_RESUME_PATIENCE_S = 0.5  # others hold the lock for one append, another writer of the run for long
_POLL_S = 0.005

RowKey = tuple[str, int]
"""A row's run and its place there."""


@dataclass(frozen=True)
class Contents:
    """The content of a log.

    Attributes:
        runs: by run, what its writer recorded: its plan, its command.
        rows, sources, facts: in the order written.
        facts_of: ids of facts, by their row in another file.
        faults: unreadable lines, a sentence each.
    """

    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rows: tuple[Outcome, ...] = ()
    sources: tuple[Source, ...] = ()
    facts: tuple[StoredFacts, ...] = ()
    facts_of: Mapping[RowKey, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


def new_run_id() -> str:
    """Return a name that no other run has: the time in UTC and a random number."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def default_path() -> Path:
    """Return this month's log in ``$SOLKIT_TRACES``, else in the user's data folder."""
    return userdata.folder("traces", VARIABLE) / f"{datetime.now(timezone.utc):%Y-%m}.jsonl"


# --------------------------------------------------------------------------------------- writing


class OutcomeLog:
    """Appends the outcomes of one run to a log.

    Any number of processes and threads may append to one file, each as a run of its own. A run that
    is *resumed* has one writer at a time, which locks the file until `close`.

    Args:
        path: the file, ``*.jsonl``, whose folder must exist; by default `default_path`, whose
            folder is made.
        about: what to record of a new run, e.g. its command.
        resume: continue the run that the file holds, if it holds one.

    Attributes:
        path: the file.
        run_id: the run that the rows belong to.

    Raises:
        InputError: the file cannot be written or locked, is not a log, or holds several runs and
            is to be resumed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        about: Mapping[str, Any] | None = None,
        resume: bool = False,
    ) -> None:
        self.path = default_path() if path is None else Path(path)
        self.run_id = new_run_id()
        self._about = dict(about or {})
        self._seen = _Seen()
        self._held: int | None = None
        self._thread = threading.Lock()
        try:
            if path is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock_file(_RESUME_PATIENCE_S if resume else _PATIENCE_S, resume) as file:
                self._seen = self._seen.read_appended(file, self.path)
                for run in self._seen.runs.values():
                    _require_whole(run, self.path)
                if resume:
                    self._resume_run(file)
        except BlockingIOError:
            self.close()
            raise InputError(f"{self.path}: another process writes this run") from None
        except OSError as error:
            self.close()
            raise InputError(f"cannot write {self.path}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def extra_of(self, row: Outcome) -> Mapping[str, Any]:  # noqa: ARG002 - subclasses need it
        """Return what the log adds to `Outcome.extra` of a row: nothing, unless a subclass does."""
        return {}

    def append(
        self,
        rows: Iterable[Outcome] = (),
        sources: Iterable[Source] = (),
        facts: Iterable[StoredFacts] = (),
        facts_of: Mapping[RowKey, str] | None = None,
    ) -> tuple[Outcome, ...]:
        """Write a batch to disk: all of it, or nothing if that fails or is interrupted.

        A batch that is taken back leaves empty lines, so that no number is given twice.

        Args:
            rows: outcomes; `run_id` and `sequence` are assigned here.
            sources: files that they refer to; known ones are left out.
            facts: of their configurations; likewise.
            facts_of: ids of facts, by their row in another file.

        Returns:
            The rows as written.

        Raises:
            TraceError: the batch could not be written; earlier ones are safe.
        """
        rows = tuple(replace(row, extra={**row.extra, **self.extra_of(row)}) for row in rows)
        try:
            with self._thread, self._lock_file(_PATIENCE_S) as file:
                self._seen = self._seen.read_appended(file, self.path)
                self._begin_run(file)
                lines = self._seen.missing(sources, facts)
                lines += [
                    _json_line(facts_of=_facts_link_line(*pair))
                    for pair in (facts_of or {}).items()
                ]
                first = self._seen.lines + _is_cut_off(file) + len(lines)
                numbered = tuple(
                    replace(row, run_id=self.run_id, sequence=first + place)
                    for place, row in enumerate(rows)
                )
                lines += [_json_line(row=to_json(row)) for row in numbered]
                _commit_lines(file, lines)
        except OSError as error:
            busy = isinstance(error, BlockingIOError)
            why = "another process has locked it" if busy else error.strerror
            raise TraceError(
                f"{len(rows)} rows could not be written to {self.path}: {why}; "
                "earlier ones are safe"
            ) from error
        return numbered

    def close(self) -> None:
        """Let others resume the run. Everything is written already."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def __enter__(self) -> OutcomeLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _lock_file(self, patience_s: float, keep: bool = False) -> Iterator[int]:
        """Yield the file, locked for this process; until `close` if `keep` is set."""
        if self._held is not None:
            yield self._held
            return
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = os.open(self.path, flags, 0o666)
        try:
            _wait_for_lock(file, patience_s)
            self._held = file if keep else None
            yield file
        finally:
            if self._held is None:
                os.close(file)

    def _resume_run(self, file: int) -> None:
        """Take over the file's run, or begin one in a file that has none."""
        runs = self._seen.runs
        if len(runs) > 1:
            raise InputError(
                f"{self.path} holds {len(runs)} runs; only a single one can be resumed"
            )
        self.run_id = next(iter(runs), self.run_id)
        self._begin_run(file)

    def _begin_run(self, file: int) -> None:
        """Write the line that begins this run, unless it is there."""
        if self.run_id in self._seen.runs:
            return
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        header = _json_line(schema=SCHEMA, run_id=self.run_id, created=now, about=self._about)
        _commit_lines(file, [header])
        if os.fstat(file).st_size == len(header):  # a new file
            sync_folder(self.path.parent)
        self._seen = self._seen.read_appended(file, self.path)


@dataclass
class _Seen:
    """State of a file to which others may append, as a writer knows it.

    Attributes:
        file: its device and inode.
        size: bytes up to the end of the last whole line.
        lines: their number.
        runs: as in `Contents`.
        ids: of its sources and facts.
    """

    file: tuple[int, int] | None = None
    size: int = 0
    lines: int = 0
    runs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)

    def read_appended(self, file: int, path: Path) -> _Seen:
        """Return the same with what was appended since; all of the file if it is another one now.

        Raises:
            InputError: the file is not a log.
        """
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):  # such as /dev/null
            return self
        identity = status.st_dev, status.st_ino
        if identity != self.file or status.st_size < self.size:
            _require_log(file, path)
            return _Seen(identity)._read_new_lines(file)
        return self._read_new_lines(file)

    def _read_new_lines(self, file: int) -> _Seen:
        with os.fdopen(os.dup(file), "rb") as lines:
            lines.seek(self.size)
            for line in lines:
                if line.endswith(b"\n"):
                    self.size += len(line)
                    self.lines += 1
                    self._note_line(line)
        return self

    def missing(self, sources: Iterable[Source], facts: Iterable[StoredFacts]) -> list[bytes]:
        """Return lines for what the file does not hold yet."""
        files = {source.sha256: source for source in sources if source.sha256 not in self.ids}
        unseen = {fact.id: fact for fact in facts if fact.id not in self.ids}
        lines = [_json_line(source=to_json(file)) for file in files.values()]
        return lines + [_facts_line(fact) for fact in unseen.values()]

    def _note_line(self, line: bytes) -> None:
        if not line.startswith((b'{"schema"', b'{"source"', b'{"facts"')):
            return
        entry = _object_in_line(line) or {}  # cut off: `read` reports it; it is written again
        if "run_id" in entry:
            self.runs[entry["run_id"]] = entry.get("about", {})
        elif "source" in entry:
            self.ids.add(entry["source"]["sha256"])
        elif "facts" in entry:
            self.ids.add(entry["facts"]["id"])


def _require_log(file: int, path: Path) -> None:
    """Check that a file begins as a log; empty it if its writer died before the first row."""
    with os.fdopen(os.dup(file), "rb") as lines:
        lines.seek(0)
        head = lines.readline()
    if not head.startswith(_START) and not _START.startswith(head):
        raise InputError(f"{path} is not a log: its first line is not of {_FAMILY}")
    entry = _object_in_line(head)
    if not head.endswith(b"\n") and (entry is None or "run_id" in entry):
        os.ftruncate(file, 0)


def _wait_for_lock(file: int, patience_s: float) -> None:
    """Wait for the lock of a file; `BlockingIOError` if that takes too long."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL_S)


def _commit_lines(file: int, lines: list[bytes]) -> None:
    """Append lines to a locked file and sync them, or leave it unchanged."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.write(file, b"".join(lines))
        return
    size, cut_off = os.fstat(file).st_size, _is_cut_off(file)
    rest = memoryview(b"\n" * cut_off + b"".join(lines))
    try:
        while rest:  # several times if a disk is nearly full
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    except BaseException:  # an interrupt too, after which the caller may go on
        os.ftruncate(file, size)
        if size:  # somebody may have read the rows and seen their numbers
            with contextlib.suppress(OSError):
                os.write(file, b"\n" * (cut_off + len(lines)))
        raise


def _is_cut_off(file: int) -> bool:
    """Tell whether the file's last line has no end."""
    status = os.fstat(file)
    is_empty = not stat.S_ISREG(status.st_mode) or not status.st_size
    return not is_empty and os.pread(file, 1, status.st_size - 1) != b"\n"


def sync_folder(folder: Path) -> None:
    """Sync a folder, and so a new name in it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _json_line(**entry: Any) -> bytes:
    return json.dumps(entry, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _facts_line(facts: StoredFacts) -> bytes:
    return _json_line(facts={"id": facts.id, "value": json.loads(facts.text)})


def _facts_link_line(row: RowKey, facts_id: str) -> dict[str, Any]:
    return {"run_id": row[0], "sequence": row[1], "facts_id": facts_id}


# --------------------------------------------------------------------------------------- reading


def read(path: str | os.PathLike[str], whole: bool = False) -> Contents:
    """Return the content of a log, which may be in use; an empty file holds nothing.

    Args:
        path: the file, maybe gzipped.
        whole: refuse files of `log_of_tried`: their rows lack most columns.

    Raises:
        InputError: the file cannot be read, or is not a log.
    """
    path = Path(path)
    reader = _Reader(path, whole)
    try:
        with _open_unpacked(path) as file:
            head = file.readline()
            if head:
                reader.header(head)
            for number, line in enumerate(file, 2):
                reader.take(number, line)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error  # what gzip raises has none
        raise InputError(f"cannot read {path}: {why}") from error
    return reader.contents()


def is_outcome_log(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file begins as a log of measurements; only its first line is read."""
    try:
        with _open_unpacked(Path(path)) as file:
            _Reader(Path(path), whole=True).header(file.readline())
    except (InputError, OSError, EOFError, zlib.error):
        return False
    return True


class _Reader:
    """Sorts a log's lines by content."""

    def __init__(self, path: Path, whole: bool) -> None:
        self._path, self._whole = path, whole
        self._runs: dict[str, Mapping[str, Any]] = {}
        self._found: dict[type, list[Any]] = {Outcome: [], Source: [], StoredFacts: []}
        self._facts_of: dict[RowKey, str] = {}
        self._faults: list[str] = []

    def header(self, line: bytes) -> None:
        """Take the first line.

        Raises:
            InputError: the file is not a log.
        """
        entry = _object_in_line(line) or {}
        fault = _explain_foreign_schema(entry.get("schema"))
        if fault:
            raise InputError(f"{self._path} is not a log: {fault}")
        self.take(1, line)

    def take(self, number: int, line: bytes) -> None:
        """Take a line, or note its fault."""
        if not line.strip():
            return
        try:
            self._take_line(line)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            why = f"{error} is missing" if isinstance(error, KeyError) else error
            self._faults.append(f"{self._path}:{number}: {why}")

    def _take_line(self, line: bytes) -> None:
        entry = _object_in_line(line)
        if entry is None:
            how = "damaged" if line.endswith(b"\n") else "cut off"
            raise ValueError(f"the line is {how}: {len(line)} bytes that are not JSON")
        if "row" in entry:
            self._found[Outcome].append(from_json(Outcome, entry["row"]))
        elif "source" in entry:
            self._found[Source].append(from_json(Source, entry["source"]))
        elif "facts" in entry:
            text = json.dumps(entry["facts"]["value"], separators=(",", ":"))
            self._found[StoredFacts].append(StoredFacts(entry["facts"]["id"], text))
        elif "facts_of" in entry:
            link = entry["facts_of"]
            self._facts_of[link["run_id"], link["sequence"]] = link["facts_id"]
        elif fault := _explain_foreign_schema(entry.get("schema")):
            raise ValueError(f"unknown line: {fault}")
        else:
            self._runs[entry["run_id"]] = about = entry.get("about", {})
            if self._whole:
                _require_whole(about, self._path)

    def contents(self) -> Contents:
        """Return all that was taken."""
        return Contents(
            self._runs,
            tuple(self._found[Outcome]),
            tuple(self._found[Source]),
            tuple(self._found[StoredFacts]),
            self._facts_of,
            tuple(self._faults),
        )


def _explain_foreign_schema(schema: object) -> str:
    """Return why a line with that schema does not belong in a log; empty if it does."""
    family, _, version = str(schema).partition("/")
    if family != _FAMILY or not version.isdecimal():
        return f"schema is {schema!r}, not {SCHEMA}"
    if version != _VERSION:
        age = "newer" if int(version) > int(_VERSION) else "older"
        return f"{schema} is {age} than {SCHEMA}, which this SolKit reads"
    return ""


def _object_in_line(line: bytes) -> dict[str, Any] | None:
    """Return the object in a line; empty for another value, ``None`` if it is not JSON."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else {}


@contextlib.contextmanager
def _open_unpacked(path: Path) -> Iterator[io.BufferedIOBase]:
    """Yield a file's bytes, unpacked if they are gzip's, whatever its name."""
    with path.open("rb") as file:
        if file.peek(len(_GZIP)).startswith(_GZIP):
            with gzip.open(file) as unpacked:
                yield unpacked
        else:
            yield file


# ------------------------------------------------------------------------- what was tried, in short


def log_of_tried(rows: Iterable[Outcome]) -> str:
    """Return a short log: which configurations were tried, with their results.

    ``solkit data collect --after`` needs no more of earlier runs. It takes a seventh of the bytes,
    and plain Python reads it. Rows keep their `run_id`.
    """
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    lines = [_json_line(schema=SCHEMA, run_id=new_run_id(), created=now, about=_IN_SHORT)]
    for row in rows:
        values = {name: getattr(row, name) for name in _TRIED}
        lines.append(_json_line(row=to_json(Outcome(**values))))
    return b"".join(lines).decode()


_IN_SHORT = {"holds": "what was tried and its time, no more"}
_TRIED = (
    *("kernel_id", "family", "kind", "origin", "problem_id", "device", "params", "verdict"),
    *("created", "chosen_by", "time_ms", "run_id", "sequence"),
)


def _require_whole(about: Mapping[str, Any], path: Path) -> None:
    if about == _IN_SHORT:
        raise InputError(
            f"{path} holds {_IN_SHORT['holds']}, for `solkit data collect --after`: use the logs "
            "and stores that it was made of"
        )
