"""Files of other tools as rows: one module per format, chosen by name or recognised.

What a file does not say stays unknown. A row whose tool did not check the results is
``not_measured``.
"""

from __future__ import annotations

import csv
import os
from dataclasses import replace

from solkit.datasets.formats import (
    aiter_configs,
    columns,
    cuda_l1,
    flashinfer_bench,
    helion,
    kernel_tuner,
    kernelbench_com,
    kernelbench_results,
    kernelbench_timing,
    liger_kernel,
    neusight,
    sglang,
    sol_execbench,
    solkit_log,
    t4,
    times_table,
    triton_autotune,
    vllm,
)
from solkit.datasets.formats._base import (
    Document,
    Format,
    Imported,
    Labels,
    imported_row,
    numbered,
)
from solkit.datasets.formats._public_problems import KERNEL, REFERENCE, RUNS
from solkit.errors import InputError

__all__ = [
    "FORMATS",
    "KERNEL",
    "REFERENCE",
    "RUNS",
    "Format",
    "Imported",
    "Labels",
    "imported_row",
    "numbered",
    "read",
]

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        solkit_log.RUN,
        kernel_tuner.FORMAT,
        t4.FORMAT,
        columns.FORMAT,
        triton_autotune.FORMAT,
        helion.FORMAT,
        sol_execbench.FORMAT,
        flashinfer_bench.FORMAT,
        kernelbench_results.FORMAT,
        kernelbench_timing.FORMAT,
        kernelbench_com.FORMAT,
        cuda_l1.FORMAT,
        vllm.FORMAT,
        sglang.FORMAT,
        liger_kernel.FORMAT,
        aiter_configs.FORMAT,
        neusight.FORMAT,
        times_table.FORMAT,
    )
}
"""Every format with rows, by name."""


def read(
    path: str | os.PathLike[str],
    name: str | None = None,
    labels: Labels | None = None,
    *,
    numbers: bool = True,
) -> Imported:
    """Return the rows of a file, each named by its content.

    A row has the same name in any file and place, so a store takes only the new rows of a file that
    has grown since its import. The name includes what only the path says (the kernel of T4 results,
    the run of KernelBench's), or equal failures of two kernels would be one row. It includes the
    user's `Labels` that replace the file's: the family, and the GPU if the file names none.

    Args:
        path: the file, maybe compressed (``.gz``).
        name: one of `FORMATS`; by default the one that recognises the file.
        labels: what the user says about it.
        numbers: whether rows are named; a store needs it.

    Raises:
        InputError: the file cannot be read, or has another format.
    """
    document = Document(path)
    chosen = _format_of_document(document, name)
    try:
        imported = chosen.read(document, labels or Labels())
    except (AttributeError, KeyError, TypeError, ValueError, csv.Error) as error:
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} cannot be read as {chosen.about}: {what}") from error
    if not numbers or (imported.rows and imported.rows[0].run_id):
        return imported
    return replace(imported, rows=numbered(chosen.name, imported.rows, changed=document.changed))


def _format_of_document(document: Document, name: str | None) -> Format:
    valid = ", ".join(FORMATS)
    if name is not None:
        if name not in FORMATS:
            raise InputError(f"unknown format {name!r}; choose one of: {valid}")
        return FORMATS[name]
    for form in FORMATS.values():
        if form.recognises(document):
            return form
    raise InputError(
        f"{document.path} has no known format; those that `solkit data import --format` takes "
        f"are: {valid}"
    )
