"""CUDA C++: warps share the numbers equally and find their row by bisection."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.ragged_row_mean.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "ROUNDS": [2, 4, 8, 16, 32, 64],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// A warp takes a stretch; its sum of a row goes out where the row ends. Long rows have many warps.
template <typename T>
__global__ void add_stretches(const T* values, const int* offsets, float* out, int rows, int count,
                              int rounds) {
  const int lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int at = warp * rounds * 32;
  const int end = min(at + rounds * 32, count);
  if (at >= end) return;
  int low = 0, high = rows;  // offsets[low] <= at < offsets[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (offsets[middle] <= at) {
      low = middle;
    } else {
      high = middle;
    }
  }
  for (int row = low; at < end; ++row) {
    const int until = offsets[row + 1], stop = min(until, end);
    if (stop <= at) continue;
    float sum = 0.0f;
    for (int i = at + lane; i < stop; i += 32) sum += wide(values[i]);
    for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
    if (lane == 0) atomicAdd(out + row, sum / (until - offsets[row]));
    at = stop;
  }
}

template <typename T>
void launch(const void* values, const int* offsets, float* out, int rows, int count, int threads,
            int rounds, cudaStream_t stream) {
  const T* values_t = static_cast<const T*>(values);
  const int span = threads * rounds;
  add_stretches<T><<<(count + span - 1) / span, threads, 0, stream>>>(values_t, offsets, out, rows,
                                                                      count, rounds);
}

void run(const void* values, const int* offsets, float* out, int type, int rows, int count,
         int threads, int rounds, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(values, offsets, out, rows, count, threads, rounds, stream);
      break;
    case 1:
      launch<__half>(values, offsets, out, rows, count, threads, rounds, stream);
      break;
    default:
      launch<__nv_bfloat16>(values, offsets, out, rows, count, threads, rounds, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* values, const int* offsets, float* out, int type, int rows, int count,
         int threads, int rounds, cudaStream_t stream);

at::Tensor ragged_row_mean(const at::Tensor& values, const at::Tensor& offsets, int threads,
                           int rounds) {
  const int64_t rows = offsets.size(0) - 1;
  const int64_t count = values.size(0);
  at::Tensor out = at::zeros({rows}, values.options().dtype(at::kFloat));
  const auto kind = values.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(values.const_data_ptr(), offsets.const_data_ptr<int>(), out.mutable_data_ptr<float>(), type,
      rows, count, threads, rounds, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_ragged_row_mean_cuda_equal_shares",
        BINDING,
        CUDA,
        functions=["ragged_row_mean"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """A warp takes no more than 64 rows where they are alike."""
    return 32 * params["ROUNDS"] <= 64 * shape["PER_ROW"]


def kernel(values, offsets, *, THREADS=128, ROUNDS=16):
    return extension().ragged_row_mean(values, offsets, THREADS, ROUNDS)
