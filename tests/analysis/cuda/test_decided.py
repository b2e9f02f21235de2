"""CUDA C++ kernels whose work loaded numbers decide, against counts in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from solkit.adapters.launch_recording import TensorArgument
from solkit.adapters.nvrtc import compile_cuda
from solkit.adapters.triton_compiler import Compiled
from solkit.analysis.cuda.requests import cuda_requests
from solkit.analysis.interpreter.thread_groups import Grid
from solkit.roofline import devices
from solkit.roofline.kernel.occupancy import occupancy

H100 = devices.find("h100")

SOURCE = r"""
extern "C" {
__global__ void guarded(const int* count, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.x * blockDim.x >= count[0]) return;
  y[i] = x[i];
}
__global__ void rows(const int* starts, const int* columns, const float* x, float* y, int m) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m) return;
  float sum = 0;
  for (int k = starts[row]; k < starts[row + 1]; k++) sum += x[columns[k]];
  y[row] = sum;
}
__global__ void bins(const int* x, int* counts, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(counts + x[i], 1);
}
__global__ void by_value(const float* x, int* counts, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(counts + (int)(x[i] * 256.0f), 1);
}
__global__ void manners(const float* x, const float* __restrict__ z, float* y, int* total) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = __ldcg(x + i);
  float b = *(volatile const float*)(x + 4096 + i);
  float c = z[i];
  __stwt(y + i, a + b + c);
  if (threadIdx.x == 0) atomicMax_block(total, i);
}
}
"""
NAMES = "guarded rows bins by_value manners".split()


@pytest.fixture(scope="module")
def compiled(compiler):  # noqa: ARG001 - skips without one
    return compile_cuda(SOURCE, "kernels.cu", NAMES, ["-arch=sm_90", "-lineinfo"])


@pytest.fixture
def requests_of(compiled):
    """What a launch asks for."""

    def run(name, arguments, names, grid, block):
        sizes = Grid((grid, 1, 1), (block, 1, 1))
        resident = occupancy(H100, 32, 0, math.ceil(block / 32), grid, 1)
        binary = Compiled(ptx=compiled.ptx, entry=compiled.names[name], shared_bytes=0)
        return cuda_requests(binary, arguments, names.split(), sizes, H100, resident)

    return run


def tensor(number, elements, contents=None):
    return TensorArgument(number, elements * 4, 0, (elements,), (1,), 4, contents)


def of(asks, kind, argument):
    return sum(a.requested_bytes for a in asks.accesses if (a.kind, a.argument) == (kind, argument))


def test_an_early_return_by_a_loaded_number(requests_of):
    known_tensor = tensor(1, 1, np.array([1000], np.int32))
    asks = requests_of(
        "guarded", (known_tensor, tensor(2, 8192), tensor(3, 8192)), "count x y", 32, 256
    )
    assert of(asks, "store", "y") == 4 * 256 * 4  # the blocks that begin before 1,000
    assert asks.guesses == ()


def test_an_early_return_that_is_not_known_is_not_taken(requests_of):
    arguments = tensor(1, 1), tensor(2, 8192), tensor(3, 8192)
    asks = requests_of("guarded", arguments, "count x y", 32, 256)
    assert of(asks, "store", "y") == 8192 * 4
    assert any("assumed to do the work that it guards" in guess for guess in asks.guesses)


def test_loops_between_loaded_numbers(requests_of):
    sizes = np.arange(200) * 7 % 23
    starts = np.concatenate([[0], sizes.cumsum()]).astype(np.int32)
    columns = (np.arange(starts[-1]) % 64).astype(np.int32)
    arguments = (tensor(1, 201, starts), tensor(2, len(columns), columns))
    arguments = (*arguments, tensor(3, 64), tensor(4, 200), 200)
    asks = requests_of("rows", arguments, "starts columns x y m", 4, 64)
    assert of(asks, "load", "columns") == of(asks, "load", "x") == 4 * int(sizes.sum())
    assert asks.guesses == ()


def test_where_atomics_meet(requests_of):
    n = 4096
    x = np.where(np.arange(n) % 2 == 0, 3, np.arange(n) % 16).astype(np.int32)
    asks = requests_of("bins", (tensor(1, n, x), tensor(2, 16), n), "x counts n", n // 256, 256)
    (atomic,) = (a for a in asks.accesses if a.kind == "atomic")
    result = atomic.contention
    # the 2,048 even numbers go to bin 3, the odd ones to bins 1, 3 ... 15, 256 to each
    assert (result.operations, result.addresses, result.warp_addresses) == (n, 8, n // 32 * 8)
    assert (result.busiest_address, result.busiest_sector) == (2304, 2304 + 3 * 256)
    assert (atomic.operation, atomic.semantics, atomic.scope) == ("add", "relaxed", "gpu")


def test_atomics_at_unknown_places_are_spread_evenly(requests_of):
    n = 1 << 16
    asks = requests_of("by_value", (tensor(1, n), tensor(2, 256), n), "x counts n", n // 256, 256)
    (atomic,) = (a for a in asks.accesses if a.kind == "atomic")
    result = atomic.contention
    assert result.is_assumed
    assert (result.operations, result.addresses, result.busiest_address) == (n, 256, n // 256)
    # 32 lanes drawn from 256 places: 256 (1 - (255/256)^32) of them
    item = 256 * (1 - (255 / 256) ** 32)
    assert result.warp_addresses == pytest.approx(n // 32 * item, rel=1e-3)


def test_the_manner_of_each_access(requests_of):
    arguments = tensor(1, 8192), tensor(2, 4096), tensor(3, 4096), tensor(4, 1)
    asks = requests_of("manners", arguments, "x z y total", 16, 256)
    loads = {(a.argument, a.cache, a.is_volatile) for a in asks.accesses if a.kind == "load"}
    assert loads == {("x", "cg", False), ("x", "", True), ("z", "nc", False)}
    assert next(a.cache for a in asks.accesses if a.kind == "store") == "wt"
    (atomic,) = (a for a in asks.accesses if a.kind == "atomic")
    assert (atomic.operation, atomic.scope, atomic.semantics) == ("max", "cta", "relaxed")
    assert (atomic.contention.operations, atomic.contention.busiest_address) == (16, 16)
