"""CUDA C++: the result is zeroed whole; then rows of values find their sequence by bisection."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.jagged_to_padded.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "LANES": [4, 8, 16, 32],
    "ROUNDS": [1, 4, 16],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void scatter_rows(const T* values, const int* offsets, T* out, int batch, int length,
                             int count, int columns, int lanes, int rounds) {
  const int lane = threadIdx.x % lanes;
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) / lanes * rounds;
  if (first >= count) return;
  int low = 0, high = batch;  // offsets[low] <= first < offsets[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (offsets[middle] <= first) {
      low = middle;
    } else {
      high = middle;
    }
  }
  for (int t = first; t < min(first + rounds, count); ++t) {
    while (offsets[low + 1] <= t) ++low;
    const int row = t - offsets[low];
    if (row >= length) continue;
    const T* from = values + static_cast<long long>(t) * columns;
    T* to = out + (static_cast<long long>(low) * length + row) * columns;
#pragma unroll 4
    for (int c = lane; c < columns; c += lanes) to[c] = from[c];
  }
}

template <typename T>
void launch(const void* values, const int* offsets, void* out, int batch, int columns, int count,
            int length, int threads, int lanes, int rounds, cudaStream_t stream) {
  const T* values_t = static_cast<const T*>(values);
  T* out_t = static_cast<T*>(out);
  const int span = threads / lanes * rounds;
  scatter_rows<T><<<(count + span - 1) / span, threads, 0, stream>>>(
      values_t, offsets, out_t, batch, length, count, columns, lanes, rounds);
}

void run(const void* values, const int* offsets, void* out, int type, int batch, int columns,
         int count, int length, int threads, int lanes, int rounds, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(values, offsets, out, batch, columns, count, length, threads, lanes, rounds,
                    stream);
      break;
    case 1:
      launch<__half>(values, offsets, out, batch, columns, count, length, threads, lanes, rounds,
                     stream);
      break;
    default:
      launch<__nv_bfloat16>(values, offsets, out, batch, columns, count, length, threads, lanes,
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

void run(const void* values, const int* offsets, void* out, int type, int batch, int columns,
         int count, int length, int threads, int lanes, int rounds, cudaStream_t stream);

at::Tensor jagged_to_padded(const at::Tensor& values, const at::Tensor& offsets, int length,
                            int threads, int lanes, int rounds) {
  const int64_t batch = offsets.size(0) - 1;
  const int64_t columns = values.size(1);
  const int64_t count = values.size(0);
  at::Tensor out = at::zeros({batch, length, columns}, values.options());
  const auto kind = values.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(values.const_data_ptr(), offsets.const_data_ptr<int>(), out.mutable_data_ptr(), type, batch,
      columns, count, length, threads, lanes, rounds, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_jagged_to_padded_cuda_zeroed_then_scattered",
        BINDING,
        CUDA,
        functions=["jagged_to_padded"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """One to 64 columns a lane."""
    return params["LANES"] < 2 * shape["D"] <= 128 * params["LANES"]


def kernel(values, offsets, length, *, THREADS=128, LANES=16, ROUNDS=1):
    return extension().jagged_to_padded(values, offsets, length, THREADS, LANES, ROUNDS)
