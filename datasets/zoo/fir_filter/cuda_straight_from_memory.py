"""CUDA C++: a thread a result, from global memory; taps in shared memory or not."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.fir_filter.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "RESULTS": [1, 2, 4],
    "SHARED_TAPS": [False, True],
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

// A thread's results are blockDim.x apart, so that a warp reads neighbours.
template <typename T, int RESULTS>
__global__ void filter_points(const T* x, const float* taps, T* out, int length, int count,
                              bool shared_taps) {
  extern __shared__ float shared[];
  const float* weights = taps;
  if (shared_taps) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) shared[i] = taps[i];
    __syncthreads();
    weights = shared;
  }
  const T* from = x + static_cast<long long>(blockIdx.y) * length;
  T* to = out + static_cast<long long>(blockIdx.y) * length;
  const int first = blockIdx.x * blockDim.x * RESULTS + threadIdx.x;
  float sum[RESULTS] = {};
  for (int k = 0; k < count; ++k) {
    const float tap = weights[k];
#pragma unroll
    for (int r = 0; r < RESULTS; ++r) {
      const int t = first + r * blockDim.x - k;
      if (t >= 0 && t < length) sum[r] += tap * wide(from[t]);
    }
  }
#pragma unroll
  for (int r = 0; r < RESULTS; ++r) {
    const int t = first + r * blockDim.x;
    if (t < length) put(to + t, sum[r]);
  }
}

template <typename T, int RESULTS>
void launch(const void* x, const float* taps, void* out, int signals, int length, int count,
            int threads, bool shared_taps, cudaStream_t stream) {
  const int span = threads * RESULTS;
  const dim3 grid((length + span - 1) / span, signals);
  const int bytes = shared_taps ? 4 * count : 0;
  filter_points<T, RESULTS><<<grid, threads, bytes, stream>>>(
      static_cast<const T*>(x), taps, static_cast<T*>(out), length, count, shared_taps);
}

template <typename T>
void by_results(const void* x, const float* taps, void* out, int signals, int length, int count,
                int threads, int results, bool shared_taps, cudaStream_t stream) {
  if (results == 1) {
    launch<T, 1>(x, taps, out, signals, length, count, threads, shared_taps, stream);
  }
  if (results == 2) {
    launch<T, 2>(x, taps, out, signals, length, count, threads, shared_taps, stream);
  }
  if (results == 4) {
    launch<T, 4>(x, taps, out, signals, length, count, threads, shared_taps, stream);
  }
}

void filter_any(const void* x, const float* taps, void* out, int type, int signals, int length,
                int count, int threads, int results, bool shared_taps, cudaStream_t stream) {
  if (type == 0) {
    by_results<float>(x, taps, out, signals, length, count, threads, results, shared_taps, stream);
  }
  if (type == 1) {
    by_results<__half>(x, taps, out, signals, length, count, threads, results, shared_taps,
                       stream);
  }
  if (type == 2) {
    by_results<__nv_bfloat16>(x, taps, out, signals, length, count, threads, results, shared_taps,
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

void filter_any(const void* x, const float* taps, void* out, int type, int signals, int length,
                int count, int threads, int results, bool shared_taps, cudaStream_t stream);

at::Tensor fir_filter(const at::Tensor& x, const at::Tensor& taps, int threads, int results,
                      bool shared_taps) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  filter_any(x.const_data_ptr(), taps.const_data_ptr<float>(), out.mutable_data_ptr(), type,
             x.size(0), x.size(1), taps.size(0), threads, results, shared_taps,
             c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_fir_filter_cuda_straight_from_memory",
        BINDING,
        CUDA,
        functions=["fir_filter"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No block far longer than a signal."""
    return params["THREADS"] * params["RESULTS"] < 2 * shape["T"]


def kernel(x, taps, *, THREADS=128, RESULTS=2, SHARED_TAPS=True):
    return extension().fir_filter(x, taps, THREADS, RESULTS, SHARED_TAPS)
