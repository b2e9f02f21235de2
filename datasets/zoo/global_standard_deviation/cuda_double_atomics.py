"""CUDA C++: packs by strides, sums about a first value, two double atomics a block; a root."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.global_standard_deviation.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [128, 256, 512, 1024],
    "BLOCKS": [132, 528, 1056],
    "VECTOR": [1, 4, 8],
    "UNROLL": [1, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

template <typename T, int V, int UNROLL>
__global__ void add_moments(const T* x, double* sums, int size) {
  __shared__ float shared[2][32];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const Pack<T, V>* packs = reinterpret_cast<const Pack<T, V>*>(x);
  const float shift = wide(x[0]);
  float sum = 0.0f, square = 0.0f;
#pragma unroll UNROLL
  for (int p = blockIdx.x * blockDim.x + t; p < size / V; p += gridDim.x * blockDim.x) {
    const Pack<T, V> pack = packs[p];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float off = wide(pack.values[i]) - shift;
      sum += off;
      square += off * off;
    }
  }
  if (blockIdx.x == 0 && t < size % V) {
    const float off = wide(x[size - 1 - t]) - shift;
    sum += off;
    square += off * off;
  }
  for (int far = 16; far > 0; far /= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, far);
    square += __shfl_xor_sync(0xffffffff, square, far);
  }
  if (lane == 0) {
    shared[0][warp] = sum;
    shared[1][warp] = square;
  }
  __syncthreads();
  if (t < 2) {
    double all = 0.0;
    for (int w = 0; w < blockDim.x / 32; ++w) all += shared[t][w];
    atomicAdd(sums + t, all);
  }
}

__global__ void take_root(const double* sums, float* out, int size) {
  const double mean = sums[0] / size;
  const double variance = sums[1] / size - mean * mean;
  out[0] = sqrtf(static_cast<float>(variance));
}

template <typename T, int V>
void launch(const T* x, double* sums, int size, int threads, int blocks, int unroll,
            cudaStream_t stream) {
  if (unroll == 1) {
    add_moments<T, V, 1><<<blocks, threads, 0, stream>>>(x, sums, size);
  } else {
    add_moments<T, V, 4><<<blocks, threads, 0, stream>>>(x, sums, size);
  }
}

template <typename T>
void launch_any(const void* x, double* sums, int size, int threads, int blocks, int vector,
                int unroll, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  if (vector == 1) launch<T, 1>(from, sums, size, threads, blocks, unroll, stream);
  if (vector == 4) launch<T, 4>(from, sums, size, threads, blocks, unroll, stream);
  if (vector == 8) launch<T, 8>(from, sums, size, threads, blocks, unroll, stream);
}

void deviate(const void* x, double* sums, float* out, int type, int size, int threads, int blocks,
             int vector, int unroll, cudaStream_t stream) {
  if (type == 0) launch_any<float>(x, sums, size, threads, blocks, vector, unroll, stream);
  if (type == 1) launch_any<__half>(x, sums, size, threads, blocks, vector, unroll, stream);
  if (type == 2) {
    launch_any<__nv_bfloat16>(x, sums, size, threads, blocks, vector, unroll, stream);
  }
  take_root<<<1, 1, 0, stream>>>(sums, out, size);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void deviate(const void* x, double* sums, float* out, int type, int size, int threads, int blocks,
             int vector, int unroll, cudaStream_t stream);

at::Tensor standard_deviation(const at::Tensor& x, int threads, int blocks, int vector,
                              int unroll) {
  at::Tensor sums = at::zeros({2}, x.options().dtype(at::kDouble));
  at::Tensor out = at::empty({1}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  deviate(x.const_data_ptr(), sums.mutable_data_ptr<double>(), out.mutable_data_ptr<float>(), type,
          x.numel(), threads, blocks, vector, unroll, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_global_standard_deviation_cuda_double_atomics",
        BINDING,
        CUDA,
        functions=["standard_deviation"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """A pack a thread."""
    return params["THREADS"] * params["BLOCKS"] * params["VECTOR"] <= shape["N"]


def kernel(x, *, THREADS=512, BLOCKS=528, VECTOR=4, UNROLL=4):
    return extension().standard_deviation(x, THREADS, BLOCKS, VECTOR, UNROLL)
