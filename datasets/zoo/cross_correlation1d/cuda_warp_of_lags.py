"""CUDA C++: a warp takes EACH lags of a pair; lanes lie along the signals; shuffles add up."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.cross_correlation1d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "EACH": [1, 2, 4, 8, 16],
    "WARPS": [1, 2, 4, 8],
    "AHEAD": [1, 2],
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

// Each x is used EACH times; y comes from caches. A lane takes AHEAD elements a step.
template <typename T, int EACH, int AHEAD>
__global__ void correlate_warps(const T* x, const T* y, float* out, int pairs, int length,
                                int lags, float scale) {
  const int lane = threadIdx.x % 32;
  const int groups = (lags + EACH - 1) / EACH;
  const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (warp >= pairs * groups) return;
  const int pair = warp / groups, lag0 = warp % groups * EACH;
  const T* from_x = x + static_cast<long long>(pair) * length;
  const T* from_y = y + static_cast<long long>(pair) * (length + lags - 1) + lag0;
  float sum[EACH] = {};
  for (int start = lane; start < length; start += 32 * AHEAD) {
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) {
      const int t = start + 32 * a;
      const float here = t < length ? wide(from_x[t]) : 0.0f;
#pragma unroll
      for (int e = 0; e < EACH; ++e) {
        if (t < length && lag0 + e < lags) sum[e] += here * wide(from_y[t + e]);
      }
    }
  }
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) {
      sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], apart);
    }
    if (lane == 0 && lag0 + e < lags) {
      out[static_cast<long long>(pair) * lags + lag0 + e] = sum[e] * scale;
    }
  }
}

template <typename T, int EACH>
void launch(const void* x, const void* y, float* out, int pairs, int length, int lags, int warps,
            int ahead, cudaStream_t stream) {
  const T* a = static_cast<const T*>(x);
  const T* b = static_cast<const T*>(y);
  const int all = pairs * ((lags + EACH - 1) / EACH);
  const int blocks = (all + warps - 1) / warps, threads = 32 * warps;
  const float scale = 1.0f / length;
  if (ahead == 1) {
    correlate_warps<T, EACH, 1>
        <<<blocks, threads, 0, stream>>>(a, b, out, pairs, length, lags, scale);
  } else {
    correlate_warps<T, EACH, 2>
        <<<blocks, threads, 0, stream>>>(a, b, out, pairs, length, lags, scale);
  }
}

template <typename T>
void by_each(const void* x, const void* y, float* out, int pairs, int length, int lags, int each,
             int warps, int ahead, cudaStream_t stream) {
  if (each == 1) launch<T, 1>(x, y, out, pairs, length, lags, warps, ahead, stream);
  if (each == 2) launch<T, 2>(x, y, out, pairs, length, lags, warps, ahead, stream);
  if (each == 4) launch<T, 4>(x, y, out, pairs, length, lags, warps, ahead, stream);
  if (each == 8) launch<T, 8>(x, y, out, pairs, length, lags, warps, ahead, stream);
  if (each == 16) launch<T, 16>(x, y, out, pairs, length, lags, warps, ahead, stream);
}

void correlate_any(const void* x, const void* y, float* out, int type, int pairs, int length,
                   int lags, int each, int warps, int ahead, cudaStream_t stream) {
  if (type == 0) by_each<float>(x, y, out, pairs, length, lags, each, warps, ahead, stream);
  if (type == 1) by_each<__half>(x, y, out, pairs, length, lags, each, warps, ahead, stream);
  if (type == 2) {
    by_each<__nv_bfloat16>(x, y, out, pairs, length, lags, each, warps, ahead, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void correlate_any(const void* x, const void* y, float* out, int type, int pairs, int length,
                   int lags, int each, int warps, int ahead, cudaStream_t stream);

at::Tensor cross_correlation(const at::Tensor& x, const at::Tensor& y, int each, int warps,
                             int ahead) {
  const int lags = y.size(1) - x.size(1) + 1;
  at::Tensor out = at::empty({x.size(0), lags}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  correlate_any(x.const_data_ptr(), y.const_data_ptr(), out.mutable_data_ptr<float>(), type,
                x.size(0), x.size(1), lags, each, warps, ahead, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_cross_correlation1d_cuda_warp_of_lags",
        BINDING,
        CUDA,
        functions=["cross_correlation"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Warps enough to be worth it, or as many as there are lags."""
    warps = shape["B"] * -(-shape["LAGS"] // params["EACH"])
    return params["EACH"] <= shape["LAGS"] and (warps >= 256 or params["EACH"] <= 4)


def kernel(x, y, *, EACH=4, WARPS=4, AHEAD=1):
    return extension().cross_correlation(x, y, EACH, WARPS, AHEAD)
