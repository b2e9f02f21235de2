"""Launches on worst-case grids, where most programs leave at once and others differ in length."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from solkit.analysis.candidate import analyse
from solkit.core import OutputBytes
from solkit.kernelfiles import Workload
from solkit.roofline import devices

WIDTH = 128


@triton.jit
def grouped_kernel(x, out, order, starts, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    group = tl.program_id(1)
    low, high = tl.load(starts + group), tl.load(starts + group + 1)
    first = low + tl.program_id(0) * BLOCK
    if first >= high:
        return
    rows = first + tl.arange(0, BLOCK)
    inside = (rows < high)[:, None]
    taken = tl.load(order + rows, mask=rows < high, other=0)
    columns = tl.arange(0, WIDTH)[None, :]
    values = tl.load(x + taken[:, None] * WIDTH + columns, inside)
    tl.store(out + rows[:, None] * WIDTH + columns, values, inside)


@triton.jit
def masked_kernel(x, out, lengths, longest, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < tl.load(lengths + row)
    tl.store(out + row * longest + at, tl.load(x + row * longest + at, inside), inside)


@triton.jit
def walking_kernel(x, out, starts, WIDTH: tl.constexpr):
    sequence = tl.program_id(0)
    low, high = tl.load(starts + sequence), tl.load(starts + sequence + 1)
    columns = tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    for row in range(low, high):
        total += tl.load(x + row * WIDTH + columns)
    tl.store(out + sequence * WIDTH + columns, total)


def starts_of(lengths):
    return torch.cat([torch.zeros(1, dtype=torch.int64), torch.tensor(lengths).cumsum(0)])


def grouped(lengths, block=16, until=None, is_mixed=True):
    """Rows of each group, on a grid for groups as long as all together."""
    rows = sum(lengths)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
    order = (order if is_mixed else order.sort().values).cuda()
    starts = starts_of(lengths if until is None else lengths[:until]).cuda()
    x = torch.randn(rows, WIDTH, device="cuda")

    def call():
        out = torch.empty_like(x)
        grid = (triton.cdiv(rows, block), len(starts) - 1)
        grouped_kernel[grid](x, out, order, starts, WIDTH=WIDTH, BLOCK=block)
        return out

    return call


def masked(lengths, longest):
    lengths = torch.tensor(lengths).cuda()
    x = torch.randn(len(lengths), longest, device="cuda")

    def call():
        out = torch.zeros_like(x)
        masked_kernel[longest // 256, len(lengths)](x, out, lengths, longest, BLOCK=256)
        return out

    return call


def walking(lengths):
    starts = starts_of(lengths).cuda()
    x = torch.randn(sum(lengths), WIDTH, device="cuda")

    def call():
        out = torch.empty(len(lengths), WIDTH, device="cuda")
        walking_kernel[(len(lengths),)](x, out, starts, WIDTH=WIDTH)
        return out

    return call


@pytest.fixture
def analysed(in_child):
    def run(make, *args, **kwargs):
        def child():
            workload = Workload((), {}, None, make(*args, **kwargs))
            return analyse(workload, devices.find("h100"), {}, 1)

        return in_child(child, device="h100")

    return run


def moved(analysis):
    (kernel,) = analysis.own
    return kernel.demand.dram_read_bytes, kernel.demand.dram_write_bytes


def test_rows_of_all_groups_count_on_a_worst_case_grid(analysed):
    # 1,024 x 16 programs, of which 1,024 work; the first 4,096 are those of 4 groups
    rows = 16384
    analysis = analysed(grouped, [rows // 16] * 16)
    read, written = moved(analysis)
    assert read == pytest.approx(rows * (4 * WIDTH + 8), rel=0.02)  # and the order
    assert written == rows * 4 * WIDTH
    assert analysis.written == (OutputBytes(rows * 4 * WIDTH, rows * 4 * WIDTH),)


@pytest.mark.slow
@pytest.mark.parametrize("is_mixed", [False, True])
def test_more_programs_work_than_are_followed(is_mixed, analysed):
    # 10,240 of 163,840 programs work, 8,192 of them in the last group
    lengths = [8192, *([1707] * 14), 131072 + 16 * 2048 - 8192 - 14 * 1707]
    rows = sum(lengths)
    analysis = analysed(grouped, lengths, is_mixed=is_mixed)
    read, written = moved(analysis)
    assert read == pytest.approx(rows * (4 * WIDTH + 8), rel=0.03)
    assert written == pytest.approx(rows * 4 * WIDTH, rel=0.03)
    assert analysis.written == ()  # not all were followed


def test_what_no_program_writes_is_told_where_all_were_followed(analysed):
    rows = 16384
    analysis = analysed(grouped, [rows // 16] * 16, until=12)
    assert analysis.written == (OutputBytes(rows * 4 * WIDTH, rows * 3 * WIDTH),)


@pytest.mark.slow
def test_masks_that_memory_switches_off_leave_a_program_nothing(analysed):
    # the first 4,096 of 16,384 programs have one row of 256 elements each
    lengths = [256] * 64 + [16384] * 192
    read, written = moved(analysed(masked, lengths, 16384))
    assert read == pytest.approx(4 * sum(lengths), rel=0.03)
    assert written == pytest.approx(4 * sum(lengths), rel=0.03)


@pytest.mark.slow
def test_a_few_long_sequences_among_many_short_ones_count(analysed):
    lengths = [4] * 9000
    lengths[7001] = lengths[7003] = lengths[8887] = 6000
    read, written = moved(analysed(walking, lengths))
    assert read == pytest.approx(4 * WIDTH * sum(lengths), rel=0.08)
    assert written == pytest.approx(4 * WIDTH * len(lengths), rel=0.08)
