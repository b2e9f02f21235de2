"""CUDA C++: a lane holds a row in registers; columns go round by shuffles."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.batched_cholesky.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8],
    "STAGED": [False, True],
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

// Lane i has row i. Column by column, every lane subtracts what the column gives to its row. With
// STAGED the matrix goes through shared memory, so that memory is read and written in sequence.
template <typename T, int N, bool STAGED, bool FAST>
__global__ void cholesky_warps(const T* a, T* out, int count) {
  __shared__ float staged[STAGED ? 8 : 1][STAGED ? N * (N + 1) : 1];
  const int lane = threadIdx.x % 32, mine = threadIdx.x / 32;
  const int matrix = blockIdx.x * (blockDim.x / 32) + mine;
  if (matrix >= count) return;
  const T* from = a + static_cast<long long>(matrix) * N * N;
  T* to = out + static_cast<long long>(matrix) * N * N;
  float row[N];
  if (STAGED) {
    for (int i = lane; i < N * N; i += 32) staged[mine][i / N * (N + 1) + i % N] = wide(from[i]);
    __syncwarp();
  }
#pragma unroll
  for (int k = 0; k < N; ++k) {
    row[k] = 0.0f;
    if (lane < N) row[k] = STAGED ? staged[mine][lane * (N + 1) + k] : wide(from[lane * N + k]);
  }
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float diagonal = __shfl_sync(0xffffffffu, row[j], j);
    const float scaled = FAST ? row[j] * rsqrtf(diagonal) : row[j] / sqrtf(diagonal);
    row[j] = lane >= j ? scaled : 0.0f;
#pragma unroll
    for (int k = j + 1; k < N; ++k) row[k] -= row[j] * __shfl_sync(0xffffffffu, row[j], k);
  }
  if (STAGED) {
    __syncwarp();
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (lane < N) staged[mine][lane * (N + 1) + k] = row[k];
    }
    __syncwarp();
    for (int i = lane; i < N * N; i += 32) put(to + i, staged[mine][i / N * (N + 1) + i % N]);
  } else if (lane < N) {
#pragma unroll
    for (int k = 0; k < N; ++k) put(to + lane * N + k, row[k]);
  }
}

template <typename T, int N>
void launch(const void* a, void* out, int count, int warps, bool staged, bool fast,
            cudaStream_t stream) {
  const T* from = static_cast<const T*>(a);
  T* to = static_cast<T*>(out);
  const int blocks = (count + warps - 1) / warps, threads = 32 * warps;
  if (staged && fast) {
    cholesky_warps<T, N, true, true><<<blocks, threads, 0, stream>>>(from, to, count);
  } else if (staged) {
    cholesky_warps<T, N, true, false><<<blocks, threads, 0, stream>>>(from, to, count);
  } else if (fast) {
    cholesky_warps<T, N, false, true><<<blocks, threads, 0, stream>>>(from, to, count);
  } else {
    cholesky_warps<T, N, false, false><<<blocks, threads, 0, stream>>>(from, to, count);
  }
}

void factor(const void* a, void* out, int type, int count, int size, int warps, bool staged,
            bool fast, cudaStream_t stream) {
  if (type == 0) {
    if (size == 8) launch<float, 8>(a, out, count, warps, staged, fast, stream);
    if (size == 13) launch<float, 13>(a, out, count, warps, staged, fast, stream);
    if (size == 16) launch<float, 16>(a, out, count, warps, staged, fast, stream);
    if (size == 31) launch<float, 31>(a, out, count, warps, staged, fast, stream);
    if (size == 32) launch<float, 32>(a, out, count, warps, staged, fast, stream);
  }
  if (type == 1) launch<__half, 24>(a, out, count, warps, staged, fast, stream);
  if (type == 2) launch<__nv_bfloat16, 16>(a, out, count, warps, staged, fast, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void factor(const void* a, void* out, int type, int count, int size, int warps, bool staged,
            bool fast, cudaStream_t stream);

at::Tensor cholesky(const at::Tensor& a, int warps, bool staged, bool fast) {
  at::Tensor out = at::empty_like(a);
  const int type = a.scalar_type() == at::kFloat ? 0 : a.scalar_type() == at::kHalf ? 1 : 2;
  factor(a.const_data_ptr(), out.mutable_data_ptr(), type, a.size(0), a.size(1), warps, staged,
         fast, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_batched_cholesky_cuda_warp_a_matrix",
        BINDING,
        CUDA,
        functions=["cholesky"],
        no_implicit_headers=True,
    )


INSTANCES = {"float32": (8, 13, 16, 31, 32), "float16": (24,), "bfloat16": (16,)}


def valid(params, shape):
    """Sizes that have an instance; at most 48 KiB, which needs no opting in."""
    name = str(shape["dtype"]).removeprefix("torch.")
    return shape["N"] in INSTANCES[name]


def kernel(a, *, WARPS=4, STAGED=True, FAST=True):
    return extension().cholesky(a, WARPS, STAGED, FAST)
