"""CUDA C++: atomic maxima in memory, only where a look shows that the number is greater."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.scatter_max.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "COLS": [16, 32, 64, 128],
    "TALL": [1, 2, 4, 8, 16],
    "ROUNDS": [1, 8],
    "LOOK": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// Numbers that are not negative are in the order of their bits; others never win.
template <typename T>
__global__ void max_rows(const T* rows, const int* index, float* out, int count, int columns,
                         int rounds, bool look) {
  const int first = (blockIdx.x * blockDim.y + threadIdx.y) * rounds;
  for (int t = first; t < min(first + rounds, count); ++t) {
    const T* from = rows + static_cast<long long>(t) * columns;
    float* to = out + static_cast<long long>(index[t]) * columns;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
      const float x = wide(from[c]);
      const float seen = look ? __ldcg(to + c) : 0.0f;
      if (x > seen) atomicMax(reinterpret_cast<int*>(to) + c, __float_as_int(x));
    }
  }
}

template <typename T>
void launch(const void* rows, const int* index, float* out, int count, int columns, int targets,
            int cols, int tall, int rounds, int look, cudaStream_t stream) {
  const T* rows_t = static_cast<const T*>(rows);
  const int span = tall * rounds;
  const dim3 block(cols, tall);
  max_rows<T><<<(count + span - 1) / span, block, 0, stream>>>(rows_t, index, out, count, columns,
                                                               rounds, look);
}

void run(const void* rows, const int* index, float* out, int type, int count, int columns,
         int targets, int cols, int tall, int rounds, int look, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(rows, index, out, count, columns, targets, cols, tall, rounds, look, stream);
      break;
    case 1:
      launch<__half>(rows, index, out, count, columns, targets, cols, tall, rounds, look, stream);
      break;
    default:
      launch<__nv_bfloat16>(rows, index, out, count, columns, targets, cols, tall, rounds, look,
                            stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* rows, const int* index, float* out, int type, int count, int columns,
         int targets, int cols, int tall, int rounds, int look, cudaStream_t stream);

at::Tensor scatter_max(const at::Tensor& rows, const at::Tensor& index, int targets, int cols,
                       int tall, int rounds, int look) {
  const int64_t count = rows.size(0);
  const int64_t columns = rows.size(1);
  at::Tensor out = at::zeros({targets, columns}, rows.options().dtype(at::kFloat));
  const int type = rows.scalar_type() == at::kFloat ? 0 : rows.scalar_type() == at::kHalf ? 1 : 2;
  run(rows.const_data_ptr(), index.const_data_ptr<int>(), out.mutable_data_ptr<float>(), type,
      count, columns, targets, cols, tall, rounds, look, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_scatter_max_cuda_look_first",
        BINDING,
        CUDA,
        functions=["scatter_max"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 512 threads, no more along a row than it is long, one to 64 columns each."""
    across, columns = params["COLS"], shape["D"]
    return 32 <= across * params["TALL"] <= 512 and across < 2 * columns and columns <= 64 * across


def kernel(rows, index, targets, *, COLS=16, TALL=8, ROUNDS=1, LOOK=True):
    return extension().scatter_max(rows, index, targets, COLS, TALL, ROUNDS, LOOK)
