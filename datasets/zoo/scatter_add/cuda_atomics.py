"""CUDA C++: an atomic for every element, in the order of the rows; threads a row are chosen."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.scatter_add.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS_X": [16, 32, 64, 128, 256],
    "THREADS_Y": [1, 2, 4, 8],
    "ROWS": [1, 2, 4],
    "EACH": [1, 2, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// Threads along x take columns that lie blockDim.x apart, EACH of them at a time.
template <typename T, int EACH>
__global__ void scatter_atomics(const T* rows, const long long* index, float* table, int count,
                                int columns, int each) {
  const int first = (blockIdx.x * blockDim.y + threadIdx.y) * each;
  for (int row = first; row < min(count, first + each); ++row) {
    const T* from = rows + static_cast<long long>(row) * columns;
    float* to = table + index[row] * columns;
    for (int start = threadIdx.x; start < columns; start += blockDim.x * EACH) {
      float held[EACH];
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        const int c = start + i * blockDim.x;
        held[i] = c < columns ? wide(from[c]) : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        const int c = start + i * blockDim.x;
        if (c < columns) atomicAdd(to + c, held[i]);
      }
    }
  }
}

template <typename T>
void launch(const void* rows, const long long* index, float* table, int count, int columns, int x,
            int y, int each_rows, int each, cudaStream_t stream) {
  const T* from = static_cast<const T*>(rows);
  const dim3 block(x, y);
  const int tall = y * each_rows, blocks = (count + tall - 1) / tall;
  if (each == 1) {
    scatter_atomics<T, 1>
        <<<blocks, block, 0, stream>>>(from, index, table, count, columns, each_rows);
  } else if (each == 2) {
    scatter_atomics<T, 2>
        <<<blocks, block, 0, stream>>>(from, index, table, count, columns, each_rows);
  } else {
    scatter_atomics<T, 4>
        <<<blocks, block, 0, stream>>>(from, index, table, count, columns, each_rows);
  }
}

void scatter(const void* rows, const long long* index, float* table, int type, int count,
             int columns, int x, int y, int each_rows, int each, cudaStream_t stream) {
  if (type == 0) launch<float>(rows, index, table, count, columns, x, y, each_rows, each, stream);
  if (type == 1) launch<__half>(rows, index, table, count, columns, x, y, each_rows, each, stream);
  if (type == 2) {
    launch<__nv_bfloat16>(rows, index, table, count, columns, x, y, each_rows, each, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void scatter(const void* rows, const long long* index, float* table, int type, int count,
             int columns, int x, int y, int each_rows, int each, cudaStream_t stream);

at::Tensor scatter_add(const at::Tensor& x, const at::Tensor& index, const at::Tensor& like,
                       int threads_x, int threads_y, int each_rows, int each) {
  at::Tensor table = at::zeros_like(like);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  scatter(x.const_data_ptr(), static_cast<const long long*>(index.const_data_ptr()),
          table.mutable_data_ptr<float>(), type, x.size(0), x.size(1), threads_x, threads_y,
          each_rows, each, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return table;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_scatter_add_cuda_atomics",
        BINDING,
        CUDA,
        functions=["scatter_add"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 1,024 threads, not far more along a row than it is long, one to 64 columns each."""
    x, columns = params["THREADS_X"], shape["D"]
    fits = x * params["EACH"] < 2 * columns or (x == 32 and params["EACH"] == 1)
    return 32 <= x * params["THREADS_Y"] <= 1024 and fits and columns <= 64 * x


def kernel(rows, index, like, *, THREADS_X=64, THREADS_Y=4, ROWS=1, EACH=1):
    return extension().scatter_add(rows, index, like, THREADS_X, THREADS_Y, ROWS, EACH)
