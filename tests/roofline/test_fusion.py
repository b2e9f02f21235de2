"""Fusion levels by hand: what each kernel reads and writes once everything in between crosses."""

from __future__ import annotations

import pytest

import solkit
from solkit.errors import InputError
from solkit.report.fusion import format_op_numbers, fusion_summary
from solkit.roofline import devices
from solkit.roofline.names import short_name

H100 = devices.find("h100-sxm")
MIB = 1 << 20
# 1 Mi floats are 4 MiB. Line 8: two ops; line 9: one.
CHAIN = """
def inputs(device="cuda"):
    return torch.randn(1024, 1024, device=device), torch.randn(1024, device=device)

def reference(x, bias):
    y = torch.relu(x + bias)
    return torch.softmax(y, -1)
"""


@pytest.fixture
def levels(write):
    def cut(body, groups=None, **options):
        return solkit.fusion(write(body), H100, groups=groups, **options)

    return cut


def kernels(parts):
    return [
        (format_op_numbers(p.part.positions), "+".join(map(short_name, p.part.names)), moved(p))
        for p in parts
    ]


def moved(part):
    return part.part.work.dram_read_bytes, part.part.work.dram_write_bytes


def test_one_kernel_an_op_writes_and_reads_all_in_between(levels):
    results = levels(CHAIN)
    assert kernels(results.unfused) == [
        ("0", "add", (4 * MIB + 4096, 4 * MIB)),
        ("1", "relu", (4 * MIB, 4 * MIB)),
        ("2", "softmax", (4 * MIB, 4 * MIB)),
    ]
    assert results.grouped == ()
    assert results.unfused_ms == pytest.approx(sum(p.bound.time_ms for p in results.unfused))
    assert results.fused_ms == pytest.approx(1e3 * (8 * MIB + 4096) / H100.ceilings["dram"].value)
    assert results.worth == pytest.approx(3, rel=1e-3)
    assert "fusion is worth up to 3.00×" in fusion_summary(results)
    assert [p.part.line.rpartition(":")[2] for p in results.unfused] == ["8", "8", "9"]


def test_each_kernel_takes_at_least_a_launch(levels):
    body = """
def inputs(device="cuda"):
    return (torch.randn(1024, device=device),)

def reference(x):
    for _ in range(20):
        x = torch.sin(x)
    return x
"""
    results = levels(body)
    floor_ms = results.unfused[0].bound.at.launch_floor_ms
    assert len(results.unfused) == 20
    assert results.unfused_ms == pytest.approx(20 * floor_ms)  # not 20 times 8 KiB of traffic
    assert results.unfused_ms > 100 * results.fused_ms
    assert results.worth == pytest.approx(20)  # one kernel is launched once


@pytest.mark.quick("0-1", "L8")
@pytest.mark.parametrize("groups", ["0-1", "0+1", "add+relu", "L8"])
def test_a_group_keeps_what_is_in_between_on_the_chip(levels, groups):
    results = levels(CHAIN, groups)
    assert kernels(results.grouped) == [
        ("0-1", "add+relu", (4 * MIB + 4096, 4 * MIB)),
        ("2", "softmax", (4 * MIB, 4 * MIB)),
    ]
    assert len(results.unfused) == 3
    assert results.fused_ms < results.grouped_ms < results.unfused_ms


def test_names_make_a_kernel_of_each_place_and_views_belong_to_none(levels):
    results = levels(
        """
def inputs(device="cuda"):
    return [torch.randn(512, 512, device=device) for _ in range(3)]
def reference(x, a, b):
    x = F.relu(F.linear(x, a)).t()
    return F.relu(F.linear(x.reshape(512, 512), b))
""",
        "linear+relu",
    )
    assert [number for number, *_ in kernels(results.grouped)] == ["0-1", "2-3"]
    assert kernels(results.grouped)[0][1:] == ("mm+relu", (2 * MIB, MIB))


def test_a_result_that_two_kernels_need_is_written_once_and_read_twice(levels):
    results = levels(
        """
def inputs(device="cuda"):
    return torch.randn(1024, 1024, device=device)
def reference(x):
    y = torch.exp(x)
    return y + 1, y.sum()
"""
    )
    assert [moved(p) for p in results.unfused] == [
        (4 * MIB, 4 * MIB),
        (4 * MIB, 4 * MIB),
        (4 * MIB, 4),
    ]


def test_in_place_updates_stay_between_their_neighbours(levels):
    results = levels(
        """
def inputs(device="cuda"):
    return torch.randn(1024, 1024, device=device)
def reference(x):
    y = x * 2
    y[:512].add_(1)
    return y.sum(-1)
"""
    )
    assert [moved(p) for p in results.unfused] == [
        (4 * MIB, 4 * MIB),
        (2 * MIB, 2 * MIB),
        (4 * MIB, 4096),
    ]


def test_kernels_that_would_have_to_wait_for_each_other(levels):
    with pytest.raises(InputError, match="ops 0, 1 each need what the others make"):
        levels(CHAIN, "0+2")


@pytest.mark.quick(
    "0-1,1-'1' names no op that is left",
    "L99-nothing is left that 'L99' names",
    "0-1,-'' in '0-1,' is not a group",
)
@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ("7", "no op 7: the last one is 2"),
        ("0-1,1", "'1' names no op that is left"),
        ("gelu", "nothing is left that 'gelu' names; ops: add, relu, softmax"),
        ("L99", "nothing is left that 'L99' names"),
        ("0+relu", "'0\\+relu' in '0\\+relu' is not a group"),
        ("0-1,", "'' in '0-1,' is not a group"),
    ],
)
def test_groups_that_cannot_be(levels, groups, says):
    with pytest.raises(InputError, match=says):
        levels(CHAIN, groups)


def test_a_warm_protocol_holds_for_every_kernel(levels):
    results = levels(CHAIN, protocol="warm")
    assert {p.bound.limiter for p in results.unfused} == {"l2"}
    assert results.fused_ms == pytest.approx(1e3 * (8 * MIB + 4096) / H100.ceilings["l2"].value)


def test_a_single_op_has_nothing_to_fuse(levels):
    results = levels("def inputs(device='cuda'): return torch.ones(9)\ndef reference(x): return -x")
    assert results.worth == 1
    assert fusion_summary(results) == "a single op: nothing to fuse"


def test_numbers_read_as_they_are_written():
    assert format_op_numbers((0, 1, 2, 5)) == "0-2+5"
    assert format_op_numbers((4,)) == "4"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("aten._softmax", "softmax"),
        ("aten.native_layer_norm", "layer_norm"),
        ("aten.add_", "add"),
        ("solkit.attention", "attention"),
    ],
)
def test_short_names(name, short):
    assert short_name(name) == short
