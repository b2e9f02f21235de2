"""CUDA C++: a row lies in shared memory; each step takes pairs further apart."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.walsh_hadamard.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [32, 64, 128, 256, 512, 1024],
    "ROWS": [1, 2, 4],
    "RADIX": [2, 4],
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

// ROWS rows a block, each by its own threads. With RADIX 4, two steps share a pass and a barrier.
template <typename T, int RADIX>
__global__ void hadamard_shared(const T* x, T* out, int rows, int columns, float scale) {
  extern __shared__ float shared[];
  float* held = shared + threadIdx.y * columns;
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool mine = row < rows;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    held[i] = mine ? wide(x[row * columns + i]) : 0.0f;
  }
  int apart = 1;
  if (RADIX == 4) {
    for (; 4 * apart <= columns; apart *= 4) {
      __syncthreads();
      for (int i = threadIdx.x; i < columns / 4; i += blockDim.x) {
        float* at = held + (i / apart) * 4 * apart + i % apart;
        const float a = at[0], b = at[apart], c = at[2 * apart], d = at[3 * apart];
        at[0] = a + b + c + d;
        at[apart] = a - b + c - d;
        at[2 * apart] = a + b - c - d;
        at[3 * apart] = a - b - c + d;
      }
    }
  }
  for (; apart < columns; apart *= 2) {
    __syncthreads();
    for (int i = threadIdx.x; i < columns / 2; i += blockDim.x) {
      float* at = held + (i / apart) * 2 * apart + i % apart;
      const float a = at[0], b = at[apart];
      at[0] = a + b;
      at[apart] = a - b;
    }
  }
  __syncthreads();
  if (!mine) return;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    put(out + row * columns + i, held[i] * scale);
  }
}

template <typename T>
void launch(const void* x, void* out, int rows, int columns, int threads, int each, int radix,
            float scale, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const dim3 block(threads, each);
  const int blocks = (rows + each - 1) / each, bytes = 4 * each * columns;
  if (radix == 2) {
    hadamard_shared<T, 2><<<blocks, block, bytes, stream>>>(from, to, rows, columns, scale);
  } else {
    hadamard_shared<T, 4><<<blocks, block, bytes, stream>>>(from, to, rows, columns, scale);
  }
}

void transform(const void* x, void* out, int type, int rows, int columns, int threads, int each,
               int radix, float scale, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, rows, columns, threads, each, radix, scale, stream);
  if (type == 1) launch<__half>(x, out, rows, columns, threads, each, radix, scale, stream);
  if (type == 2) launch<__nv_bfloat16>(x, out, rows, columns, threads, each, radix, scale, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void transform(const void* x, void* out, int type, int rows, int columns, int threads, int each,
               int radix, float scale, cudaStream_t stream);

at::Tensor walsh_hadamard(const at::Tensor& x, int threads, int each, int radix, double scale) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  transform(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), threads, each,
            radix, scale, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_walsh_hadamard_cuda_shared_steps",
        BINDING,
        CUDA,
        functions=["walsh_hadamard"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB and 1,024 threads; one to 32 elements a thread."""
    wide, threads, rows = shape["N"], params["THREADS"], params["ROWS"]
    fits = 4 * rows * wide <= 48 * 1024 and rows * threads <= 1024
    return fits and (threads <= wide // params["RADIX"] or threads == 32) and wide <= 256 * threads


def kernel(x, *, THREADS=32, ROWS=1, RADIX=4):
    return extension().walsh_hadamard(x, THREADS, ROWS, RADIX, x.shape[1] ** -0.5)
