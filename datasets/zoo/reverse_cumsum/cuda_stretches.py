"""CUDA C++: a thread a column and stretch of steps; sums meet in shared memory, then a rescan."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.reverse_cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS_X": [16, 32, 64],
    "THREADS_Y": [4, 8, 16, 32],
    "UNROLL": [1, 4, 8],
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

template <typename T, int UNROLL>
__global__ void sum_later(const T* x, T* out, int steps, int columns, int each) {
  extern __shared__ float sums[];
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const long long base = static_cast<long long>(blockIdx.y) * steps * columns + column;
  const int first = threadIdx.y * each;
  const int end = first + each < steps ? first + each : steps;
  const bool inside = column < columns;
  float sum = 0.0f;
  if (inside) {
#pragma unroll UNROLL
    for (int t = first; t < end; ++t) {
      sum += wide(x[base + static_cast<long long>(t) * columns]);
    }
  }
  sums[threadIdx.y * blockDim.x + threadIdx.x] = sum;
  __syncthreads();
  if (!inside) return;
  sum = 0.0f;
  for (int y = threadIdx.y + 1; y < blockDim.y; ++y) sum += sums[y * blockDim.x + threadIdx.x];
#pragma unroll UNROLL
  for (int t = end - 1; t >= first; --t) {
    const long long at = base + static_cast<long long>(t) * columns;
    sum += wide(x[at]);
    put(out + at, sum);
  }
}

template <typename T>
void launch(const void* x, void* out, int batch, int steps, int columns, int threads_x,
            int threads_y, int unroll, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const dim3 grid((columns + threads_x - 1) / threads_x, batch), block(threads_x, threads_y);
  const int shared = threads_x * threads_y * 4, each = (steps + threads_y - 1) / threads_y;
  if (unroll == 1) sum_later<T, 1><<<grid, block, shared, stream>>>(from, to, steps, columns, each);
  if (unroll == 4) sum_later<T, 4><<<grid, block, shared, stream>>>(from, to, steps, columns, each);
  if (unroll == 8) sum_later<T, 8><<<grid, block, shared, stream>>>(from, to, steps, columns, each);
}

void sum_columns(const void* x, void* out, int type, int batch, int steps, int columns,
                 int threads_x, int threads_y, int unroll, cudaStream_t stream) {
  if (type == 0) {
    launch<float>(x, out, batch, steps, columns, threads_x, threads_y, unroll, stream);
  }
  if (type == 1) {
    launch<__half>(x, out, batch, steps, columns, threads_x, threads_y, unroll, stream);
  }
  if (type == 2) {
    launch<__nv_bfloat16>(x, out, batch, steps, columns, threads_x, threads_y, unroll, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void sum_columns(const void* x, void* out, int type, int batch, int steps, int columns,
                 int threads_x, int threads_y, int unroll, cudaStream_t stream);

at::Tensor reverse_cumsum(const at::Tensor& x, int threads_x, int threads_y, int unroll) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  sum_columns(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), x.size(2),
              threads_x, threads_y, unroll, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_reverse_cumsum_cuda_stretches",
        BINDING,
        CUDA,
        functions=["reverse_cumsum"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 1,024 threads and 8,192 steps a thread; no band far wider than a row."""
    x, y = params["THREADS_X"], params["THREADS_Y"]
    return x * y <= 1024 and x < 2 * shape["C"] and y <= shape["T"] <= 8192 * y


def kernel(x, *, THREADS_X=32, THREADS_Y=16, UNROLL=4):
    return extension().reverse_cumsum(x, THREADS_X, THREADS_Y, UNROLL)
