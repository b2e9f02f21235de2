"""CUDA C++: packs by strides and several sums a thread; one block folds what all have found."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.vector_dot_large.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [128, 256, 512],
    "BLOCKS": [132, 528, 1056],
    "VECTOR": [1, 4, 8],
    "SUMS": [1, 2, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

__device__ float add_block(float mine) {
  __shared__ float shared[32];
  for (int far = 16; far > 0; far /= 2) mine += __shfl_xor_sync(0xffffffff, mine, far);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
  __syncthreads();
  float all = 0.0f;
  for (int w = 0; w < blockDim.x / 32; ++w) all += shared[w];
  return all;
}

template <typename T, int V, int SUMS>
__global__ void dot_parts(const T* x, const T* y, float* parts, int size) {
  const Pack<T, V>* packs_x = reinterpret_cast<const Pack<T, V>*>(x);
  const Pack<T, V>* packs_y = reinterpret_cast<const Pack<T, V>*>(y);
  const int packs = size / V, step = gridDim.x * blockDim.x;
  const int first = blockIdx.x * blockDim.x + threadIdx.x;
  float sum[SUMS] = {};
  for (int p = first; p < packs; p += step * SUMS) {
#pragma unroll
    for (int s = 0; s < SUMS; ++s) {
      if (p + s * step < packs) {
        const Pack<T, V> a = packs_x[p + s * step], b = packs_y[p + s * step];
#pragma unroll
        for (int i = 0; i < V; ++i) sum[s] += wide(a.values[i]) * wide(b.values[i]);
      }
    }
  }
  if (first < size % V) sum[0] += wide(x[size - 1 - first]) * wide(y[size - 1 - first]);
#pragma unroll
  for (int s = 1; s < SUMS; ++s) sum[0] += sum[s];
  const float all = add_block(sum[0]);
  if (threadIdx.x == 0) parts[blockIdx.x] = all;
}

__global__ void fold_parts(const float* parts, float* out, int count) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += parts[i];
  const float all = add_block(sum);
  if (threadIdx.x == 0) out[0] = all;
}

template <typename T, int V>
void launch(const T* x, const T* y, float* parts, int size, int threads, int blocks, int sums,
            cudaStream_t stream) {
  if (sums == 1) dot_parts<T, V, 1><<<blocks, threads, 0, stream>>>(x, y, parts, size);
  if (sums == 2) dot_parts<T, V, 2><<<blocks, threads, 0, stream>>>(x, y, parts, size);
  if (sums == 4) dot_parts<T, V, 4><<<blocks, threads, 0, stream>>>(x, y, parts, size);
}

template <typename T>
void launch_any(const void* x, const void* y, float* parts, int size, int threads, int blocks,
                int vector, int sums, cudaStream_t stream) {
  const T* a = static_cast<const T*>(x);
  const T* b = static_cast<const T*>(y);
  if (vector == 1) launch<T, 1>(a, b, parts, size, threads, blocks, sums, stream);
  if (vector == 4) launch<T, 4>(a, b, parts, size, threads, blocks, sums, stream);
  if (vector == 8) launch<T, 8>(a, b, parts, size, threads, blocks, sums, stream);
}

void dot_any(const void* x, const void* y, float* parts, float* out, int type, int size,
             int threads, int blocks, int vector, int sums, cudaStream_t stream) {
  if (type == 0) {
    launch_any<float>(x, y, parts, size, threads, blocks, vector, sums, stream);
  } else if (type == 1) {
    launch_any<__half>(x, y, parts, size, threads, blocks, vector, sums, stream);
  } else {
    launch_any<__nv_bfloat16>(x, y, parts, size, threads, blocks, vector, sums, stream);
  }
  fold_parts<<<1, 256, 0, stream>>>(parts, out, blocks);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void dot_any(const void* x, const void* y, float* parts, float* out, int type, int size,
             int threads, int blocks, int vector, int sums, cudaStream_t stream);

at::Tensor dot(const at::Tensor& x, const at::Tensor& y, int threads, int blocks, int vector,
               int sums) {
  at::Tensor parts = at::empty({blocks}, x.options().dtype(at::kFloat));
  at::Tensor out = at::empty({1}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  dot_any(x.const_data_ptr(), y.const_data_ptr(), parts.mutable_data_ptr<float>(),
          out.mutable_data_ptr<float>(), type, x.numel(), threads, blocks, vector, sums,
          c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_vector_dot_large_cuda_two_launches",
        BINDING,
        CUDA,
        functions=["dot"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """A pack a thread."""
    return params["THREADS"] * params["BLOCKS"] * params["VECTOR"] <= shape["N"]


def kernel(x, y, *, THREADS=256, BLOCKS=528, VECTOR=4, SUMS=4):
    return extension().dot(x, y, THREADS, BLOCKS, VECTOR, SUMS)
