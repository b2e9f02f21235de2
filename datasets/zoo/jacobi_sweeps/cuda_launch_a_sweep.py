"""CUDA C++: a launch a sweep, back and forth between two grids; threads go down columns."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.jacobi_sweeps.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS_X": [32, 64, 128],
    "THREADS_Y": [1, 2, 4, 8],
    "POINTS": [1, 2, 4, 8],
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

template <typename T>
__device__ float at_or_zero(const T* u, int row, int column, int rows, int columns) {
  const bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
  return inside ? wide(u[static_cast<long long>(row) * columns + column]) : 0.0f;
}

// A thread's points follow one another, so that what it read below is next in the middle.
template <typename T, int POINTS>
__global__ void sweep_points(const T* u, const T* f, T* out, int rows, int columns) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const int first = (blockIdx.y * blockDim.y + threadIdx.y) * POINTS;
  float above = at_or_zero(u, first - 1, column, rows, columns);
  float here = at_or_zero(u, first, column, rows, columns);
#pragma unroll
  for (int p = 0; p < POINTS; ++p) {
    const int row = first + p;
    if (row >= rows) return;
    const float below = at_or_zero(u, row + 1, column, rows, columns);
    const float sides = at_or_zero(u, row, column - 1, rows, columns) +
                        at_or_zero(u, row, column + 1, rows, columns);
    const long long at = static_cast<long long>(row) * columns + column;
    put(out + at, 0.25f * (above + below + sides - wide(f[at])));
    above = here;
    here = below;
  }
}

template <typename T, int POINTS>
void sweep(const T* u, const T* f, T* out, int rows, int columns, int threads_x, int threads_y,
           cudaStream_t stream) {
  const int down = threads_y * POINTS;
  const dim3 grid((columns + threads_x - 1) / threads_x, (rows + down - 1) / down);
  const dim3 block(threads_x, threads_y);
  sweep_points<T, POINTS><<<grid, block, 0, stream>>>(u, f, out, rows, columns);
}

// The last sweep ends in `out`; those before it alternate.
template <typename T, int POINTS>
void launch(const void* u, const void* f, void* out, void* other, int sweeps, int rows,
            int columns, int threads_x, int threads_y, cudaStream_t stream) {
  const T* from = static_cast<const T*>(u);
  const T* source = static_cast<const T*>(f);
  for (int s = 0; s < sweeps; ++s) {
    T* to = (sweeps - s) % 2 ? static_cast<T*>(out) : static_cast<T*>(other);
    sweep<T, POINTS>(from, source, to, rows, columns, threads_x, threads_y, stream);
    from = to;
  }
}

template <typename T>
void by_points(const void* u, const void* f, void* out, void* other, int sweeps, int rows,
               int columns, int threads_x, int threads_y, int points, cudaStream_t stream) {
  if (points == 1) {
    launch<T, 1>(u, f, out, other, sweeps, rows, columns, threads_x, threads_y, stream);
  }
  if (points == 2) {
    launch<T, 2>(u, f, out, other, sweeps, rows, columns, threads_x, threads_y, stream);
  }
  if (points == 4) {
    launch<T, 4>(u, f, out, other, sweeps, rows, columns, threads_x, threads_y, stream);
  }
  if (points == 8) {
    launch<T, 8>(u, f, out, other, sweeps, rows, columns, threads_x, threads_y, stream);
  }
}

void sweep_any(const void* u, const void* f, void* out, void* other, int type, int sweeps,
               int rows, int columns, int threads_x, int threads_y, int points,
               cudaStream_t stream) {
  if (type == 0) {
    by_points<float>(u, f, out, other, sweeps, rows, columns, threads_x, threads_y, points,
                     stream);
  }
  if (type == 1) {
    by_points<__half>(u, f, out, other, sweeps, rows, columns, threads_x, threads_y, points,
                      stream);
  }
  if (type == 2) {
    by_points<__nv_bfloat16>(u, f, out, other, sweeps, rows, columns, threads_x, threads_y, points,
                             stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void sweep_any(const void* u, const void* f, void* out, void* other, int type, int sweeps,
               int rows, int columns, int threads_x, int threads_y, int points,
               cudaStream_t stream);

at::Tensor jacobi_sweeps(const at::Tensor& u, const at::Tensor& f, int sweeps, int threads_x,
                         int threads_y, int points) {
  at::Tensor out = at::empty_like(u);
  at::Tensor other = at::empty_like(u);
  const int type = u.scalar_type() == at::kFloat ? 0 : u.scalar_type() == at::kHalf ? 1 : 2;
  sweep_any(u.const_data_ptr(), f.const_data_ptr(), out.mutable_data_ptr(),
            other.mutable_data_ptr(), type, sweeps, u.size(0), u.size(1), threads_x, threads_y,
            points, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_jacobi_sweeps_cuda_launch_a_sweep",
        BINDING,
        CUDA,
        functions=["jacobi_sweeps"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At least 64 threads; no block far wider than a row, no more of them than a grid has."""
    across, down = params["THREADS_X"], params["THREADS_Y"]
    fits = across < 2 * shape["N"] and shape["M"] <= 65535 * down * params["POINTS"]
    return fits and 64 <= across * down <= 512


def kernel(u, f, sweeps, *, THREADS_X=32, THREADS_Y=4, POINTS=4):
    return extension().jacobi_sweeps(u, f, sweeps, THREADS_X, THREADS_Y, POINTS)
