"""CUDA C++: a thread turns packs of pairs, for as many heads of its token as it is told to."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.rope.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [32, 64, 128, 256, 512],
    "VECTOR": [1, 2, 4, 8],
    "HEADS": [1, 2, 4, 8],
    "CACHED": [False, True],
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

// A head's halves are `half` long; threads lie along packs of a half, then along groups of heads.
template <typename T, int V>
__global__ void rope_pairs(const T* x, const float* cosines, const float* sines, T* out,
                           long long count, int heads, int half, int each, bool cached) {
  using P = Pack<T, V>;
  using Angles = Pack<float, V>;
  const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread >= count) return;
  const int packs = half / V, groups = (heads + each - 1) / each;
  const int at = thread % packs * V;
  const int group = thread / packs % groups;
  const long long token = thread / packs / groups;
  const Angles* c = reinterpret_cast<const Angles*>(cosines + token * half + at);
  const Angles* s = reinterpret_cast<const Angles*>(sines + token * half + at);
  const Angles held_c = *c, held_s = *s;
  for (int head = group * each; head < min(heads, (group + 1) * each); ++head) {
    const long long start = (token * heads + head) * 2 * half + at;
    const Angles cosine = cached ? held_c : *c, sine = cached ? held_s : *s;
    P low = *reinterpret_cast<const P*>(x + start);
    P high = *reinterpret_cast<const P*>(x + start + half);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float a = wide(low.values[i]), b = wide(high.values[i]);
      put(&low.values[i], a * cosine.values[i] - b * sine.values[i]);
      put(&high.values[i], b * cosine.values[i] + a * sine.values[i]);
    }
    *reinterpret_cast<P*>(out + start) = low;
    *reinterpret_cast<P*>(out + start + half) = high;
  }
}

template <typename T>
void launch(const void* x, const float* cosines, const float* sines, void* out, int tokens,
            int heads, int half, int threads, int vector, int each, bool cached,
            cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int64_t count = int64_t(tokens) * (half / vector) * ((heads + each - 1) / each);
  const int blocks = (count + threads - 1) / threads;
  switch (vector) {
    case 1:
      rope_pairs<T, 1><<<blocks, threads, 0, stream>>>(from, cosines, sines, to, count, heads,
                                                       half, each, cached);
      break;
    case 2:
      rope_pairs<T, 2><<<blocks, threads, 0, stream>>>(from, cosines, sines, to, count, heads,
                                                       half, each, cached);
      break;
    case 4:
      rope_pairs<T, 4><<<blocks, threads, 0, stream>>>(from, cosines, sines, to, count, heads,
                                                       half, each, cached);
      break;
    default:
      rope_pairs<T, 8><<<blocks, threads, 0, stream>>>(from, cosines, sines, to, count, heads,
                                                       half, each, cached);
  }
}

void turn(const void* x, const float* cosines, const float* sines, void* out, int type, int tokens,
          int heads, int half, int threads, int vector, int each, bool cached,
          cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(x, cosines, sines, out, tokens, heads, half, threads, vector, each, cached,
                    stream);
      break;
    case 1:
      launch<__half>(x, cosines, sines, out, tokens, heads, half, threads, vector, each, cached,
                     stream);
      break;
    default:
      launch<__nv_bfloat16>(x, cosines, sines, out, tokens, heads, half, threads, vector, each,
                            cached, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void turn(const void* x, const float* cosines, const float* sines, void* out, int type, int tokens,
          int heads, int half, int threads, int vector, int each, bool cached,
          cudaStream_t stream);

at::Tensor rope(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines,
                int threads, int vector, int each, bool cached) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  turn(x.const_data_ptr(), cosines.const_data_ptr<float>(), sines.const_data_ptr<float>(),
       out.mutable_data_ptr(), type, x.size(0), x.size(1), x.size(2) / 2, threads, vector, each,
       cached, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_rope_cuda_pairs",
        BINDING,
        CUDA,
        functions=["rope"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No more heads a thread than there are; angles are kept only where that means something."""
    useful = params["HEADS"] > 1 or not params["CACHED"]
    return useful and params["HEADS"] <= shape["H"] and shape["D"] // 2 % params["VECTOR"] == 0


def kernel(x, cos, sin, *, THREADS=128, VECTOR=4, HEADS=2, CACHED=True):
    return extension().rope(x, cos, sin, THREADS, VECTOR, HEADS, CACHED)
