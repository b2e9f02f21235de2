"""CUDA C++: an atomic in memory for every pair, loads of EACH codes at a time."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.joint_histogram.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512, 1024],
    "BLOCKS": [264, 1056, 4224, 16896],
    "EACH": [1, 2, 4],
}

CUDA = r"""
#include <cstdint>

template <typename T, int EACH> struct alignas(sizeof(T) * EACH) Pack { T values[EACH]; };

// Arrays start where packs may; what does not fill a pack at the end is counted one by one.
template <typename T, int EACH>
__global__ void count_pairs(const T* first, const T* second, int* out, int size, int bins) {
  using P = Pack<T, EACH>;
  const int step = gridDim.x * blockDim.x, start = blockIdx.x * blockDim.x + threadIdx.x;
  const int packs = size / EACH;
  for (int i = start; i < packs; i += step) {
    const P a = reinterpret_cast<const P*>(first)[i];
    const P b = reinterpret_cast<const P*>(second)[i];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      atomicAdd(out + static_cast<int>(a.values[e]) * bins + static_cast<int>(b.values[e]), 1);
    }
  }
  for (int i = packs * EACH + start; i < size; i += step) {
    atomicAdd(out + static_cast<int>(first[i]) * bins + static_cast<int>(second[i]), 1);
  }
}

template <typename T, int EACH>
void launch(const void* first, const void* second, int* out, int size, int bins, int threads,
            int blocks, cudaStream_t stream) {
  const T* first_t = static_cast<const T*>(first);
  const T* second_t = static_cast<const T*>(second);
  count_pairs<T, EACH><<<blocks, threads, 0, stream>>>(first_t, second_t, out, size, bins);
}

template <typename T>
void by_each(const void* first, const void* second, int* out, int size, int bins, int threads,
             int blocks, int each, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(first, second, out, size, bins, threads, blocks, stream);
  } else if (each == 2) {
    launch<T, 2>(first, second, out, size, bins, threads, blocks, stream);
  } else {
    launch<T, 4>(first, second, out, size, bins, threads, blocks, stream);
  }
}

void run(const void* first, const void* second, int* out, int type, int size, int bins,
         int threads, int blocks, int each, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<uint8_t>(first, second, out, size, bins, threads, blocks, each, stream);
      break;
    case 1:
      by_each<int16_t>(first, second, out, size, bins, threads, blocks, each, stream);
      break;
    default:
      by_each<int>(first, second, out, size, bins, threads, blocks, each, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* first, const void* second, int* out, int type, int size, int bins,
         int threads, int blocks, int each, cudaStream_t stream);

at::Tensor joint_histogram(const at::Tensor& first, const at::Tensor& second, int bins,
                           int threads, int blocks, int each) {
  const int64_t size = first.size(0);
  at::Tensor out = at::zeros({bins, bins}, first.options().dtype(at::kInt));
  const int type = first.element_size() == 1 ? 0 : first.element_size() == 2 ? 1 : 2;
  run(first.const_data_ptr(), second.const_data_ptr(), out.mutable_data_ptr<int>(), type, size,
      bins, threads, blocks, each, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_joint_histogram_cuda_global_counts",
        BINDING,
        CUDA,
        functions=["joint_histogram"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No more threads than there are pairs."""
    return params["THREADS"] * params["BLOCKS"] * params["EACH"] <= 2 * shape["N"]


def kernel(first, second, bins, *, THREADS=128, BLOCKS=1056, EACH=2):
    return extension().joint_histogram(first, second, bins, THREADS, BLOCKS, EACH)
