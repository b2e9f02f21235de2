"""Files of other tools as rows of SolKit's data: one module a format, found by name or by looking.

What a tool does not say stays unknown. A row that it timed without checking the results is
``not_measured``: nothing here vouches for it.
"""

from __future__ import annotations

import csv
import os
from dataclasses import replace

from solkit.core import Space, Verdict
from solkit.datasets.formats import (
    columns,
    flashinfer_bench,
    helion,
    kernel_tuner,
    kernelbench_results,
    sglang,
    sol_execbench,
    solkit_log,
    t1,
    t4,
    triton_autotune,
    vllm,
)
from solkit.datasets.formats._base import Document, Format, Imported, Labels, numbered
from solkit.errors import InputError, ParamsError

__all__ = ["FORMATS", "Format", "Imported", "Labels", "numbered", "read", "read_space"]

FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        solkit_log.RUN,
        solkit_log.TRACE,
        kernel_tuner.FORMAT,
        t4.FORMAT,
        columns.FORMAT,
        triton_autotune.FORMAT,
        helion.FORMAT,
        sol_execbench.FORMAT,
        flashinfer_bench.FORMAT,
        kernelbench_results.FORMAT,
        vllm.FORMAT,
        sglang.FORMAT,
    )
}
"""Every format that rows can be taken from, by name."""


def read(
    path: str | os.PathLike[str], name: str | None = None, labels: Labels | None = None
) -> Imported:
    """The rows of a file, each named by what it says.

    A row has the same name in whatever file and place it is: a store takes only what is new of a
    file that was imported before and has grown since. Where only the path says what rows are about
    (the kernel of T4 results, the run of KernelBench's), it counts, or equal failures of two
    kernels would be one row. The user's `Labels` count where the file does not say the same: the
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
    if found.rows and found.rows[0].run_id:
        return found
    return replace(found, rows=numbered(chosen.name, found.rows, changed=document.changed))


def read_space(path: str | os.PathLike[str]) -> Space:
    """The space that a T1 file describes, or that of the configurations which a file has rows of.

    Rows of what the user's restrictions excluded are left out; those of failures are not.

    Args:
        path: the file, maybe compressed (``.gz``): T1, or one that `read` takes, of one kernel.

    Raises:
        InputError: the file cannot be read, or its rows have different parameters.
    """
    document = Document(path)
    if t1.recognises(document):
        return t1.space(document)
    rows = read(path, labels=Labels(device="any")).rows
    tried = (r for r in rows if r.verdict is not Verdict.NOT_MEASURED or r.time_ms is not None)
    try:
        return Space.of_points(row.params for row in tried)
    except ParamsError as error:
        raise InputError(f"{path} has rows of several spaces: {error}") from error


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
