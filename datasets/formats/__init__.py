"""Files of other tools as rows of SolKit's data: one module a format, found by name or by looking.

What a tool does not say stays unknown. A row that it timed without checking the results is
``not_measured``: nothing here vouches for it.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace

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
from solkit.datasets.record import TimedConfiguration, to_json
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
    """The rows of a file, numbered.

    The same file has the same rows each time, and one that has grown since has them too, so that a
    store takes only what is new.

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
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is no {chosen.about}: {type(error).__name__}: {error}") from error
    return replace(found, rows=_numbered(chosen.name, found.rows))


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


_LABELS = {"family", "kind", "kernel_id", "problem_id"}  # the user's words change these


def _numbered(name: str, rows: tuple[TimedConfiguration, ...]) -> tuple[TimedConfiguration, ...]:
    """Rows with a run named by what the first of them says, whenever the file was touched."""
    if not rows or rows[0].run_id:
        return rows
    first = {k: v for k, v in to_json(rows[0]).items() if k not in {"created", *_LABELS}}
    digest = hashlib.sha256(json.dumps(first, sort_keys=True).encode()).hexdigest()
    run_id = f"{name}-{digest[:12]}"
    return tuple(replace(row, run_id=run_id, sequence=i) for i, row in enumerate(rows))
