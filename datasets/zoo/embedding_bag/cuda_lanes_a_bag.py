"""CUDA C++: some lanes take a bag and EACH columns apiece; members one after the other."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.embedding_bag.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "LANES": [4, 8, 16, 32, 64],
    "EACH": [1, 2, 4, 8],
    "THREADS": [64, 128, 256, 512],
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

template <typename T, int EACH> struct alignas(sizeof(T) * EACH) Pack { T values[EACH]; };

// Packs divide rows; lanes go round a wide row in turns, each over all members of the bag.
template <typename T, int EACH>
__global__ void bag_lanes(const T* table, const int* index, const float* weights,
                          const int* offsets, T* out, int bags, int columns, int lanes) {
  const int bag = (blockIdx.x * blockDim.x + threadIdx.x) / lanes;
  if (bag >= bags) return;
  const int first = offsets[bag], end = offsets[bag + 1];
  for (int c = threadIdx.x % lanes * EACH; c < columns; c += lanes * EACH) {
    float sum[EACH] = {};
#pragma unroll 2
    for (int i = first; i < end; ++i) {
      const T* from = table + static_cast<long long>(index[i]) * columns + c;
      const Pack<T, EACH> pack = *reinterpret_cast<const Pack<T, EACH>*>(from);
      const float weight = weights[i];
#pragma unroll
      for (int e = 0; e < EACH; ++e) sum[e] += weight * wide(pack.values[e]);
    }
    T* to = out + static_cast<long long>(bag) * columns + c;
#pragma unroll
    for (int e = 0; e < EACH; ++e) put(to + e, sum[e]);
  }
}

template <typename T, int EACH>
void launch(const void* table, const int* index, const float* weights, const int* offsets,
            void* out, int bags, int columns, int lanes, int threads, cudaStream_t stream) {
  const T* table_t = static_cast<const T*>(table);
  T* out_t = static_cast<T*>(out);
  const int per_block = threads / lanes, blocks = (bags + per_block - 1) / per_block;
  bag_lanes<T, EACH><<<blocks, threads, 0, stream>>>(table_t, index, weights, offsets, out_t, bags,
                                                     columns, lanes);
}

template <typename T>
void by_each(const void* table, const int* index, const float* weights, const int* offsets,
             void* out, int bags, int columns, int lanes, int each, int threads,
             cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(table, index, weights, offsets, out, bags, columns, lanes, threads, stream);
  } else if (each == 2) {
    launch<T, 2>(table, index, weights, offsets, out, bags, columns, lanes, threads, stream);
  } else if (each == 4) {
    launch<T, 4>(table, index, weights, offsets, out, bags, columns, lanes, threads, stream);
  } else {
    launch<T, 8>(table, index, weights, offsets, out, bags, columns, lanes, threads, stream);
  }
}

void run(const void* table, const int* index, const float* weights, const int* offsets, void* out,
         int type, int bags, int columns, int lanes, int each, int threads, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(table, index, weights, offsets, out, bags, columns, lanes, each, threads,
                     stream);
      break;
    case 1:
      by_each<__half>(table, index, weights, offsets, out, bags, columns, lanes, each, threads,
                      stream);
      break;
    default:
      by_each<__nv_bfloat16>(table, index, weights, offsets, out, bags, columns, lanes, each,
                             threads, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* table, const int* index, const float* weights, const int* offsets, void* out,
         int type, int bags, int columns, int lanes, int each, int threads, cudaStream_t stream);

at::Tensor embedding_bag(const at::Tensor& table, const at::Tensor& index,
                         const at::Tensor& weights, const at::Tensor& offsets, int lanes,
                         int each, int threads) {
  const int64_t bags = offsets.size(0) - 1;
  const int64_t columns = table.size(1);
  at::Tensor out = at::empty({bags, columns}, table.options());
  const auto kind = table.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(table.const_data_ptr(), index.const_data_ptr<int>(), weights.const_data_ptr<float>(),
      offsets.const_data_ptr<int>(), out.mutable_data_ptr(), type, bags, columns, lanes, each,
      threads, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_embedding_bag_cuda_lanes_a_bag",
        BINDING,
        CUDA,
        functions=["embedding_bag"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Packs of at most 16 bytes divide rows; lanes go round at most 64 times."""
    each, columns = params["EACH"], shape["D"]
    turns = columns / (each * params["LANES"])
    wide = each * (4 if "float32" in str(shape["dtype"]) else 2) > 16
    return columns % each == 0 and not wide and 0.5 < turns <= 64


def kernel(table, index, weights, offsets, *, LANES=16, EACH=1, THREADS=128):
    return extension().embedding_bag(table, index, weights, offsets, LANES, EACH, THREADS)
