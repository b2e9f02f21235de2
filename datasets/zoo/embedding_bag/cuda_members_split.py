"""CUDA C++: a block takes a bag; rows of threads split its members and meet in shared memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.embedding_bag.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "COLS": [8, 16, 32, 64, 128],
    "TALL": [2, 4, 8, 16, 32],
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

template <typename T, int UNROLL>
__global__ void bag_split(const T* table, const int* index, const float* weights,
                          const int* offsets, T* out, int columns) {
  extern __shared__ float sums[];
  const int end = offsets[blockIdx.x + 1], c = blockIdx.y * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  if (c < columns) {
#pragma unroll UNROLL
    for (int i = offsets[blockIdx.x] + threadIdx.y; i < end; i += blockDim.y) {
      sum += weights[i] * wide(table[static_cast<long long>(index[i]) * columns + c]);
    }
  }
  sums[threadIdx.y * blockDim.x + threadIdx.x] = sum;
  for (int half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
      sums[threadIdx.y * blockDim.x + threadIdx.x] +=
          sums[(threadIdx.y + half) * blockDim.x + threadIdx.x];
    }
  }
  if (threadIdx.y == 0 && c < columns) {
    put(out + static_cast<long long>(blockIdx.x) * columns + c, sums[threadIdx.x]);
  }
}

template <typename T, int UNROLL>
void launch(const void* table, const int* index, const float* weights, const int* offsets,
            void* out, int bags, int columns, int cols, int tall, cudaStream_t stream) {
  const T* table_t = static_cast<const T*>(table);
  T* out_t = static_cast<T*>(out);
  const dim3 grid(bags, (columns + cols - 1) / cols), block(cols, tall);
  bag_split<T, UNROLL><<<grid, block, 4 * cols * tall, stream>>>(table_t, index, weights, offsets,
                                                                 out_t, columns);
}

template <typename T>
void by_unroll(const void* table, const int* index, const float* weights, const int* offsets,
               void* out, int bags, int columns, int cols, int tall, int unroll,
               cudaStream_t stream) {
  if (unroll == 1) {
    launch<T, 1>(table, index, weights, offsets, out, bags, columns, cols, tall, stream);
  } else {
    launch<T, 4>(table, index, weights, offsets, out, bags, columns, cols, tall, stream);
  }
}

void run(const void* table, const int* index, const float* weights, const int* offsets, void* out,
         int type, int bags, int columns, int cols, int tall, int unroll, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_unroll<float>(table, index, weights, offsets, out, bags, columns, cols, tall, unroll,
                       stream);
      break;
    case 1:
      by_unroll<__half>(table, index, weights, offsets, out, bags, columns, cols, tall, unroll,
                        stream);
      break;
    default:
      by_unroll<__nv_bfloat16>(table, index, weights, offsets, out, bags, columns, cols, tall,
                               unroll, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* table, const int* index, const float* weights, const int* offsets, void* out,
         int type, int bags, int columns, int cols, int tall, int unroll, cudaStream_t stream);

at::Tensor embedding_bag(const at::Tensor& table, const at::Tensor& index,
                         const at::Tensor& weights, const at::Tensor& offsets, int cols, int tall,
                         int unroll) {
  const int64_t bags = offsets.size(0) - 1;
  const int64_t columns = table.size(1);
  at::Tensor out = at::empty({bags, columns}, table.options());
  const auto kind = table.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(table.const_data_ptr(), index.const_data_ptr<int>(), weights.const_data_ptr<float>(),
      offsets.const_data_ptr<int>(), out.mutable_data_ptr(), type, bags, columns, cols, tall,
      unroll, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_embedding_bag_cuda_members_split",
        BINDING,
        CUDA,
        functions=["embedding_bag"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 1,024 threads; a band not far wider than a row."""
    return 32 <= params["COLS"] * params["TALL"] <= 1024 and params["COLS"] < 2 * shape["D"]


def kernel(table, index, weights, offsets, *, COLS=32, TALL=4, UNROLL=4):
    return extension().embedding_bag(table, index, weights, offsets, COLS, TALL, UNROLL)
