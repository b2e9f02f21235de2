"""CUDA C++: from two lanes to a block a row; shuffles and shared memory add up."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.ragged_row_mean.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "LANES": [2, 8, 32, 128, 512],
    "THREADS": [64, 128, 256, 512],
    "UNROLL": [1, 2, 4, 8],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// Up to a warp's lanes meet by shuffles; a row of several warps goes through shared memory.
template <typename T, int UNROLL>
__global__ void mean_rows(const T* values, const int* offsets, float* out, int rows, int lanes) {
  __shared__ float sums[32];
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / lanes, lane = threadIdx.x % lanes;
  const int first = row < rows ? offsets[row] : 0, end = row < rows ? offsets[row + 1] : 0;
  float sum = 0.0f;
#pragma unroll UNROLL
  for (int i = first + lane; i < end; i += lanes) sum += wide(values[i]);
  for (int far = min(lanes, 32) / 2; far > 0; far /= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, far);
  }
  if (lanes > 32) {
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    const int warp = threadIdx.x / lanes * (lanes / 32);
    sum = 0.0f;
    for (int w = 0; w < lanes / 32; ++w) sum += sums[warp + w];
  }
  if (row < rows && lane == 0) out[row] = sum / max(end - first, 1);
}

template <typename T, int UNROLL>
void launch(const void* values, const int* offsets, float* out, int rows, int lanes, int threads,
            cudaStream_t stream) {
  const T* values_t = static_cast<const T*>(values);
  const int per_block = threads / lanes;
  mean_rows<T, UNROLL><<<(rows + per_block - 1) / per_block, threads, 0, stream>>>(
      values_t, offsets, out, rows, lanes);
}

template <typename T>
void by_unroll(const void* values, const int* offsets, float* out, int rows, int lanes,
               int threads, int unroll, cudaStream_t stream) {
  if (unroll == 1) {
    launch<T, 1>(values, offsets, out, rows, lanes, threads, stream);
  } else if (unroll == 2) {
    launch<T, 2>(values, offsets, out, rows, lanes, threads, stream);
  } else if (unroll == 4) {
    launch<T, 4>(values, offsets, out, rows, lanes, threads, stream);
  } else {
    launch<T, 8>(values, offsets, out, rows, lanes, threads, stream);
  }
}

void run(const void* values, const int* offsets, float* out, int type, int rows, int lanes,
         int threads, int unroll, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_unroll<float>(values, offsets, out, rows, lanes, threads, unroll, stream);
      break;
    case 1:
      by_unroll<__half>(values, offsets, out, rows, lanes, threads, unroll, stream);
      break;
    default:
      by_unroll<__nv_bfloat16>(values, offsets, out, rows, lanes, threads, unroll, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* values, const int* offsets, float* out, int type, int rows, int lanes,
         int threads, int unroll, cudaStream_t stream);

at::Tensor ragged_row_mean(const at::Tensor& values, const at::Tensor& offsets, int lanes,
                           int threads, int unroll) {
  const int64_t rows = offsets.size(0) - 1;
  at::Tensor out = at::empty({rows}, values.options().dtype(at::kFloat));
  const auto kind = values.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(values.const_data_ptr(), offsets.const_data_ptr<int>(), out.mutable_data_ptr<float>(), type,
      rows, lanes, threads, unroll, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_ragged_row_mean_cuda_lanes_a_row",
        BINDING,
        CUDA,
        functions=["ragged_row_mean"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """A row in one block; at most 4,096 numbers a lane where rows are alike."""
    lanes = params["LANES"]
    return lanes <= params["THREADS"] and lanes <= 8 * shape["PER_ROW"] <= 8 * 4096 * lanes


def kernel(values, offsets, *, LANES=32, THREADS=128, UNROLL=4):
    return extension().ragged_row_mean(values, offsets, LANES, THREADS, UNROLL)
