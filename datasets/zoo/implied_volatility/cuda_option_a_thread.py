"""CUDA C++: EACH options of a thread side by side, with exact functions or the fast ones."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.implied_volatility.problem import (
    RATE,
    SHAPES,
    STEPS,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "THREADS": [64, 128, 256, 512],
    "EACH": [1, 2, 4],
    "FAST": [False, True],
    "UNROLL": [1, 2],
}

CUDA = r"""
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }

template <typename T, int EACH, bool FAST, int UNROLL>
__global__ void newton(const T* strikes, const T* years, const float* prices, float* out, int size,
                       float rate, int steps) {
  const int first = blockIdx.x * blockDim.x * EACH + threadIdx.x;
  float root[EACH], rise[EACH], discounted[EACH], price[EACH], found[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = min(first + e * static_cast<int>(blockDim.x), size - 1);
    const float strike = wide(strikes[at]), left = wide(years[at]);
    root[e] = sqrtf(left);
    rise[e] = rate * left - (FAST ? __logf(strike) : logf(strike));
    discounted[e] = strike * (FAST ? __expf(-rate * left) : expf(-rate * left));
    price[e] = prices[at];
    found[e] = 0.4f;
  }
#pragma unroll UNROLL
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const float spread = found[e] * root[e];
      const float ratio = FAST ? __fdividef(rise[e], spread) : rise[e] / spread;
      const float d1 = ratio + 0.5f * spread;
      const float below = normcdff(d1), below2 = normcdff(d1 - spread);
      const float bell = FAST ? __expf(-0.5f * d1 * d1) : expf(-0.5f * d1 * d1);
      const float gap = below - discounted[e] * below2 - price[e];
      const float slope = 0.3989422804f * root[e] * bell;
      const float next = found[e] - (FAST ? __fdividef(gap, slope) : gap / slope);
      found[e] = fminf(fmaxf(next, 0.05f), 2.0f);
    }
  }
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = first + e * blockDim.x;
    if (at < size) out[at] = found[e];
  }
}

template <typename T, int EACH, bool FAST>
void by_unroll(const void* strikes, const void* years, const float* prices, float* out, int size,
               float rate, int steps, int threads, int unroll, cudaStream_t stream) {
  const T* s = static_cast<const T*>(strikes);
  const T* y = static_cast<const T*>(years);
  const int blocks = (size + threads * EACH - 1) / (threads * EACH);
  if (unroll == 1) {
    newton<T, EACH, FAST, 1><<<blocks, threads, 0, stream>>>(s, y, prices, out, size, rate, steps);
  } else {
    newton<T, EACH, FAST, 2><<<blocks, threads, 0, stream>>>(s, y, prices, out, size, rate, steps);
  }
}

template <typename T, bool FAST>
void by_each(const void* s, const void* y, const float* p, float* out, int size, float rate,
             int steps, int threads, int each, int unroll, cudaStream_t stream) {
  if (each == 1) by_unroll<T, 1, FAST>(s, y, p, out, size, rate, steps, threads, unroll, stream);
  if (each == 2) by_unroll<T, 2, FAST>(s, y, p, out, size, rate, steps, threads, unroll, stream);
  if (each == 4) by_unroll<T, 4, FAST>(s, y, p, out, size, rate, steps, threads, unroll, stream);
}

void newton_any(const void* s, const void* y, const float* p, float* out, bool is_half, int size,
                float rate, int steps, int threads, int each, bool fast, int unroll,
                cudaStream_t stream) {
  if (is_half && fast) {
    by_each<__half, true>(s, y, p, out, size, rate, steps, threads, each, unroll, stream);
  } else if (is_half) {
    by_each<__half, false>(s, y, p, out, size, rate, steps, threads, each, unroll, stream);
  } else if (fast) {
    by_each<float, true>(s, y, p, out, size, rate, steps, threads, each, unroll, stream);
  } else {
    by_each<float, false>(s, y, p, out, size, rate, steps, threads, each, unroll, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void newton_any(const void* s, const void* y, const float* p, float* out, bool is_half, int size,
                float rate, int steps, int threads, int each, bool fast, int unroll,
                cudaStream_t stream);

at::Tensor volatility(const at::Tensor& strikes, const at::Tensor& years, const at::Tensor& prices,
                      double rate, int steps, int threads, int each, bool fast, int unroll) {
  at::Tensor out = at::empty_like(prices);
  newton_any(strikes.const_data_ptr(), years.const_data_ptr(), prices.const_data_ptr<float>(),
             out.mutable_data_ptr<float>(), strikes.scalar_type() == at::kHalf, prices.numel(),
             rate, steps, threads, each, fast, unroll, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_implied_volatility_cuda_option_a_thread",
        BINDING,
        CUDA,
        functions=["volatility"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Everything fits."""
    return params["THREADS"] * params["EACH"] <= shape["N"]


def kernel(strike, years, price, *, THREADS=256, EACH=1, FAST=False, UNROLL=1):
    settings = (THREADS, EACH, FAST, UNROLL)
    return extension().volatility(strike, years, price, RATE, STEPS, *settings)
