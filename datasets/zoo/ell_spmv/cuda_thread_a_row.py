"""CUDA C++: a thread a row; it stops at the row's length or passes padding over."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.ell_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [32, 64, 128, 256, 512, 1024],
    "UNROLL": [1, 2, 4, 8],
    "BY_LENGTH": [False, True],
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

template <typename T, int UNROLL>
__global__ void walk_rows(const int* cols, const T* values, const int* lengths, const T* x, T* out,
                          int width, int height, bool by_length) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= height) return;
  const int end = by_length ? lengths[row] : width;
  float sum = 0.0f;
#pragma unroll UNROLL
  for (int i = 0; i < end; ++i) {
    const int at = i * height + row;
    const int col = cols[at];
    if (col >= 0) sum += wide(values[at]) * wide(x[col]);
  }
  put(out + row, sum);
}

template <typename T, int UNROLL>
void launch(const int* cols, const void* values, const int* lengths, const void* x, void* out,
            int width, int height, int threads, int by_length, cudaStream_t stream) {
  const T* values_t = static_cast<const T*>(values);
  const T* x_t = static_cast<const T*>(x);
  T* out_t = static_cast<T*>(out);
  walk_rows<T, UNROLL><<<(height + threads - 1) / threads, threads, 0, stream>>>(
      cols, values_t, lengths, x_t, out_t, width, height, by_length);
}

template <typename T>
void by_unroll(const int* cols, const void* values, const int* lengths, const void* x, void* out,
               int width, int height, int threads, int unroll, int by_length,
               cudaStream_t stream) {
  if (unroll == 1) {
    launch<T, 1>(cols, values, lengths, x, out, width, height, threads, by_length, stream);
  } else if (unroll == 2) {
    launch<T, 2>(cols, values, lengths, x, out, width, height, threads, by_length, stream);
  } else if (unroll == 4) {
    launch<T, 4>(cols, values, lengths, x, out, width, height, threads, by_length, stream);
  } else {
    launch<T, 8>(cols, values, lengths, x, out, width, height, threads, by_length, stream);
  }
}

void run(const int* cols, const void* values, const int* lengths, const void* x, void* out,
         int type, int width, int height, int threads, int unroll, int by_length,
         cudaStream_t stream) {
  switch (type) {
    case 0:
      by_unroll<float>(cols, values, lengths, x, out, width, height, threads, unroll, by_length,
                       stream);
      break;
    case 1:
      by_unroll<__half>(cols, values, lengths, x, out, width, height, threads, unroll, by_length,
                        stream);
      break;
    default:
      by_unroll<__nv_bfloat16>(cols, values, lengths, x, out, width, height, threads, unroll,
                               by_length, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const int* cols, const void* values, const int* lengths, const void* x, void* out,
         int type, int width, int height, int threads, int unroll, int by_length,
         cudaStream_t stream);

at::Tensor ell_spmv(const at::Tensor& cols, const at::Tensor& values, const at::Tensor& lengths,
                    const at::Tensor& x, int threads, int unroll, int by_length) {
  const int64_t width = cols.size(0);
  const int64_t height = cols.size(1);
  at::Tensor out = at::empty({height}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  run(cols.const_data_ptr<int>(), values.const_data_ptr(), lengths.const_data_ptr<int>(),
      x.const_data_ptr(), out.mutable_data_ptr(), type, width, height, threads, unroll, by_length,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_ell_spmv_cuda_thread_a_row",
        BINDING,
        CUDA,
        functions=["ell_spmv"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """A row is no shorter than what is unrolled."""
    return params["UNROLL"] <= shape["WIDTH"]


def kernel(cols, values, lengths, x, *, THREADS=128, UNROLL=4, BY_LENGTH=True):
    return extension().ell_spmv(cols, values, lengths, x, THREADS, UNROLL, BY_LENGTH)
