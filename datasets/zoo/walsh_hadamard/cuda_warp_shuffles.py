"""CUDA C++: a warp a row, all in registers: lanes exchange by shuffles, the rest is their own."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.walsh_hadamard.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8, 16],
    "BLOCKED": [False, True],
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

// A lane holds EACH elements: neighbours with BLOCKED, or those 32 apart. Elements that differ in
// one bit of their number are either in the same lane or in lanes that differ in one bit.
template <typename T, int EACH, bool BLOCKED>
__global__ void hadamard_warps(const T* x, T* out, int rows, float scale) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long row = static_cast<long long>(blockIdx.x) * (blockDim.x / 32) + warp;
  if (row >= rows) return;
  const T* from = x + row * 32 * EACH;
  T* to = out + row * 32 * EACH;
  float held[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) held[e] = wide(from[BLOCKED ? lane * EACH + e : e * 32 + lane]);
#pragma unroll
  for (int apart = 1; apart < EACH; apart *= 2) {
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      if ((e & apart) == 0) {
        const float a = held[e], b = held[e + apart];
        held[e] = a + b;
        held[e + apart] = a - b;
      }
    }
  }
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const float other = __shfl_xor_sync(0xffffffffu, held[e], apart);
      held[e] = lane & apart ? other - held[e] : held[e] + other;
    }
  }
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    put(to + (BLOCKED ? lane * EACH + e : e * 32 + lane), held[e] * scale);
  }
}

template <typename T, int EACH>
void launch(const void* x, void* out, int rows, int warps, bool blocked, float scale,
            cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int blocks = (rows + warps - 1) / warps;
  if (blocked) {
    hadamard_warps<T, EACH, true><<<blocks, 32 * warps, 0, stream>>>(from, to, rows, scale);
  } else {
    hadamard_warps<T, EACH, false><<<blocks, 32 * warps, 0, stream>>>(from, to, rows, scale);
  }
}

template <typename T>
void by_each(const void* x, void* out, int rows, int each, int warps, bool blocked, float scale,
             cudaStream_t stream) {
  if (each == 2) launch<T, 2>(x, out, rows, warps, blocked, scale, stream);
  if (each == 4) launch<T, 4>(x, out, rows, warps, blocked, scale, stream);
  if (each == 8) launch<T, 8>(x, out, rows, warps, blocked, scale, stream);
  if (each == 16) launch<T, 16>(x, out, rows, warps, blocked, scale, stream);
  if (each == 32) launch<T, 32>(x, out, rows, warps, blocked, scale, stream);
  if (each == 64) launch<T, 64>(x, out, rows, warps, blocked, scale, stream);
}

void transform(const void* x, void* out, int type, int rows, int columns, int warps, bool blocked,
               float scale, cudaStream_t stream) {
  const int each = columns / 32;
  if (type == 0) by_each<float>(x, out, rows, each, warps, blocked, scale, stream);
  if (type == 1) by_each<__half>(x, out, rows, each, warps, blocked, scale, stream);
  if (type == 2) by_each<__nv_bfloat16>(x, out, rows, each, warps, blocked, scale, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void transform(const void* x, void* out, int type, int rows, int columns, int warps, bool blocked,
               float scale, cudaStream_t stream);

at::Tensor walsh_hadamard(const at::Tensor& x, int warps, bool blocked, double scale) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  transform(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), warps, blocked,
            scale, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_walsh_hadamard_cuda_warp_shuffles",
        BINDING,
        CUDA,
        functions=["walsh_hadamard"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Rows of 64 to 2,048: more do not fit a warp's registers."""
    return 64 <= shape["N"] <= 2048


def kernel(x, *, WARPS=4, BLOCKED=False):
    return extension().walsh_hadamard(x, WARPS, BLOCKED, x.shape[1] ** -0.5)
