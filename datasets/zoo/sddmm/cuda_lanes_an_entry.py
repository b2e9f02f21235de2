"""CUDA C++: some lanes take an entry, EACH numbers of both rows at a time; shuffles add up."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.sddmm.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "LANES": [1, 2, 4, 8, 16, 32],
    "EACH": [1, 2, 4],
    "THREADS": [64, 128, 256, 512],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T, int EACH> struct alignas(sizeof(T) * EACH) Pack { T values[EACH]; };

// Packs divide rows.
template <typename T, int EACH>
__global__ void dot_entries(const int* rows, const int* cols, const T* a, const T* b, float* out,
                            int count, int depth, int lanes) {
  const int entry = (blockIdx.x * blockDim.x + threadIdx.x) / lanes, lane = threadIdx.x % lanes;
  float sum = 0.0f;
  if (entry < count) {
    const T* left = a + static_cast<long long>(rows[entry]) * depth;
    const T* right = b + static_cast<long long>(cols[entry]) * depth;
#pragma unroll 2
    for (int k = lane * EACH; k < depth; k += lanes * EACH) {
      const Pack<T, EACH> one = *reinterpret_cast<const Pack<T, EACH>*>(left + k);
      const Pack<T, EACH> other = *reinterpret_cast<const Pack<T, EACH>*>(right + k);
#pragma unroll
      for (int e = 0; e < EACH; ++e) sum += wide(one.values[e]) * wide(other.values[e]);
    }
  }
  for (int far = lanes / 2; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
  if (entry < count && lane == 0) out[entry] = sum;
}

template <typename T, int EACH>
void launch(const int* rows, const int* cols, const void* a, const void* b, float* out, int count,
            int depth, int lanes, int threads, cudaStream_t stream) {
  const T* a_t = static_cast<const T*>(a);
  const T* b_t = static_cast<const T*>(b);
  const int per_block = threads / lanes, blocks = (count + per_block - 1) / per_block;
  dot_entries<T, EACH><<<blocks, threads, 0, stream>>>(rows, cols, a_t, b_t, out, count, depth,
                                                       lanes);
}

template <typename T>
void by_each(const int* rows, const int* cols, const void* a, const void* b, float* out,
             int count, int depth, int lanes, int each, int threads, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(rows, cols, a, b, out, count, depth, lanes, threads, stream);
  } else if (each == 2) {
    launch<T, 2>(rows, cols, a, b, out, count, depth, lanes, threads, stream);
  } else {
    launch<T, 4>(rows, cols, a, b, out, count, depth, lanes, threads, stream);
  }
}

void run(const int* rows, const int* cols, const void* a, const void* b, float* out, int type,
         int count, int depth, int lanes, int each, int threads, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(rows, cols, a, b, out, count, depth, lanes, each, threads, stream);
      break;
    case 1:
      by_each<__half>(rows, cols, a, b, out, count, depth, lanes, each, threads, stream);
      break;
    default:
      by_each<__nv_bfloat16>(rows, cols, a, b, out, count, depth, lanes, each, threads, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const int* rows, const int* cols, const void* a, const void* b, float* out, int type,
         int count, int depth, int lanes, int each, int threads, cudaStream_t stream);

at::Tensor sddmm(const at::Tensor& rows, const at::Tensor& cols, const at::Tensor& a,
                 const at::Tensor& b, int lanes, int each, int threads) {
  const int64_t count = cols.size(0);
  const int64_t depth = a.size(1);
  at::Tensor out = at::empty({count}, a.options().dtype(at::kFloat));
  const int type = a.scalar_type() == at::kFloat ? 0 : a.scalar_type() == at::kHalf ? 1 : 2;
  run(rows.const_data_ptr<int>(), cols.const_data_ptr<int>(), a.const_data_ptr(),
      b.const_data_ptr(), out.mutable_data_ptr<float>(), type, count, depth, lanes, each, threads,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_sddmm_cuda_lanes_an_entry",
        BINDING,
        CUDA,
        functions=["sddmm"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Packs divide rows; one to 64 packs a lane."""
    packs = shape["K"] / params["EACH"]
    return packs % 1 == 0 and params["LANES"] <= packs <= 64 * params["LANES"]


def kernel(rows, cols, row_ptr, a, b, *, LANES=16, EACH=1, THREADS=128):
    return extension().sddmm(rows, cols, a, b, LANES, EACH, THREADS)
