"""Bytes that must cross DRAM: inputs that the results depend on, and the results, once each.

The ops that matter (`demand`) tell which regions of which inputs are read. Everything in between
may stay on the chip.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from solkit.roofline.work.program import Program, TensorUse, TracedOp
from solkit.roofline.work.regions import covered_bytes, covers
from solkit.roofline.work.shortcuts import surely_read

__all__ = ["Traffic", "traffic"]


@dataclass(frozen=True)
class Traffic:
    """Compulsory DRAM traffic of a program, in bytes.

    Attributes:
        reads, writes: bytes of the roofline by storage.
        hard_read_bytes: of `reads`, what rests on no assumption.
        assumptions: what the rest assumes, each a sentence.
    """

    reads: Mapping[int, int]
    writes: Mapping[int, int]
    hard_read_bytes: int
    assumptions: tuple[str, ...]

    @property
    def read_bytes(self) -> int:
        """Bytes read, over all storages."""
        return sum(self.reads.values())

    @property
    def write_bytes(self) -> int:
        """Bytes written, over all storages."""
        return sum(self.writes.values())


def traffic(program: Program, live: list[TracedOp]) -> Traffic:
    """The bytes that any implementation moves, given the ops that matter."""
    reads: dict[int, list[TensorUse]] = defaultdict(list)
    rows: dict[int, list[_Rows]] = defaultdict(list)
    made: set[int] = set()
    overwritten: dict[int, list[TensorUse]] = defaultdict(list)
    for op in live:
        picked = _picked_rows(op)
        for use in op.inputs:
            if use.storage in made or any(covers(w, use) for w in overwritten[use.storage]):
                continue
            if picked is not None and use is picked.table:
                rows[use.storage].append(picked)
            else:
                reads[use.storage].append(use)
        made |= {use.storage for use in op.outputs}
        for use in op.written:
            overwritten[use.storage].append(use)
    sure = surely_read(program, live)
    full = {storage: covered_bytes(uses) for storage, uses in reads.items()}
    partly = {s: _rows_bytes(found) for s, found in rows.items() if s not in full}
    return Traffic(
        reads={**full, **{storage: most for storage, (most, _) in partly.items()}},
        writes=_written_bytes(program, live),
        hard_read_bytes=sum(
            [n for storage, n in full.items() if storage in sure]
            + [least for _, least in partly.values()]
        ),
        assumptions=tuple(
            dict.fromkeys(r.assumption for found in rows.values() for r in found if r.assumption)
        ),
    )


def _written_bytes(program: Program, live: list[TracedOp]) -> dict[int, int]:
    """Bytes, by storage, of results that some op wrote; an input handed back costs nothing."""
    made = {use.storage for op in live for use in op.outputs}
    results = {use.storage for use in program.results}
    written: dict[int, list[TensorUse]] = defaultdict(list)
    for use in program.results:
        if use.storage in made:
            written[use.storage].append(use)
    for use in (use for op in live for use in op.written):
        if use.storage in results - made:  # an input changed in place: what was changed
            written[use.storage].append(use)
    return {storage: covered_bytes(uses) for storage, uses in written.items()}


# ------------------------------------------------------------------------- picked-out rows

_MAX_MASK = 1 << 28  # elements of a table beyond which a mask over them is not made


@dataclass(frozen=True)
class _Rows:
    """An op that reads only the rows that an index names.

    Attributes:
        table: what is read from.
        row_bytes: bytes of a row.
        rows: distinct rows read; where the index is not known, as many as it could name.
        known: whether the index is known.
        indices: the distinct rows themselves, as a mask over rows, where known.
        assumption: what was assumed.
    """

    table: TensorUse
    row_bytes: int
    rows: int
    known: bool
    indices: npt.NDArray[np.bool_] | None
    assumption: str | None


def _rows_bytes(found: list[_Rows]) -> tuple[int, int]:
    """(bytes that are read, bytes that are surely read) of one table over all its readers."""
    same_rows = len({(r.row_bytes, None if r.indices is None else r.indices.size) for r in found})
    if same_rows == 1 and found[0].indices is not None:
        masks = np.stack([r.indices for r in found if r.indices is not None])
        exact = int(masks.any(axis=0).sum()) * found[0].row_bytes
        return exact, exact
    most = max(r.rows * r.row_bytes for r in found)
    least = max((r.rows if r.known else min(r.rows, 1)) * r.row_bytes for r in found)
    return most, least


def _picked_rows(op: TracedOp) -> _Rows | None:
    reader = _PICKERS.get(op.name)
    return reader(op) if reader is not None else None


def _embedding(op: TracedOp) -> _Rows | None:
    return _rows(op, op.arguments["weight"], 0, op.arguments["indices"])


def _index_select(op: TracedOp) -> _Rows | None:
    return _rows(op, op.arguments["self"], op.arguments["dim"], op.arguments["index"])


def _index(op: TracedOp) -> _Rows | None:
    """``table[index]`` with one index tensor; several at once are read as elements."""
    table, indices = op.arguments["self"], op.arguments["indices"]
    given = [(dim, i) for dim, i in enumerate(indices) if i is not None]
    if any(i.dtype == torch.bool for _, i in given):
        return None
    if len(given) == 1:
        return _rows(op, table, *given[0])
    return _elements(op, table, op.outputs[0].numel)


def _gather(op: TracedOp) -> _Rows | None:
    """``gather`` picks single elements: along `dim` by value, along the rest by position."""
    table, dim, index = (op.arguments[name] for name in ("self", "dim", "index"))
    if index.value is None or not table.shape:
        return _elements(op, table, index.numel)
    dim %= len(table.shape)
    if table.numel > _MAX_MASK:
        return _elements(op, table, index.numel)
    touched = np.zeros(table.shape, dtype=bool)
    where = [slice(0, n) for n in index.shape]
    where[dim] = slice(None)
    np.put_along_axis(touched[tuple(where)], index.value.astype(np.int64), True, axis=dim)
    return _Rows(table, table.dtype.itemsize, int(touched.sum()), True, touched.ravel(), None)


def _rows(op: TracedOp, table: TensorUse, dim: int, index: TensorUse) -> _Rows:
    dim = dim % len(table.shape) if table.shape else 0
    count = table.shape[dim] if table.shape else 1
    row_bytes = table.distinct // max(count, 1) * table.dtype.itemsize
    if index.value is not None:
        mask = np.zeros(count, dtype=bool)
        mask[index.value.ravel()] = True
        return _Rows(table, row_bytes, int(mask.sum()), True, mask, None)
    return _Rows(table, row_bytes, min(count, index.numel), False, None, _unknown(op))


def _elements(op: TracedOp, table: TensorUse, count: int) -> _Rows:
    return _Rows(table, table.dtype.itemsize, min(table.distinct, count), False, None, _unknown(op))


def _unknown(op: TracedOp) -> str:
    return f"The indices of {op.name} are not known: they were taken to be distinct."


_PICKERS: dict[str, Callable[[TracedOp], _Rows | None]] = {
    "aten.embedding": _embedding,
    "aten.index_select": _index_select,
    "aten.index": _index,
    "aten.gather": _gather,
}
