"""CUDA C++: coefficients in shared memory; a thread keeps some elements and their chains."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.polynomial_evaluation.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "THREADS": [64, 128, 256, 512],
    "BLOCKS": [264, 1056, 4224],
    "EACH": [1, 2, 4, 8],
    "SHARED": [False, True],
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

// Elements of a thread lie blockDim.x apart. Without SHARED the coefficients come through the
// read-only cache, the same for a whole warp.
template <typename T, int EACH, bool SHARED>
__global__ void horner(const T* x, const float* coefficients, T* out, long long size, int terms) {
  extern __shared__ float kept[];
  if (SHARED) {
    for (int i = threadIdx.x; i < terms; i += blockDim.x) kept[i] = coefficients[i];
    __syncthreads();
  }
  const long long span = static_cast<long long>(blockDim.x) * EACH;
  for (long long start = blockIdx.x * span; start < size; start += gridDim.x * span) {
    float at[EACH], sum[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const long long i = start + threadIdx.x + static_cast<long long>(e) * blockDim.x;
      at[e] = i < size ? wide(x[i]) : 0.0f;
      sum[e] = 0.0f;
    }
#pragma unroll 8
    for (int place = terms - 1; place >= 0; --place) {
      const float c = SHARED ? kept[place] : __ldg(coefficients + place);
#pragma unroll
      for (int e = 0; e < EACH; ++e) sum[e] = sum[e] * at[e] + c;
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const long long i = start + threadIdx.x + static_cast<long long>(e) * blockDim.x;
      if (i < size) put(out + i, sum[e]);
    }
  }
}

template <typename T, int EACH>
void launch(const void* x, const float* coefficients, void* out, long long size, int terms,
            int threads, int most, bool shared, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const long long span = static_cast<long long>(threads) * EACH;
  const long long wanted = (size + span - 1) / span;
  const int blocks = wanted < most ? wanted : most;
  if (shared) {
    horner<T, EACH, true>
        <<<blocks, threads, terms * 4, stream>>>(from, coefficients, to, size, terms);
  } else {
    horner<T, EACH, false><<<blocks, threads, 0, stream>>>(from, coefficients, to, size, terms);
  }
}

template <typename T>
void by_each(const void* x, const float* c, void* out, long long size, int terms, int threads,
             int most, int each, bool shared, cudaStream_t stream) {
  if (each == 1) launch<T, 1>(x, c, out, size, terms, threads, most, shared, stream);
  if (each == 2) launch<T, 2>(x, c, out, size, terms, threads, most, shared, stream);
  if (each == 4) launch<T, 4>(x, c, out, size, terms, threads, most, shared, stream);
  if (each == 8) launch<T, 8>(x, c, out, size, terms, threads, most, shared, stream);
}

void evaluate_any(const void* x, const float* c, void* out, int type, long long size, int terms,
                  int threads, int most, int each, bool shared, cudaStream_t stream) {
  if (type == 0) by_each<float>(x, c, out, size, terms, threads, most, each, shared, stream);
  if (type == 1) by_each<__half>(x, c, out, size, terms, threads, most, each, shared, stream);
  if (type == 2) {
    by_each<__nv_bfloat16>(x, c, out, size, terms, threads, most, each, shared, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void evaluate_any(const void* x, const float* c, void* out, int type, long long size, int terms,
                  int threads, int most, int each, bool shared, cudaStream_t stream);

at::Tensor polynomial(const at::Tensor& x, const at::Tensor& coefficients, int threads, int most,
                      int each, bool shared) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  evaluate_any(x.const_data_ptr(), coefficients.const_data_ptr<float>(), out.mutable_data_ptr(),
               type, x.numel(), coefficients.numel(), threads, most, each, shared,
               c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_polynomial_evaluation_cuda_shared_coefficients",
        BINDING,
        CUDA,
        functions=["polynomial"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Not more threads than elements."""
    return params["THREADS"] * params["EACH"] <= shape["N"]


def kernel(x, coefficients, *, THREADS=256, BLOCKS=1056, EACH=4, SHARED=True):
    return extension().polynomial(x, coefficients, THREADS, BLOCKS, EACH, SHARED)
