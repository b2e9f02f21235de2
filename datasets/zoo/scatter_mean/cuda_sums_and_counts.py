"""CUDA C++: atomics add rows and count them in one launch, a second one divides."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.scatter_mean.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "COLS": [8, 16, 32, 64, 128, 256],
    "TALL": [1, 2, 4, 8, 16],
    "ROUNDS": [1, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// Threads along x take columns that lie blockDim.x apart; a row of threads takes ROUNDS rows.
template <typename T, int ROUNDS>
__global__ void add_rows(const T* rows, const int* index, float* out, int* counts, int count,
                         int columns) {
  const int first = (blockIdx.x * blockDim.y + threadIdx.y) * ROUNDS;
#pragma unroll
  for (int r = 0; r < ROUNDS; ++r) {
    if (first + r >= count) return;
    const int target = index[first + r];
    const T* from = rows + static_cast<long long>(first + r) * columns;
    float* to = out + static_cast<long long>(target) * columns;
    if (threadIdx.x == 0) atomicAdd(counts + target, 1);
    for (int c = threadIdx.x; c < columns; c += blockDim.x) atomicAdd(to + c, wide(from[c]));
  }
}

__global__ void divide_rows(float* out, const int* counts, int size, int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= size) return;
  const int many = counts[i / columns];
  if (many > 1) out[i] /= static_cast<float>(many);
}

template <typename T, int ROUNDS>
void launch(const void* rows, const int* index, float* out, int* work_counts, int count,
            int columns, int targets, int cols, int tall, cudaStream_t stream) {
  const T* rows_t = static_cast<const T*>(rows);
  const int span = tall * ROUNDS, size = targets * columns;
  const dim3 block(cols, tall);
  add_rows<T, ROUNDS><<<(count + span - 1) / span, block, 0, stream>>>(rows_t, index, out,
                                                                       work_counts, count, columns);
  divide_rows<<<(size + 255) / 256, 256, 0, stream>>>(out, work_counts, size, columns);
}

template <typename T>
void by_rounds(const void* rows, const int* index, float* out, int* work_counts, int count,
               int columns, int targets, int cols, int tall, int rounds, cudaStream_t stream) {
  if (rounds == 1) {
    launch<T, 1>(rows, index, out, work_counts, count, columns, targets, cols, tall, stream);
  } else {
    launch<T, 4>(rows, index, out, work_counts, count, columns, targets, cols, tall, stream);
  }
}

void run(const void* rows, const int* index, float* out, int* work_counts, int type, int count,
         int columns, int targets, int cols, int tall, int rounds, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_rounds<float>(rows, index, out, work_counts, count, columns, targets, cols, tall, rounds,
                       stream);
      break;
    case 1:
      by_rounds<__half>(rows, index, out, work_counts, count, columns, targets, cols, tall,
                        rounds, stream);
      break;
    default:
      by_rounds<__nv_bfloat16>(rows, index, out, work_counts, count, columns, targets, cols, tall,
                               rounds, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* rows, const int* index, float* out, int* work_counts, int type, int count,
         int columns, int targets, int cols, int tall, int rounds, cudaStream_t stream);

at::Tensor scatter_mean(const at::Tensor& rows, const at::Tensor& index, int targets, int cols,
                        int tall, int rounds) {
  const int64_t count = rows.size(0);
  const int64_t columns = rows.size(1);
  at::Tensor out = at::zeros({targets, columns}, rows.options().dtype(at::kFloat));
  at::Tensor work_counts = at::zeros({targets}, index.options());
  const int type = rows.scalar_type() == at::kFloat ? 0 : rows.scalar_type() == at::kHalf ? 1 : 2;
  run(rows.const_data_ptr(), index.const_data_ptr<int>(), out.mutable_data_ptr<float>(),
      work_counts.mutable_data_ptr<int>(), type, count, columns, targets, cols, tall, rounds,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_scatter_mean_cuda_sums_and_counts",
        BINDING,
        CUDA,
        functions=["scatter_mean"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 1,024 threads, no more along a row than it is long, one to 32 columns each."""
    across, columns = params["COLS"], shape["D"]
    return 32 <= across * params["TALL"] <= 1024 and across < 2 * columns and columns <= 32 * across


def kernel(rows, index, targets, *, COLS=32, TALL=8, ROUNDS=1):
    return extension().scatter_mean(rows, index, targets, COLS, TALL, ROUNDS)
