"""CUDA C++: every so many edges one is in shared memory; the rest of a search is in memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.bucketize.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [128, 256, 512, 1024],
    "SAMPLE": [15, 255, 1023, 4095, 8191],
    "BLOCKS": [132, 264, 528, 1056],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// sample[i] is the last of the first i + 1 parts of the edges, each `part` long.
template <typename T>
__global__ void search_parts(const T* x, const float* edges, int* out, int size, int count,
                             int part, int parts) {
  extern __shared__ float sample[];
  for (int i = threadIdx.x; i < parts; i += blockDim.x) sample[i] = edges[(i + 1) * part - 1];
  __syncthreads();
  for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < size; at += gridDim.x * blockDim.x) {
    const float sought = wide(x[at]);
    int low = 0, high = parts;  // sample[low - 1] < sought <= sample[high]
    while (low < high) {
      const int middle = (low + high) / 2;
      if (sample[middle] < sought) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    low *= part;
    high = min(low + part - 1, count);
    while (low < high) {
      const int middle = (low + high) / 2;
      if (edges[middle] < sought) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    out[at] = low;
  }
}

template <typename T>
void launch(const void* x, const float* edges, int* out, int size, int count, int threads,
            int sample, int blocks, cudaStream_t stream) {
  const T* x_t = static_cast<const T*>(x);
  const int part = (count + sample - 1) / sample, parts = count / part;
  search_parts<T><<<blocks, threads, 4 * parts, stream>>>(x_t, edges, out, size, count, part,
                                                          parts);
}

void run(const void* x, const float* edges, int* out, int type, int size, int count, int threads,
         int sample, int blocks, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(x, edges, out, size, count, threads, sample, blocks, stream);
      break;
    case 1:
      launch<__half>(x, edges, out, size, count, threads, sample, blocks, stream);
      break;
    default:
      launch<__nv_bfloat16>(x, edges, out, size, count, threads, sample, blocks, stream);
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
         int sample, int blocks, cudaStream_t stream);

at::Tensor bucketize(const at::Tensor& x, const at::Tensor& edges, int threads, int sample,
                     int blocks) {
  const int64_t size = x.size(0);
  const int64_t count = edges.size(0);
  at::Tensor out = at::empty_like(x, x.options().dtype(at::kInt));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  run(x.const_data_ptr(), edges.const_data_ptr<float>(), out.mutable_data_ptr<int>(), type, size,
      count, threads, sample, blocks, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_bucketize_cuda_sample_in_shared",
        BINDING,
        CUDA,
        functions=["bucketize"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """One sample too long for the edges is enough."""
    return params["SAMPLE"] == 1023 or params["SAMPLE"] < 2 * shape["EDGES"]


def kernel(x, edges, *, THREADS=256, SAMPLE=1023, BLOCKS=528):
    return extension().bucketize(x, edges, THREADS, SAMPLE, BLOCKS)
