"""CUDA C++: threads take elements in the order of memory; bisection finds the sequence."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.padded_to_jagged.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512, 1024],
    "EACH": [1, 2, 4, 8],
    "SHARED": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Offsets are searched in memory, or in a copy in shared memory.
template <typename T, int EACH>
__global__ void pack_flat(const T* padded, const int* offsets, T* out, int batch, int length,
                          int columns, int total, bool shared) {
  extern __shared__ int held[];
  if (shared) {
    for (int i = threadIdx.x; i <= batch; i += blockDim.x) held[i] = offsets[i];
    __syncthreads();
  }
  const int* starts = shared ? held : offsets;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = (blockIdx.x * EACH + e) * blockDim.x + threadIdx.x, t = at / columns;
    if (t >= total) return;
    int low = 0, high = batch;  // starts[low] <= t < starts[high]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      const bool after = starts[middle] > t;
      low = after ? low : middle;
      high = after ? middle : high;
    }
    const int row = t - starts[low];
    T value{};
    if (row < length) value = padded[(low * length + row) * columns + at % columns];
    out[at] = value;
  }
}

template <typename T, int EACH>
void launch(const void* padded, const int* offsets, void* out, int batch, int length, int columns,
            int total, int threads, int shared, cudaStream_t stream) {
  const T* padded_t = static_cast<const T*>(padded);
  T* out_t = static_cast<T*>(out);
  const int span = threads * EACH, blocks = (total * columns + span - 1) / span;
  pack_flat<T, EACH><<<blocks, threads, shared ? 4 * batch + 4 : 0, stream>>>(
      padded_t, offsets, out_t, batch, length, columns, total, shared);
}

template <typename T>
void by_each(const void* padded, const int* offsets, void* out, int batch, int length,
             int columns, int total, int threads, int each, int shared, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(padded, offsets, out, batch, length, columns, total, threads, shared, stream);
  } else if (each == 2) {
    launch<T, 2>(padded, offsets, out, batch, length, columns, total, threads, shared, stream);
  } else if (each == 4) {
    launch<T, 4>(padded, offsets, out, batch, length, columns, total, threads, shared, stream);
  } else {
    launch<T, 8>(padded, offsets, out, batch, length, columns, total, threads, shared, stream);
  }
}

void run(const void* padded, const int* offsets, void* out, int type, int batch, int length,
         int columns, int total, int threads, int each, int shared, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(padded, offsets, out, batch, length, columns, total, threads, each, shared,
                     stream);
      break;
    case 1:
      by_each<__half>(padded, offsets, out, batch, length, columns, total, threads, each, shared,
                      stream);
      break;
    default:
      by_each<__nv_bfloat16>(padded, offsets, out, batch, length, columns, total, threads, each,
                             shared, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* padded, const int* offsets, void* out, int type, int batch, int length,
         int columns, int total, int threads, int each, int shared, cudaStream_t stream);

at::Tensor padded_to_jagged(const at::Tensor& padded, const at::Tensor& offsets, int total,
                            int threads, int each, int shared) {
  const int64_t batch = padded.size(0);
  const int64_t length = padded.size(1);
  const int64_t columns = padded.size(2);
  at::Tensor out = at::empty({total, columns}, padded.options());
  const auto kind = padded.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(padded.const_data_ptr(), offsets.const_data_ptr<int>(), out.mutable_data_ptr(), type, batch,
      length, columns, total, threads, each, shared, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_padded_to_jagged_cuda_flat",
        BINDING,
        CUDA,
        functions=["padded_to_jagged"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """What is copied fits in 48 KiB, and is no longer than what a block does."""
    span = params["THREADS"] * params["EACH"]
    return not params["SHARED"] or shape["B"] < min(48 * 256 - 1, span)


def kernel(padded, offsets, total, *, THREADS=256, EACH=4, SHARED=False):
    return extension().padded_to_jagged(padded, offsets, total, THREADS, EACH, SHARED)
