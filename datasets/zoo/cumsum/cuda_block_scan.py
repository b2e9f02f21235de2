"""CUDA C++: a block a row in chunks: a thread's few, then warps by shuffles, then a carry."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8, 16, 32],
    "EACH": [1, 2, 4, 8, 16],
    "STAGED": [False, True],
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

__device__ float scan_warp(float x) {
  const int lane = threadIdx.x % 32;
  for (int far = 1; far < 32; far *= 2) {
    const float before = __shfl_up_sync(0xffffffff, x, far);
    if (lane >= far) x += before;
  }
  return x;
}

// `staged`: chunks pass through shared memory, so that neighbours in a warp read neighbours in
// memory although a thread sums EACH in a row.
template <typename T, int EACH>
__global__ void cumsum_row(const T* x, T* out, int columns, bool staged) {
  extern __shared__ float chunk[];
  __shared__ float sums[32];
  const int t = threadIdx.x, threads = blockDim.x, warp = t / 32, warps = threads / 32;
  const T* from = x + static_cast<long long>(blockIdx.x) * columns;
  T* to = out + static_cast<long long>(blockIdx.x) * columns;
  float carry = 0.0f;
  for (int start = 0; start < columns; start += threads * EACH) {
    float held[EACH];
    if (staged) {
      __syncthreads();  // the chunk before has been written
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        const int at = i * threads + t;
        chunk[at] = start + at < columns ? wide(from[start + at]) : 0.0f;
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int at = t * EACH + i;
      const bool inside = start + at < columns;
      held[i] = staged ? chunk[at] : inside ? wide(from[start + at]) : 0.0f;
      if (i > 0) held[i] += held[i - 1];
    }
    const float mine = scan_warp(held[EACH - 1]);
    __syncthreads();  // the sums of the chunk before have been read
    if (t % 32 == 31) sums[warp] = mine;
    __syncthreads();
    float before = carry + mine - held[EACH - 1];
    for (int i = 0; i < warps; ++i) {
      if (i < warp) before += sums[i];
      carry += sums[i];
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int at = t * EACH + i;
      if (staged) {
        chunk[at] = before + held[i];
      } else if (start + at < columns) {
        put(to + start + at, before + held[i]);
      }
    }
    if (!staged) continue;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int at = i * threads + t;
      if (start + at < columns) put(to + start + at, chunk[at]);
    }
  }
}

template <typename T>
void launch(const void* x, void* out, int rows, int columns, int warps, int each, bool staged,
            cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int threads = 32 * warps, shared = staged ? threads * each * 4 : 0;
  switch (each) {
    case 1:
      cumsum_row<T, 1><<<rows, threads, shared, stream>>>(from, to, columns, staged);
      break;
    case 2:
      cumsum_row<T, 2><<<rows, threads, shared, stream>>>(from, to, columns, staged);
      break;
    case 4:
      cumsum_row<T, 4><<<rows, threads, shared, stream>>>(from, to, columns, staged);
      break;
    case 8:
      cumsum_row<T, 8><<<rows, threads, shared, stream>>>(from, to, columns, staged);
      break;
    default:
      cumsum_row<T, 16><<<rows, threads, shared, stream>>>(from, to, columns, staged);
  }
}

void scan_rows(const void* x, void* out, int type, int rows, int columns, int warps, int each,
               bool staged, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, rows, columns, warps, each, staged, stream);
  if (type == 1) launch<__half>(x, out, rows, columns, warps, each, staged, stream);
  if (type == 2) launch<__nv_bfloat16>(x, out, rows, columns, warps, each, staged, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void scan_rows(const void* x, void* out, int type, int rows, int columns, int warps, int each,
               bool staged, cudaStream_t stream);

at::Tensor cumsum(const at::Tensor& x, int warps, int each, bool staged) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  scan_rows(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), warps, each,
            staged, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_cumsum_cuda_block_scan",
        BINDING,
        CUDA,
        functions=["cumsum"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB, no chunk far longer than a row, no more than 1,024 chunks."""
    chunk = 32 * params["WARPS"] * params["EACH"]
    fits = 4 * chunk <= 48 * 1024 - 128 or not params["STAGED"]
    return fits and chunk < 2 * shape["N"] and shape["N"] <= 1024 * chunk


def kernel(x, *, WARPS=4, EACH=4, STAGED=True):
    return extension().cumsum(x, WARPS, EACH, STAGED)
