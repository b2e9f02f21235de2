"""How much of its outputs a candidate writes."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from solkit.analysis.candidate import analyse
from solkit.core import OutputBytes
from solkit.kernelfiles import Workload
from solkit.roofline import devices

N = 1 << 16
WHOLE = (OutputBytes(4 * N, 4 * N),)


@triton.jit
def copy_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def one_of_two_kernel(x, out, unused, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + tl.load(unused + at))


def copied(x, out, share=1):
    copy_kernel[(x.numel() // 1024 // share,)](x, out, BLOCK=1024)
    return out


def in_halves(x):
    out = torch.empty_like(x)
    for part, target in zip(x.chunk(2), out.chunk(2), strict=True):
        copied(part, target)  # equal launches, to two places of one tensor
    return out


def two_of_a_kind(x):
    return [copied(x, torch.empty_like(x)) for _ in range(2)]


def one_of_two(x):
    outs = torch.empty_like(x), torch.empty_like(x)
    one_of_two_kernel[(N // 1024,)](x, *outs, BLOCK=1024)
    return outs


CASES = {
    "whole": (lambda x: copied(x, torch.empty_like(x)), WHOLE),
    "a quarter": (lambda x: copied(x, torch.empty_like(x), 4), (OutputBytes(4 * N, N),)),
    "a quarter over zeros": (lambda x: copied(x, torch.zeros_like(x), 4), WHOLE),
    "in halves": (in_halves, WHOLE),
    "two of a kind": (two_of_a_kind, 2 * WHOLE),
    "one of two": (one_of_two, (*WHOLE, OutputBytes(4 * N, 0))),
    "by an operator": (lambda x: copied(x, torch.empty_like(x), 4) + 1, WHOLE),
    "a view": (lambda x: copied(x, torch.empty_like(x)).view(-1, 64).t(), WHOLE),
    "an input": (lambda x: copied(x, x), ()),
}


@pytest.mark.parametrize("name", CASES)
def test_bytes_of_each_output(in_child, name):
    function, expected = CASES[name]

    def child():
        workload = Workload((torch.randn(N, device="cuda"),), {}, None, function)
        return analyse(workload, devices.find("h100"), {}, 1)

    assert in_child(child).written == expected
