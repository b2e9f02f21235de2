"""CUDA C++: a tile with its halo in shared memory; each thread rolls a sum over EACH results."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.moving_average.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "EACH": [4, 8, 16, 32],
    "STAGED": [False, True],
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

// `staged`: results go back through shared memory, so that neighbours store neighbours. One free
// word after each 32 keeps threads that are EACH apart in different banks.
template <typename T>
__global__ void roll_sums(const T* x, T* out, int columns, int window, int each, float scale,
                          bool staged) {
  extern __shared__ float shared[];
  const int t = threadIdx.x, tile = blockDim.x * each;
  const int results = columns - window + 1, start = blockIdx.x * tile;
  const T* from = x + static_cast<long long>(blockIdx.y) * columns + start;
  T* to = out + static_cast<long long>(blockIdx.y) * results + start;
  const int mine = results - start < tile ? results - start : tile;
  const int size = mine + window - 1;
  float* means = shared + size + size / 32 + 1;
  for (int i = t; i < size; i += blockDim.x) shared[i + i / 32] = wide(from[i]);
  __syncthreads();
  const int first = t * each;
  if (first < mine) {
    float sum = 0.0f;
    for (int i = first; i < first + window; ++i) sum += shared[i + i / 32];
    const int end = first + each < mine ? first + each : mine;
    for (int i = first; i < end; ++i) {
      if (staged) {
        means[i + i / 32] = sum * scale;
      } else {
        put(to + i, sum * scale);
      }
      if (i + 1 == end) break;
      const int next = i + window;
      sum += shared[next + next / 32] - shared[i + i / 32];
    }
  }
  if (!staged) return;
  __syncthreads();
  for (int i = t; i < mine; i += blockDim.x) put(to + i, means[i + i / 32]);
}

template <typename T>
void launch(const void* x, void* out, int rows, int columns, int window, int threads, int each,
            bool staged, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int tile = threads * each, size = tile + window - 1;
  const int words = size + size / 32 + 1 + (staged ? tile + tile / 32 : 0);
  const dim3 grid((columns - window + tile) / tile, rows);
  roll_sums<T><<<grid, threads, words * 4, stream>>>(from, to, columns, window, each,
                                                     1.0f / window, staged);
}

void average_rows(const void* x, void* out, int type, int rows, int columns, int window,
                  int threads, int each, bool staged, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, rows, columns, window, threads, each, staged, stream);
  if (type == 1) launch<__half>(x, out, rows, columns, window, threads, each, staged, stream);
  if (type == 2) {
    launch<__nv_bfloat16>(x, out, rows, columns, window, threads, each, staged, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void average_rows(const void* x, void* out, int type, int rows, int columns, int window,
                  int threads, int each, bool staged, cudaStream_t stream);

at::Tensor moving_average(const at::Tensor& x, int window, int threads, int each, bool staged) {
  at::Tensor out = at::empty({x.size(0), x.size(1) - window + 1}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  average_rows(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), window,
               threads, each, staged, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_moving_average_cuda_rolling_sum",
        BINDING,
        CUDA,
        functions=["moving_average"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB, no tile far longer than a row."""
    tile = params["THREADS"] * params["EACH"]
    size = tile + shape["WINDOW"]
    words = size + size // 32 + 1 + (tile + tile // 32 if params["STAGED"] else 0)
    return words * 4 <= 48 * 1024 and tile < 2 * shape["N"]


def kernel(x, window, *, THREADS=128, EACH=8, STAGED=True):
    return extension().moving_average(x, window, THREADS, EACH, STAGED)
