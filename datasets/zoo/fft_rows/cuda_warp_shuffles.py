"""CUDA C++: a warp a row in registers, halved by shuffles; bits of places come out reversed."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.fft_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8],
    "STAGED": [False, True],
}

CUDA = r"""
#include <cuda_fp16.h>

__device__ float2 wide(float2 x) { return x; }
__device__ float2 wide(__half2 x) { return __half22float2(x); }
__device__ void put(float2* at, float2 x) { *at = x; }
__device__ void put(__half2* at, float2 x) { *at = __float22half2_rn(x); }

__device__ float2 times(float2 a, float2 b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__device__ float2 plus(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float2 minus(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }

// Element e * 32 + lane is in register e. Pairs half a block apart meet in a lane while they are
// 32 apart or more, and then by shuffles. Element i ends up as the result of i's bits reversed;
// with STAGED, shared memory puts them in order, so that stores are in sequence.
template <typename T, int EACH, bool STAGED>
__global__ void fft_warps(const T* x, T* out, int rows) {
  extern __shared__ float2 shared[];
  constexpr int N = 32 * EACH;
  const int lane = threadIdx.x % 32, mine = threadIdx.x / 32;
  const long long row = static_cast<long long>(blockIdx.x) * (blockDim.x / 32) + mine;
  if (row >= rows) return;
  float2 held[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) held[e] = wide(x[row * N + e * 32 + lane]);
#pragma unroll
  for (int half = EACH / 2; half > 0; half /= 2) {
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      if ((e & half) == 0) {
        float2 w;
        sincospif(-((e % half) * 32 + lane) / (32.0f * half), &w.y, &w.x);
        const float2 a = held[e], b = held[e + half];
        held[e] = plus(a, b);
        held[e + half] = times(minus(a, b), w);
      }
    }
  }
#pragma unroll
  for (int half = 16; half > 0; half /= 2) {
    float2 w;
    sincospif(-(lane % half) / static_cast<float>(half), &w.y, &w.x);
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      float2 other;
      other.x = __shfl_xor_sync(0xffffffffu, held[e].x, half);
      other.y = __shfl_xor_sync(0xffffffffu, held[e].y, half);
      held[e] = lane & half ? times(minus(other, held[e]), w) : plus(held[e], other);
    }
  }
  const int shift = 33 - __ffs(N);
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int place = __brev(e * 32 + lane) >> shift;
    if (STAGED) {
      shared[mine * N + place] = held[e];
    } else {
      put(out + row * N + place, held[e]);
    }
  }
  if (STAGED) {
    __syncwarp();
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      put(out + row * N + e * 32 + lane, shared[mine * N + e * 32 + lane]);
    }
  }
}

template <typename T, int EACH>
void launch(const void* x, void* out, int rows, int warps, bool staged, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int blocks = (rows + warps - 1) / warps, threads = 32 * warps;
  if (staged) {
    const int bytes = 8 * 32 * EACH * warps;
    fft_warps<T, EACH, true><<<blocks, threads, bytes, stream>>>(from, to, rows);
  } else {
    fft_warps<T, EACH, false><<<blocks, threads, 0, stream>>>(from, to, rows);
  }
}

template <typename T>
void by_each(const void* x, void* out, int rows, int each, int warps, bool staged,
             cudaStream_t stream) {
  if (each == 2) launch<T, 2>(x, out, rows, warps, staged, stream);
  if (each == 4) launch<T, 4>(x, out, rows, warps, staged, stream);
  if (each == 8) launch<T, 8>(x, out, rows, warps, staged, stream);
  if (each == 16) launch<T, 16>(x, out, rows, warps, staged, stream);
  if (each == 32) launch<T, 32>(x, out, rows, warps, staged, stream);
}

void transform(const void* x, void* out, bool halves, int rows, int n, int warps, bool staged,
               cudaStream_t stream) {
  if (halves) {
    by_each<__half2>(x, out, rows, n / 32, warps, staged, stream);
  } else {
    by_each<float2>(x, out, rows, n / 32, warps, staged, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void transform(const void* x, void* out, bool halves, int rows, int n, int warps, bool staged,
               cudaStream_t stream);

at::Tensor fft_rows(const at::Tensor& x, int warps, bool staged) {
  at::Tensor out = at::empty_like(x);
  const bool halves = x.scalar_type() == at::kHalf;
  transform(x.const_data_ptr(), out.mutable_data_ptr(), halves, x.size(0), x.size(1), warps,
            staged, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_fft_rows_cuda_warp_shuffles",
        BINDING,
        CUDA,
        functions=["fft_rows"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Rows of 64 to 1,024, which registers hold; at most 48 KiB of shared memory."""
    fits = 8 * shape["N"] * params["WARPS"] <= 48 * 1024 or not params["STAGED"]
    return 64 <= shape["N"] <= 1024 and fits


def kernel(x, *, WARPS=4, STAGED=True):
    return extension().fft_rows(x, WARPS, STAGED)
