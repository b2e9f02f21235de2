"""CUDA C++: tile and halo in shared memory; the window's loop is unrolled."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.bilateral_filter.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WIDE": [32, 64],
    "HIGH": [8, 16, 32],
    "THREADS_Y": [2, 4, 8],
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

constexpr int MOST_WIDE = 64, MOST_HIGH = 32;

template <typename T, int R>
__global__ void filter_tile(const T* x, T* out, int rows, int columns, int across, int high,
                            float per_distance, float per_difference) {
  __shared__ float tile[MOST_HIGH + 2 * R][MOST_WIDE + 2 * R];
  const int row0 = blockIdx.y * high, column0 = blockIdx.x * across;
  const long long image = static_cast<long long>(blockIdx.z) * rows * columns;
  for (int r = threadIdx.y; r < high + 2 * R; r += blockDim.y) {
    const int row = min(max(row0 + r - R, 0), rows - 1);
    for (int c = threadIdx.x; c < across + 2 * R; c += 32) {
      const int column = min(max(column0 + c - R, 0), columns - 1);
      tile[r][c] = wide(x[image + static_cast<long long>(row) * columns + column]);
    }
  }
  __syncthreads();
  for (int r = threadIdx.y; r < high && row0 + r < rows; r += blockDim.y) {
    for (int c = threadIdx.x; c < across && column0 + c < columns; c += 32) {
      const float here = tile[r + R][c + R];
      float total = 0.0f, weights = 0.0f;
#pragma unroll
      for (int i = 0; i <= 2 * R; ++i) {
#pragma unroll
        for (int j = 0; j <= 2 * R; ++j) {
          const float there = tile[r + i][c + j], off = there - here;
          const float apart = per_distance * ((i - R) * (i - R) + (j - R) * (j - R));
          const float weight = __expf(-per_difference * off * off - apart);
          total += weight * there;
          weights += weight;
        }
      }
      put(out + image + static_cast<long long>(row0 + r) * columns + column0 + c,
          total / weights);
    }
  }
}

template <typename T, int R>
void launch(const void* x, void* out, int images, int rows, int columns, int across, int high,
            int threads_y, float per_distance, float per_difference, cudaStream_t stream) {
  const dim3 grid((columns + across - 1) / across, (rows + high - 1) / high, images);
  const dim3 block(32, threads_y);
  filter_tile<T, R><<<grid, block, 0, stream>>>(static_cast<const T*>(x), static_cast<T*>(out),
                                                rows, columns, across, high, per_distance,
                                                per_difference);
}

template <typename T>
void by_reach(const void* x, void* out, int images, int rows, int columns, int reach, int across,
              int high, int threads_y, float near, float like, cudaStream_t stream) {
  if (reach == 1) {
    launch<T, 1>(x, out, images, rows, columns, across, high, threads_y, near, like, stream);
  } else if (reach == 2) {
    launch<T, 2>(x, out, images, rows, columns, across, high, threads_y, near, like, stream);
  } else if (reach == 3) {
    launch<T, 3>(x, out, images, rows, columns, across, high, threads_y, near, like, stream);
  } else if (reach == 4) {
    launch<T, 4>(x, out, images, rows, columns, across, high, threads_y, near, like, stream);
  }
}

void filter_any(const void* x, void* out, int type, int images, int rows, int columns, int reach,
                int across, int high, int threads_y, float near, float like,
                cudaStream_t stream) {
  if (type == 0) {
    by_reach<float>(x, out, images, rows, columns, reach, across, high, threads_y, near, like,
                    stream);
  } else if (type == 1) {
    by_reach<__half>(x, out, images, rows, columns, reach, across, high, threads_y, near, like,
                     stream);
  } else {
    by_reach<__nv_bfloat16>(x, out, images, rows, columns, reach, across, high, threads_y, near,
                            like, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void filter_any(const void* x, void* out, int type, int images, int rows, int columns, int reach,
                int across, int high, int threads_y, float near, float like,
                cudaStream_t stream);

at::Tensor bilateral_filter(const at::Tensor& x, int reach, double near, double like, int across,
                            int high, int threads_y) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  filter_any(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), x.size(2),
             reach, across, high, threads_y, near, like, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_bilateral_filter_cuda_shared_tile",
        BINDING,
        CUDA,
        functions=["bilateral_filter"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Reaches that have an instance; no tile far larger than an image."""
    fits = params["WIDE"] < 2 * shape["W"] and params["HIGH"] < 2 * shape["H"]
    return fits and 1 <= shape["R"] <= 4 and params["THREADS_Y"] <= params["HIGH"]


def kernel(x, reach, per_distance, per_difference, *, WIDE=32, HIGH=16, THREADS_Y=8):
    return extension().bilateral_filter(
        x, reach, per_distance, per_difference, WIDE, HIGH, THREADS_Y
    )
