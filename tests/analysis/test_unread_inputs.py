"""Inputs that a candidate never reads."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.adapters.triton_compiler import Compiled
from solkit.analysis.candidate import analyse
from solkit.analysis.cuda import ptx_kernel, read_parameters
from solkit.kernelfiles import Workload
from solkit.roofline import devices

N = 1 << 16
MANY = 1 << 24  # more programs than are followed


@triton.jit
def add_kernel(x, y, out, BOTH: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + at)
    if BOTH:
        total += tl.load(y + at)
    tl.store(out + at, total)


@triton.jit
def late_kernel(x, y, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + at)
    if tl.program_id(0) == 16_001:
        total += tl.load(y + at)
    tl.store(out + at, total)


@triton.jit
def pair_kernel(pair, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(pair[0] + at) + tl.load(pair[1] + at))


@triton.jit
def boxes_kernel(x, y, out, BLOCK: tl.constexpr):  # noqa: ARG001
    at = tl.program_id(0) * BLOCK
    out.store([at], x.load([at]))


def added(x, y, both, kernel=add_kernel):
    out = torch.empty_like(x)
    options = {"BOTH": both} if kernel is add_kernel else {}
    kernel[(x.numel() // 1024,)](x, y, out, BLOCK=1024, **options)
    return out


def by_pair(x, y):
    out = torch.empty_like(x)
    pair_kernel[(N // 1024,)]((x, y), out, BLOCK=1024)
    return out


def by_boxes(x, y):
    out = torch.empty_like(x)
    boxes = (TensorDescriptor.from_tensor(item, [1024]) for item in (x, y, out))
    boxes_kernel[(N // 1024,)](*boxes, BLOCK=1024)
    return out


def by_address(x, y):
    at = torch.tensor([x.data_ptr(), y.data_ptr()], device="cuda")
    return at.float()


def in_part(x, y):
    add_kernel[(8,)](y, y, x, BOTH=False, BLOCK=1024)
    return x.view(64, -1)


_packed = {}


def once(x, y):
    if "y" not in _packed:
        _packed["y"] = y.half()
    return x + _packed["y"]


CASES = {
    "both": (lambda x, y: added(x, y, True), N, ()),
    "one of two": (lambda x, y: added(x, y, False), N, (1,)),
    "one of two of many programs": (lambda x, y: added(x, y, False), MANY, (1,)),
    "one program of many": (lambda x, y: added(x, y, True, late_kernel), MANY, ()),
    "the same twice": (lambda x, y: added(x, x, True), N, (1,)),  # noqa: ARG005
    "one after the other": (lambda x, y: (added(x, y, False), added(y, x, False)), N, ()),
    "a tuple": (by_pair, N, ()),
    "descriptors": (by_boxes, N, (1,)),
    "operators": (lambda x, y: torch.relu(x), N, (1,)),  # noqa: ARG005
    "views of operators": (lambda x, y: x.view(-1, 64).t() + y.view(-1, 64).t(), N, ()),
    "its shape": (lambda x, y: x + torch.zeros_like(y), N, (1,)),
    "a number of it": (lambda x, y: x * y[0].item(), N, ()),
    "its address": (by_address, N, ()),
    "at the first call alone": (once, N, ()),
    "nothing": (lambda x, y: torch.ones_like(x), N, (0, 1)),  # noqa: ARG005
    "returned as it is": (lambda x, y: x, N, (1,)),  # noqa: ARG005
    "a view returned, written in part": (in_part, N, ()),
}


@pytest.mark.quick("both", "returned as it is")
@pytest.mark.parametrize("name", CASES)
def test_inputs_that_nothing_reads(in_child, name):
    function, size, expected = CASES[name]

    def child():
        def drawn():
            tensors = torch.randn(size, device="cuda"), torch.randn(size, device="cuda")
            return Workload(tensors, {}, None, function, again=drawn)

        return analyse(drawn(), devices.find("h100"), {}, 1)

    assert in_child(child).unread == expected


PTX = """
.visible .entry k(
  .param .u64 x,
  .param .u64 y,
  .param .u64 out,
  .param .u64 table
)
{
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u64 %rd3, [out];
  ld.param.u64 %rd4, [table];
  mul.wide.u32 %rd5, %r1, 4;
  add.s64 %rd6, %rd1, %rd5;
  ld.global.f32 %f1, [%rd6];
  add.s64 %rd7, %rd3, %rd5;
  st.global.f32 [%rd7], %f1;
  MORE
  ret;
}
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", {0}),
        ("st.global.u64 [%rd4], %rd2;", {0, 1}),  # another kernel may follow it
        ("red.global.add.f32 [%rd2], %f1;", {0, 1}),
        ("call.uni outside, (param0);", {0, 1, 2, 3}),
    ],
)
def test_parameters_through_which_a_kernel_reads(more, expected):
    assert read_parameters(Compiled(ptx=PTX.replace("MORE", more), entry="k")) == expected


def test_a_kernel_is_read_once_for_all_of_its_inputs(monkeypatch):
    counts = []
    real = ptx_kernel.control_flow_of
    monkeypatch.setattr(
        ptx_kernel, "control_flow_of", lambda parts: counts.append(1) or real(parts)
    )
    compiled = Compiled(ptx=PTX.replace("MORE", "") + "// read by this test alone", entry="k")
    results = {read_parameters(compiled) for _ in range(3)}
    assert len(results) == len(counts) == 1
