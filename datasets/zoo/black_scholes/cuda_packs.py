"""CUDA C++: threads stride over packs of options; exact functions or the fast ones."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.black_scholes.problem import (
    RATE,
    SHAPES,
    TOLERANCE,
    VOLATILITY,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "THREADS": [64, 128, 256, 512],
    "BLOCKS": [528, 1056, 2112, 8192],
    "EACH": [1, 2, 4],
    "FAST": [False, True],
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

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

template <bool FAST>
__device__ void price(float spot, float strike, float years, float rate, float volatility,
                      float* call, float* put) {
  const float spread = volatility * sqrtf(years);
  const float ratio = FAST ? __logf(__fdividef(spot, strike)) : logf(spot / strike);
  const float rise = ratio + (rate + 0.5f * volatility * volatility) * years;
  const float d1 = FAST ? __fdividef(rise, spread) : rise / spread;
  const float below = normcdff(d1), below2 = normcdff(d1 - spread);
  const float discounted = strike * (FAST ? __expf(-rate * years) : expf(-rate * years));
  *call = spot * below - discounted * below2;
  *put = discounted * (1.0f - below2) - spot * (1.0f - below);
}

// The arrays start where packs may; what does not fill a pack at the end is done one by one.
template <typename T, int EACH, bool FAST>
__global__ void price_options(const T* spot, const T* strike, const T* years, T* calls, T* puts,
                              long long size, float rate, float volatility) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long long packs = size / EACH;
  using P = Pack<T, EACH>;
  float one, other;
  for (long long i = first; i < packs; i += step) {
    const P s = reinterpret_cast<const P*>(spot)[i];
    const P x = reinterpret_cast<const P*>(strike)[i];
    const P t = reinterpret_cast<const P*>(years)[i];
    P c, p;
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      price<FAST>(wide(s.values[e]), wide(x.values[e]), wide(t.values[e]), rate, volatility, &one,
                  &other);
      put(&c.values[e], one);
      put(&p.values[e], other);
    }
    reinterpret_cast<P*>(calls)[i] = c;
    reinterpret_cast<P*>(puts)[i] = p;
  }
  for (long long i = packs * EACH + first; i < size; i += step) {
    price<FAST>(wide(spot[i]), wide(strike[i]), wide(years[i]), rate, volatility, &one, &other);
    put(calls + i, one);
    put(puts + i, other);
  }
}

template <typename T, int EACH>
void launch(const void* spot, const void* strike, const void* years, void* calls, void* puts,
            long long size, float rate, float volatility, int threads, int most, bool fast,
            cudaStream_t stream) {
  const T* s = static_cast<const T*>(spot);
  const T* x = static_cast<const T*>(strike);
  const T* t = static_cast<const T*>(years);
  T* c = static_cast<T*>(calls);
  T* p = static_cast<T*>(puts);
  const long long span = static_cast<long long>(threads) * EACH;
  const long long wanted = (size + span - 1) / span;
  const int blocks = wanted < most ? wanted : most;
  if (fast) {
    price_options<T, EACH, true>
        <<<blocks, threads, 0, stream>>>(s, x, t, c, p, size, rate, volatility);
  } else {
    price_options<T, EACH, false>
        <<<blocks, threads, 0, stream>>>(s, x, t, c, p, size, rate, volatility);
  }
}

template <typename T>
void by_each(const void* s, const void* x, const void* t, void* c, void* p, long long size,
             float rate, float volatility, int threads, int most, int each, bool fast,
             cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(s, x, t, c, p, size, rate, volatility, threads, most, fast, stream);
  } else if (each == 2) {
    launch<T, 2>(s, x, t, c, p, size, rate, volatility, threads, most, fast, stream);
  } else {
    launch<T, 4>(s, x, t, c, p, size, rate, volatility, threads, most, fast, stream);
  }
}

void price_any(const void* s, const void* x, const void* t, void* c, void* p, int type,
               long long size, float rate, float volatility, int threads, int most, int each,
               bool fast, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(s, x, t, c, p, size, rate, volatility, threads, most, each, fast, stream);
      break;
    case 1:
      by_each<__half>(s, x, t, c, p, size, rate, volatility, threads, most, each, fast, stream);
      break;
    default:
      by_each<__nv_bfloat16>(s, x, t, c, p, size, rate, volatility, threads, most, each, fast,
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

#include <tuple>

void price_any(const void* s, const void* x, const void* t, void* c, void* p, int type,
               long long size, float rate, float volatility, int threads, int most, int each,
               bool fast, cudaStream_t stream);

std::tuple<at::Tensor, at::Tensor> prices(const at::Tensor& spot, const at::Tensor& strike,
                                          const at::Tensor& years, double rate, double volatility,
                                          int threads, int most, int each, bool fast) {
  at::Tensor calls = at::empty_like(spot), puts = at::empty_like(spot);
  const int type = spot.scalar_type() == at::kFloat ? 0 : spot.scalar_type() == at::kHalf ? 1 : 2;
  price_any(spot.const_data_ptr(), strike.const_data_ptr(), years.const_data_ptr(),
            calls.mutable_data_ptr(), puts.mutable_data_ptr(), type, spot.numel(), rate,
            volatility, threads, most, each, fast, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {calls, puts};
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_black_scholes_cuda_packs",
        BINDING,
        CUDA,
        functions=["prices"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No more threads than elements."""
    return params["THREADS"] * params["BLOCKS"] * params["EACH"] <= 4 * shape["N"]


def kernel(spot, strike, years, *, THREADS=256, BLOCKS=1056, EACH=4, FAST=False):
    settings = (RATE, VOLATILITY, THREADS, BLOCKS, EACH, FAST)
    return extension().prices(spot, strike, years, *settings)
