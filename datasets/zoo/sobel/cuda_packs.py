"""CUDA C++: a thread takes packs of a row with vector loads and keeps three rows in registers."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.sobel.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PACK_BYTES": [1, 4, 8, 16],
    "DOWN": [1, 4, 16],
    "THREADS": [64, 128, 256],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>

__device__ float wide(uint8_t x) { return x; }
__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(uint8_t* at, float x) { *at = static_cast<uint8_t>(x); }
__device__ void put(float* at, float x) { *at = x; }
__device__ void put(__half* at, float x) { *at = __float2half(x); }
__device__ void put(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

// V pixels of a row with one on either side, repeated beyond the border.
template <typename T, int V>
__device__ void bring(const T* image, float* to, int row, int column, int rows, int columns) {
  const T* from = image + static_cast<long long>(min(max(row, 0), rows - 1)) * columns;
  const Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(from + column);
#pragma unroll
  for (int i = 0; i < V; ++i) to[i + 1] = wide(pack.values[i]);
  to[0] = wide(from[max(column - 1, 0)]);
  to[V + 1] = wide(from[min(column + V, columns - 1)]);
}

template <typename T, int V>
__global__ void sobel_packs(const T* x, T* out, int rows, int columns, int down) {
  const int column = (blockIdx.x * blockDim.x + threadIdx.x) * V;
  if (column >= columns) return;
  const long long image = static_cast<long long>(blockIdx.z) * rows * columns;
  const int first = blockIdx.y * down, end = min(first + down, rows);
  float above[V + 2], here[V + 2], below[V + 2];
  bring<T, V>(x + image, above, first - 1, column, rows, columns);
  bring<T, V>(x + image, here, first, column, rows, columns);
  for (int row = first; row < end; ++row) {
    bring<T, V>(x + image, below, row + 1, column, rows, columns);
    Pack<T, V> pack;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float gx = above[i + 2] - above[i] + 2.0f * (here[i + 2] - here[i]) + below[i + 2] -
                       below[i];
      const float gy = below[i] - above[i] + 2.0f * (below[i + 1] - above[i + 1]) + below[i + 2] -
                       above[i + 2];
      put(&pack.values[i], 0.125f * (fabsf(gx) + fabsf(gy)));
    }
    *reinterpret_cast<Pack<T, V>*>(out + image + static_cast<long long>(row) * columns + column) =
        pack;
#pragma unroll
    for (int i = 0; i < V + 2; ++i) {
      above[i] = here[i];
      here[i] = below[i];
    }
  }
}

template <typename T, int V>
void launch(const void* x, void* out, int images, int rows, int columns, int down, int threads,
            cudaStream_t stream) {
  const int packs = columns / V;
  const dim3 grid((packs + threads - 1) / threads, (rows + down - 1) / down, images);
  sobel_packs<T, V><<<grid, threads, 0, stream>>>(static_cast<const T*>(x), static_cast<T*>(out),
                                                  rows, columns, down);
}

template <typename T>
void by_vector(const void* x, void* out, int images, int rows, int columns, int vector, int down,
               int threads, cudaStream_t stream) {
  if (vector == 1) launch<T, 1>(x, out, images, rows, columns, down, threads, stream);
  if (vector == 2) launch<T, 2>(x, out, images, rows, columns, down, threads, stream);
  if (vector == 4) launch<T, 4>(x, out, images, rows, columns, down, threads, stream);
}

void edges(const void* x, void* out, int type, int images, int rows, int columns, int vector,
           int down, int threads, cudaStream_t stream) {
  if (type == 0) by_vector<float>(x, out, images, rows, columns, vector, down, threads, stream);
  if (type == 1 && vector == 8) {
    launch<__half, 8>(x, out, images, rows, columns, down, threads, stream);
  } else if (type == 1) {
    by_vector<__half>(x, out, images, rows, columns, vector, down, threads, stream);
  }
  if (type == 2 && vector == 8) {
    launch<__nv_bfloat16, 8>(x, out, images, rows, columns, down, threads, stream);
  } else if (type == 2) {
    by_vector<__nv_bfloat16>(x, out, images, rows, columns, vector, down, threads, stream);
  }
  if (type == 3 && vector == 16) {
    launch<uint8_t, 16>(x, out, images, rows, columns, down, threads, stream);
  } else if (type == 3 && vector == 8) {
    launch<uint8_t, 8>(x, out, images, rows, columns, down, threads, stream);
  } else if (type == 3) {
    by_vector<uint8_t>(x, out, images, rows, columns, vector, down, threads, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void edges(const void* x, void* out, int type, int images, int rows, int columns, int vector,
           int down, int threads, cudaStream_t stream);

at::Tensor sobel(const at::Tensor& x, int vector, int down, int threads) {
  at::Tensor out = at::empty_like(x);
  const at::ScalarType held = x.scalar_type();
  const int type = held == at::kByte ? 3 : held == at::kFloat ? 0 : held == at::kHalf ? 1 : 2;
  edges(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), x.size(2), vector,
        down, threads, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_sobel_cuda_packs",
        BINDING,
        CUDA,
        functions=["sobel"],
        no_implicit_headers=True,
    )


def packed(pack_bytes, itemsize, wide):
    """Pixels of the widest packs that divide a row."""
    vector = max(pack_bytes // itemsize, 1)
    while wide % vector:
        vector //= 2
    return vector


def valid(params, shape):
    """Packs that differ from those of 8 bytes, and no block far wider than a row."""
    wide, size = shape["W"], itemsize(shape)
    vector = packed(params["PACK_BYTES"], size, wide)
    differs = params["PACK_BYTES"] == 8 or vector != packed(8, size, wide)
    known = params["PACK_BYTES"] != 1 or vector < packed(4, size, wide)
    return differs and known and (vector * params["THREADS"] < 2 * wide or params["THREADS"] == 64)


def kernel(x, *, PACK_BYTES=8, DOWN=4, THREADS=64):
    vector = packed(PACK_BYTES, x.element_size(), x.shape[2])
    return extension().sobel(x, vector, DOWN, THREADS)
