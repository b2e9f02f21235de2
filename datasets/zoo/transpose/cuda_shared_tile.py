"""CUDA C++: square tiles turned in shared memory, whose rows are padded or swizzled, or neither."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.transpose.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SIDE": [16, 32, 64],
    "HIGH": [2, 4, 8, 16],
    "LAYOUT": ["plain", "padded", "swizzled"],
    "TILES": [1, 2, 4],
    "READ_ONLY": [False, True],
}

CUDA = r"""
#include <cstdint>

enum Layout { PLAIN, PADDED, SWIZZLED };

// A block of SIDE x HIGH threads turns `tiles` tiles, one beside the other in `from`.
template <typename T, int SIDE, int LAYOUT>
__global__ void transpose_tiles(const T* __restrict__ from, T* __restrict__ to, int rows,
                                int columns, int tiles, bool read_only) {
  __shared__ T tile[SIDE][SIDE + (LAYOUT == PADDED ? 4 / sizeof(T) : 0)];
  const int x = threadIdx.x, high = blockDim.y;
  const int row = blockIdx.x / ((columns + SIDE * tiles - 1) / (SIDE * tiles)) * SIDE;
  const int first = blockIdx.x % ((columns + SIDE * tiles - 1) / (SIDE * tiles)) * SIDE * tiles;
  for (int turn = 0; turn < tiles; ++turn) {
    const int column = first + turn * SIDE;
    if (column >= columns) return;
    for (int y = threadIdx.y; y < SIDE; y += high) {
      if (row + y < rows && column + x < columns) {
        const T* at = from + static_cast<int64_t>(row + y) * columns + column + x;
        tile[y][LAYOUT == SWIZZLED ? x ^ y : x] = read_only ? __ldg(at) : *at;
      }
    }
    __syncthreads();
    for (int y = threadIdx.y; y < SIDE; y += high) {
      if (column + y < columns && row + x < rows) {
        const T value = tile[x][LAYOUT == SWIZZLED ? y ^ x : y];
        to[static_cast<int64_t>(column + y) * rows + row + x] = value;
      }
    }
    __syncthreads();
  }
}

template <typename T, int SIDE>
void launch(const void* x, void* out, int rows, int columns, int high, int layout, int tiles,
            bool read_only, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const dim3 block(SIDE, high);
  const int across = (columns + SIDE * tiles - 1) / (SIDE * tiles);
  const int grid = across * ((rows + SIDE - 1) / SIDE);
  switch (layout) {
    case 0:
      transpose_tiles<T, SIDE, PLAIN>
          <<<grid, block, 0, stream>>>(from, to, rows, columns, tiles, read_only);
      break;
    case 1:
      transpose_tiles<T, SIDE, PADDED>
          <<<grid, block, 0, stream>>>(from, to, rows, columns, tiles, read_only);
      break;
    default:
      transpose_tiles<T, SIDE, SWIZZLED>
          <<<grid, block, 0, stream>>>(from, to, rows, columns, tiles, read_only);
  }
}

template <typename T>
void by_side(const void* x, void* out, int rows, int columns, int side, int high, int layout,
             int tiles, bool read_only, cudaStream_t stream) {
  if (side == 16) launch<T, 16>(x, out, rows, columns, high, layout, tiles, read_only, stream);
  if (side == 32) launch<T, 32>(x, out, rows, columns, high, layout, tiles, read_only, stream);
  if (side == 64) launch<T, 64>(x, out, rows, columns, high, layout, tiles, read_only, stream);
}

void transpose_any(const void* x, void* out, int bytes, int rows, int columns, int side, int high,
                   int layout, int tiles, bool read_only, cudaStream_t stream) {
  switch (bytes) {
    case 1:
      by_side<uint8_t>(x, out, rows, columns, side, high, layout, tiles, read_only, stream);
      break;
    case 2:
      by_side<uint16_t>(x, out, rows, columns, side, high, layout, tiles, read_only, stream);
      break;
    default:
      by_side<uint32_t>(x, out, rows, columns, side, high, layout, tiles, read_only, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void transpose_any(const void* x, void* out, int bytes, int rows, int columns, int side, int high,
                   int layout, int tiles, bool read_only, cudaStream_t stream);

at::Tensor transpose(const at::Tensor& x, int side, int high, int layout, int tiles,
                     bool read_only) {
  at::Tensor out = at::empty({x.size(1), x.size(0)}, x.options());
  transpose_any(x.const_data_ptr(), out.mutable_data_ptr(), x.element_size(), x.size(0), x.size(1),
                side, high, layout, tiles, read_only, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_transpose_cuda_shared_tile",
        BINDING,
        CUDA,
        functions=["transpose"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At least a warp of threads, 1,024 at most; no row of tiles far longer than the matrix."""
    side = params["SIDE"]
    fits = side * params["TILES"] < 2 * shape["N"] or params["TILES"] == 1
    return fits and params["HIGH"] <= side and side * params["HIGH"] <= 1024


def kernel(x, *, SIDE=32, HIGH=8, LAYOUT="padded", TILES=1, READ_ONLY=True):
    layout = SPACE["LAYOUT"].index(LAYOUT)
    return extension().transpose(x, SIDE, HIGH, layout, TILES, READ_ONLY)
