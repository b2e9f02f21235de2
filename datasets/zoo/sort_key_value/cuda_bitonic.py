"""CUDA C++: the bitonic network on pairs in shared memory; several rows a block where these fit."""

import functools

import torch
from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.sort_key_value.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512, 1024],
    "ROWS": [1, 2, 4, 8],
    "IN_WARP": [False, True],
}

CUDA = r"""
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ void put(float* at, float x) { *at = x; }
__device__ void put(__half* at, float x) { *at = __float2half(x); }

// Every row fills `width`, a power of two. `in_warp`: where pairs compared lie within the 64 that
// a warp has, a barrier of the warp is enough.
template <typename T>
__global__ void sort_pairs(const T* keys, const float* values, T* out_keys, float* out_values,
                           int rows, int columns, int width, int each, bool in_warp) {
  extern __shared__ float shared[];
  float* key = shared;
  float* value = shared + each * width;
  const int first = blockIdx.x * each, all = each * width;
  for (int i = threadIdx.x; i < all; i += blockDim.x) {
    const int row = first + i / width, column = i % width;
    const bool inside = row < rows && column < columns;
    const long long at = static_cast<long long>(row) * columns + column;
    key[i] = inside ? wide(keys[at]) : INFINITY;
    value[i] = inside ? values[at] : 0.0f;
  }
  __syncthreads();
  for (int run = 2; run <= width; run *= 2) {
    for (int far = run / 2; far > 0; far /= 2) {
      for (int i = threadIdx.x; i < all / 2; i += blockDim.x) {
        const int low = i / far * far * 2 + i % far, high = low + far;
        const bool rising = (low % width & run) == 0;
        const float a = key[low], b = key[high];
        if ((a > b) == rising && a != b) {
          key[low] = b;
          key[high] = a;
          const float other = value[low];
          value[low] = value[high];
          value[high] = other;
        }
      }
      if (in_warp && far <= 32 && far > 1) {
        __syncwarp();
      } else {
        __syncthreads();
      }
    }
  }
  for (int i = threadIdx.x; i < all; i += blockDim.x) {
    const int row = first + i / width, column = i % width;
    if (row >= rows || column >= columns) continue;
    const long long at = static_cast<long long>(row) * columns + column;
    put(out_keys + at, key[i]);
    out_values[at] = value[i];
  }
}

template <typename T>
void launch(const void* keys, const float* values, void* out_keys, float* out_values, int rows,
            int columns, int width, int threads, int each, bool in_warp, cudaStream_t stream) {
  const T* from = static_cast<const T*>(keys);
  T* to = static_cast<T*>(out_keys);
  const int blocks = (rows + each - 1) / each, shared = each * width * 8;
  sort_pairs<T><<<blocks, threads, shared, stream>>>(from, values, to, out_values, rows, columns,
                                                     width, each, in_warp);
}

void sort_any(const void* keys, const float* values, void* out_keys, float* out_values, bool half,
              int rows, int columns, int width, int threads, int each, bool in_warp,
              cudaStream_t stream) {
  if (half) {
    launch<__half>(keys, values, out_keys, out_values, rows, columns, width, threads, each, in_warp,
                   stream);
  } else {
    launch<float>(keys, values, out_keys, out_values, rows, columns, width, threads, each, in_warp,
                  stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void sort_any(const void* keys, const float* values, void* out_keys, float* out_values, bool half,
              int rows, int columns, int width, int threads, int each, bool in_warp,
              cudaStream_t stream);

void sort_pairs_into(const at::Tensor& keys, const at::Tensor& values, const at::Tensor& out_keys,
                     const at::Tensor& out_values, int width, int threads, int rows, bool in_warp) {
  const bool half = keys.scalar_type() == at::kHalf;
  sort_any(keys.const_data_ptr(), values.const_data_ptr<float>(), out_keys.mutable_data_ptr(),
           out_values.mutable_data_ptr<float>(), half, keys.size(0), keys.size(1), width, threads,
           rows, in_warp, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_sort_key_value_cuda_bitonic",
        BINDING,
        CUDA,
        functions=["sort_pairs_into"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB, no more than 16 comparisons a thread and step; no fewer rows than fit."""
    rows, threads = params["ROWS"], params["THREADS"]
    width = 1 << (shape["N"] - 1).bit_length()
    pairs = max(rows * width, 2 * threads)
    told_once = rows == 1 or rows * width >= 2 * threads
    return told_once and pairs * 8 <= 48 * 1024 and pairs / 2 / threads <= 16


def kernel(keys, values, *, THREADS=256, ROWS=1, IN_WARP=True):
    N = keys.shape[1]
    out_keys, out_values = torch.empty_like(keys), torch.empty_like(values)
    width = 1 << (N - 1).bit_length()
    rows = max(ROWS, 2 * THREADS // width)  # a comparison for each thread
    extension().sort_pairs_into(keys, values, out_keys, out_values, width, THREADS, rows, IN_WARP)
    return out_keys, out_values
