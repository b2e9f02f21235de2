"""CUDA C++: both matrices in shared memory, threads along the results of one after another."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.batched_matmul_tiny.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "MATRICES": [1, 2, 4, 8, 16],
    "THREADS": [32, 64, 128, 256],
    "PADDED": [False, True],
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

// Threads (x, y): y is the pair of the block.
template <typename T>
__global__ void multiply_elements(const T* x, const T* y, T* out, int count, int n, int pitch) {
  extern __shared__ float shared[];
  float* xs = shared + threadIdx.y * 2 * n * pitch;
  float* ys = xs + n * pitch;
  const int pair = blockIdx.x * blockDim.y + threadIdx.y;
  const long long start = static_cast<long long>(pair) * n * n;
  if (pair < count) {
    for (int i = threadIdx.x; i < n * n; i += blockDim.x) {
      const int at = i / n * pitch + i % n;
      xs[at] = wide(x[start + i]);
      ys[at] = wide(y[start + i]);
    }
  }
  __syncthreads();
  if (pair >= count) return;
  for (int i = threadIdx.x; i < n * n; i += blockDim.x) {
    const float* row = xs + i / n * pitch;
    const float* column = ys + i % n;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum += row[k] * column[k * pitch];
    put(out + start + i, sum);
  }
}

template <typename T>
void launch(const void* x, const void* y, void* out, int count, int n, int matrices, int threads,
            bool padded, cudaStream_t stream) {
  const dim3 block(threads, matrices);
  const int pitch = padded ? n + 1 : n;
  const int blocks = (count + matrices - 1) / matrices, bytes = 8 * matrices * n * pitch;
  multiply_elements<T><<<blocks, block, bytes, stream>>>(
      static_cast<const T*>(x), static_cast<const T*>(y), static_cast<T*>(out), count, n, pitch);
}

void multiply(const void* x, const void* y, void* out, int type, int count, int n, int matrices,
              int threads, bool padded, cudaStream_t stream) {
  if (type == 0) launch<float>(x, y, out, count, n, matrices, threads, padded, stream);
  if (type == 1) launch<__half>(x, y, out, count, n, matrices, threads, padded, stream);
  if (type == 2) launch<__nv_bfloat16>(x, y, out, count, n, matrices, threads, padded, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void multiply(const void* x, const void* y, void* out, int type, int count, int n, int matrices,
              int threads, bool padded, cudaStream_t stream);

at::Tensor matmul_tiny(const at::Tensor& x, const at::Tensor& y, int matrices, int threads,
                       bool padded) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  multiply(x.const_data_ptr(), y.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0),
           x.size(1), matrices, threads, padded, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_batched_matmul_tiny_cuda_element_a_thread",
        BINDING,
        CUDA,
        functions=["matmul_tiny"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """64 to 512 threads, few of them idle, and at most 48 KiB, which needs no opting in."""
    size, threads, matrices = shape["N"], params["THREADS"], params["MATRICES"]
    fits = 8 * matrices * size * (size + 1) <= 48 * 1024
    busy = threads <= size * size or threads == 64
    return fits and busy and 64 <= threads * matrices <= 512


def kernel(x, y, *, MATRICES=4, THREADS=64, PADDED=False):
    return extension().matmul_tiny(x, y, MATRICES, THREADS, PADDED)
