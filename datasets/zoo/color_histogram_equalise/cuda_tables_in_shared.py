"""CUDA C++: tables in shared memory, in copies for different lanes; packs of pixels a thread."""

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
    "THREADS": [128, 256, 512],
    "BLOCKS": [264, 1056, 4224],
    "COPIES": [1, 2, 4],
}

CUDA = r"""
#include <cstdint>

template <typename T> struct alignas(4 * sizeof(T)) Four { T values[4]; };

// Copies lie side by side, so that the same entry is in several banks. Four bytes are read at once.
template <typename T>
__global__ void look_up_shared(const uint8_t* pixels, const T* tables, T* out, long long size,
                               int channels, int copies) {
  extern __shared__ uint32_t raw[];
  T* held = reinterpret_cast<T*>(raw);
  const int entries = 256 * channels * copies;
  for (int i = threadIdx.x; i < entries; i += blockDim.x) held[i] = tables[i / copies];
  __syncthreads();
  const int mine = threadIdx.x % copies;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x * 4;
  long long at = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  int channel = static_cast<int>(at % channels);
  const int turn = static_cast<int>(step % channels);
  for (; at + 3 < size; at += step) {
    const uint32_t word = *reinterpret_cast<const uint32_t*>(pixels + at);
    Four<T> pack;
    int c = channel;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pack.values[i] = held[(256 * c + (word >> 8 * i & 255)) * copies + mine];
      c = c + 1 == channels ? 0 : c + 1;
    }
    *reinterpret_cast<Four<T>*>(out + at) = pack;
    channel += turn;
    if (channel >= channels) channel -= channels;
  }
  for (; at < size; ++at) {
    out[at] = held[(256 * static_cast<int>(at % channels) + pixels[at]) * copies + mine];
  }
}

template <typename T>
void launch(const uint8_t* pixels, const void* tables, void* out, long long size, int channels,
            int threads, int most, int copies, cudaStream_t stream) {
  const int64_t each = 4 * int64_t(threads);
  const int64_t wanted = (size + each - 1) / each;
  const int blocks = wanted < most ? wanted : most;
  const int bytes = 256 * channels * copies * sizeof(T);
  look_up_shared<T><<<blocks, threads, bytes, stream>>>(pixels, static_cast<const T*>(tables),
                                                        static_cast<T*>(out), size, channels,
                                                        copies);
}

void look_up(const uint8_t* pixels, const void* tables, void* out, int itemsize, long long size,
             int channels, int threads, int most, int copies, cudaStream_t stream) {
  if (itemsize == 1) {
    launch<uint8_t>(pixels, tables, out, size, channels, threads, most, copies, stream);
  } else if (itemsize == 2) {
    launch<uint16_t>(pixels, tables, out, size, channels, threads, most, copies, stream);
  } else {
    launch<uint32_t>(pixels, tables, out, size, channels, threads, most, copies, stream);
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
             int channels, int threads, int most, int copies, cudaStream_t stream);

at::Tensor equalise(const at::Tensor& pixels, const at::Tensor& tables,
                    int threads, int most, int copies) {
  at::Tensor out = at::empty(pixels.sizes(), tables.options());
  look_up(pixels.const_data_ptr<uint8_t>(), tables.const_data_ptr(), out.mutable_data_ptr(),
          tables.element_size(), pixels.numel(), pixels.size(1), threads, most, copies,
          c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_color_histogram_equalise_cuda_tables_in_shared",
        BINDING,
        CUDA,
        functions=["equalise"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Every block has pixels to look up."""
    return params["BLOCKS"] * params["THREADS"] <= shape["N"] * shape["C"] or (
        params["BLOCKS"] == 1056
    )


def kernel(pixels, tables, *, THREADS=256, BLOCKS=1056, COPIES=1):
    return extension().equalise(pixels, tables, THREADS, BLOCKS, COPIES)
