"""CUDA C++: some threads a matrix, all of it in shared memory; a barrier a column."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.batched_cholesky.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "MATRICES": [1, 2, 4, 8],
    "THREADS": [32, 64, 128],
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

// Threads (x, y): y is the matrix of the block. Each column is scaled, then taken from those after.
template <typename T>
__global__ void cholesky_shared(const T* a, T* out, int count, int n) {
  extern __shared__ float shared[];
  const int pitch = n + 1;
  float* held = shared + threadIdx.y * n * pitch;
  const int matrix = blockIdx.x * blockDim.y + threadIdx.y;
  const bool mine = matrix < count;
  const long long start = static_cast<long long>(matrix) * n * n;
  for (int i = threadIdx.x; i < n * n; i += blockDim.x) {
    held[i / n * pitch + i % n] = mine ? wide(a[start + i]) : 1.0f;
  }
  __syncthreads();
  for (int j = 0; j < n; ++j) {
    const float root = sqrtf(held[j * pitch + j]);
    __syncthreads();
    for (int i = j + threadIdx.x; i < n; i += blockDim.x) {
      held[i * pitch + j] = i == j ? root : held[i * pitch + j] / root;
    }
    __syncthreads();
    const int left = n - j - 1;
    for (int i = threadIdx.x; i < left * left; i += blockDim.x) {
      const int r = j + 1 + i / left, c = j + 1 + i % left;
      if (c <= r) held[r * pitch + c] -= held[r * pitch + j] * held[c * pitch + j];
    }
    __syncthreads();
  }
  if (!mine) return;
  for (int i = threadIdx.x; i < n * n; i += blockDim.x) {
    put(out + start + i, i % n <= i / n ? held[i / n * pitch + i % n] : 0.0f);
  }
}

template <typename T>
void launch(const void* a, void* out, int count, int n, int matrices, int threads,
            cudaStream_t stream) {
  const dim3 block(threads, matrices);
  const int blocks = (count + matrices - 1) / matrices, bytes = 4 * matrices * n * (n + 1);
  cholesky_shared<T><<<blocks, block, bytes, stream>>>(static_cast<const T*>(a),
                                                       static_cast<T*>(out), count, n);
}

void factor(const void* a, void* out, int type, int count, int n, int matrices, int threads,
            cudaStream_t stream) {
  if (type == 0) launch<float>(a, out, count, n, matrices, threads, stream);
  if (type == 1) launch<__half>(a, out, count, n, matrices, threads, stream);
  if (type == 2) launch<__nv_bfloat16>(a, out, count, n, matrices, threads, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void factor(const void* a, void* out, int type, int count, int n, int matrices, int threads,
            cudaStream_t stream);

at::Tensor cholesky(const at::Tensor& a, int matrices, int threads) {
  at::Tensor out = at::empty_like(a);
  const int type = a.scalar_type() == at::kFloat ? 0 : a.scalar_type() == at::kHalf ? 1 : 2;
  factor(a.const_data_ptr(), out.mutable_data_ptr(), type, a.size(0), a.size(1), matrices, threads,
         c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_batched_cholesky_cuda_matrix_in_shared",
        BINDING,
        CUDA,
        functions=["cholesky"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB of shared memory; threads that a column's update keeps busy."""
    size, threads = shape["N"], params["THREADS"]
    fits = 4 * params["MATRICES"] * size * (size + 1) <= 48 * 1024
    return fits and (2 * threads <= size * size or threads == 32)


def kernel(a, *, MATRICES=4, THREADS=32):
    return extension().cholesky(a, MATRICES, THREADS)
