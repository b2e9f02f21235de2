"""CUDA C++: all sweeps in one launch, in overlapping tiles that lose a point a sweep."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.jacobi_sweeps.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SIDE": ["32x32", "64x32", "64x64", "128x32"],
    "THREADS_Y": [4, 8, 16],
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

// Two copies of a tile lie in shared memory; `halo` points on each side are computed in vain.
template <typename T, int WIDE, int HIGH>
__global__ void sweep_tile(const T* u, const T* f, T* out, int rows, int columns, int sweeps) {
  __shared__ float held[2][HIGH][WIDE + 1];
  const int row0 = blockIdx.y * (HIGH - 2 * sweeps) - sweeps;
  const int column0 = blockIdx.x * (WIDE - 2 * sweeps) - sweeps;
  for (int r = threadIdx.y; r < HIGH; r += blockDim.y) {
    const int row = row0 + r;
    for (int c = threadIdx.x; c < WIDE; c += 32) {
      const int column = column0 + c;
      const bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
      held[0][r][c] = inside ? wide(u[static_cast<long long>(row) * columns + column]) : 0.0f;
      held[1][r][c] = 0.0f;
    }
  }
  __syncthreads();
  for (int s = 1; s <= sweeps; ++s) {
    const int now = (s - 1) % 2;
    for (int r = s + threadIdx.y; r < HIGH - s; r += blockDim.y) {
      const int row = row0 + r;
      if (row < 0 || row >= rows) continue;
      for (int c = threadIdx.x; c < WIDE; c += 32) {
        const int column = column0 + c;
        if (c < s || c >= WIDE - s || column < 0 || column >= columns) continue;
        const float source = wide(f[static_cast<long long>(row) * columns + column]);
        const float around = held[now][r - 1][c] + held[now][r + 1][c] + held[now][r][c - 1] +
                             held[now][r][c + 1];
        held[1 - now][r][c] = 0.25f * (around - source);
      }
    }
    __syncthreads();
  }
  const int last = sweeps % 2;
  for (int r = sweeps + threadIdx.y; r < HIGH - sweeps && row0 + r < rows; r += blockDim.y) {
    for (int c = threadIdx.x; c < WIDE - sweeps && column0 + c < columns; c += 32) {
      if (c < sweeps) continue;
      put(out + static_cast<long long>(row0 + r) * columns + column0 + c, held[last][r][c]);
    }
  }
}

template <typename T, int WIDE, int HIGH>
void launch(const void* u, const void* f, void* out, int rows, int columns, int sweeps,
            int threads_y, cudaStream_t stream) {
  const int across = WIDE - 2 * sweeps, down = HIGH - 2 * sweeps;
  const dim3 grid((columns + across - 1) / across, (rows + down - 1) / down);
  const dim3 block(32, threads_y);
  sweep_tile<T, WIDE, HIGH><<<grid, block, 0, stream>>>(static_cast<const T*>(u),
                                                        static_cast<const T*>(f),
                                                        static_cast<T*>(out), rows, columns,
                                                        sweeps);
}

template <typename T>
void by_side(const void* u, const void* f, void* out, int rows, int columns, int sweeps, int wide,
             int high, int threads_y, cudaStream_t stream) {
  if (wide == 32) launch<T, 32, 32>(u, f, out, rows, columns, sweeps, threads_y, stream);
  if (wide == 64 && high == 32) {
    launch<T, 64, 32>(u, f, out, rows, columns, sweeps, threads_y, stream);
  }
  if (wide == 64 && high == 64) {
    launch<T, 64, 64>(u, f, out, rows, columns, sweeps, threads_y, stream);
  }
  if (wide == 128) launch<T, 128, 32>(u, f, out, rows, columns, sweeps, threads_y, stream);
}

void sweep_any(const void* u, const void* f, void* out, int type, int rows, int columns,
               int sweeps, int wide, int high, int threads_y, cudaStream_t stream) {
  if (type == 0) by_side<float>(u, f, out, rows, columns, sweeps, wide, high, threads_y, stream);
  if (type == 1) by_side<__half>(u, f, out, rows, columns, sweeps, wide, high, threads_y, stream);
  if (type == 2) {
    by_side<__nv_bfloat16>(u, f, out, rows, columns, sweeps, wide, high, threads_y, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void sweep_any(const void* u, const void* f, void* out, int type, int rows, int columns,
               int sweeps, int wide, int high, int threads_y, cudaStream_t stream);

at::Tensor jacobi_sweeps(const at::Tensor& u, const at::Tensor& f, int sweeps, int wide, int high,
                         int threads_y) {
  at::Tensor out = at::empty_like(u);
  const int type = u.scalar_type() == at::kFloat ? 0 : u.scalar_type() == at::kHalf ? 1 : 2;
  sweep_any(u.const_data_ptr(), f.const_data_ptr(), out.mutable_data_ptr(), type, u.size(0),
            u.size(1), sweeps, wide, high, threads_y, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_jacobi_sweeps_cuda_sweeps_on_chip",
        BINDING,
        CUDA,
        functions=["jacobi_sweeps"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Sweeps leave more than half of a tile's height."""
    return 8 * shape["SWEEPS"] <= 32


def kernel(u, f, sweeps, *, SIDE="64x32", THREADS_Y=8):
    wide, high = map(int, SIDE.split("x"))
    return extension().jacobi_sweeps(u, f, sweeps, wide, high, THREADS_Y)
