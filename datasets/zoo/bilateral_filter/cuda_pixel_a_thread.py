"""CUDA C++: a thread computes some pixels of a column from global memory; a plain loop."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.bilateral_filter.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS_X": [16, 32, 64, 128],
    "THREADS_Y": [1, 2, 4, 8],
    "PIXELS": [1, 2, 4],
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
__global__ void filter_pixels(const T* x, T* out, int rows, int columns, int reach, int pixels,
                              float per_distance, float per_difference) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const T* image = x + static_cast<long long>(blockIdx.z) * rows * columns;
  T* to = out + static_cast<long long>(blockIdx.z) * rows * columns;
  const int first = (blockIdx.y * blockDim.y + threadIdx.y) * pixels;
  for (int row = first; row < min(first + pixels, rows); ++row) {
    const float here = wide(image[static_cast<long long>(row) * columns + column]);
    float total = 0.0f, weights = 0.0f;
    for (int i = -reach; i <= reach; ++i) {
      const T* line = image + static_cast<long long>(min(max(row + i, 0), rows - 1)) * columns;
      for (int j = -reach; j <= reach; ++j) {
        const float there = wide(line[min(max(column + j, 0), columns - 1)]), off = there - here;
        const float weight = __expf(-per_difference * off * off - per_distance * (i * i + j * j));
        total += weight * there;
        weights += weight;
      }
    }
    put(to + static_cast<long long>(row) * columns + column, __fdividef(total, weights));
  }
}

template <typename T>
void launch(const void* x, void* out, int images, int rows, int columns, int reach, int threads_x,
            int threads_y, int pixels, float near, float like, cudaStream_t stream) {
  const int down = threads_y * pixels;
  const dim3 grid((columns + threads_x - 1) / threads_x, (rows + down - 1) / down, images);
  const dim3 block(threads_x, threads_y);
  filter_pixels<T><<<grid, block, 0, stream>>>(static_cast<const T*>(x), static_cast<T*>(out),
                                               rows, columns, reach, pixels, near, like);
}

void filter_any(const void* x, void* out, int type, int images, int rows, int columns, int reach,
                int threads_x, int threads_y, int pixels, float near, float like,
                cudaStream_t stream) {
  if (type == 0) {
    launch<float>(x, out, images, rows, columns, reach, threads_x, threads_y, pixels, near, like,
                  stream);
  } else if (type == 1) {
    launch<__half>(x, out, images, rows, columns, reach, threads_x, threads_y, pixels, near, like,
                   stream);
  } else {
    launch<__nv_bfloat16>(x, out, images, rows, columns, reach, threads_x, threads_y, pixels, near,
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
                int threads_x, int threads_y, int pixels, float near, float like,
                cudaStream_t stream);

at::Tensor bilateral_filter(const at::Tensor& x, int reach, double near, double like,
                            int threads_x, int threads_y, int pixels) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  filter_any(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), x.size(2),
             reach, threads_x, threads_y, pixels, near, like, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_bilateral_filter_cuda_pixel_a_thread",
        BINDING,
        CUDA,
        functions=["bilateral_filter"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """64 to 512 threads; no block far wider than a row."""
    across = params["THREADS_X"]
    return 64 <= across * params["THREADS_Y"] <= 512 and across < 2 * shape["W"]


def kernel(x, reach, per_distance, per_difference, *, THREADS_X=32, THREADS_Y=8, PIXELS=1):
    return extension().bilateral_filter(
        x, reach, per_distance, per_difference, THREADS_X, THREADS_Y, PIXELS
    )
