"""Gluon kernels: compiled and analysed through the same IR as Triton's."""

from __future__ import annotations

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from solkit.analysis.candidate import analyse_all
from solkit.core import AnalysisStatus, Depth
from solkit.kernelfiles import Workload
from solkit.roofline import devices

M, N, K = 256, 128, 64
# Triton 3.9 has other names, and what raises under the old ones
load = getattr(tma, "async_load", tma.async_copy_global_to_shared)
store = getattr(tma, "async_store", tma.async_copy_shared_to_global)


@gluon.jit
def product(a_desc, b_desc, c_desc, num_warps: gl.constexpr):
    a = gl.allocate_shared_memory(gl.float16, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(gl.float16, b_desc.block_type.shape, b_desc.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
    load(a_desc, [gl.program_id(0) * 64, 0], bar, a)
    load(b_desc, [0, 0], bar, b)
    mbarrier.wait(bar, 0)
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, 128, 16])
    acc = warpgroup_mma(a, b, gl.zeros((64, 128), gl.float32, mma))
    c = gl.allocate_shared_memory(gl.float16, c_desc.block_type.shape, c_desc.layout)
    c.store(acc.to(gl.float16))
    fence_async_shared()
    store(c_desc, [gl.program_id(0) * 64, 0], c)
    tma.store_wait(pendings=0)


@gluon.jit
def fails(x, num_warps: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [num_warps], [0])
    gl.static_assert(False, "as intended")
    gl.store(x + gl.arange(0, 128, layout=layout), 0.0)


def descriptor(tensor, block):
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float16)
    return TensorDescriptor.from_tensor(tensor, block, layout)


def multiply(a, b):
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    operands = descriptor(a, [64, K]), descriptor(b, [K, N]), descriptor(c, [64, N])
    product[(M // 64,)](*operands, num_warps=4)
    return c


def launch_failing(a, _):
    fails[(1,)](a, num_warps=4)
    return a


@pytest.fixture
def analysed(in_child):
    def run(kernel, depth):
        def child():
            a, b = (torch.randn(*s, dtype=torch.float16, device="cuda") for s in ((M, K), (K, N)))
            workload = Workload((a, b), {}, None, kernel)
            (result,) = analyse_all([(lambda: workload, {})], devices.find("h100"), depth=depth)
            return result

        return in_child(child, device="h100")

    return run


@pytest.mark.parametrize("depth", [Depth.LOWERED, Depth.COMPILED])
def test_tma_and_tensor_cores_of_gluon_are_counted(analysed, depth):
    result = analysed(multiply, depth)
    (kernel,) = result.kernels
    facts = kernel.facts
    assert result.status is AnalysisStatus.COMPLETE, kernel.error
    assert facts.depth is depth
    assert facts.tensor_cores
    assert facts.requests.operations["tensor.fp16"] == 2 * M * N * K
    assert kernel.demand.dram_read_bytes == 2 * K * (M + N)
    assert kernel.demand.dram_write_bytes == 2 * M * N
    # tiles of A and B, whose place C takes later, and a barrier
    assert facts.shared_bytes == 2 * (64 * K + K * N) + 8


@pytest.mark.parametrize("depth", [Depth.LOWERED, Depth.COMPILED])
def test_an_error_of_gluons_front_end_names_its_line(analysed, depth):
    (kernel,) = analysed(launch_failing, depth).kernels
    line = fails.starting_line_number + 3
    assert f"test_gluon.py:{line}" in kernel.error
    assert "as intended" in kernel.error
