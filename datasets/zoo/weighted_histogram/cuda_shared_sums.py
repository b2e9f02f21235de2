"""CUDA C++: blocks add up in shared memory, in copies of the bins against collisions."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.weighted_histogram.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [128, 256, 512, 1024],
    "BLOCKS": [132, 264, 528, 1056],
    "COPIES": [1, 2, 4],
    "EACH": [1, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// A warp adds to one of the copies, which lie side by side: those of a bin are in other banks.
template <typename T, int EACH>
__global__ void sum_shared(const int* bins, const T* weights, float* out, int size, int count,
                           int copies) {
  extern __shared__ float sums[];
  for (int i = threadIdx.x; i < count * copies; i += blockDim.x) sums[i] = 0.0f;
  __syncthreads();
  float* mine = sums + threadIdx.x / 32 % copies;
  const int step = gridDim.x * blockDim.x;
  for (int start = blockIdx.x * blockDim.x + threadIdx.x; start < size; start += step * EACH) {
    int bin[EACH];
    float weight[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int at = start + e * step;
      bin[e] = at < size ? bins[at] : -1;
      weight[e] = at < size ? wide(weights[at]) : 0.0f;
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      if (bin[e] >= 0) atomicAdd(mine + bin[e] * copies, weight[e]);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    float sum = 0.0f;
    for (int copy = 0; copy < copies; ++copy) sum += sums[i * copies + copy];
    if (sum != 0.0f) atomicAdd(out + i, sum);
  }
}

template <typename T, int EACH>
void launch(const int* bins, const void* weights, float* out, int size, int count, int threads,
            int blocks, int copies, cudaStream_t stream) {
  const T* weights_t = static_cast<const T*>(weights);
  sum_shared<T, EACH><<<blocks, threads, 4 * count * copies, stream>>>(bins, weights_t, out, size,
                                                                       count, copies);
}

template <typename T>
void by_each(const int* bins, const void* weights, float* out, int size, int count, int threads,
             int blocks, int copies, int each, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(bins, weights, out, size, count, threads, blocks, copies, stream);
  } else {
    launch<T, 4>(bins, weights, out, size, count, threads, blocks, copies, stream);
  }
}

void run(const int* bins, const void* weights, float* out, int type, int size, int count,
         int threads, int blocks, int copies, int each, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(bins, weights, out, size, count, threads, blocks, copies, each, stream);
      break;
    case 1:
      by_each<__half>(bins, weights, out, size, count, threads, blocks, copies, each, stream);
      break;
    default:
      by_each<__nv_bfloat16>(bins, weights, out, size, count, threads, blocks, copies, each,
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
         int threads, int blocks, int copies, int each, cudaStream_t stream);

at::Tensor weighted_histogram(const at::Tensor& bins, const at::Tensor& weights, int count,
                              int threads, int blocks, int copies, int each) {
  const int64_t size = bins.size(0);
  at::Tensor out = at::zeros({count}, weights.options().dtype(at::kFloat));
  const auto kind = weights.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(bins.const_data_ptr<int>(), weights.const_data_ptr(), out.mutable_data_ptr<float>(), type,
      size, count, threads, blocks, copies, each, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_weighted_histogram_cuda_shared_sums",
        BINDING,
        CUDA,
        functions=["weighted_histogram"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB of shared memory, which needs no opting in; a copy a warp at most."""
    copies = params["COPIES"]
    return 4 * copies * shape["BINS"] <= 48 * 1024 and 32 * copies <= params["THREADS"]


def kernel(bins, weights, count, *, THREADS=256, BLOCKS=264, COPIES=1, EACH=4):
    return extension().weighted_histogram(bins, weights, count, THREADS, BLOCKS, COPIES, EACH)
