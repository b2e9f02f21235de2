"""CUDA C++: a block a few rows of results: both input rows are mixed into shared memory first."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.bilinear_resize.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "ROWS": [1, 2, 4, 8],
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

struct Source {
  int low, high;  // places of the two neighbours
  float part;     // of the second
};

__device__ Source source_of(int at, float scale, int size) {
  const float place = fmaxf((at + 0.5f) * scale - 0.5f, 0.0f);
  Source found;
  found.low = min(static_cast<int>(place), size - 1);
  found.high = min(found.low + 1, size - 1);
  found.part = place - found.low;
  return found;
}

// Row by row: what lies between two input rows is computed once for every input column.
template <typename T>
__global__ void resize_rows(const T* x, T* out, int H, int W, int high, int wide_out, int rows,
                            float scale_y, float scale_x) {
  extern __shared__ float mixed[];
  const T* from = x + static_cast<long long>(blockIdx.y) * H * W;
  T* to = out + static_cast<long long>(blockIdx.y) * high * wide_out;
  const int first = blockIdx.x * rows;
  for (int row = first; row < min(first + rows, high); ++row) {
    const Source along = source_of(row, scale_y, H);
    const T* above = from + static_cast<long long>(along.low) * W;
    const T* below = from + static_cast<long long>(along.high) * W;
    for (int c = threadIdx.x; c < W; c += blockDim.x) {
      mixed[c] = wide(above[c]) * (1.0f - along.part) + wide(below[c]) * along.part;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < wide_out; c += blockDim.x) {
      const Source across = source_of(c, scale_x, W);
      put(to + static_cast<long long>(row) * wide_out + c,
          mixed[across.low] * (1.0f - across.part) + mixed[across.high] * across.part);
    }
    __syncthreads();
  }
}

template <typename T>
void launch(const void* x, void* out, int planes, int H, int W, int high, int wide_out,
            int threads, int rows, cudaStream_t stream) {
  const dim3 grid((high + rows - 1) / rows, planes);
  const float scale_y = float(H) / high, scale_x = float(W) / wide_out;
  const int bytes = 4 * W;
  resize_rows<T><<<grid, threads, bytes, stream>>>(static_cast<const T*>(x), static_cast<T*>(out),
                                                   H, W, high, wide_out, rows, scale_y, scale_x);
}

void resize_any(const void* x, void* out, int type, int planes, int H, int W, int high,
                int wide_out, int threads, int rows, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, planes, H, W, high, wide_out, threads, rows, stream);
  if (type == 1) launch<__half>(x, out, planes, H, W, high, wide_out, threads, rows, stream);
  if (type == 2) {
    launch<__nv_bfloat16>(x, out, planes, H, W, high, wide_out, threads, rows, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void resize_any(const void* x, void* out, int type, int planes, int H, int W, int high,
                int wide_out, int threads, int rows, cudaStream_t stream);

at::Tensor resize(const at::Tensor& x, int64_t high, int64_t wide, int threads, int rows) {
  at::Tensor out = at::empty({x.size(0), high, wide}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  resize_any(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), x.size(2),
             high, wide, threads, rows, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_bilinear_resize_cuda_rows_in_shared",
        BINDING,
        CUDA,
        functions=["resize"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """A row within 48 KiB, which needs no opting in."""
    busy = params["THREADS"] < 2 * shape["OW"] or params["THREADS"] == 128
    return 4 * shape["W"] <= 48 * 1024 and busy


def kernel(x, high, wide, *, THREADS=128, ROWS=2):
    return extension().resize(x, high, wide, THREADS, ROWS)
