"""CUDA C++: cells of a byte, four to a 32-bit word: all sums are made in words' bytes."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.life_step.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WORDS": [1, 2, 4],
    "DOWN": [1, 4, 16, 64],
    "THREADS": [64, 128, 256],
}

CUDA = r"""
#include <cstdint>

template <int W> struct alignas(4 * W) Words { uint32_t values[W]; };

// Sums of three cells side by side, for the 4 W cells of a row from `at`; zero beyond the rows.
template <int W>
__device__ void sums_of_three(const uint8_t* x, uint32_t* sums, uint32_t* middle, int row, int at,
                              int rows, int columns) {
  uint32_t held[W + 2] = {};
  if (row >= 0 && row < rows) {
    const uint8_t* from = x + static_cast<long long>(row) * columns + at;
    const Words<W> words = *reinterpret_cast<const Words<W>*>(from);
#pragma unroll
    for (int i = 0; i < W; ++i) held[i + 1] = words.values[i];
    if (at > 0) held[0] = static_cast<uint32_t>(from[-1]) << 24;
    if (at + 4 * W < columns) held[W + 1] = from[4 * W];
  }
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const uint32_t left = held[i + 1] << 8 | held[i] >> 24;
    const uint32_t right = held[i + 1] >> 8 | held[i + 2] << 24;
    middle[i] = held[i + 1];
    sums[i] = left + held[i + 1] + right;
  }
}

// 1 in each byte that equals that of `wanted`; every byte is below 16.
__device__ uint32_t equal_bytes(uint32_t x, uint32_t wanted) {
  const uint32_t differing = x ^ wanted;
  return ~((differing + 0x7f7f7f7fu) >> 7) & 0x01010101u;
}

template <int W>
__global__ void life_words(const uint8_t* x, uint8_t* out, int rows, int columns, int down) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * 4 * W;
  if (at >= columns) return;
  const int first = blockIdx.y * down, end = min(first + down, rows);
  uint32_t above[W], here[W], below[W], cells[W], next[W];
  sums_of_three<W>(x, above, cells, first - 1, at, rows, columns);
  sums_of_three<W>(x, here, cells, first, at, rows, columns);
  for (int row = first; row < end; ++row) {
    sums_of_three<W>(x, below, next, row + 1, at, rows, columns);
    Words<W> born;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const uint32_t around = above[i] + here[i] + below[i] - cells[i];
      const uint32_t two = equal_bytes(around, 0x02020202u);
      const uint32_t three = equal_bytes(around, 0x03030303u);
      born.values[i] = three | (two & cells[i]);
      above[i] = here[i];
      here[i] = below[i];
      cells[i] = next[i];
    }
    *reinterpret_cast<Words<W>*>(out + static_cast<long long>(row) * columns + at) = born;
  }
}

template <int W>
void launch(const uint8_t* x, uint8_t* out, int rows, int columns, int down, int threads,
            cudaStream_t stream) {
  const int each = 4 * W * threads;
  const dim3 grid((columns + each - 1) / each, (rows + down - 1) / down);
  life_words<W><<<grid, threads, 0, stream>>>(x, out, rows, columns, down);
}

void step_bytes(const uint8_t* x, uint8_t* out, int rows, int columns, int words, int down,
                int threads, cudaStream_t stream) {
  if (words == 1) launch<1>(x, out, rows, columns, down, threads, stream);
  if (words == 2) launch<2>(x, out, rows, columns, down, threads, stream);
  if (words == 4) launch<4>(x, out, rows, columns, down, threads, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void step_bytes(const uint8_t* x, uint8_t* out, int rows, int columns, int words, int down,
                int threads, cudaStream_t stream);

at::Tensor life_step(const at::Tensor& x, int words, int down, int threads) {
  at::Tensor out = at::empty_like(x);
  step_bytes(x.const_data_ptr<uint8_t>(), out.mutable_data_ptr<uint8_t>(), x.size(0), x.size(1),
             words, down, threads, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_life_step_cuda_byte_lanes",
        BINDING,
        CUDA,
        functions=["life_step"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Bytes alone, whole packs of words, no more rows of blocks than a grid has."""
    wide = shape["N"]
    fits = itemsize(shape) == 1 and wide % 16 == 0 and shape["M"] <= 65535 * params["DOWN"]
    return fits and 4 * params["WORDS"] * params["THREADS"] < 2 * wide


def kernel(x, *, WORDS=2, DOWN=16, THREADS=64):
    return extension().life_step(x, WORDS, DOWN, THREADS)
