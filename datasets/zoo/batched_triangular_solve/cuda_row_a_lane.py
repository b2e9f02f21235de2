"""CUDA C++: a warp a matrix, a row a lane; what is solved goes to all lanes by a shuffle."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.batched_triangular_solve.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8, 16],
    "SIDES": [1, 2, 4, 8],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(float* at, float x) { *at = x; }
__device__ void put(__half* at, float x) { *at = __float2half(x); }
__device__ void put(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }

// A lane holds its row of the matrix; SIDES right sides are solved at once, so that their chains
// of shuffles overlap.
template <typename T, int MOST, int SIDES>
__global__ void solve_rows(const T* lower, const T* b, T* out, int count, int n, int sides) {
  const int lane = threadIdx.x % 32;
  const int matrix = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (matrix >= count) return;
  const T* from = lower + static_cast<long long>(matrix) * n * n;
  const long long start = (static_cast<long long>(matrix) * n + lane) * sides;
  const bool mine = lane < n;
  float row[MOST];
#pragma unroll
  for (int j = 0; j < MOST; ++j) row[j] = mine && j < n ? wide(from[lane * n + j]) : 0.0f;
  const float inverse = mine ? 1.0f / wide(from[lane * n + lane]) : 0.0f;
  for (int first = 0; first < sides; first += SIDES) {
    float left[SIDES], x[SIDES] = {};
#pragma unroll
    for (int s = 0; s < SIDES; ++s) {
      left[s] = mine && first + s < sides ? wide(b[start + first + s]) : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < MOST; ++j) {
      if (j < n) {
#pragma unroll
        for (int s = 0; s < SIDES; ++s) {
          const float solved = __shfl_sync(0xffffffffu, left[s] * inverse, j);
          if (lane == j) x[s] = solved;
          left[s] -= row[j] * solved;
        }
      }
    }
#pragma unroll
    for (int s = 0; s < SIDES; ++s) {
      if (mine && first + s < sides) put(out + start + first + s, x[s]);
    }
  }
}

template <typename T, int SIDES>
void launch(const void* lower, const void* b, void* out, int count, int n, int sides, int warps,
            cudaStream_t stream) {
  const T* l = static_cast<const T*>(lower);
  const T* from = static_cast<const T*>(b);
  T* to = static_cast<T*>(out);
  const int blocks = (count + warps - 1) / warps, threads = 32 * warps;
  if (n <= 16) {
    solve_rows<T, 16, SIDES><<<blocks, threads, 0, stream>>>(l, from, to, count, n, sides);
  } else {
    solve_rows<T, 32, SIDES><<<blocks, threads, 0, stream>>>(l, from, to, count, n, sides);
  }
}

template <typename T>
void by_sides(const void* lower, const void* b, void* out, int count, int n, int sides, int warps,
              int each, cudaStream_t stream) {
  if (each == 1) launch<T, 1>(lower, b, out, count, n, sides, warps, stream);
  if (each == 2) launch<T, 2>(lower, b, out, count, n, sides, warps, stream);
  if (each == 4) launch<T, 4>(lower, b, out, count, n, sides, warps, stream);
  if (each == 8) launch<T, 8>(lower, b, out, count, n, sides, warps, stream);
}

void solve(const void* lower, const void* b, void* out, int type, int count, int n, int sides,
           int warps, int each, cudaStream_t stream) {
  if (type == 0) by_sides<float>(lower, b, out, count, n, sides, warps, each, stream);
  if (type == 1) by_sides<__half>(lower, b, out, count, n, sides, warps, each, stream);
  if (type == 2) by_sides<__nv_bfloat16>(lower, b, out, count, n, sides, warps, each, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void solve(const void* lower, const void* b, void* out, int type, int count, int n, int sides,
           int warps, int each, cudaStream_t stream);

at::Tensor triangular_solve(const at::Tensor& lower, const at::Tensor& b, int warps, int each) {
  at::Tensor out = at::empty_like(b);
  const int type = b.scalar_type() == at::kFloat ? 0 : b.scalar_type() == at::kHalf ? 1 : 2;
  solve(lower.const_data_ptr(), b.const_data_ptr(), out.mutable_data_ptr(), type, b.size(0),
        b.size(1), b.size(2), warps, each, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_batched_triangular_solve_cuda_row_a_lane",
        BINDING,
        CUDA,
        functions=["triangular_solve"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Rows for the lanes, and no more right sides than there are, but for the default."""
    return shape["N"] <= 32 and (params["SIDES"] <= shape["K"] or params["SIDES"] == 4)


def kernel(lower, b, *, WARPS=4, SIDES=4):
    return extension().triangular_solve(lower, b, WARPS, SIDES)
