"""CUDA C++: a warp a row, packs of columns a lane; no block-wide barrier."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.cumprod_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8],
    "VECTOR": [1, 2, 4, 8],
    "AHEAD": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(float& at, float x) { at = x; }
__device__ void put(__half& at, float x) { at = __float2half(x); }
__device__ void put(__nv_bfloat16& at, float x) { at = __float2bfloat16(x); }

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

template <typename T, int V>
__device__ Pack<T, V> read_pack(const T* from, int at, int columns) {
  if (at + V <= columns) return *reinterpret_cast<const Pack<T, V>*>(from + at);
  Pack<T, V> pack;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    put(pack.values[i], 1.0f);
    if (at + i < columns) pack.values[i] = from[at + i];
  }
  return pack;
}

// Ahead: the next chunk is read before this one is scanned.
template <typename T, int V>
__global__ void cumprod_warp(const T* x, T* out, int rows, int columns, bool ahead) {
  const int lane = threadIdx.x % 32;
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  const T* from = x + static_cast<long long>(row) * columns;
  T* to = out + static_cast<long long>(row) * columns;
  float carry = 1.0f;
  Pack<T, V> next = read_pack<T, V>(from, lane * V, columns);
  for (int start = 0; start < columns; start += 32 * V) {
    const int at = start + lane * V;
    Pack<T, V> pack = next;
    if (ahead) next = read_pack<T, V>(from, at + 32 * V, columns);
    float held[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      held[i] = wide(pack.values[i]);
      if (i > 0) held[i] *= held[i - 1];
    }
    float mine = held[V - 1];
#pragma unroll
    for (int far = 1; far < 32; far *= 2) {
      const float before = __shfl_up_sync(0xffffffff, mine, far);
      if (lane >= far) mine *= before;
    }
    float before = __shfl_up_sync(0xffffffff, mine, 1);
    before = lane > 0 ? before * carry : carry;
    carry *= __shfl_sync(0xffffffff, mine, 31);
#pragma unroll
    for (int i = 0; i < V; ++i) put(pack.values[i], before * held[i]);
    if (at + V <= columns) {
      *reinterpret_cast<Pack<T, V>*>(to + at) = pack;
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        if (at + i < columns) to[at + i] = pack.values[i];
      }
    }
    if (!ahead) next = read_pack<T, V>(from, at + 32 * V, columns);
  }
}

template <typename T>
void launch(const void* x, void* out, int rows, int columns, int warps, int vector, bool ahead,
            cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int blocks = (rows + warps - 1) / warps, threads = 32 * warps;
  if (columns % vector) vector = 1;
  switch (vector) {
    case 1:
      cumprod_warp<T, 1><<<blocks, threads, 0, stream>>>(from, to, rows, columns, ahead);
      break;
    case 2:
      cumprod_warp<T, 2><<<blocks, threads, 0, stream>>>(from, to, rows, columns, ahead);
      break;
    case 4:
      cumprod_warp<T, 4><<<blocks, threads, 0, stream>>>(from, to, rows, columns, ahead);
      break;
    default:
      cumprod_warp<T, 8><<<blocks, threads, 0, stream>>>(from, to, rows, columns, ahead);
  }
}

void multiply_rows(const void* x, void* out, int type, int rows, int columns, int warps,
                   int vector, bool ahead, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, rows, columns, warps, vector, ahead, stream);
  if (type == 1) launch<__half>(x, out, rows, columns, warps, vector, ahead, stream);
  if (type == 2) launch<__nv_bfloat16>(x, out, rows, columns, warps, vector, ahead, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void multiply_rows(const void* x, void* out, int type, int rows, int columns, int warps,
                   int vector, bool ahead, cudaStream_t stream);

at::Tensor cumprod(const at::Tensor& x, int warps, int vector, bool ahead) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  multiply_rows(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), warps,
                vector, ahead, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_cumprod_rows_cuda_warp_row",
        BINDING,
        CUDA,
        functions=["cumprod"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Rows of whole packs, or VECTOR=4 for single values."""
    vector = params["VECTOR"]
    return vector in (1, 4) or shape["N"] % vector == 0


def kernel(x, *, WARPS=4, VECTOR=4, AHEAD=True):
    return extension().cumprod(x, WARPS, VECTOR, AHEAD)
