"""Parts that all formats share. A file is read once, and a damaged record costs no other."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import math
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from solkit.core import Outcome, Source, StoredFacts, Verdict, canonical
from solkit.core.codec import from_json, to_json
from solkit.datasets.identifiers import kernel_id, problem_id
from solkit.errors import InputError


@dataclass(frozen=True)
class Labels:
    """Labels of a file by the user; they replace what the file says.

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
    """The content of a file.

    Attributes:
        rows: not numbered yet, unless they come from SolKit's own log.
        sources, facts: what they refer to.
        facts_of: ids of facts, by their row in another file.
        faults: what could not be read, a sentence each.
    """

    rows: tuple[Outcome, ...]
    sources: tuple[Source, ...] = ()
    facts: tuple[StoredFacts, ...] = ()
    facts_of: Mapping[tuple[str, int], str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format:
    """A file format with rows.

    Attributes:
        name: for `--format`.
        about: a description, for listings.
        recognises: whether a file has this format; cheap.
        read: reads its rows.
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
        InputError: it cannot be read, or is not text.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            data = self.path.read_bytes()
            data = gzip.decompress(data) if self.path.suffix == ".gz" else data
            self.text = data.decode("utf-8-sig")  # spreadsheets write a mark first
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
        """The file as JSON; ``None`` if it is not JSON."""
        return _json_or_none(self.text)

    @functools.cached_property
    def first(self) -> Any:
        """The first line as JSON; ``None`` if it is not JSON."""
        return _json_or_none(self.text.split("\n", 1)[0])

    def has(self, *names: str) -> bool:
        """Tell whether it is a JSON object with these names."""
        return isinstance(self.json, dict) and all(name in self.json for name in names)

    def lines(self) -> Iterable[tuple[str, Any]]:
        """Yield each line of JSON Lines with its place; ``None`` for a line that is not JSON."""
        # not `splitlines`: JSON may hold U+2028 etc., which end a line there
        for number, line in enumerate(self.text.split("\n"), 1):
            if line.strip():
                yield f"line {number}", _json_or_none(line)

    def device(self, labels: Labels, recorded: str | None = None) -> str:
        """Return the GPU that the user names, else the file.

        Raises:
            InputError: neither names one.
        """
        device = labels.device or recorded
        if not device:
            raise InputError(f"{self.path} does not say which GPU it is about: give --device")
        return device


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def converted(
    path: Path,
    records: Iterable[tuple[str, Any]],
    convert: Callable[[Any], Outcome | None],
) -> Imported:
    """Return the rows of all records, and a fault for each record that cannot be converted.

    Args:
        path: the file.
        records: each with its place in the file.
        convert: returns ``None`` for a record to skip.

    Raises:
        InputError: there are no rows, for want of something that only the user can say.
    """
    rows: list[Outcome] = []
    faults: list[str] = []
    unsaid: InputError | None = None
    for place, record in records:
        try:
            row = convert(record)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            faults.append(f"{path}: {place}: {why}")
            continue
        except InputError as error:
            unsaid = unsaid or error
            faults.append(f"{error} ({place})")
            continue
        if row is not None:
            rows.append(row)
    if unsaid is not None and not rows:
        raise unsaid
    return Imported(tuple(rows), faults=tuple(faults))


def imported_row(
    origin: str,
    labels: Labels,
    family: str,
    shape: Mapping[str, Any],
    entry_point: str,
    **fields: Any,
) -> Outcome:
    """Return a row of a file that says little about the kernel.

    Args:
        origin: the format's name.
        labels: what the user says.
        family: what the kernel computes, unless the user says it.
        shape: the problem's sizes.
        entry_point: the kernel's name.
        **fields: other fields of `Outcome`. Without `source_sha256`, format, implementation and
            name identify the kernel.

    Raises:
        ValueError: its time is none.
    """
    named = labels.family or family
    time_ms, verdict = fields.get("time_ms"), fields.get("verdict", Verdict.NOT_MEASURED)
    if time_ms is not None and not 0 < time_ms < math.inf:
        if not verdict.is_failure:
            raise ValueError(f"its time is {time_ms} ms, not above 0")
        fields["time_ms"] = None
    values = {
        "family": named,
        "kind": labels.kind or named,
        "origin": origin,
        "problem_id": problem_id(named, shape),
        "shape": dict(shape),
        "entry_point": entry_point,
        "kernel_id": kernel_id(
            fields.get("source_sha256") or f"{origin}:{fields.get('implementation') or ''}",
            fields.get("problem_sha256") or named,
            entry_point,
        ),
        "verdict": Verdict.NOT_MEASURED,
        "chosen_by": "search",
        **fields,
    }
    return from_json(Outcome, to_json(Outcome(**values)))


def instant(text: str) -> datetime:
    """Return a time in ISO 8601; UTC if it names no zone.

    Raises:
        ValueError: it is not a time.
    """
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


_NAMING = frozenset(
    "kernel_id family origin problem_id device params verdict created chosen_by time_ms bound_ms "
    "clock_mhz implementation entry_point source_sha256 problem_sha256 shape dtypes low_ms high_ms "
    "samples_ms kernel_sum_ms reference_ms method protocol l2 flush launched warmup_calls "
    "hard_bound_ms limiter precision operations read_bytes write_bytes launch_count compile_s "
    "first_call_s max_error message clock_low_mhz memory_clock_mhz power_w temperature_c "
    "throttle_reasons seed device_name device_uuid driver_version cuda_version torch_version "
    "triton_version python_version solkit_version extra".split()
)
"""The columns that name an imported row: those of version 1 except `kind`, so that names stay."""


def numbered(
    name: str,
    rows: Sequence[Outcome],
    asides: Sequence[Mapping[str, Any]] = (),
    changed: datetime | None = None,
) -> tuple[Outcome, ...]:
    """Return rows with a run (format and day) and a place in it (a digest of their content).

    Args:
        name: of the format.
        rows: of a file.
        asides: what else names each row, if anything.
        changed: when the file was changed; rows that do not say when they were measured have that
            time.
    """
    seen: Counter[str] = Counter()
    named = []
    for place, row in enumerate(rows):
        dated = row.created != changed
        values = {
            k: v for k, v in to_json(row).items() if k in _NAMING - _columns_left_out(row, dated)
        }
        content = canonical({**values, **(asides[place] if asides else {})})
        digest = hashlib.sha256(f"{name} {seen[content]} {content}".encode()).digest()
        seen[content] += 1  # equal rows are separate attempts
        run_id = f"{name}-{row.created.astimezone(timezone.utc):%Y%m%d}" if dated else name
        sequence = int.from_bytes(digest[:8], "big") >> 1  # fits a signed column of 64 bits
        named.append(replace(row, run_id=run_id, sequence=sequence))
    return tuple(named)


def _columns_left_out(row: Outcome, dated: bool) -> set[str]:
    """Return columns that change when a file is touched, or only repeat another column."""
    aside = set() if dated else {"created"}
    if row.device_name is not None:  # the file's own name of the GPU, from which `device` follows
        aside.add("device")
    return aside
