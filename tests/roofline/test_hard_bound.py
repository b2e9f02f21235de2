"""Why the hard bound lies below the roofline: a sentence for each term that it leaves out."""

from __future__ import annotations

import pytest

from solkit.core import OpWork, Work
from solkit.roofline import devices
from solkit.roofline.bound import bound
from solkit.roofline.hard_bound import slack_reasons

H100 = devices.find("h100-sxm")
MIB = 1 << 20


def make(ops=(), read=0, write=0, hard_read=None, hard=None, **changes):
    operations = {}
    for op in ops:
        for key, n in op.operations.items():
            operations[key] = operations.get(key, 0) + n
    hard_read = read if hard_read is None else hard_read
    return Work(operations, hard or {}, read, write, hard_read, write, ops=tuple(ops), **changes)


def reasons(work, time_ms=None):
    return slack_reasons(work, bound(work, H100), H100, time_ms)


def test_output_that_l2_keeps():
    (sentence,) = reasons(make(read=64 * MIB, write=32 * MIB))
    assert sentence.startswith("32 MiB of the output may still lie in L2 (50 MiB)")
    (sentence,) = reasons(make(read=64 * MIB, write=80 * MIB))
    assert sentence.startswith("50 MiB")


def test_reads_that_are_not_sure():
    (sentence,) = reasons(make(read=64 * MIB, hard_read=48 * MIB))
    assert sentence.startswith("16 MiB of the traffic may not be needed")


def test_special_functions():
    (sentence,) = reasons(make([OpWork("aten.sin", {"sfu": 10**9})]))
    assert sentence.startswith("Special functions")


@pytest.mark.parametrize(
    ("name", "hard_flops", "shortcut", "says"),
    [
        ("aten.convolution", 0, "transform", "Winograd"),
        ("aten.mm", 0, "summed:aten.mean", "mean sums its output"),
        ("aten.mm", 0, "beyond:aten.max_pool2d", "what max_pool2d makes of its output"),
        ("aten.mm", 5 * 10**11, "part", "symmetric"),
        ("solkit.attention", 0, "attention", "mask"),
    ],
)
def test_contractions_with_a_shortcut_say_which(name, hard_flops, shortcut, says):
    hard = {"contraction.bf16": hard_flops} if hard_flops else {}
    work = make([OpWork(name, {"contraction.bf16": 10**12}, hard_flops, shortcut)], hard=hard)
    sentences = reasons(work)
    assert sentences[0].startswith(f"{name}: ")
    assert says in sentences[0]


def test_a_precision_that_a_faster_pipe_may_hold():
    op = OpWork("aten.mm", {"contraction.fp32": 10**12}, 10**12)
    (sentence,) = reasons(make([op], hard={"contraction.fp32": 10**12}))
    assert "tensor.fp16" in sentence
    assert "one pass on the fastest" in sentence


def test_only_roofs_above_the_measured_time_are_explained():
    work = make([OpWork("aten.sin", {"sfu": 10**9})], read=MIB, write=MIB)
    result = bound(work, H100)
    assert result.limiter == "sfu"
    assert len(reasons(work, 0.5 * result.time_ms)) == 1
    assert len(reasons(work, 0.5 * result.resources[1].time_ms)) == 2
    assert reasons(work, 2 * result.time_ms) == ()


def test_guessed_values_leave_nothing_certain():
    work = make(read=MIB, write=MIB, hard_read=0, guesses=("m.py:3: .item() was guessed",))
    (sentence,) = reasons(work)
    assert "m.py:3" in sentence
