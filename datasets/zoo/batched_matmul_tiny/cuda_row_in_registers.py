"""CUDA C++: a thread makes a row of a result in registers, from rows of the second matrix."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.batched_matmul_tiny.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "MATRICES": [1, 2, 4, 8, 16],
    "STAGED": [False, True],
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

// N threads a pair. Without STAGED, the second matrix is read from global memory, by all threads
// of a pair alike.
template <typename T, int N, bool STAGED>
__global__ void multiply_rows(const T* x, const T* y, T* out, int count, int matrices) {
  extern __shared__ float shared[];
  const int first = blockIdx.x * matrices, here = min(matrices, count - first);
  const long long start = static_cast<long long>(first) * N * N;
  if (STAGED) {
    for (int i = threadIdx.x; i < here * N * N; i += blockDim.x) shared[i] = wide(y[start + i]);
    __syncthreads();
  }
  const int pair = threadIdx.x / N, row = threadIdx.x % N;
  if (pair >= here) return;
  const long long mine = start + pair * N * N;
  float sums[N] = {};
#pragma unroll 4
  for (int k = 0; k < N; ++k) {
    const float left = wide(x[mine + row * N + k]);
#pragma unroll
    for (int c = 0; c < N; ++c) {
      const float right = STAGED ? shared[(pair * N + k) * N + c] : wide(y[mine + k * N + c]);
      sums[c] += left * right;
    }
  }
#pragma unroll
  for (int c = 0; c < N; ++c) put(out + mine + row * N + c, sums[c]);
}

template <typename T, int N>
void launch(const void* x, const void* y, void* out, int count, int matrices, bool staged,
            cudaStream_t stream) {
  const T* a = static_cast<const T*>(x);
  const T* b = static_cast<const T*>(y);
  T* to = static_cast<T*>(out);
  const int blocks = (count + matrices - 1) / matrices, threads = N * matrices;
  if (staged) {
    const int bytes = 4 * matrices * N * N;
    multiply_rows<T, N, true><<<blocks, threads, bytes, stream>>>(a, b, to, count, matrices);
  } else {
    multiply_rows<T, N, false><<<blocks, threads, 0, stream>>>(a, b, to, count, matrices);
  }
}

void multiply(const void* x, const void* y, void* out, int type, int count, int n, int matrices,
              bool staged, cudaStream_t stream) {
  if (type == 0) {
    if (n == 8) launch<float, 8>(x, y, out, count, matrices, staged, stream);
    if (n == 13) launch<float, 13>(x, y, out, count, matrices, staged, stream);
    if (n == 16) launch<float, 16>(x, y, out, count, matrices, staged, stream);
    if (n == 31) launch<float, 31>(x, y, out, count, matrices, staged, stream);
  }
  if (type == 1) {
    if (n == 12) launch<__half, 12>(x, y, out, count, matrices, staged, stream);
    if (n == 32) launch<__half, 32>(x, y, out, count, matrices, staged, stream);
  }
  if (type == 2) launch<__nv_bfloat16, 24>(x, y, out, count, matrices, staged, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void multiply(const void* x, const void* y, void* out, int type, int count, int n, int matrices,
              bool staged, cudaStream_t stream);

at::Tensor matmul_tiny(const at::Tensor& x, const at::Tensor& y, int matrices, bool staged) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  multiply(x.const_data_ptr(), y.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0),
           x.size(1), matrices, staged, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_batched_matmul_tiny_cuda_row_in_registers",
        BINDING,
        CUDA,
        functions=["matmul_tiny"],
        no_implicit_headers=True,
    )


INSTANCES = {"float32": (8, 13, 16, 31), "float16": (12, 32), "bfloat16": (24,)}


def valid(params, shape):
    """Sizes that have an instance; 32 to 512 threads; at most 48 KiB, which needs no opting in."""
    size, matrices = shape["N"], params["MATRICES"]
    name = str(shape["dtype"]).removeprefix("torch.")
    fits = 4 * matrices * size * size <= 48 * 1024 and 32 <= size * matrices <= 512
    return size in INSTANCES[name] and fits


def kernel(x, y, *, MATRICES=8, STAGED=True):
    return extension().matmul_tiny(x, y, MATRICES, STAGED)
