"""CUDA C++: blocks that stride through the tensor, several packs of values in flight a thread."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.gelu.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512, 1024],
    "VECTOR": [1, 2, 4, 8],
    "PACKS": [1, 2],
    "WAVES": [0, 1, 2, 4],  # of 132 SMs with 2,048 threads each; 0 for as many as it takes
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

__device__ float gelu_of(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

// `size` values, of which the last ones may make no whole pack.
template <typename T, int V, int PACKS>
__global__ void gelu_strided(const T* __restrict__ x, T* __restrict__ out, long long size) {
  using P = Pack<T, V>;
  const long long packs = size / V, step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (long long start = first; start < packs; start += step * PACKS) {
    P held[PACKS];
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      if (start + p * step < packs) held[p] = reinterpret_cast<const P*>(x)[start + p * step];
    }
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      if (start + p * step >= packs) break;
#pragma unroll
      for (int i = 0; i < V; ++i) put(&held[p].values[i], gelu_of(wide(held[p].values[i])));
      reinterpret_cast<P*>(out)[start + p * step] = held[p];
    }
  }
  const long long rest = packs * V + first;
  if (rest < size) put(out + rest, gelu_of(wide(x[rest])));
}

template <typename T, int V>
void by_packs(const void* x, void* out, long long size, int threads, int packs, int most,
              cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const long long each = static_cast<long long>(threads) * V * packs;
  const long long wanted = (size + each - 1) / each;
  const int blocks = most > 0 && most < wanted ? most : wanted;
  if (packs == 1) {
    gelu_strided<T, V, 1><<<blocks, threads, 0, stream>>>(from, to, size);
  } else {
    gelu_strided<T, V, 2><<<blocks, threads, 0, stream>>>(from, to, size);
  }
}

template <typename T>
void by_vector(const void* x, void* out, long long size, int threads, int vector, int packs,
               int most, cudaStream_t stream) {
  if (vector == 1) by_packs<T, 1>(x, out, size, threads, packs, most, stream);
  if (vector == 2) by_packs<T, 2>(x, out, size, threads, packs, most, stream);
  if (vector == 4) by_packs<T, 4>(x, out, size, threads, packs, most, stream);
  if (vector == 8) by_packs<T, 8>(x, out, size, threads, packs, most, stream);
}

void gelu_any(const void* x, void* out, int type, long long size, int threads, int vector,
              int packs, int most, cudaStream_t stream) {
  if (type == 0) by_vector<float>(x, out, size, threads, vector, packs, most, stream);
  if (type == 1) by_vector<__half>(x, out, size, threads, vector, packs, most, stream);
  if (type == 2) by_vector<__nv_bfloat16>(x, out, size, threads, vector, packs, most, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void gelu_any(const void* x, void* out, int type, long long size, int threads, int vector,
              int packs, int most, cudaStream_t stream);

// At most `most` blocks; as many as the tensor needs where it is 0.
at::Tensor gelu(const at::Tensor& x, int threads, int vector, int packs, int most) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  gelu_any(x.const_data_ptr(), out.mutable_data_ptr(), type, x.numel(), threads, vector, packs,
           most, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_gelu_cuda_grid_stride",
        BINDING,
        CUDA,
        functions=["gelu"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No more than 512 threads where each holds 16 values."""
    return params["VECTOR"] * params["PACKS"] <= 8 or params["THREADS"] <= 512


def kernel(x, *, THREADS=256, VECTOR=4, PACKS=1, WAVES=0):
    return extension().gelu(x, THREADS, VECTOR, PACKS, WAVES * 132 * 2048 // THREADS)
