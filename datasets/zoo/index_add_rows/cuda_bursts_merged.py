"""CUDA C++: threads walk down chunks of rows; what goes to one target is one atomic."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.index_add_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "COLS": [16, 32, 64, 128, 256],
    "TALL": [1, 2, 4, 8],
    "CHUNK": [2, 4, 8, 16, 32],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__global__ void add_runs(const T* rows, const int* index, float* out, int count, int columns,
                         int chunk, float factor) {
  const int c = blockIdx.y * blockDim.x + threadIdx.x;
  const int first = (blockIdx.x * blockDim.y + threadIdx.y) * chunk;
  const int end = min(first + chunk, count);
  if (c >= columns || first >= end) return;
  int target = index[first];
  float sum = 0.0f;
  for (int t = first; t < end; ++t) {
    const int here = index[t];
    if (here != target) {
      atomicAdd(out + static_cast<long long>(target) * columns + c, sum * factor);
      sum = 0.0f;
      target = here;
    }
    sum += wide(rows[static_cast<long long>(t) * columns + c]);
  }
  atomicAdd(out + static_cast<long long>(target) * columns + c, sum * factor);
}

template <typename T>
void launch(const float* table, const void* rows, const int* index, float* out, int count,
            int columns, float factor, int cols, int tall, int chunk, cudaStream_t stream) {
  const T* rows_t = static_cast<const T*>(rows);
  const int span = tall * chunk;
  const dim3 grid((count + span - 1) / span, (columns + cols - 1) / cols), block(cols, tall);
  add_runs<T><<<grid, block, 0, stream>>>(rows_t, index, out, count, columns, chunk, factor);
}

void run(const float* table, const void* rows, const int* index, float* out, int type, int count,
         int columns, float factor, int cols, int tall, int chunk, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(table, rows, index, out, count, columns, factor, cols, tall, chunk, stream);
      break;
    case 1:
      launch<__half>(table, rows, index, out, count, columns, factor, cols, tall, chunk, stream);
      break;
    default:
      launch<__nv_bfloat16>(table, rows, index, out, count, columns, factor, cols, tall, chunk,
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

void run(const float* table, const void* rows, const int* index, float* out, int type, int count,
         int columns, float factor, int cols, int tall, int chunk, cudaStream_t stream);

at::Tensor index_add_rows(const at::Tensor& table, const at::Tensor& rows,
                          const at::Tensor& index, double factor, int cols, int tall, int chunk) {
  const int64_t count = rows.size(0);
  const int64_t columns = rows.size(1);
  at::Tensor out = table.clone();
  const int type = rows.scalar_type() == at::kFloat ? 0 : rows.scalar_type() == at::kHalf ? 1 : 2;
  run(table.const_data_ptr<float>(), rows.const_data_ptr(), index.const_data_ptr<int>(),
      out.mutable_data_ptr<float>(), type, count, columns, factor, cols, tall, chunk,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_index_add_rows_cuda_bursts_merged",
        BINDING,
        CUDA,
        functions=["index_add_rows"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 512 threads, and a band not far wider than a row."""
    return 32 <= params["COLS"] * params["TALL"] <= 512 and params["COLS"] < 4 * shape["D"]


def kernel(table, rows, index, factor, *, COLS=32, TALL=4, CHUNK=8):
    return extension().index_add_rows(table, rows, index, factor, COLS, TALL, CHUNK)
