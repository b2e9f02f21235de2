"""CUDA C++: lanes of a warp that name the same bin add up first; one atomic a bin and warp."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.weighted_histogram.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "BLOCKS": [528, 1056, 2112, 8448],
    "EACH": [1, 2, 4],
    "MERGE": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// Lanes of a bin form a chain; each adds up twice as many of those that follow at every step.
__device__ void add_merged(float* out, int bin, float weight) {
  const int lane = threadIdx.x % 32;
  const unsigned peers = __match_any_sync(0xffffffff, bin);
  int next = __ffs(peers & (0xfffffffeu << lane)) - 1;
  while (__any_sync(0xffffffff, next >= 0)) {
    const int from = next < 0 ? lane : next;
    const float other = __shfl_sync(0xffffffff, weight, from);
    const int further = __shfl_sync(0xffffffff, next, from);
    if (next >= 0) {
      weight += other;
      next = further;
    }
  }
  if (bin >= 0 && lane == __ffs(peers) - 1) atomicAdd(out + bin, weight);
}

template <typename T, int EACH>
__global__ void sum_merged(const int* bins, const T* weights, float* out, int size, bool merge) {
  const int step = gridDim.x * blockDim.x;
  for (int first = blockIdx.x * blockDim.x; first < size; first += step * EACH) {
    int bin[EACH];
    float weight[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int at = first + e * step + threadIdx.x;
      bin[e] = at < size ? bins[at] : -1;
      weight[e] = at < size ? wide(weights[at]) : 0.0f;
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      if (merge) {
        add_merged(out, bin[e], weight[e]);
      } else if (bin[e] >= 0) {
        atomicAdd(out + bin[e], weight[e]);
      }
    }
  }
}

template <typename T, int EACH>
void launch(const int* bins, const void* weights, float* out, int size, int count, int threads,
            int blocks, int merge, cudaStream_t stream) {
  const T* weights_t = static_cast<const T*>(weights);
  sum_merged<T, EACH><<<blocks, threads, 0, stream>>>(bins, weights_t, out, size, merge);
}

template <typename T>
void by_each(const int* bins, const void* weights, float* out, int size, int count, int threads,
             int blocks, int each, int merge, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(bins, weights, out, size, count, threads, blocks, merge, stream);
  } else if (each == 2) {
    launch<T, 2>(bins, weights, out, size, count, threads, blocks, merge, stream);
  } else {
    launch<T, 4>(bins, weights, out, size, count, threads, blocks, merge, stream);
  }
}

void run(const int* bins, const void* weights, float* out, int type, int size, int count,
         int threads, int blocks, int each, int merge, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(bins, weights, out, size, count, threads, blocks, each, merge, stream);
      break;
    case 1:
      by_each<__half>(bins, weights, out, size, count, threads, blocks, each, merge, stream);
      break;
    default:
      by_each<__nv_bfloat16>(bins, weights, out, size, count, threads, blocks, each, merge,
                             stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const int* bins, const void* weights, float* out, int type, int size, int count,
         int threads, int blocks, int each, int merge, cudaStream_t stream);

at::Tensor weighted_histogram(const at::Tensor& bins, const at::Tensor& weights, int count,
                              int threads, int blocks, int each, int merge) {
  const int64_t size = bins.size(0);
  at::Tensor out = at::zeros({count}, weights.options().dtype(at::kFloat));
  const auto kind = weights.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(bins.const_data_ptr<int>(), weights.const_data_ptr(), out.mutable_data_ptr<float>(), type,
      size, count, threads, blocks, each, merge, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_weighted_histogram_cuda_warp_merged",
        BINDING,
        CUDA,
        functions=["weighted_histogram"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Two elements a thread at least where there is a choice."""
    return params["THREADS"] * params["BLOCKS"] * params["EACH"] <= 2 * shape["N"]


def kernel(bins, weights, count, *, THREADS=128, BLOCKS=1056, EACH=4, MERGE=True):
    return extension().weighted_histogram(bins, weights, count, THREADS, BLOCKS, EACH, MERGE)
