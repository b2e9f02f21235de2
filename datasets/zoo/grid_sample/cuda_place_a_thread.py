"""CUDA C++: a thread a place: its corners and weights once, then channel after channel."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.grid_sample.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "CHANNELS": [1, 4, 16, 64],
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

// `channels` of an image by a block of places; outputs of a channel lie next to one another.
template <typename T>
__global__ void sample_places(const T* x, const float2* places, T* out, int C, int H, int W,
                              int count, int channels) {
  const int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= count) return;
  const int image = blockIdx.z, c0 = blockIdx.y * channels;
  const float2 place = places[static_cast<long long>(image) * count + p];
  const float across = ((place.x + 1.0f) * W - 1.0f) * 0.5f;
  const float down = ((place.y + 1.0f) * H - 1.0f) * 0.5f;
  const int left = static_cast<int>(floorf(across)), top = static_cast<int>(floorf(down));
  const float right_part = across - left, low_part = down - top;
  const bool in_left = left >= 0 && left < W, in_right = left + 1 >= 0 && left + 1 < W;
  const bool in_top = top >= 0 && top < H, in_low = top + 1 >= 0 && top + 1 < H;
  const float nw = in_top && in_left ? (1.0f - low_part) * (1.0f - right_part) : 0.0f;
  const float ne = in_top && in_right ? (1.0f - low_part) * right_part : 0.0f;
  const float sw = in_low && in_left ? low_part * (1.0f - right_part) : 0.0f;
  const float se = in_low && in_right ? low_part * right_part : 0.0f;
  const int above = min(max(top, 0), H - 1) * W, below = min(max(top + 1, 0), H - 1) * W;
  const int west = min(max(left, 0), W - 1), east = min(max(left + 1, 0), W - 1);
  for (int c = c0; c < min(c0 + channels, C); ++c) {
    const long long plane = static_cast<long long>(image) * C + c;
    const T* from = x + plane * H * W;
    const float sum = nw * wide(from[above + west]) + ne * wide(from[above + east]) +
                      sw * wide(from[below + west]) + se * wide(from[below + east]);
    put(out + plane * count + p, sum);
  }
}

template <typename T>
void launch(const void* x, const void* places, void* out, int B, int C, int H, int W, int count,
            int threads, int channels, cudaStream_t stream) {
  const dim3 grid((count + threads - 1) / threads, (C + channels - 1) / channels, B);
  sample_places<T><<<grid, threads, 0, stream>>>(
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
        "zoo_grid_sample_cuda_place_a_thread",
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
