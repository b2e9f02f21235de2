"""CUDA C++: a thread solves for one right side in registers; the matrix is in shared memory."""

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
    "MATRICES": [1, 2, 4, 8, 16],
    "LANES": [1, 4, 8, 16, 32, 64],
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

// Threads (x, y): y is the matrix of the block, x walks its right sides. Row i needs those before.
template <typename T, int MOST>
__global__ void solve_columns(const T* lower, const T* b, T* out, int count, int n, int sides) {
  extern __shared__ float shared[];
  float* held = shared + threadIdx.y * n * n;
  const int matrix = blockIdx.x * blockDim.y + threadIdx.y;
  if (matrix < count) {
    const T* from = lower + static_cast<long long>(matrix) * n * n;
    for (int i = threadIdx.x; i < n * n; i += blockDim.x) held[i] = wide(from[i]);
  }
  __syncthreads();
  if (matrix >= count) return;
  const long long start = static_cast<long long>(matrix) * n * sides;
  for (int k = threadIdx.x; k < sides; k += blockDim.x) {
    float x[MOST];
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
      if (i < n) {
        float left = wide(b[start + i * sides + k]);
#pragma unroll
        for (int j = 0; j < i; ++j) left -= held[i * n + j] * x[j];
        x[i] = left / held[i * n + i];
        put(out + start + i * sides + k, x[i]);
      }
    }
  }
}

template <typename T>
void launch(const void* lower, const void* b, void* out, int count, int n, int sides, int matrices,
            int lanes, cudaStream_t stream) {
  const T* l = static_cast<const T*>(lower);
  const T* from = static_cast<const T*>(b);
  T* to = static_cast<T*>(out);
  const dim3 block(lanes, matrices);
  const int blocks = (count + matrices - 1) / matrices, bytes = 4 * matrices * n * n;
  if (n <= 16) {
    solve_columns<T, 16><<<blocks, block, bytes, stream>>>(l, from, to, count, n, sides);
  } else {
    solve_columns<T, 32><<<blocks, block, bytes, stream>>>(l, from, to, count, n, sides);
  }
}

void solve(const void* lower, const void* b, void* out, int type, int count, int n, int sides,
           int matrices, int lanes, cudaStream_t stream) {
  if (type == 0) launch<float>(lower, b, out, count, n, sides, matrices, lanes, stream);
  if (type == 1) launch<__half>(lower, b, out, count, n, sides, matrices, lanes, stream);
  if (type == 2) launch<__nv_bfloat16>(lower, b, out, count, n, sides, matrices, lanes, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void solve(const void* lower, const void* b, void* out, int type, int count, int n, int sides,
           int matrices, int lanes, cudaStream_t stream);

at::Tensor triangular_solve(const at::Tensor& lower, const at::Tensor& b, int matrices,
                            int lanes) {
  at::Tensor out = at::empty_like(b);
  const int type = b.scalar_type() == at::kFloat ? 0 : b.scalar_type() == at::kHalf ? 1 : 2;
  solve(lower.const_data_ptr(), b.const_data_ptr(), out.mutable_data_ptr(), type, b.size(0),
        b.size(1), b.size(2), matrices, lanes, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_batched_triangular_solve_cuda_column_a_thread",
        BINDING,
        CUDA,
        functions=["triangular_solve"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 512 threads, few of them idle, and at most 48 KiB, which needs no opting in."""
    lanes, matrices = params["LANES"], params["MATRICES"]
    if (lanes, matrices) == (8, 8):
        return True
    fits = 4 * matrices * shape["N"] ** 2 <= 48 * 1024 and lanes < 2 * shape["K"]
    return fits and 32 <= lanes * matrices <= 512


def kernel(lower, b, *, MATRICES=8, LANES=8):
    return extension().triangular_solve(lower, b, MATRICES, LANES)
