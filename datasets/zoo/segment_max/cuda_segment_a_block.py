"""CUDA C++: a block takes a segment and a band of columns; rows of threads meet at the end."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.segment_max.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "COLS": [16, 32, 64, 128, 256],
    "TALL": [1, 2, 4, 8, 16],
    "UNROLL": [1, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T, int UNROLL>
__global__ void max_segments(const T* rows, const int* offsets, float* out, int columns) {
  extern __shared__ float best[];
  const int c = blockIdx.y * blockDim.x + threadIdx.x;
  const int end = offsets[blockIdx.x + 1];
  float most = 0.0f;
  if (c < columns) {
#pragma unroll UNROLL
    for (int t = offsets[blockIdx.x] + threadIdx.y; t < end; t += blockDim.y) {
      most = fmaxf(most, wide(rows[static_cast<long long>(t) * columns + c]));
    }
  }
  best[threadIdx.y * blockDim.x + threadIdx.x] = most;
  __syncthreads();
  if (threadIdx.y || c >= columns) return;
  for (int y = 1; y < blockDim.y; ++y) most = fmaxf(most, best[y * blockDim.x + threadIdx.x]);
  out[static_cast<long long>(blockIdx.x) * columns + c] = most;
}

template <typename T, int UNROLL>
void launch(const void* rows, const int* offsets, float* out, int segments, int columns, int cols,
            int tall, cudaStream_t stream) {
  const T* rows_t = static_cast<const T*>(rows);
  const dim3 grid(segments, (columns + cols - 1) / cols), block(cols, tall);
  max_segments<T, UNROLL><<<grid, block, 4 * cols * tall, stream>>>(rows_t, offsets, out, columns);
}

template <typename T>
void by_unroll(const void* rows, const int* offsets, float* out, int segments, int columns,
               int cols, int tall, int unroll, cudaStream_t stream) {
  if (unroll == 1) {
    launch<T, 1>(rows, offsets, out, segments, columns, cols, tall, stream);
  } else {
    launch<T, 4>(rows, offsets, out, segments, columns, cols, tall, stream);
  }
}

void run(const void* rows, const int* offsets, float* out, int type, int segments, int columns,
         int cols, int tall, int unroll, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_unroll<float>(rows, offsets, out, segments, columns, cols, tall, unroll, stream);
      break;
    case 1:
      by_unroll<__half>(rows, offsets, out, segments, columns, cols, tall, unroll, stream);
      break;
    default:
      by_unroll<__nv_bfloat16>(rows, offsets, out, segments, columns, cols, tall, unroll, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* rows, const int* offsets, float* out, int type, int segments, int columns,
         int cols, int tall, int unroll, cudaStream_t stream);

at::Tensor segment_max(const at::Tensor& rows, const at::Tensor& offsets, int cols, int tall,
                       int unroll) {
  const int64_t segments = offsets.size(0) - 1;
  const int64_t columns = rows.size(1);
  at::Tensor out = at::empty({segments, columns}, rows.options().dtype(at::kFloat));
  const int type = rows.scalar_type() == at::kFloat ? 0 : rows.scalar_type() == at::kHalf ? 1 : 2;
  run(rows.const_data_ptr(), offsets.const_data_ptr<int>(), out.mutable_data_ptr<float>(), type,
      segments, columns, cols, tall, unroll, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_segment_max_cuda_segment_a_block",
        BINDING,
        CUDA,
        functions=["segment_max"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 1,024 threads, and a band not far wider than a row."""
    return 32 <= params["COLS"] * params["TALL"] <= 1024 and params["COLS"] < 4 * shape["D"]


def kernel(rows, ids, offsets, *, COLS=32, TALL=4, UNROLL=4):
    return extension().segment_max(rows, offsets, COLS, TALL, UNROLL)
