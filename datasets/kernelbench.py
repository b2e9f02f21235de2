"""Measured times of KernelBench's references: a baseline for scores without a GPU.

`shipped_rows` returns a table, `baseline_row` the row of a file. ``data/kernelbench_<gpu>.md`` says
what the tables hold and how they were measured; ``bench/kernelbench_dataset.py`` makes them.
Reading needs pyarrow (``pip install 'solkit[data]'``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from solkit.datasets import shipped
from solkit.datasets.tables import pyarrow_module, table_of
from solkit.errors import InputError

VARIANTS = ("eager", "compiled", "eager_tf32", "compiled_tf32")
"""Ways a reference ran: eagerly or through ``torch.compile``, with PyTorch's own settings or with
tf32 allowed in matrix products (in convolutions it is allowed by default)."""

OK, SAME_AS_DEFAULT = "ok", "same_as_default"
"""Values of `TimedReference.status` that are not failures."""


@dataclass(frozen=True)
class TimedReference:
    """One reference of KernelBench in one variant, on one GPU: a row of the table.

    Attributes:
        level, number, name: the problem; the name is the file's stem.
        sha256: of the problem's file, in hex: the key.
        category: the kind of problem, from its name.
        device: the GPU's name as the driver gives it.
        variant: one of `VARIANTS`.
        status: ``"ok"``; ``"same_as_default"`` for a tf32 variant of a problem without a matrix
            product, whose time is the default variant's; else a failing `solkit.core.Verdict`.
        message: why it failed.
        median_ms: median time of a call, from the first start to the last end on the GPU.
        low_ms, high_ms: the median's 95 % interval.
        kernel_sum_ms: median of the summed kernel times.
        samples: number of timed calls.
        method: ``"cupti"`` or ``"events"``.
        sm_clock_mhz: median SM clock during timing.
        matmul_tf32, conv_tf32: whether tf32 was allowed.
        compile_s: seconds that ``torch.compile`` took with the first call.
        max_error: largest difference from eager mode with PyTorch's own settings.
        relative_error: `max_error` over the largest output.
        within_tolerance: whether SolKit's default tolerance accepts `max_error`.
        input_change: largest change of an output on other inputs of the same shape, over the
            largest output.
        degenerate: whether `input_change` is below rounding, so that the output does not depend on
            inputs.
        precision: the rule of the bounds: ``"tf32"`` if the variant may use it.
        roofline_ms: the speed of light.
        unfused_ms: the speed of light with one kernel per op, one after the other.
        hard_ms: what no correct implementation can beat.
        limiter: the resource behind the roofline.
        resource_ms: the least time of each resource, as JSON.
        ratio: median over roofline.
        verdict: the resulting `solkit.core.Verdict`.
        unmodelled: ops that the bound counts as nothing, separated by spaces.
        run: when its run began (UTC).
    """

    level: int
    number: int
    name: str
    sha256: str
    category: str
    device: str
    variant: str
    status: str
    message: str | None
    median_ms: float | None
    low_ms: float | None
    high_ms: float | None
    kernel_sum_ms: float | None
    samples: int | None
    method: str | None
    sm_clock_mhz: float | None
    matmul_tf32: bool | None
    conv_tf32: bool | None
    compile_s: float | None
    max_error: float | None
    relative_error: float | None
    within_tolerance: bool | None
    input_change: float | None
    degenerate: bool | None
    precision: str | None
    roofline_ms: float | None
    unfused_ms: float | None
    hard_ms: float | None
    limiter: str | None
    resource_ms: str | None
    ratio: float | None
    verdict: str | None
    unmodelled: str | None
    run: str


def shipped_rows(gpu: str = "h100") -> tuple[TimedReference, ...]:
    """Return every row of a GPU's shipped table.

    Raises:
        InputError: that GPU has no table.
        UnsupportedError: pyarrow or the measured sets are not installed.
    """
    tables = shipped.folder(f"KernelBench times for {gpu!r}")
    path = tables / f"kernelbench_{gpu}.parquet"
    if not path.exists():
        valid = sorted(p.stem.partition("_")[2] for p in tables.glob("kernelbench_*.parquet"))
        raise InputError(f"no KernelBench times for {gpu!r}; there are: {', '.join(valid)}")
    return read_baselines(path)


def baseline_row(
    problem: str | os.PathLike[str], gpu: str = "h100", variant: str = "eager"
) -> TimedReference:
    """Return the row with the time of a problem's reference.

    Args:
        problem: a file of KernelBench, or its SHA-256 in hex.
        gpu: which table.
        variant: one of `VARIANTS`; if tf32 changes nothing, the default variant's row is returned.

    Raises:
        InputError: no such file, table or variant, or no time for it.
        UnsupportedError: pyarrow or the measured sets are not installed.
    """
    if variant not in VARIANTS:
        raise InputError(f"unknown variant {variant!r}; choose one of: {', '.join(VARIANTS)}")
    key = _digest_of_problem(problem)
    by_variant = {row.variant: row for row in shipped_rows(gpu) if row.sha256 == key}
    row = by_variant.get(variant)
    if row is not None and row.status == SAME_AS_DEFAULT:
        row = by_variant.get(variant.removesuffix("_tf32"))
    if row is None:
        raise InputError(f"{problem}: the KernelBench times for {gpu} have no such file")
    if row.median_ms is None:
        raise InputError(f"{problem}: its {variant} reference was not timed: {row.status}")
    return row


@lru_cache
def read_baselines(path: Path) -> tuple[TimedReference, ...]:
    """Return the rows of a Parquet file that `write_baselines` made."""
    return tuple(
        TimedReference(**row) for row in pyarrow_module().parquet.read_table(path).to_pylist()
    )


def write_baselines(table: Iterable[TimedReference], path: Path) -> None:
    """Write a table as Parquet; columns are the fields of `TimedReference`.

    Raises:
        ValueError: a row has no `sha256`.
    """
    times = table_of(TimedReference, table)
    if times["sha256"].null_count:
        raise ValueError("a row has no sha256")
    pyarrow_module().parquet.write_table(times, path, compression="zstd")


def _digest_of_problem(problem: str | os.PathLike[str]) -> str:
    text = os.fspath(problem)
    if len(text) == 64 and set(text) <= set("0123456789abcdef"):
        return text
    path = Path(text)
    if not path.is_file():
        raise InputError(f"{text}: no such file, and no SHA-256")
    return hashlib.sha256(path.read_bytes()).hexdigest()
