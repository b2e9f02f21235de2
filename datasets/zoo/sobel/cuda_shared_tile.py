"""CUDA C++: a tile with its border in shared memory, as floats; nine reads a pixel."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.sobel.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WIDE": [32, 64, 128],
    "HIGH": [8, 16, 32],
    "THREADS_Y": [2, 4, 8],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>

__device__ float wide(uint8_t x) { return x; }
__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(uint8_t* at, float x) { *at = static_cast<uint8_t>(x); }
__device__ void put(float* at, float x) { *at = x; }
__device__ void put(__half* at, float x) { *at = __float2half(x); }
__device__ void put(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }

template <typename T, int WIDE, int HIGH>
__global__ void sobel_tile(const T* x, T* out, int rows, int columns) {
  __shared__ float tile[HIGH + 2][WIDE + 2];
  const int row0 = blockIdx.y * HIGH, column0 = blockIdx.x * WIDE;
  const long long image = static_cast<long long>(blockIdx.z) * rows * columns;
  for (int r = threadIdx.y; r < HIGH + 2; r += blockDim.y) {
    const int row = min(max(row0 + r - 1, 0), rows - 1);
    for (int c = threadIdx.x; c < WIDE + 2; c += 32) {
      const int column = min(max(column0 + c - 1, 0), columns - 1);
      tile[r][c] = wide(x[image + static_cast<long long>(row) * columns + column]);
    }
  }
  __syncthreads();
  for (int r = threadIdx.y; r < HIGH && row0 + r < rows; r += blockDim.y) {
#pragma unroll
    for (int c = threadIdx.x; c < WIDE; c += 32) {
      if (column0 + c >= columns) break;
      const float gx = tile[r][c + 2] - tile[r][c] + 2.0f * (tile[r + 1][c + 2] - tile[r + 1][c]) +
                       tile[r + 2][c + 2] - tile[r + 2][c];
      const float gy = tile[r + 2][c] - tile[r][c] + 2.0f * (tile[r + 2][c + 1] - tile[r][c + 1]) +
                       tile[r + 2][c + 2] - tile[r][c + 2];
      put(out + image + static_cast<long long>(row0 + r) * columns + column0 + c,
          0.125f * (fabsf(gx) + fabsf(gy)));
    }
  }
}

template <typename T, int WIDE, int HIGH>
void launch(const void* x, void* out, int images, int rows, int columns, int threads_y,
            cudaStream_t stream) {
  const dim3 grid((columns + WIDE - 1) / WIDE, (rows + HIGH - 1) / HIGH, images);
  const dim3 block(32, threads_y);
  sobel_tile<T, WIDE, HIGH>
      <<<grid, block, 0, stream>>>(static_cast<const T*>(x), static_cast<T*>(out), rows, columns);
}

template <typename T, int WIDE>
void by_height(const void* x, void* out, int images, int rows, int columns, int high,
               int threads_y, cudaStream_t stream) {
  if (high == 8) launch<T, WIDE, 8>(x, out, images, rows, columns, threads_y, stream);
  if (high == 16) launch<T, WIDE, 16>(x, out, images, rows, columns, threads_y, stream);
  if (high == 32) launch<T, WIDE, 32>(x, out, images, rows, columns, threads_y, stream);
}

template <typename T>
void by_width(const void* x, void* out, int images, int rows, int columns, int across, int high,
              int threads_y, cudaStream_t stream) {
  if (across == 32) by_height<T, 32>(x, out, images, rows, columns, high, threads_y, stream);
  if (across == 64) by_height<T, 64>(x, out, images, rows, columns, high, threads_y, stream);
  if (across == 128) by_height<T, 128>(x, out, images, rows, columns, high, threads_y, stream);
}

void edges(const void* x, void* out, int type, int images, int rows, int columns, int across,
           int high, int threads_y, cudaStream_t stream) {
  if (type == 0) by_width<float>(x, out, images, rows, columns, across, high, threads_y, stream);
  if (type == 1) by_width<__half>(x, out, images, rows, columns, across, high, threads_y, stream);
  if (type == 2) {
    by_width<__nv_bfloat16>(x, out, images, rows, columns, across, high, threads_y, stream);
  }
  if (type == 3) {
    by_width<uint8_t>(x, out, images, rows, columns, across, high, threads_y, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void edges(const void* x, void* out, int type, int images, int rows, int columns, int across,
           int high, int threads_y, cudaStream_t stream);

at::Tensor sobel(const at::Tensor& x, int across, int high, int threads_y) {
  at::Tensor out = at::empty_like(x);
  const at::ScalarType held = x.scalar_type();
  const int type = held == at::kByte ? 3 : held == at::kFloat ? 0 : held == at::kHalf ? 1 : 2;
  edges(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), x.size(2), across,
        high, threads_y, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_sobel_cuda_shared_tile",
        BINDING,
        CUDA,
        functions=["sobel"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No tile far larger than an image; at least two rows a thread."""
    fits = params["WIDE"] < 2 * shape["W"] and params["HIGH"] < 2 * shape["H"]
    return fits and 2 * params["THREADS_Y"] <= params["HIGH"]


def kernel(x, *, WIDE=64, HIGH=16, THREADS_Y=4):
    return extension().sobel(x, WIDE, HIGH, THREADS_Y)
