"""CUDA C++: a thread looks up EACH pixels in global memory, whose tables the cache holds."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.color_histogram_equalise.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "EACH": [1, 2, 4, 8],
}

CUDA = r"""
#include <cstdint>

template <typename T, int EACH>
__global__ void look_up_cached(const uint8_t* pixels, const T* tables, T* out, long long size,
                               int channels) {
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x * EACH + threadIdx.x;
  int seen[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const long long at = first + e * blockDim.x;
    seen[e] = at < size ? pixels[at] : 0;
  }
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const long long at = first + e * blockDim.x;
    if (at < size) out[at] = __ldg(tables + 256 * static_cast<int>(at % channels) + seen[e]);
  }
}

template <typename T, int EACH>
void launch(const uint8_t* pixels, const void* tables, void* out, long long size, int channels,
            int threads, cudaStream_t stream) {
  const int64_t each = int64_t(threads) * EACH;
  const int blocks = (size + each - 1) / each;
  look_up_cached<T, EACH><<<blocks, threads, 0, stream>>>(pixels, static_cast<const T*>(tables),
                                                          static_cast<T*>(out), size, channels);
}

template <typename T>
void by_each(const uint8_t* pixels, const void* tables, void* out, long long size, int channels,
             int threads, int each, cudaStream_t stream) {
  if (each == 1) launch<T, 1>(pixels, tables, out, size, channels, threads, stream);
  if (each == 2) launch<T, 2>(pixels, tables, out, size, channels, threads, stream);
  if (each == 4) launch<T, 4>(pixels, tables, out, size, channels, threads, stream);
  if (each == 8) launch<T, 8>(pixels, tables, out, size, channels, threads, stream);
}

void look_up(const uint8_t* pixels, const void* tables, void* out, int itemsize, long long size,
             int channels, int threads, int each, cudaStream_t stream) {
  if (itemsize == 1) {
    by_each<uint8_t>(pixels, tables, out, size, channels, threads, each, stream);
  } else if (itemsize == 2) {
    by_each<uint16_t>(pixels, tables, out, size, channels, threads, each, stream);
  } else {
    by_each<uint32_t>(pixels, tables, out, size, channels, threads, each, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void look_up(const uint8_t* pixels, const void* tables, void* out, int itemsize, long long size,
             int channels, int threads, int each, cudaStream_t stream);

at::Tensor equalise(const at::Tensor& pixels, const at::Tensor& tables,
                    int threads, int each) {
  at::Tensor out = at::empty(pixels.sizes(), tables.options());
  look_up(pixels.const_data_ptr<uint8_t>(), tables.const_data_ptr(), out.mutable_data_ptr(),
          tables.element_size(), pixels.numel(), pixels.size(1), threads, each,
          c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_color_histogram_equalise_cuda_tables_in_cache",
        BINDING,
        CUDA,
        functions=["equalise"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """More pixels than a block takes."""
    return params["THREADS"] * params["EACH"] < shape["N"] * shape["C"]


def kernel(pixels, tables, *, THREADS=256, EACH=4):
    return extension().equalise(pixels, tables, THREADS, EACH)
