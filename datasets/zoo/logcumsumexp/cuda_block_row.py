"""CUDA C++: a block a row in chunks; pairs of a maximum and a sum are scanned by shuffles."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.logcumsumexp.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8, 16],
    "EACH": [2, 4, 8],
    "FAST": [False, True],
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

struct Pair {
  float peak, sum;
};

__device__ float raised(float x, bool fast) { return fast ? __expf(x) : expf(x); }

__device__ Pair join(Pair a, Pair b, bool fast) {
  const float peak = fmaxf(a.peak, b.peak);
  return {peak, a.sum * raised(a.peak - peak, fast) + b.sum * raised(b.peak - peak, fast)};
}

template <typename T, int EACH>
__global__ void logcumsumexp_row(const T* x, T* out, int columns, bool fast) {
  __shared__ Pair shared[32];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32;
  const T* from = x + static_cast<long long>(blockIdx.x) * columns;
  T* to = out + static_cast<long long>(blockIdx.x) * columns;
  Pair carry = {-1e30f, 0.0f};
  for (int start = 0; start < columns; start += blockDim.x * EACH) {
    const int first = start + t * EACH;
    float held[EACH];
    float peak = -1e30f;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      held[i] = first + i < columns ? wide(from[first + i]) : -1e30f;
      peak = fmaxf(peak, held[i]);
    }
    // Within a thread: sums of exponentials, all relative to the thread's own maximum.
    Pair mine = {peak, 0.0f};
#pragma unroll
    for (int i = 0; i < EACH; ++i) mine.sum += raised(held[i] - peak, fast);
#pragma unroll
    for (int far = 1; far < 32; far *= 2) {
      const Pair before = {__shfl_up_sync(0xffffffff, mine.peak, far),
                           __shfl_up_sync(0xffffffff, mine.sum, far)};
      if (lane >= far) mine = join(before, mine, fast);
    }
    __syncthreads();  // the pairs of the chunk before have been read
    if (lane == 31) shared[warp] = mine;
    __syncthreads();
    Pair before = carry;
    for (int i = 0; i < warps; ++i) {
      if (i == warp) before = carry;
      carry = join(carry, shared[i], fast);
    }
    const Pair left = {__shfl_up_sync(0xffffffff, mine.peak, 1),
                       __shfl_up_sync(0xffffffff, mine.sum, 1)};
    if (lane > 0) before = join(before, left, fast);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      before = join(before, {held[i], 1.0f}, fast);
      if (first + i < columns) put(to + first + i, before.peak + logf(before.sum));
    }
  }
}

template <typename T>
void launch(const void* x, void* out, int rows, int columns, int threads, int each, bool fast,
            cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  if (each == 2) logcumsumexp_row<T, 2><<<rows, threads, 0, stream>>>(from, to, columns, fast);
  if (each == 4) logcumsumexp_row<T, 4><<<rows, threads, 0, stream>>>(from, to, columns, fast);
  if (each == 8) logcumsumexp_row<T, 8><<<rows, threads, 0, stream>>>(from, to, columns, fast);
}

void scan_rows(const void* x, void* out, int type, int rows, int columns, int threads, int each,
               bool fast, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, rows, columns, threads, each, fast, stream);
  if (type == 1) launch<__half>(x, out, rows, columns, threads, each, fast, stream);
  if (type == 2) launch<__nv_bfloat16>(x, out, rows, columns, threads, each, fast, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void scan_rows(const void* x, void* out, int type, int rows, int columns, int threads, int each,
               bool fast, cudaStream_t stream);

at::Tensor logcumsumexp(const at::Tensor& x, int threads, int each, bool fast) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  scan_rows(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), threads, each,
            fast, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_logcumsumexp_cuda_block_row",
        BINDING,
        CUDA,
        functions=["logcumsumexp"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No chunk far longer than a row, no more than 2,048 chunks."""
    chunk = 32 * params["WARPS"] * params["EACH"]
    return chunk < 2 * shape["N"] and shape["N"] <= 2048 * chunk


def kernel(x, *, WARPS=4, EACH=4, FAST=False):
    return extension().logcumsumexp(x, 32 * WARPS, EACH, FAST)
