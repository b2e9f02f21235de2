"""CUDA C++: stripes' moments about a first value, so that little cancels; torch joins them."""

import functools

import torch
from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.two_pass_standardise.problem import (
    EPS,
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS_X": [32, 64],
    "THREADS_Y": [4, 8, 16],
    "STRIPES": [33, 132, 528],
    "UNROLL": [1, 4],
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

// Of each stripe and column: the mean, and the squares of what is off the mean.
template <typename T, int UNROLL>
__global__ void stripe_moments(const T* x, float* means, float* squares, int rows, int columns,
                               int each) {
  extern __shared__ float shared[];
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int first = blockIdx.y * each;
  const int end = first + each < rows ? first + each : rows;
  const int threads = blockDim.x * blockDim.y;
  const int mine = threadIdx.y * blockDim.x + threadIdx.x;
  const bool inside = column < columns && first < end;
  const float shift = inside ? wide(x[static_cast<long long>(first) * columns + column]) : 0.0f;
  float sum = 0.0f, square = 0.0f;
  if (inside) {
#pragma unroll UNROLL
    for (int row = first + threadIdx.y; row < end; row += blockDim.y) {
      const float off = wide(x[static_cast<long long>(row) * columns + column]) - shift;
      sum += off;
      square += off * off;
    }
  }
  shared[mine] = sum;
  shared[threads + mine] = square;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  for (int y = 1; y < blockDim.y; ++y) {
    sum += shared[y * blockDim.x + threadIdx.x];
    square += shared[threads + y * blockDim.x + threadIdx.x];
  }
  const float count = end > first ? end - first : 1;
  means[blockIdx.y * columns + column] = shift + sum / count;
  squares[blockIdx.y * columns + column] = square - sum * sum / count;
}

template <typename T, int UNROLL>
__global__ void apply_moments(const T* x, const float* mean, const float* scale, T* out, int rows,
                              int columns) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const float shift = mean[column], factor = scale[column];
#pragma unroll UNROLL
  for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < rows;
       row += gridDim.y * blockDim.y) {
    const long long at = static_cast<long long>(row) * columns + column;
    put(out + at, (wide(x[at]) - shift) * factor);
  }
}

template <typename T>
void launch(const void* x, float* means, float* squares, void* out, bool applies, int rows,
            int columns, int threads_x, int threads_y, int stripes, int each, int unroll,
            cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const dim3 block(threads_x, threads_y);
  const dim3 grid((columns + threads_x - 1) / threads_x, stripes);
  const int shared = threads_x * threads_y * 8;
  if (applies) {
    if (unroll == 1) {
      apply_moments<T, 1><<<grid, block, 0, stream>>>(from, means, squares, to, rows, columns);
    } else {
      apply_moments<T, 4><<<grid, block, 0, stream>>>(from, means, squares, to, rows, columns);
    }
  } else if (unroll == 1) {
    stripe_moments<T, 1>
        <<<grid, block, shared, stream>>>(from, means, squares, rows, columns, each);
  } else {
    stripe_moments<T, 4>
        <<<grid, block, shared, stream>>>(from, means, squares, rows, columns, each);
  }
}

void run_either(const void* x, float* means, float* squares, void* out, bool applies, int type,
                int rows, int columns, int threads_x, int threads_y, int stripes, int each,
                int unroll, cudaStream_t stream) {
  if (type == 0) {
    launch<float>(x, means, squares, out, applies, rows, columns, threads_x, threads_y, stripes,
                  each, unroll, stream);
  } else if (type == 1) {
    launch<__half>(x, means, squares, out, applies, rows, columns, threads_x, threads_y, stripes,
                   each, unroll, stream);
  } else {
    launch<__nv_bfloat16>(x, means, squares, out, applies, rows, columns, threads_x, threads_y,
                          stripes, each, unroll, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run_either(const void* x, float* means, float* squares, void* out, bool applies, int type,
                int rows, int columns, int threads_x, int threads_y, int stripes, int each,
                int unroll, cudaStream_t stream);

void moments(const at::Tensor& x, const at::Tensor& means, const at::Tensor& squares, int threads_x,
             int threads_y, int each, int unroll) {
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  float* into = means.mutable_data_ptr<float>();
  run_either(x.const_data_ptr(), into, squares.mutable_data_ptr<float>(), into, false, type,
             x.size(0), x.size(1), threads_x, threads_y, means.size(0), each, unroll,
             c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

at::Tensor apply(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& scale,
                 int threads_x, int threads_y, int stripes, int unroll) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  run_either(x.const_data_ptr(), mean.mutable_data_ptr<float>(), scale.mutable_data_ptr<float>(),
             out.mutable_data_ptr(), true, type, x.size(0), x.size(1), threads_x, threads_y,
             stripes, 1, unroll, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_two_pass_standardise_cuda_shifted_moments",
        BINDING,
        CUDA,
        functions=["moments", "apply"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No band far wider than a row; a row a thread at least."""
    fits = params["THREADS_X"] < 2 * max(shape["N"], 32)
    return fits and params["STRIPES"] * params["THREADS_Y"] <= shape["M"]


def kernel(x, *, THREADS_X=32, THREADS_Y=8, STRIPES=132, UNROLL=4):
    M, N = x.shape
    each = -(-M // STRIPES)
    stripes = -(-M // each)  # none of them is empty
    means, squares = torch.empty((2, stripes, N), dtype=torch.float32, device=x.device)
    extension().moments(x, means, squares, THREADS_X, THREADS_Y, each, UNROLL)
    rows = torch.full((stripes, 1), each, dtype=torch.float32, device=x.device)
    rows[-1] = M - (stripes - 1) * each
    mean = (means * rows).sum(0) / M
    variance = (squares + rows * (means - mean).square()).sum(0) / M
    scale = torch.rsqrt(variance + EPS)
    return extension().apply(x, mean, scale, THREADS_X, THREADS_Y, STRIPES, UNROLL)
