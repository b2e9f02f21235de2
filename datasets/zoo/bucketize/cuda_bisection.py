"""CUDA C++: bisection in memory; a thread has EACH searches in flight, step by step."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.bucketize.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512, 1024],
    "EACH": [1, 2, 4, 8],
    "READ_ONLY": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// All searches take as many steps as the longest, without branches.
template <typename T, int EACH>
__global__ void search(const T* x, const float* edges, int* out, int size, int count, int half,
                       bool read_only) {
  const int first = blockIdx.x * blockDim.x * EACH + threadIdx.x;
  float sought[EACH];
  int below[EACH] = {};
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = first + e * blockDim.x;
    sought[e] = at < size ? wide(x[at]) : 0.0f;
  }
  for (int step = half; step > 0; step /= 2) {
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int next = below[e] + step;
      const float* at = edges + min(next, count) - 1;
      if (next <= count && (read_only ? __ldg(at) : *at) < sought[e]) below[e] = next;
    }
  }
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = first + e * blockDim.x;
    if (at < size) out[at] = below[e];
  }
}

template <typename T, int EACH>
void launch(const void* x, const float* edges, int* out, int size, int count, int threads,
            int read_only, cudaStream_t stream) {
  const T* x_t = static_cast<const T*>(x);
  int half = 1;
  while (half <= count / 2) half *= 2;
  const int span = threads * EACH;
  search<T, EACH><<<(size + span - 1) / span, threads, 0, stream>>>(x_t, edges, out, size, count,
                                                                    half, read_only);
}

template <typename T>
void by_each(const void* x, const float* edges, int* out, int size, int count, int threads,
             int each, int read_only, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(x, edges, out, size, count, threads, read_only, stream);
  } else if (each == 2) {
    launch<T, 2>(x, edges, out, size, count, threads, read_only, stream);
  } else if (each == 4) {
    launch<T, 4>(x, edges, out, size, count, threads, read_only, stream);
  } else {
    launch<T, 8>(x, edges, out, size, count, threads, read_only, stream);
  }
}

void run(const void* x, const float* edges, int* out, int type, int size, int count, int threads,
         int each, int read_only, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(x, edges, out, size, count, threads, each, read_only, stream);
      break;
    case 1:
      by_each<__half>(x, edges, out, size, count, threads, each, read_only, stream);
      break;
    default:
      by_each<__nv_bfloat16>(x, edges, out, size, count, threads, each, read_only, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* x, const float* edges, int* out, int type, int size, int count, int threads,
         int each, int read_only, cudaStream_t stream);

at::Tensor bucketize(const at::Tensor& x, const at::Tensor& edges, int threads, int each,
                     int read_only) {
  const int64_t size = x.size(0);
  const int64_t count = edges.size(0);
  at::Tensor out = at::empty_like(x, x.options().dtype(at::kInt));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  run(x.const_data_ptr(), edges.const_data_ptr<float>(), out.mutable_data_ptr<int>(), type, size,
      count, threads, each, read_only, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_bucketize_cuda_bisection",
        BINDING,
        CUDA,
        functions=["bucketize"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Everywhere."""
    return True


def kernel(x, edges, *, THREADS=256, EACH=4, READ_ONLY=True):
    return extension().bucketize(x, edges, THREADS, EACH, READ_ONLY)
