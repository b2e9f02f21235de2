"""CUDA C++: segments of rows: their totals, a scan of those, then each segment from its start."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.prefix_xor.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "STEPS": [1, 4, 16],
}

CUDA = r"""
#include <cstdint>

__device__ uint32_t scanned(uint32_t value, int lane) {
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
    const uint32_t below = __shfl_up_sync(0xffffffffu, value, apart);
    if (lane >= apart) value ^= below;
  }
  return value;
}

// The scan of a block's values, one a thread; `all` is what the whole block adds.
__device__ uint32_t block_scan(uint32_t value, uint32_t* totals, uint32_t* all) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const uint32_t mine = scanned(value, lane);
  __syncthreads();
  if (lane == 31) totals[warp] = mine;
  __syncthreads();
  uint32_t before = 0, whole = 0;
  for (int w = 0; w < warps; ++w) {
    if (w < warp) before ^= totals[w];
    whole ^= totals[w];
  }
  *all = whole;
  return mine ^ before;
}

__global__ void segment_totals(const uint32_t* x, uint32_t* totals, int columns, int steps) {
  __shared__ uint32_t parts[32];
  const uint32_t* from = x + static_cast<long long>(blockIdx.y) * columns;
  const int first = blockIdx.x * blockDim.x * steps;
  uint32_t sum = 0, all = 0;
  for (int s = 0; s < steps; ++s) {
    const int at = first + s * blockDim.x + threadIdx.x;
    if (at < columns) sum ^= from[at];
  }
  block_scan(sum, parts, &all);
  if (threadIdx.x == 0) totals[blockIdx.y * gridDim.x + blockIdx.x] = all;
}

// A block a row: totals become what lies before each segment.
__global__ void scan_totals(uint32_t* totals, int segments) {
  __shared__ uint32_t parts[32];
  uint32_t* mine = totals + static_cast<long long>(blockIdx.x) * segments;
  uint32_t carry = 0, all = 0;
  for (int first = 0; first < segments; first += blockDim.x) {
    const int at = first + threadIdx.x;
    const uint32_t value = at < segments ? mine[at] : 0u;
    const uint32_t upto = block_scan(value, parts, &all);
    if (at < segments) mine[at] = carry ^ upto ^ value;
    carry ^= all;
  }
}

__global__ void segment_scans(const uint32_t* x, const uint32_t* starts, uint32_t* out,
                              int columns, int steps) {
  __shared__ uint32_t parts[32];
  const long long row = static_cast<long long>(blockIdx.y) * columns;
  const int first = blockIdx.x * blockDim.x * steps;
  uint32_t carry = starts[blockIdx.y * gridDim.x + blockIdx.x], all = 0;
  for (int s = 0; s < steps; ++s) {
    const int at = first + s * blockDim.x + threadIdx.x;
    const uint32_t value = at < columns ? x[row + at] : 0u;
    const uint32_t upto = block_scan(value, parts, &all);
    if (at < columns) out[row + at] = carry ^ upto;
    carry ^= all;
  }
}

void scan(const void* x, void* totals, void* out, int rows, int columns, int segments, int threads,
          int steps, cudaStream_t stream) {
  const uint32_t* from = static_cast<const uint32_t*>(x);
  uint32_t* between = static_cast<uint32_t*>(totals);
  uint32_t* to = static_cast<uint32_t*>(out);
  const dim3 grid(segments, rows);
  segment_totals<<<grid, threads, 0, stream>>>(from, between, columns, steps);
  scan_totals<<<rows, 256, 0, stream>>>(between, segments);
  segment_scans<<<grid, threads, 0, stream>>>(from, between, to, columns, steps);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void scan(const void* x, void* totals, void* out, int rows, int columns, int segments, int threads,
          int steps, cudaStream_t stream);

at::Tensor prefix_xor(const at::Tensor& x, int threads, int steps) {
  const int each = threads * steps;
  const int segments = (x.size(1) + each - 1) / each;
  at::Tensor totals = at::empty({x.size(0), segments}, x.options());
  at::Tensor out = at::empty_like(x);
  scan(x.const_data_ptr(), totals.mutable_data_ptr(), out.mutable_data_ptr(), x.size(0), x.size(1),
       segments, threads, steps, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_prefix_xor_cuda_three_launches",
        BINDING,
        CUDA,
        functions=["prefix_xor"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Several segments a row; no more rows than a grid has."""
    each = params["THREADS"] * params["STEPS"]
    return shape["M"] <= 65535 and shape["N"] >= 2048 and 2 * each <= shape["N"]


def kernel(x, *, THREADS=256, STEPS=4):
    return extension().prefix_xor(x, THREADS, STEPS)
