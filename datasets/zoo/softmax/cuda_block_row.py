"""CUDA C++: a block a row that reads it three times, as a textbook does; trees in shared memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [32, 64, 128, 256, 512, 1024],
    "UNROLL": [1, 2, 4, 8],
    "DIVIDE": [False, True],
    "FAST": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float to_float(float x) { return x; }
__device__ float to_float(__half x) { return __half2float(x); }
__device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(float* at, float x) { *at = x; }
__device__ void put(__half* at, float x) { *at = __float2half(x); }
__device__ void put(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }

// A tree over the block: every thread gets the largest value, or the sum.
template <bool MAX>
__device__ float over_block(float mine, float* shared) {
  const int t = threadIdx.x;
  shared[t] = mine;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) {
      shared[t] = MAX ? fmaxf(shared[t], shared[t + half]) : shared[t] + shared[t + half];
    }
    __syncthreads();
  }
  const float all = shared[0];
  __syncthreads();
  return all;
}

template <typename T, int UNROLL>
__global__ void softmax_row(const T* x, T* out, int columns, bool divide, bool fast) {
  extern __shared__ float shared[];
  const T* row = x + static_cast<long long>(blockIdx.x) * columns;
  T* result = out + static_cast<long long>(blockIdx.x) * columns;

  float peak = -INFINITY;
#pragma unroll UNROLL
  for (int c = threadIdx.x; c < columns; c += blockDim.x) peak = fmaxf(peak, to_float(row[c]));
  peak = over_block<true>(peak, shared);

  float total = 0.0f;
#pragma unroll UNROLL
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    const float shifted = to_float(row[c]) - peak;
    total += fast ? __expf(shifted) : expf(shifted);
  }
  total = over_block<false>(total, shared);

  const float scale = 1.0f / total;
#pragma unroll UNROLL
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    const float shifted = to_float(row[c]) - peak;
    const float weight = fast ? __expf(shifted) : expf(shifted);
    put(result + c, divide ? weight / total : weight * scale);
  }
}

template <typename T>
void launch(const void* x, void* out, int rows, int columns, int threads, int unroll, bool divide,
            bool fast, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const size_t shared = threads * sizeof(float);
  switch (unroll) {
    case 1:
      softmax_row<T, 1><<<rows, threads, shared, stream>>>(from, to, columns, divide, fast);
      break;
    case 2:
      softmax_row<T, 2><<<rows, threads, shared, stream>>>(from, to, columns, divide, fast);
      break;
    case 4:
      softmax_row<T, 4><<<rows, threads, shared, stream>>>(from, to, columns, divide, fast);
      break;
    default:
      softmax_row<T, 8><<<rows, threads, shared, stream>>>(from, to, columns, divide, fast);
  }
}

void softmax_rows(const void* x, void* out, int type, int rows, int columns, int threads,
                  int unroll, bool divide, bool fast, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, rows, columns, threads, unroll, divide, fast, stream);
  if (type == 1) launch<__half>(x, out, rows, columns, threads, unroll, divide, fast, stream);
  if (type == 2) {
    launch<__nv_bfloat16>(x, out, rows, columns, threads, unroll, divide, fast, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void softmax_rows(const void* x, void* out, int type, int rows, int columns, int threads,
                  int unroll, bool divide, bool fast, cudaStream_t stream);

at::Tensor softmax(const at::Tensor& x, int threads, int unroll, bool divide, bool fast) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  softmax_rows(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), threads,
               unroll, divide, fast, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_softmax_cuda_block_row",
        BINDING,
        CUDA,
        functions=["softmax"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Threads for at least half the columns; at most 1,024 columns a thread."""
    each = shape["N"] / params["THREADS"]
    return 0.5 < each <= 1024 and params["UNROLL"] < 4 * each


def kernel(x, *, THREADS=128, UNROLL=2, DIVIDE=False, FAST=True):
    return extension().softmax(x, THREADS, UNROLL, DIVIDE, FAST)
