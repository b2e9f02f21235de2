"""CUDA C++: van Herk and Gil-Werman: maxima up to and from each element of runs of a window.

A tile and its halo lie in shared memory. Threads scan runs forwards and backwards; each result
is the larger of two of these.
"""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.sliding_max.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "TILE": [1024, 2048, 4096],
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

// `padded`: a free word after each 32, so that threads whose runs are long differ in banks.
template <typename T>
__global__ void scan_windows(const T* x, T* out, int columns, int window, int tile, int room,
                             bool padded) {
  extern __shared__ float shared[];
  float* forth = shared;
  float* back = shared + room;
  const int gap = padded ? 32 : 1 << 30;
  const int results = columns - window + 1, start = blockIdx.x * tile;
  const T* from = x + static_cast<long long>(blockIdx.y) * columns + start;
  T* to = out + static_cast<long long>(blockIdx.y) * results + start;
  const int mine = results - start < tile ? results - start : tile;
  const int size = mine + window - 1;
  for (int i = threadIdx.x; i < size; i += blockDim.x) {
    const float value = wide(from[i]);
    forth[i + i / gap] = value;
    back[i + i / gap] = value;
  }
  __syncthreads();
  const int runs = (size + window - 1) / window;
  for (int j = threadIdx.x; j < 2 * runs; j += blockDim.x) {
    const int first = j / 2 * window;
    const int end = first + window < size ? first + window : size;
    if (j % 2 == 0) {
      float peak = forth[first + first / gap];
      for (int i = first + 1; i < end; ++i) {
        peak = fmaxf(peak, forth[i + i / gap]);
        forth[i + i / gap] = peak;
      }
    } else {
      float peak = back[end - 1 + (end - 1) / gap];
      for (int i = end - 2; i >= first; --i) {
        peak = fmaxf(peak, back[i + i / gap]);
        back[i + i / gap] = peak;
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < mine; i += blockDim.x) {
    const int last = i + window - 1;
    put(to + i, fmaxf(back[i + i / gap], forth[last + last / gap]));
  }
}

template <typename T>
void launch(const void* x, void* out, int rows, int columns, int window, int threads, int tile,
            bool padded, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int size = tile + window - 1;
  const int room = padded ? size + size / 32 + 1 : size;
  const dim3 grid((columns - window + tile) / tile, rows);
  scan_windows<T><<<grid, threads, room * 8, stream>>>(from, to, columns, window, tile, room,
                                                       padded);
}

void slide_rows(const void* x, void* out, int type, int rows, int columns, int window, int threads,
                int tile, bool padded, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, rows, columns, window, threads, tile, padded, stream);
  if (type == 1) launch<__half>(x, out, rows, columns, window, threads, tile, padded, stream);
  if (type == 2) {
    launch<__nv_bfloat16>(x, out, rows, columns, window, threads, tile, padded, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void slide_rows(const void* x, void* out, int type, int rows, int columns, int window, int threads,
                int tile, bool padded, cudaStream_t stream);

at::Tensor sliding_max(const at::Tensor& x, int window, int threads, int tile, bool padded) {
  at::Tensor out = at::empty({x.size(0), x.size(1) - window + 1}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  slide_rows(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), window,
             threads, tile, padded, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_sliding_max_cuda_two_scans",
        BINDING,
        CUDA,
        functions=["sliding_max"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB, windows half a tile at most, no tile far longer than a row."""
    size = params["TILE"] + shape["WINDOW"] - 1
    room = size + size // 32 + 1 if params["PADDED"] else size
    fits = params["TILE"] < 2 * shape["N"] and 2 * shape["WINDOW"] <= params["TILE"]
    return fits and room * 8 <= 48 * 1024


def kernel(x, window, *, THREADS=256, TILE=2048, PADDED=True):
    return extension().sliding_max(x, window, THREADS, TILE, PADDED)
