"""CUDA C++: a thread goes down a column of results; its column's neighbours are found once."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.bilinear_resize.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [32, 64, 128, 256],
    "DOWN": [1, 4, 16, 64],
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

template <typename T>
__global__ void resize_columns(const T* x, T* out, int H, int W, int high, int wide_out, int down,
                               float scale_y, float scale_x) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= wide_out) return;
  const Source across = source_of(column, scale_x, W);
  const T* from = x + static_cast<long long>(blockIdx.z) * H * W;
  T* to = out + static_cast<long long>(blockIdx.z) * high * wide_out;
  const int first = blockIdx.y * down;
  for (int row = first; row < min(first + down, high); ++row) {
    const Source along = source_of(row, scale_y, H);
    const T* above = from + static_cast<long long>(along.low) * W;
    const T* below = from + static_cast<long long>(along.high) * W;
    const float top = wide(above[across.low]) * (1.0f - across.part) +
                      wide(above[across.high]) * across.part;
    const float bottom = wide(below[across.low]) * (1.0f - across.part) +
                         wide(below[across.high]) * across.part;
    put(to + static_cast<long long>(row) * wide_out + column,
        top * (1.0f - along.part) + bottom * along.part);
  }
}

template <typename T>
void launch(const void* x, void* out, int planes, int H, int W, int high, int wide_out,
            int threads, int down, cudaStream_t stream) {
  const dim3 grid((wide_out + threads - 1) / threads, (high + down - 1) / down, planes);
  const float scale_y = float(H) / high, scale_x = float(W) / wide_out;
  resize_columns<T><<<grid, threads, 0, stream>>>(static_cast<const T*>(x), static_cast<T*>(out),
                                                  H, W, high, wide_out, down, scale_y, scale_x);
}

void resize_any(const void* x, void* out, int type, int planes, int H, int W, int high,
                int wide_out, int threads, int down, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, planes, H, W, high, wide_out, threads, down, stream);
  if (type == 1) launch<__half>(x, out, planes, H, W, high, wide_out, threads, down, stream);
  if (type == 2) {
    launch<__nv_bfloat16>(x, out, planes, H, W, high, wide_out, threads, down, stream);
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
                int wide_out, int threads, int down, cudaStream_t stream);

at::Tensor resize(const at::Tensor& x, int64_t high, int64_t wide, int threads, int down) {
  at::Tensor out = at::empty({x.size(0), high, wide}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  resize_any(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), x.size(2),
             high, wide, threads, down, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_bilinear_resize_cuda_column_walk",
        BINDING,
        CUDA,
        functions=["resize"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No block far wider than a row of results, nor strip far longer than a column."""
    fits = params["THREADS"] < 2 * shape["OW"]
    return fits and params["DOWN"] < 2 * shape["OH"]


def kernel(x, high, wide, *, THREADS=128, DOWN=4):
    return extension().resize(x, high, wide, THREADS, DOWN)
