"""CUDA C++: both passes in one launch; a tile and its halo stay in shared memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.gaussian_blur.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WIDE": [32, 64, 128],
    "HIGH": [8, 16, 32, 64],
    "THREADS_Y": [4, 8],
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

// Rows of the tile and of its halo are blurred from `held` to `rows_done`, then columns of those.
template <typename T>
__global__ void blur_tile(const T* x, const float* taps, T* out, int rows, int columns, int reach,
                          int wide_tile, int high) {
  extern __shared__ float shared[];
  const int pitch = wide_tile + 2 * reach, tall = high + 2 * reach;
  float* weights = shared;
  float* held = weights + 2 * reach + 1;
  float* rows_done = held + pitch * tall;
  const int me = threadIdx.y * blockDim.x + threadIdx.x, all = blockDim.x * blockDim.y;
  const int row0 = blockIdx.y * high, column0 = blockIdx.x * wide_tile;
  const long long start = static_cast<long long>(blockIdx.z) * rows * columns;
  for (int i = me; i < 2 * reach + 1; i += all) weights[i] = taps[i];
  for (int r = threadIdx.y; r < tall; r += blockDim.y) {
    const int row = row0 + r - reach;
    for (int c = threadIdx.x; c < pitch; c += blockDim.x) {
      const int column = column0 + c - reach;
      const bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
      held[r * pitch + c] =
          inside ? wide(x[start + static_cast<long long>(row) * columns + column]) : 0.0f;
    }
  }
  __syncthreads();
  for (int r = threadIdx.y; r < tall; r += blockDim.y) {
    for (int c = threadIdx.x; c < wide_tile; c += blockDim.x) {
      float sum = 0.0f;
      for (int k = 0; k <= 2 * reach; ++k) sum += weights[k] * held[r * pitch + c + k];
      rows_done[r * wide_tile + c] = sum;
    }
  }
  __syncthreads();
  for (int r = threadIdx.y; r < high && row0 + r < rows; r += blockDim.y) {
    for (int c = threadIdx.x; c < wide_tile && column0 + c < columns; c += blockDim.x) {
      float sum = 0.0f;
      for (int k = 0; k <= 2 * reach; ++k) sum += weights[k] * rows_done[(r + k) * wide_tile + c];
      put(out + start + static_cast<long long>(row0 + r) * columns + column0 + c, sum);
    }
  }
}

template <typename T>
void launch(const void* x, const float* taps, void* out, int images, int rows, int columns,
            int reach, int wide_tile, int high, int threads_y, cudaStream_t stream) {
  const dim3 grid((columns + wide_tile - 1) / wide_tile, (rows + high - 1) / high, images);
  const dim3 block(32, threads_y);
  const int tall = high + 2 * reach, pitch = wide_tile + 2 * reach;
  const int bytes = 4 * (2 * reach + 1 + tall * (pitch + wide_tile));
  blur_tile<T><<<grid, block, bytes, stream>>>(static_cast<const T*>(x), taps,
                                               static_cast<T*>(out), rows, columns, reach,
                                               wide_tile, high);
}

void blur_any(const void* x, const float* taps, void* out, int type, int images, int rows,
              int columns, int reach, int wide_tile, int high, int threads_y,
              cudaStream_t stream) {
  if (type == 0) {
    launch<float>(x, taps, out, images, rows, columns, reach, wide_tile, high, threads_y, stream);
  } else if (type == 1) {
    launch<__half>(x, taps, out, images, rows, columns, reach, wide_tile, high, threads_y, stream);
  } else {
    launch<__nv_bfloat16>(x, taps, out, images, rows, columns, reach, wide_tile, high, threads_y,
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

void blur_any(const void* x, const float* taps, void* out, int type, int images, int rows,
              int columns, int reach, int wide_tile, int high, int threads_y,
              cudaStream_t stream);

at::Tensor gaussian_blur(const at::Tensor& x, const at::Tensor& taps, int wide_tile, int high,
                         int threads_y) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  blur_any(x.const_data_ptr(), taps.const_data_ptr<float>(), out.mutable_data_ptr(), type,
           x.size(0), x.size(1), x.size(2), taps.size(0) / 2, wide_tile, high, threads_y,
           c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_gaussian_blur_cuda_fused_tile",
        BINDING,
        CUDA,
        functions=["gaussian_blur"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB of shared memory, which needs no opting in."""
    halo, wide = 2 * shape["R"], params["WIDE"]
    held = halo + 1 + (params["HIGH"] + halo) * (2 * wide + halo)
    return 4 * held <= 48 * 1024


def kernel(x, taps, *, WIDE=64, HIGH=16, THREADS_Y=8):
    return extension().gaussian_blur(x, taps, WIDE, HIGH, THREADS_Y)
