"""What every format does alike: a file is read once, and what is bad in it costs itself alone."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from solkit.core import Outcome, Source, StoredFacts, Verdict, canonical
from solkit.datasets.record import MESSAGE_LIMIT, from_json, kernel_id, problem_id, to_json
from solkit.errors import InputError

__all__ = [
    "MESSAGE_LIMIT",
    "Document",
    "Format",
    "Imported",
    "Labels",
    "converted",
    "imported_row",
    "instant",
    "json_lines",
    "numbered",
]

_R = TypeVar("_R")


@dataclass(frozen=True)
class Labels:
    """What the user says of a file, in place of what it says itself or does not.

    Attributes:
        device: the GPU.
        family: what the kernel computes.
        kind: the kind of the family.
    """

    device: str | None = None
    family: str | None = None
    kind: str | None = None


@dataclass(frozen=True)
class Imported:
    """What a file holds.

    Attributes:
        rows: not numbered yet, unless they come from a log of SolKit's.
        sources, facts: what they refer to.
        facts_of: ids of facts, by the row of another file that they belong to.
        faults: what could not be taken, a sentence each.
    """

    rows: tuple[Outcome, ...]
    sources: tuple[Source, ...] = ()
    facts: tuple[StoredFacts, ...] = ()
    facts_of: Mapping[tuple[str, int], str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format:
    """A kind of file that rows can be taken from.

    Attributes:
        name: as `--format` takes it.
        about: what it is, for a listing.
        recognises: whether a file is one; cheap.
        read: takes its rows.
    """

    name: str
    about: str
    recognises: Callable[[Document], bool]
    read: Callable[[Document, Labels], Imported]


class Document:
    """A file to import, maybe compressed (``.gz``), and its views, each made once.

    Args:
        path: the file.

    Raises:
        InputError: it cannot be read, or is no text.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            data = self.path.read_bytes()
            self.text = (gzip.decompress(data) if self.path.suffix == ".gz" else data).decode()
            changed = self.path.stat().st_mtime
        except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
            raise InputError(f"cannot read {path}: {error}") from error
        self.changed = datetime.fromtimestamp(changed, timezone.utc)

    @property
    def name(self) -> str:
        """The file's name without ``.gz``."""
        return self.path.name.removesuffix(".gz")

    @functools.cached_property
    def json(self) -> Any:
        """What the file holds as JSON; ``None`` where it is none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @functools.cached_property
    def first(self) -> Any:
        """The first line as JSON; ``None`` where it is none."""
        try:
            return json.loads(self.text.split("\n", 1)[0])
        except ValueError:
            return None

    def has(self, *names: str) -> bool:
        """Whether it is a JSON object with these names."""
        return isinstance(self.json, dict) and all(name in self.json for name in names)

    def lines(self) -> Iterable[tuple[str, Any]]:
        """Each line of JSON Lines with its place; a line that is no JSON is ``None``."""
        return json_lines(self.text)

    def device(self, labels: Labels, told: str | None = None) -> str:
        """The GPU: as the user says, else as the file does.

        Raises:
            InputError: neither does.
        """
        found = labels.device or told
        if not found:
            raise InputError(f"{self.path} does not say which GPU it is about: give --device")
        return found


def json_lines(text: str) -> Iterable[tuple[str, Any]]:
    """Each line of JSON Lines with its place; a line that is no JSON is ``None``."""
    # not `splitlines`: JSON may hold U+2028 and its like, which end a line there
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except ValueError:
                yield f"line {number}", None


def converted(
    path: Path,
    records: Iterable[tuple[str, Any]],
    convert: Callable[[Any], _R | None],
) -> tuple[tuple[_R, ...], tuple[str, ...]]:
    """Every record converted, and a sentence for each that cannot be.

    Args:
        path: the file that they are from.
        records: each with its place in the file.
        convert: gives ``None`` for a record to skip.
    """
    rows: list[_R] = []
    faults: list[str] = []
    for place, record in records:
        try:
            row = convert(record)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            faults.append(f"{path}: {place}: {why}")
            continue
        if row is not None:
            rows.append(row)
    return tuple(rows), tuple(faults)


def imported_row(
    origin: str,
    labels: Labels,
    family: str,
    shape: Mapping[str, Any],
    entry_point: str,
    **told: Any,
) -> Outcome:
    """A row of a file that says little of the kernel.

    Args:
        origin: the format's name.
        labels: what the user says.
        family: what the kernel computes, where the user does not say.
        shape: the problem's sizes.
        entry_point: the kernel's name.
        **told: other fields of `Outcome`. Without a `source_sha256` the kernel is known
            by its format, its implementation and its name.
    """
    named = labels.family or family
    values = {
        "family": named,
        "kind": labels.kind or named,
        "origin": origin,
        "problem_id": problem_id(named, shape),
        "shape": dict(shape),
        "entry_point": entry_point,
        "kernel_id": kernel_id(
            told.get("source_sha256") or f"{origin}:{told.get('implementation') or ''}",
            told.get("problem_sha256") or named,
            entry_point,
        ),
        "verdict": Verdict.NOT_MEASURED,
        "chosen_by": "search",
        **told,
    }
    return from_json(Outcome, to_json(Outcome(**values)))


def instant(text: str) -> datetime:
    """A time as ISO 8601 writes it; UTC where it names no zone.

    Raises:
        ValueError: it is none.
    """
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


_NAMING = frozenset(
    "kernel_id family origin problem_id device params verdict created chosen_by time_ms bound_ms "
    "clock_mhz implementation entry_point source_sha256 problem_sha256 shape dtypes low_ms high_ms "
    "samples_ms kernel_sum_ms reference_ms method protocol l2 flush launched warmup_calls "
    "hard_bound_ms limiter precision operations read_bytes write_bytes launch_count compile_s "
    "first_call_s max_error message clock_low_mhz memory_clock_mhz power_w temperature_c "
    "throttle_reasons seed device_name device_uuid driver_version cuda_version torch_version "
    "triton_version python_version solkit_version extra".split()
)
"""The columns that name an imported row: those of version 1 but `kind`, or names would change."""


def numbered(
    name: str,
    rows: Sequence[Outcome],
    asides: Sequence[Mapping[str, Any]] = (),
    changed: datetime | None = None,
) -> tuple[Outcome, ...]:
    """Rows with a run, the tool on that day, and for a place in it a digest of what they say.

    Args:
        name: the format's.
        rows: of a file.
        asides: what else names a row, one for each, if any.
        changed: when the file was, if a row that does not say when it was measured has that time.
    """
    seen: Counter[str] = Counter()
    named = []
    for place, row in enumerate(rows):
        dated = row.created != changed
        told = {k: v for k, v in to_json(row).items() if k in _NAMING - _unnamed(row, dated)}
        content = canonical({**told, **(asides[place] if asides else {})})
        digest = hashlib.sha256(f"{name} {seen[content]} {content}".encode()).digest()
        seen[content] += 1  # equal rows of a file are as many attempts
        run_id = f"{name}-{row.created.astimezone(timezone.utc):%Y%m%d}" if dated else name
        sequence = int.from_bytes(digest[:8], "big") >> 1  # as a signed column of 64 bits holds
        named.append(replace(row, run_id=run_id, sequence=sequence))
    return tuple(named)


def _unnamed(row: Outcome, dated: bool) -> set[str]:
    """The columns that change when a file is touched, or that only repeat another."""
    aside = set() if dated else {"created"}
    if row.device_name is not None:  # the file's own name of the GPU: `device` is made of it
        aside.add("device")
    return aside
