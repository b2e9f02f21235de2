"""CUDA C++: segments in shared memory; a thread sums up a lag or two; atomics join segments."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.cross_correlation1d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SEGMENT": [512, 1024, 2048],
    "SPLIT": [1, 4, 16],
    "THREADS": [128, 256],
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

// Threads are `lags` wide and some high: those of a lag take every high-th element of the segment.
template <typename T>
__global__ void correlate(const T* x, const T* y, float* out, int length, int lags, int segment,
                          int stretch, float scale) {
  extern __shared__ float shared[];
  float* xs = shared;
  float* ys = shared + segment;
  const long long from_x = static_cast<long long>(blockIdx.y) * length;
  const long long from_y = static_cast<long long>(blockIdx.y) * (length + lags - 1);
  const int start = blockIdx.x * stretch, end = min(start + stretch, length);
  const int high = max(blockDim.x / lags, 1u);
  const int lag0 = threadIdx.x % lags, mine = threadIdx.x / lags;
  float sum = 0.0f;
  for (int first = start; first < end; first += segment) {
    const int held = min(segment, end - first);
    __syncthreads();
    for (int i = threadIdx.x; i < held; i += blockDim.x) xs[i] = wide(x[from_x + first + i]);
    for (int i = threadIdx.x; i < held + lags - 1; i += blockDim.x) {
      ys[i] = wide(y[from_y + first + i]);
    }
    __syncthreads();
    if (mine < high) {
      for (int i = mine; i < held; i += high) sum += xs[i] * ys[i + lag0];
    }
  }
  if (mine < high) atomicAdd(out + blockIdx.y * lags + lag0, sum * scale);
}

template <typename T>
void launch(const void* x, const void* y, float* out, int pairs, int length, int lags, int segment,
            int split, int threads, cudaStream_t stream) {
  const int stretch = (length + split - 1) / split;
  const dim3 grid((length + stretch - 1) / stretch, pairs);
  const int bytes = 4 * (2 * segment + lags);
  correlate<T><<<grid, threads, bytes, stream>>>(static_cast<const T*>(x),
                                                 static_cast<const T*>(y), out, length, lags,
                                                 segment, stretch, 1.0f / length);
}

void correlate_any(const void* x, const void* y, float* out, int type, int pairs, int length,
                   int lags, int segment, int split, int threads, cudaStream_t stream) {
  if (type == 0) launch<float>(x, y, out, pairs, length, lags, segment, split, threads, stream);
  if (type == 1) launch<__half>(x, y, out, pairs, length, lags, segment, split, threads, stream);
  if (type == 2) {
    launch<__nv_bfloat16>(x, y, out, pairs, length, lags, segment, split, threads, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void correlate_any(const void* x, const void* y, float* out, int type, int pairs, int length,
                   int lags, int segment, int split, int threads, cudaStream_t stream);

at::Tensor cross_correlation(const at::Tensor& x, const at::Tensor& y, int segment, int split,
                             int threads) {
  const int lags = y.size(1) - x.size(1) + 1;
  at::Tensor out = at::zeros({x.size(0), lags}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  correlate_any(x.const_data_ptr(), y.const_data_ptr(), out.mutable_data_ptr<float>(), type,
                x.size(0), x.size(1), lags, segment, split, threads,
                c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_cross_correlation1d_cuda_lag_a_thread",
        BINDING,
        CUDA,
        functions=["cross_correlation"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """A thread for each lag; whole segments in all parts but the last."""
    return shape["LAGS"] <= params["THREADS"] and params["SPLIT"] * 64 < shape["T"]


def kernel(x, y, *, SEGMENT=1024, SPLIT=4, THREADS=256):
    return extension().cross_correlation(x, y, SEGMENT, SPLIT, THREADS)
