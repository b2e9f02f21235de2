"""CUDA C++: four lanes a place, one a corner; two shuffles add their parts."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.grid_sample.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "CHANNELS": [1, 4, 16],
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
__global__ void sample_corners(const T* x, const float2* places, T* out, int C, int H, int W,
                               int count, int channels) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  const int p = thread / 4, corner = thread % 4;
  const int image = blockIdx.z, c0 = blockIdx.y * channels;
  float weight = 0.0f;
  int at = 0;
  if (p < count) {
    const float2 place = places[static_cast<long long>(image) * count + p];
    const float across = ((place.x + 1.0f) * W - 1.0f) * 0.5f;
    const float down = ((place.y + 1.0f) * H - 1.0f) * 0.5f;
    const int column = static_cast<int>(floorf(across)) + corner % 2;
    const int row = static_cast<int>(floorf(down)) + corner / 2;
    if (column >= 0 && column < W && row >= 0 && row < H) {
      weight = (1.0f - fabsf(across - column)) * (1.0f - fabsf(down - row));
      at = row * W + column;
    }
  }
  for (int c = c0; c < min(c0 + channels, C); ++c) {
    const long long plane = static_cast<long long>(image) * C + c;
    float sum = weight != 0.0f ? weight * wide(x[plane * H * W + at]) : 0.0f;
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (corner == 0 && p < count) put(out + plane * count + p, sum);
  }
}

template <typename T>
void launch(const void* x, const void* places, void* out, int B, int C, int H, int W, int count,
            int threads, int channels, cudaStream_t stream) {
  const int of_block = threads / 4;
  const dim3 grid((count + of_block - 1) / of_block, (C + channels - 1) / channels, B);
  sample_corners<T><<<grid, threads, 0, stream>>>(
      static_cast<const T*>(x), static_cast<const float2*>(places), static_cast<T*>(out), C, H, W,
      count, channels);
}

void sample(const void* x, const void* places, void* out, int type, int B, int C, int H, int W,
            int count, int threads, int channels, cudaStream_t stream) {
  if (type == 0) launch<float>(x, places, out, B, C, H, W, count, threads, channels, stream);
  if (type == 1) launch<__half>(x, places, out, B, C, H, W, count, threads, channels, stream);
  if (type == 2) {
    launch<__nv_bfloat16>(x, places, out, B, C, H, W, count, threads, channels, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void sample(const void* x, const void* places, void* out, int type, int B, int C, int H, int W,
            int count, int threads, int channels, cudaStream_t stream);

at::Tensor grid_sample(const at::Tensor& x, const at::Tensor& places, int threads, int channels) {
  at::Tensor out = at::empty({x.size(0), x.size(1), places.size(1)}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  sample(x.const_data_ptr(), places.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0),
         x.size(1), x.size(2), x.size(3), places.size(1), threads, channels,
         c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_grid_sample_cuda_corner_a_lane",
        BINDING,
        CUDA,
        functions=["grid_sample"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Not far more channels than there are, but for the default."""
    return params["CHANNELS"] < 2 * shape["C"] or params["CHANNELS"] == 4


def kernel(x, places, *, THREADS=256, CHANNELS=4):
    return extension().grid_sample(x, places, THREADS, CHANNELS)
