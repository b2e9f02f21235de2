"""CUDA C++: a block of two dimensions takes packs of some rows; with a fast or a true division."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.swiglu.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS_X": [32, 64, 128, 256],
    "THREADS_Y": [1, 2, 4],
    "VECTOR": [1, 2, 4, 8],
    "ROWS": [1, 2, 4],
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

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

template <typename T, int V, bool FAST>
__global__ void swiglu_packs(const T* packed, T* out, int rows, int columns, int each) {
  using P = Pack<T, V>;
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  const int packs = columns / V;
  if (at >= packs) return;
  const int first = (blockIdx.y * blockDim.y + threadIdx.y) * each;
  for (int row = first; row < min(rows, first + each); ++row) {
    const T* from = packed + static_cast<long long>(row) * 2 * columns;
    P gate = reinterpret_cast<const P*>(from)[at];
    const P up = reinterpret_cast<const P*>(from + columns)[at];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float g = wide(gate.values[i]);
      const float silu = FAST ? __fdividef(g, 1.0f + __expf(-g)) : g / (1.0f + expf(-g));
      put(&gate.values[i], silu * wide(up.values[i]));
    }
    reinterpret_cast<P*>(out + static_cast<long long>(row) * columns)[at] = gate;
  }
}

template <typename T, int V>
void launch(const void* packed, void* out, int rows, int columns, int wide_block, int high_block,
            int each, bool fast, cudaStream_t stream) {
  const T* from = static_cast<const T*>(packed);
  T* to = static_cast<T*>(out);
  const dim3 block(wide_block, high_block);
  const int tall = high_block * each;
  const dim3 grid((columns / V + wide_block - 1) / wide_block, (rows + tall - 1) / tall);
  if (fast) {
    swiglu_packs<T, V, true><<<grid, block, 0, stream>>>(from, to, rows, columns, each);
  } else {
    swiglu_packs<T, V, false><<<grid, block, 0, stream>>>(from, to, rows, columns, each);
  }
}

template <typename T>
void by_vector(const void* packed, void* out, int rows, int columns, int x, int y, int vector,
               int each, bool fast, cudaStream_t stream) {
  if (columns % vector) vector = 1;
  switch (vector) {
    case 1:
      launch<T, 1>(packed, out, rows, columns, x, y, each, fast, stream);
      break;
    case 2:
      launch<T, 2>(packed, out, rows, columns, x, y, each, fast, stream);
      break;
    case 4:
      launch<T, 4>(packed, out, rows, columns, x, y, each, fast, stream);
      break;
    default:
      launch<T, 8>(packed, out, rows, columns, x, y, each, fast, stream);
  }
}

void swiglu_any(const void* packed, void* out, int type, int rows, int columns, int x, int y,
                int vector, int each, bool fast, cudaStream_t stream) {
  if (type == 0) by_vector<float>(packed, out, rows, columns, x, y, vector, each, fast, stream);
  if (type == 1) by_vector<__half>(packed, out, rows, columns, x, y, vector, each, fast, stream);
  if (type == 2) {
    by_vector<__nv_bfloat16>(packed, out, rows, columns, x, y, vector, each, fast, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void swiglu_any(const void* packed, void* out, int type, int rows, int columns, int x, int y,
                int vector, int each, bool fast, cudaStream_t stream);

at::Tensor swiglu(const at::Tensor& x, int threads_x, int threads_y, int vector, int each,
                  bool fast) {
  const int64_t rows = x.size(0), columns = x.size(1) / 2;
  at::Tensor out = at::empty({rows, columns}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  swiglu_any(x.const_data_ptr(), out.mutable_data_ptr(), type, rows, columns, threads_x, threads_y,
             vector, each, fast, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_swiglu_cuda_row_packs",
        BINDING,
        CUDA,
        functions=["swiglu"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Whole packs, or VECTOR=4 for single values; a grid's second side has its limit."""
    rows = params["THREADS_Y"] * params["ROWS"]
    packs = params["VECTOR"] in (1, 4) or shape["N"] % params["VECTOR"] == 0
    return packs and rows <= 2 * shape["M"] and shape["M"] <= 65535 * rows


def kernel(packed, *, THREADS_X=128, THREADS_Y=1, VECTOR=4, ROWS=2, FAST=True):
    return extension().swiglu(packed, THREADS_X, THREADS_Y, VECTOR, ROWS, FAST)
