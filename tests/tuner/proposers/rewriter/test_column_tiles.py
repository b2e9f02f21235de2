"""Blocks of whole rows as tiles of several programs: whether variants are right; what stays."""

from __future__ import annotations

import pytest
from rewriting import variants

from solkit.tuner.proposers.rewriter.column_tiles import ColumnTiles
from solkit.tuner.proposers.rewriter.tile_constants import Retile

SIDES = {"M": 3, "D": 200}
GATHER = """
def reference(ids, weights, table):
    return torch.einsum("mk,mkd->md", weights, table[ids])


def inputs(M=3, D=200, device="cuda"):
    ids = torch.randint(0, 7, (M, 4), device=device)
    return ids, torch.rand(M, 4, device=device), torch.randn(7, D, device=device)


@triton.jit
def gather_kernel(ids_ptr, w_ptr, table_ptr, out_ptr, K: tl.constexpr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, BLOCK)
    k = tl.arange(0, K)
    ids = tl.load(ids_ptr + row * K + k)
    w = tl.load(w_ptr + row * K + k)
    mask = d < D
    rows = tl.load(table_ptr + ids[:, None] * D + d[None, :], mask=mask[None, :], other=0.0)
    tl.store(out_ptr + row * D + d, tl.sum(w[:, None] * rows, axis=0), mask=mask)


def kernel(ids, weights, table):
    M, K = ids.shape
    D = table.shape[1]
    out = torch.empty(M, D, device=ids.device)
    gather_kernel[(M,)](ids, weights, table, out, K, D, BLOCK=triton.next_power_of_2(D))
    return out
"""


def test_a_row_is_shared_by_programs(is_right):
    (variant,) = variants(ColumnTiles(), GATHER, **SIDES)
    assert "d = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))" in variant
    assert "gather_kernel[(M, triton.cdiv(D, COLUMNS))](" in variant
    assert '"COLUMNS": [64, 128, 256]' in variant  # so many of a table's columns may stay in L2
    assert is_right(variant.replace("COLUMNS=128", "COLUMNS=64"), GATHER, **SIDES)


def test_blocks_without_masks_have_as_many_elements_as_before(is_right):
    source = GATHER.replace(", mask=mask)", ")").replace(", mask=mask[None, :], other=0.0", "")
    source = source.replace("D=200", "D=256")
    (variant,) = variants(ColumnTiles(), source, M=3, D=256)
    assert "columns = min(COLUMNS, triton.next_power_of_2(D))" in variant
    assert "triton.cdiv(triton.next_power_of_2(D), columns)" in variant
    assert is_right(variant.replace("COLUMNS=128", "COLUMNS=64"), source, M=3, D=256)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("axis=0)", "axis=0) / tl.sum(d)"),
        ("axis=0)", "axis=0) + tl.max(rows)"),
        ("axis=0)", "axis=0) * BLOCK"),
        ("axis=0)", "axis=0) + tl.num_programs(1)"),
        ("axis=0), mask=mask)", "axis=0), mask=mask)\n    tl.atomic_add(w_ptr, 1.0)"),
        ("axis=0), mask=mask)", "axis=0), mask=mask)\n    tl.store(out_ptr, tl.load(table_ptr))"),
        ("rows = tl.load(table_ptr", "rows = tl.load(out_ptr"),  # what another program stores
        ("    mask = d < D", "    d = tl.flip(d)\n    mask = d < D"),
        ("    mask = d < D", "    d = tl.cumsum(d, 0)\n    mask = d < D"),
        ("    mask = d < D", "    mask = (d < D) & (tl.arange(0, 256) < D)"),  # of its own length
        (
            "    mask = d < D",
            "    tl.store(out_ptr + d[:, None] * D + d, d[:, None] * d)\n    mask = d < D",
        ),
        ("    tl.store", "    tl.debug_barrier()\n    tl.store"),  # of all elements
        (
            "out = torch.empty(M, D, device=ids.device)",
            "out = first_rows(table)",
        ),  # it may be a view
    ],
)
def test_what_needs_a_whole_row_stays(old, new):
    source = GATHER.replace(old, new)
    assert source != GATHER
    assert not variants(ColumnTiles(), source, **SIDES)


def test_what_is_stored_where_it_was_loaded_may_be_cut(is_right):
    source = (
        GATHER.replace(
            "tl.sum(w[:, None] * rows, axis=0)", "tl.load(out_ptr + row * D + d, mask=mask) + 1.0"
        )
        .replace(
            'torch.einsum("mk,mkd->md", weights, table[ids])',
            "torch.ones(*ids.shape[:1], table.shape[1], device=ids.device)",
        )
        .replace("torch.empty(M, D", "torch.zeros(M, D")
    )
    (variant,) = variants(ColumnTiles(), source, **SIDES)
    assert is_right(variant.replace("COLUMNS=128", "COLUMNS=64"), source, **SIDES)
    moved = source.replace("tl.load(out_ptr + row * D + d,", "tl.load(out_ptr + row * D + d + 1,")
    assert not variants(ColumnTiles(), moved, **SIDES)


def test_a_tile_of_the_grid_is_cut_already():
    (variant,) = variants(ColumnTiles(), GATHER, **SIDES)
    source = variant.partition("import triton.language as tl\n")[2]
    assert not variants(ColumnTiles(), source, **SIDES)
    assert not any("COLUMNS_2" in text for text in variants(Retile(), source, **SIDES))
