"""CUDA C++: a block takes a row of the pattern and keeps that row of a in shared memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.sddmm.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [32, 64, 128, 256],
    "LANES": [1, 2, 4, 8, 16, 32],
    "UNROLL": [1, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T, int UNROLL>
__global__ void dot_rows(const int* cols, const int* row_ptr, const T* a, const T* b, float* out,
                         int depth, int lanes) {
  extern __shared__ float held[];
  const int first = row_ptr[blockIdx.x], end = row_ptr[blockIdx.x + 1];
  if (first == end) return;
  const T* left = a + static_cast<long long>(blockIdx.x) * depth;
  for (int k = threadIdx.x; k < depth; k += blockDim.x) held[k] = wide(left[k]);
  __syncthreads();
  const int lane = threadIdx.x % lanes, many = blockDim.x / lanes;
  for (int start = first; start < end; start += many) {
    const int entry = start + threadIdx.x / lanes;
    float sum = 0.0f;
    if (entry < end) {
      const T* right = b + static_cast<long long>(cols[entry]) * depth;
#pragma unroll UNROLL
      for (int k = lane; k < depth; k += lanes) sum += held[k] * wide(right[k]);
    }
    for (int far = lanes / 2; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
    if (entry < end && lane == 0) out[entry] = sum;
  }
}

template <typename T, int UNROLL>
void launch(const int* cols, const int* row_ptr, const void* a, const void* b, float* out,
            int count, int pattern, int depth, int threads, int lanes, cudaStream_t stream) {
  const T* a_t = static_cast<const T*>(a);
  const T* b_t = static_cast<const T*>(b);
  dot_rows<T, UNROLL><<<pattern, threads, 4 * depth, stream>>>(cols, row_ptr, a_t, b_t, out, depth,
                                                               lanes);
}

template <typename T>
void by_unroll(const int* cols, const int* row_ptr, const void* a, const void* b, float* out,
               int count, int pattern, int depth, int threads, int lanes, int unroll,
               cudaStream_t stream) {
  if (unroll == 1) {
    launch<T, 1>(cols, row_ptr, a, b, out, count, pattern, depth, threads, lanes, stream);
  } else {
    launch<T, 4>(cols, row_ptr, a, b, out, count, pattern, depth, threads, lanes, stream);
  }
}

void run(const int* cols, const int* row_ptr, const void* a, const void* b, float* out, int type,
         int count, int pattern, int depth, int threads, int lanes, int unroll,
         cudaStream_t stream) {
  switch (type) {
    case 0:
      by_unroll<float>(cols, row_ptr, a, b, out, count, pattern, depth, threads, lanes, unroll,
                       stream);
      break;
    case 1:
      by_unroll<__half>(cols, row_ptr, a, b, out, count, pattern, depth, threads, lanes, unroll,
                        stream);
      break;
    default:
      by_unroll<__nv_bfloat16>(cols, row_ptr, a, b, out, count, pattern, depth, threads, lanes,
                               unroll, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const int* cols, const int* row_ptr, const void* a, const void* b, float* out, int type,
         int count, int pattern, int depth, int threads, int lanes, int unroll,
         cudaStream_t stream);

at::Tensor sddmm(const at::Tensor& cols, const at::Tensor& row_ptr, const at::Tensor& a,
                 const at::Tensor& b, int threads, int lanes, int unroll) {
  const int64_t count = cols.size(0);
  const int64_t pattern = row_ptr.size(0) - 1;
  const int64_t depth = a.size(1);
  at::Tensor out = at::empty({count}, a.options().dtype(at::kFloat));
  const int type = a.scalar_type() == at::kFloat ? 0 : a.scalar_type() == at::kHalf ? 1 : 2;
  run(cols.const_data_ptr<int>(), row_ptr.const_data_ptr<int>(), a.const_data_ptr(),
      b.const_data_ptr(), out.mutable_data_ptr<float>(), type, count, pattern, depth, threads,
      lanes, unroll, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_sddmm_cuda_row_in_shared",
        BINDING,
        CUDA,
        functions=["sddmm"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """One to 128 numbers a lane."""
    return params["LANES"] <= shape["K"] <= 128 * params["LANES"]


def kernel(rows, cols, row_ptr, a, b, *, THREADS=64, LANES=16, UNROLL=4):
    return extension().sddmm(cols, row_ptr, a, b, THREADS, LANES, UNROLL)
