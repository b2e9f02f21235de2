"""CUDA C++: a launch a level by way of float32; a thread takes a pair or several."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.haar_wavelet.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "PAIRS": [1, 2, 4],
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

constexpr float ROOT = 0.70710678f;

// From `width` elements of each row half as many sums, and details to their place in the result.
template <typename T, typename S, int PAIRS>
__global__ void haar_level(const S* from, long long pitch, float* sums, T* out, int rows,
                           int columns, int width, bool is_last) {
  const int half = width / 2;
  const long long total = static_cast<long long>(rows) * half;
  const long long block = static_cast<long long>(blockIdx.x) * blockDim.x * PAIRS;
#pragma unroll
  for (int p = 0; p < PAIRS; ++p) {
    const long long at = block + p * blockDim.x + threadIdx.x;
    if (at >= total) return;
    const long long row = at / half;
    const int i = static_cast<int>(at % half);
    const float a = wide(from[row * pitch + 2 * i]), b = wide(from[row * pitch + 2 * i + 1]);
    put(out + row * columns + half + i, (a - b) * ROOT);
    if (is_last) {
      put(out + row * columns + i, (a + b) * ROOT);
    } else {
      sums[row * half + i] = (a + b) * ROOT;
    }
  }
}

// Sums of a level lie behind those of the one before it.
template <typename T, int PAIRS>
void launch(const void* x, float* sums, void* out, int rows, int columns, int levels, int threads,
            cudaStream_t stream) {
  T* to = static_cast<T*>(out);
  const int64_t each = int64_t(threads) * PAIRS;
  const int64_t pairs = int64_t(rows) * (columns / 2);
  const int blocks = (pairs + each - 1) / each;
  haar_level<T, T, PAIRS><<<blocks, threads, 0, stream>>>(
      static_cast<const T*>(x), columns, sums, to, rows, columns, columns, levels == 1);
  int width = columns / 2;
  for (int level = 1; level < levels; ++level) {
    float* next = sums + int64_t(rows) * width;
    const int64_t fewer = int64_t(rows) * (width / 2);
    const int needed = (fewer + each - 1) / each;
    haar_level<T, float, PAIRS><<<needed, threads, 0, stream>>>(
        sums, width, next, to, rows, columns, width, level == levels - 1);
    sums = next;
    width = width / 2;
  }
}

template <typename T>
void by_pairs(const void* x, float* sums, void* out, int rows, int columns, int levels,
              int threads, int pairs, cudaStream_t stream) {
  if (pairs == 1) launch<T, 1>(x, sums, out, rows, columns, levels, threads, stream);
  if (pairs == 2) launch<T, 2>(x, sums, out, rows, columns, levels, threads, stream);
  if (pairs == 4) launch<T, 4>(x, sums, out, rows, columns, levels, threads, stream);
}

void transform(const void* x, float* sums, void* out, int type, int rows, int columns, int levels,
               int threads, int pairs, cudaStream_t stream) {
  if (type == 0) by_pairs<float>(x, sums, out, rows, columns, levels, threads, pairs, stream);
  if (type == 1) by_pairs<__half>(x, sums, out, rows, columns, levels, threads, pairs, stream);
  if (type == 2) {
    by_pairs<__nv_bfloat16>(x, sums, out, rows, columns, levels, threads, pairs, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void transform(const void* x, float* sums, void* out, int type, int rows, int columns, int levels,
               int threads, int pairs, cudaStream_t stream);

at::Tensor haar(const at::Tensor& x, int levels, int threads, int pairs) {
  at::Tensor out = at::empty_like(x);
  at::Tensor sums = at::empty(x.sizes(), x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  transform(x.const_data_ptr(), sums.mutable_data_ptr<float>(), out.mutable_data_ptr(), type,
            x.size(0), x.size(1), levels, threads, pairs, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_haar_wavelet_cuda_launch_a_level",
        BINDING,
        CUDA,
        functions=["haar"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Blocks enough for a GPU."""
    return 1000 * params["THREADS"] * params["PAIRS"] <= shape["M"] * shape["N"]


def kernel(x, levels, *, THREADS=256, PAIRS=2):
    return extension().haar(x, levels, THREADS, PAIRS)
