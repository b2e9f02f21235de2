"""Files of other tools as rows of SolKit's data: one module a format, found by name or by looking.

What a tool does not say stays unknown. A row that it timed without checking the results is
``not_measured``: nothing here vouches for it.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections import Counter
from dataclasses import replace
from datetime import datetime, timezone

from solkit.datasets.formats import (
    flashinfer_bench,
    helion,
    kernel_tuner,
    kernelbench_results,
    sglang,
    sol_execbench,
    solkit_run,
    solkit_trace,
    t4,
    triton_autotune,
    vllm,
)
from solkit.datasets.formats._base import Document, Format, Imported, Labels
from solkit.datasets.record import TimedConfiguration, canonical, to_json
from solkit.errors import InputError

__all__ = ["FORMATS", "Format", "Imported", "Labels", "read"]

FORMATS: dict[str, Format] = {
    each.FORMAT.name: each.FORMAT
    for each in (
        solkit_run,
        solkit_trace,
        kernel_tuner,
        t4,
        triton_autotune,
        helion,
        sol_execbench,
        flashinfer_bench,
        kernelbench_results,
        vllm,
        sglang,
    )
}
"""Every format that rows can be taken from, by name."""


def read(
    path: str | os.PathLike[str], name: str | None = None, labels: Labels | None = None
) -> Imported:
    """The rows of a file, each named by what it says.

    So a row has the same name in whatever file and place it stands: of a file that was read before,
    wherever it has grown since, a store takes only what is new. Rows of two files that begin alike
    are two all the same. Where the path alone tells what rows are of (the kernel of T4 results, the
    run of KernelBench's), it counts, or equal failures of two kernels would be one. The user's
    `Labels` count as far as they say which configuration a row is of and the file does not: the
    family, and the GPU where the file names none.

    Args:
        path: the file, maybe compressed (``.gz``).
        name: of one of `FORMATS`; by default the one that recognises it.
        labels: what the user says of it.

    Raises:
        InputError: the file cannot be read, or is of no such format.
    """
    document = Document(path)
    chosen = _find(document, name)
    try:
        found = chosen.read(document, labels or Labels())
    except (AttributeError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise InputError(f"{path} is no {chosen.about}: {type(error).__name__}: {error}") from error
    return replace(found, rows=_numbered(chosen.name, found.rows, document.changed))


def _find(document: Document, name: str | None) -> Format:
    known = ", ".join(FORMATS)
    if name is not None:
        if name not in FORMATS:
            raise InputError(f"unknown format {name!r}; choose one of: {known}")
        return FORMATS[name]
    for each in FORMATS.values():
        if each.recognises(document):
            return each
    raise InputError(
        f"{document.path} is of no known format; with --format, choose one of: {known}"
    )


def _numbered(
    name: str, rows: tuple[TimedConfiguration, ...], changed: datetime
) -> tuple[TimedConfiguration, ...]:
    """Rows with a run, the tool on that day, and for a place in it a digest of what they say.

    Args:
        name: the format's.
        rows: of a file.
        changed: when the file was, which is when a row was measured where it does not say.
    """
    if not rows or rows[0].run_id:
        return rows
    seen: Counter[str] = Counter()
    numbered = []
    for row in rows:
        dated = row.created != changed
        content = canonical({k: v for k, v in to_json(row).items() if k not in _aside(row, dated)})
        digest = hashlib.sha256(f"{name} {seen[content]} {content}".encode()).digest()
        seen[content] += 1  # equal rows of a file are as many attempts
        run_id = f"{name}-{row.created.astimezone(timezone.utc):%Y%m%d}" if dated else name
        place = int.from_bytes(digest[:8], "big") >> 1  # as a signed column of 64 bits holds
        numbered.append(replace(row, run_id=run_id, sequence=place))
    return tuple(numbered)


def _aside(row: TimedConfiguration, dated: bool) -> set[str]:
    """The fields that do not tell an attempt from another, or change when a file is touched."""
    aside = {"kind", "schema_version"}
    if not dated:
        aside.add("created")
    if row.device_name is not None:  # which the file told: `device` is but another word for it
        aside.add("device")
    return aside
