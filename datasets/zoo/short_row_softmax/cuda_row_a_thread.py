"""CUDA C++: a block's rows go through shared memory; a thread alone goes along a row there."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.short_row_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [32, 64, 128],
    "PADDED": [False, True],
    "ONLINE": [False, True],
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

// As many threads as rows. Unpadded rows whose length divides by 32 are all in the same bank.
template <typename T>
__global__ void softmax_rows(const T* x, T* out, long long rows, int columns, int pitch,
                             bool online) {
  extern __shared__ float shared[];
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x;
  const int here = static_cast<int>(min(rows - first, static_cast<long long>(blockDim.x)));
  const long long start = first * columns;
  for (int i = threadIdx.x; i < here * columns; i += blockDim.x) {
    shared[i / columns * pitch + i % columns] = wide(x[start + i]);
  }
  __syncthreads();
  if (threadIdx.x < here) {
    float* row = shared + threadIdx.x * pitch;
    float most = -INFINITY, sum = 0.0f;
    if (online) {
      for (int c = 0; c < columns; ++c) {
        const float value = row[c], now = fmaxf(most, value);
        sum = sum * __expf(most - now) + __expf(value - now);
        most = now;
      }
    } else {
      for (int c = 0; c < columns; ++c) most = fmaxf(most, row[c]);
      for (int c = 0; c < columns; ++c) sum += __expf(row[c] - most);
    }
    const float scale = 1.0f / sum;
    for (int c = 0; c < columns; ++c) row[c] = __expf(row[c] - most) * scale;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < here * columns; i += blockDim.x) {
    put(out + start + i, shared[i / columns * pitch + i % columns]);
  }
}

template <typename T>
void launch(const void* x, void* out, long long rows, int columns, int threads, int pitch,
            bool online, cudaStream_t stream) {
  const int blocks = (rows + threads - 1) / threads, bytes = 4 * threads * pitch;
  softmax_rows<T><<<blocks, threads, bytes, stream>>>(static_cast<const T*>(x),
                                                      static_cast<T*>(out), rows, columns, pitch,
                                                      online);
}

void softmax_any(const void* x, void* out, int type, long long rows, int columns, int threads,
                 int pitch, bool online, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, rows, columns, threads, pitch, online, stream);
  if (type == 1) launch<__half>(x, out, rows, columns, threads, pitch, online, stream);
  if (type == 2) launch<__nv_bfloat16>(x, out, rows, columns, threads, pitch, online, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void softmax_any(const void* x, void* out, int type, long long rows, int columns, int threads,
                 int pitch, bool online, cudaStream_t stream);

at::Tensor short_row_softmax(const at::Tensor& x, int threads, bool padded, bool online) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  const int columns = x.size(1);
  const int pitch = padded ? columns / 2 * 2 + 1 : columns;
  softmax_any(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), columns, threads, pitch,
              online, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_short_row_softmax_cuda_row_a_thread",
        BINDING,
        CUDA,
        functions=["short_row_softmax"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB, which needs no opting in; odd rows need no padding."""
    wide = shape["N"] // 2 * 2 + 1
    fits = 4 * params["ROWS"] * wide <= 48 * 1024
    return fits and (shape["N"] % 2 == 0 or params["PADDED"])


def kernel(x, *, ROWS=32, PADDED=True, ONLINE=False):
    return extension().short_row_softmax(x, ROWS, PADDED, ONLINE)
