"""CUDA C++: rows of threads split the places of a row and meet in shared memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.ell_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [16, 32, 64, 128],
    "TALL": [2, 4, 8, 16, 32],
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

template <typename T>
__global__ void walk_places(const int* cols, const T* values, const int* lengths, const T* x,
                            T* out, int width, int height, bool by_length) {
  extern __shared__ float sums[];
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  if (row < height) {
    const int end = by_length ? lengths[row] : width;
#pragma unroll 2
    for (int i = threadIdx.y; i < end; i += blockDim.y) {
      const int at = i * height + row;
      const int col = cols[at];
      if (col >= 0) sum += wide(values[at]) * wide(x[col]);
    }
  }
  sums[threadIdx.y * blockDim.x + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y || row >= height) return;
  for (int y = 1; y < blockDim.y; ++y) sum += sums[y * blockDim.x + threadIdx.x];
  put(out + row, sum);
}

template <typename T>
void launch(const int* cols, const void* values, const int* lengths, const void* x, void* out,
            int width, int height, int rows, int tall, int by_length, cudaStream_t stream) {
  const T* values_t = static_cast<const T*>(values);
  const T* x_t = static_cast<const T*>(x);
  T* out_t = static_cast<T*>(out);
  const dim3 block(rows, tall);
  walk_places<T><<<(height + rows - 1) / rows, block, 4 * rows * tall, stream>>>(
      cols, values_t, lengths, x_t, out_t, width, height, by_length);
}

void run(const int* cols, const void* values, const int* lengths, const void* x, void* out,
         int type, int width, int height, int rows, int tall, int by_length,
         cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(cols, values, lengths, x, out, width, height, rows, tall, by_length, stream);
      break;
    case 1:
      launch<__half>(cols, values, lengths, x, out, width, height, rows, tall, by_length, stream);
      break;
    default:
      launch<__nv_bfloat16>(cols, values, lengths, x, out, width, height, rows, tall, by_length,
                            stream);
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
         int type, int width, int height, int rows, int tall, int by_length, cudaStream_t stream);

at::Tensor ell_spmv(const at::Tensor& cols, const at::Tensor& values, const at::Tensor& lengths,
                    const at::Tensor& x, int rows, int tall, int by_length) {
  const int64_t width = cols.size(0);
  const int64_t height = cols.size(1);
  at::Tensor out = at::empty({height}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  run(cols.const_data_ptr<int>(), values.const_data_ptr(), lengths.const_data_ptr<int>(),
      x.const_data_ptr(), out.mutable_data_ptr(), type, width, height, rows, tall, by_length,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_ell_spmv_cuda_places_split",
        BINDING,
        CUDA,
        functions=["ell_spmv"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 1,024 threads, each with a place at least."""
    return 32 <= params["ROWS"] * params["TALL"] <= 1024 and params["TALL"] <= shape["WIDTH"]


def kernel(cols, values, lengths, x, *, ROWS=32, TALL=4, BY_LENGTH=True):
    return extension().ell_spmv(cols, values, lengths, x, ROWS, TALL, BY_LENGTH)
