"""CUDA C++: tiles are cut on the merge path and held in shared memory; threads merge a few each."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.merge_sorted_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "EACH": [4, 5, 8, 11],
    "STAGED": [False, True],
}

CUDA = r"""
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }

// How many of `a` are among the first `place` of both; ties are taken from `a`.
template <typename T>
__device__ int cut(const T* a, const T* b, int size_a, int size_b, int place) {
  int low = place > size_b ? place - size_b : 0;
  int high = place < size_a ? place : size_a;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (wide(a[middle]) <= wide(b[place - 1 - middle])) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// `staged`: results pass through shared memory, so that neighbours are stored by neighbours.
template <typename T, int EACH>
__global__ void merge_tiles(const T* a, const T* b, T* out, int size_a, int size_b, bool staged) {
  extern __shared__ char bytes[];
  T* tile = reinterpret_cast<T*>(bytes);
  __shared__ int cuts[2];
  const int t = threadIdx.x, wanted = blockDim.x * EACH, all = size_a + size_b;
  a += static_cast<long long>(blockIdx.y) * size_a;
  b += static_cast<long long>(blockIdx.y) * size_b;
  out += static_cast<long long>(blockIdx.y) * all;
  const int start = blockIdx.x * wanted;
  const int size = all - start < wanted ? all - start : wanted;
  if (t % 32 == 0 && t < 64) cuts[t / 32] = cut(a, b, size_a, size_b, start + t / 32 * size);
  __syncthreads();
  const int first_a = cuts[0], first_b = start - first_a;
  const int of_a = cuts[1] - first_a, of_b = size - of_a;
  for (int i = t; i < size; i += blockDim.x) {
    tile[i] = i < of_a ? a[first_a + i] : b[first_b + i - of_a];
  }
  __syncthreads();
  const T* tile_b = tile + of_a;
  const int place = t * EACH < size ? t * EACH : size;
  int at_a = cut(tile, tile_b, of_a, of_b, place);
  int at_b = place - at_a;
  T held[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    if (place + i < size) {
      const bool from_a =
          at_b >= of_b || (at_a < of_a && wide(tile[at_a]) <= wide(tile_b[at_b]));
      held[i] = from_a ? tile[at_a] : tile_b[at_b];
      at_a += from_a;
      at_b += !from_a;
    }
  }
  if (!staged) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      if (place + i < size) out[start + place + i] = held[i];
    }
    return;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    if (place + i < size) tile[place + i] = held[i];
  }
  __syncthreads();
  for (int i = t; i < size; i += blockDim.x) out[start + i] = tile[i];
}

template <typename T>
void launch(const void* a, const void* b, void* out, int rows, int size_a, int size_b, int threads,
            int each, bool staged, cudaStream_t stream) {
  const T* from_a = static_cast<const T*>(a);
  const T* from_b = static_cast<const T*>(b);
  T* to = static_cast<T*>(out);
  const int tile = threads * each, shared = tile * sizeof(T);
  const dim3 grid((size_a + size_b + tile - 1) / tile, rows);
  switch (each) {
    case 4:
      merge_tiles<T, 4>
          <<<grid, threads, shared, stream>>>(from_a, from_b, to, size_a, size_b, staged);
      break;
    case 5:
      merge_tiles<T, 5>
          <<<grid, threads, shared, stream>>>(from_a, from_b, to, size_a, size_b, staged);
      break;
    case 8:
      merge_tiles<T, 8>
          <<<grid, threads, shared, stream>>>(from_a, from_b, to, size_a, size_b, staged);
      break;
    default:
      merge_tiles<T, 11>
          <<<grid, threads, shared, stream>>>(from_a, from_b, to, size_a, size_b, staged);
  }
}

void merge_any(const void* a, const void* b, void* out, bool half, int rows, int size_a,
               int size_b, int threads, int each, bool staged, cudaStream_t stream) {
  if (half) {
    launch<__half>(a, b, out, rows, size_a, size_b, threads, each, staged, stream);
  } else {
    launch<float>(a, b, out, rows, size_a, size_b, threads, each, staged, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void merge_any(const void* a, const void* b, void* out, bool half, int rows, int size_a,
               int size_b, int threads, int each, bool staged, cudaStream_t stream);

at::Tensor merge(const at::Tensor& a, const at::Tensor& b, int threads, int each, bool staged) {
  at::Tensor out = at::empty({a.size(0), a.size(1) + b.size(1)}, a.options());
  const bool half = a.scalar_type() == at::kHalf;
  merge_any(a.const_data_ptr(), b.const_data_ptr(), out.mutable_data_ptr(), half, a.size(0),
            a.size(1), b.size(1), threads, each, staged, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_merge_sorted_rows_cuda_merge_path",
        BINDING,
        CUDA,
        functions=["merge"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No tile far longer than a merged row."""
    return params["THREADS"] * params["EACH"] < 2 * (shape["N1"] + shape["N2"])


def kernel(a, b, *, THREADS=128, EACH=5, STAGED=True):
    return extension().merge(a, b, THREADS, EACH, STAGED)
