"""CUDA C++: tiles with their halo in shared memory; a thread takes some points of a column."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.stencil.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WIDE": [16, 32, 64, 128],
    "THREADS_Y": [1, 2, 4, 8, 16],
    "POINTS": [1, 2, 4, 8],
    "SHARED": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(float* at, float x) { *at = x; }
__device__ void put(__half* at, float x) { *at = __float2half(x); }
__device__ void put(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }

constexpr int MOST_WIDE = 128, MOST_HIGH = 32;

template <typename T>
__device__ float at_or_zero(const T* x, int row, int column, int rows, int columns) {
  const bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
  return inside ? wide(x[static_cast<long long>(row) * columns + column]) : 0.0f;
}

// Tiles of blockDim.x by blockDim.y * POINTS; without SHARED every point is read where it is used.
template <typename T, int POINTS, bool SHARED>
__global__ void stencil_tiles(const T* x, T* out, int rows, int columns) {
  __shared__ float tile[SHARED ? MOST_HIGH + 2 : 1][SHARED ? MOST_WIDE + 2 : 1];
  const int across = blockDim.x, down = blockDim.y * POINTS;
  const int column0 = blockIdx.x * across, row0 = blockIdx.y * down;
  if (SHARED) {
    for (int r = threadIdx.y; r < down + 2; r += blockDim.y) {
      for (int c = threadIdx.x; c < across + 2; c += across) {
        tile[r][c] = at_or_zero(x, row0 + r - 1, column0 + c - 1, rows, columns);
      }
    }
    __syncthreads();
  }
  const int column = column0 + threadIdx.x;
  if (column >= columns) return;
#pragma unroll
  for (int p = 0; p < POINTS; ++p) {
    const int high = threadIdx.y + p * blockDim.y, row = row0 + high;
    if (row >= rows) return;
    float middle, around;
    if (SHARED) {
      const int r = high + 1, c = threadIdx.x + 1;
      middle = tile[r][c];
      around = tile[r - 1][c] + tile[r + 1][c] + tile[r][c - 1] + tile[r][c + 1];
    } else {
      middle = at_or_zero(x, row, column, rows, columns);
      around = at_or_zero(x, row - 1, column, rows, columns) +
               at_or_zero(x, row + 1, column, rows, columns) +
               at_or_zero(x, row, column - 1, rows, columns) +
               at_or_zero(x, row, column + 1, rows, columns);
    }
    put(out + static_cast<long long>(row) * columns + column, 0.5f * middle + 0.125f * around);
  }
}

template <typename T, int POINTS>
void launch(const void* x, void* out, int rows, int columns, int across, int high, bool shared,
            cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int down = high * POINTS;
  const dim3 block(across, high);
  const dim3 grid((columns + across - 1) / across, (rows + down - 1) / down);
  if (shared) {
    stencil_tiles<T, POINTS, true><<<grid, block, 0, stream>>>(from, to, rows, columns);
  } else {
    stencil_tiles<T, POINTS, false><<<grid, block, 0, stream>>>(from, to, rows, columns);
  }
}

template <typename T>
void by_points(const void* x, void* out, int rows, int columns, int across, int high, int points,
               bool shared, cudaStream_t stream) {
  if (points == 1) launch<T, 1>(x, out, rows, columns, across, high, shared, stream);
  if (points == 2) launch<T, 2>(x, out, rows, columns, across, high, shared, stream);
  if (points == 4) launch<T, 4>(x, out, rows, columns, across, high, shared, stream);
  if (points == 8) launch<T, 8>(x, out, rows, columns, across, high, shared, stream);
}

void step_any(const void* x, void* out, int type, int rows, int columns, int across, int high,
              int points, bool shared, cudaStream_t stream) {
  if (type == 0) by_points<float>(x, out, rows, columns, across, high, points, shared, stream);
  if (type == 1) by_points<__half>(x, out, rows, columns, across, high, points, shared, stream);
  if (type == 2) {
    by_points<__nv_bfloat16>(x, out, rows, columns, across, high, points, shared, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void step_any(const void* x, void* out, int type, int rows, int columns, int across, int high,
              int points, bool shared, cudaStream_t stream);

at::Tensor stencil(const at::Tensor& x, int across, int high, int points, bool shared) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  step_any(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), across, high,
           points, shared, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_stencil_cuda_shared_halo",
        BINDING,
        CUDA,
        functions=["stencil"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 1,024 threads; a tile is at most 32 points high and not far beyond the grid."""
    wide, threads_y = params["WIDE"], params["THREADS_Y"]
    high = threads_y * params["POINTS"]
    fits = wide < 2 * shape["N"] and high < 2 * shape["M"] and shape["M"] <= 65535 * high
    return fits and 32 <= wide * threads_y <= 1024 and high <= 32


def kernel(x, *, WIDE=64, THREADS_Y=4, POINTS=2, SHARED=True):
    return extension().stencil(x, WIDE, THREADS_Y, POINTS, SHARED)
