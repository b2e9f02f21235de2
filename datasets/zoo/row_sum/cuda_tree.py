"""CUDA C++: a block a row and a tree in shared memory, of which the last steps may be a warp's."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.row_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [32, 64, 128, 256, 512, 1024],
    "UNROLL": [1, 4, 8],
    "INTERLEAVED": [False, True],
    "LAST_WARP": [False, True],
    "ROWS": [1, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// `interleaved`: partners are neighbours first (banks collide), else half a block apart first.
__device__ float tree(float mine, float* shared, bool interleaved, bool last_warp) {
  const int t = threadIdx.x, threads = blockDim.x;
  shared[t] = mine;
  __syncthreads();
  if (interleaved) {
    for (int step = 1; step < threads; step *= 2) {
      const int at = 2 * step * t;
      if (at < threads) shared[at] += shared[at + step];
      __syncthreads();
    }
    return shared[0];
  }
  const int end = last_warp ? 32 : 1;
  for (int half = threads / 2; half >= end; half /= 2) {
    if (t < half) shared[t] += shared[t + half];
    __syncthreads();
  }
  if (!last_warp) return shared[0];
  float sum = shared[t % 32];
  for (int far = 16; far > 0; far /= 2) sum += __shfl_down_sync(0xffffffff, sum, far);
  return sum;
}

template <typename T, int UNROLL>
__global__ void row_sum_tree(const T* x, float* out, int rows, int columns, int each,
                             bool interleaved, bool last_warp) {
  extern __shared__ float shared[];
  const int first = blockIdx.x * each;
  for (int row = first; row < min(rows, first + each); ++row) {
    const T* from = x + static_cast<long long>(row) * columns;
    float sum = 0.0f;
#pragma unroll UNROLL
    for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += wide(from[c]);
    sum = tree(sum, shared, interleaved, last_warp);
    if (threadIdx.x == 0) out[row] = sum;
    __syncthreads();
  }
}

template <typename T>
void launch(const void* x, float* out, int rows, int columns, int threads, int unroll,
            bool interleaved, bool last_warp, int each, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  const int blocks = (rows + each - 1) / each;
  const size_t shared = threads * sizeof(float);
  switch (unroll) {
    case 1:
      row_sum_tree<T, 1><<<blocks, threads, shared, stream>>>(from, out, rows, columns, each,
                                                             interleaved, last_warp);
      break;
    case 4:
      row_sum_tree<T, 4><<<blocks, threads, shared, stream>>>(from, out, rows, columns, each,
                                                             interleaved, last_warp);
      break;
    default:
      row_sum_tree<T, 8><<<blocks, threads, shared, stream>>>(from, out, rows, columns, each,
                                                             interleaved, last_warp);
  }
}

void sum_rows(const void* x, float* out, int type, int rows, int columns, int threads, int unroll,
              bool interleaved, bool last_warp, int each, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(x, out, rows, columns, threads, unroll, interleaved, last_warp, each, stream);
      break;
    case 1:
      launch<__half>(x, out, rows, columns, threads, unroll, interleaved, last_warp, each, stream);
      break;
    default:
      launch<__nv_bfloat16>(x, out, rows, columns, threads, unroll, interleaved, last_warp, each,
                            stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void sum_rows(const void* x, float* out, int type, int rows, int columns, int threads, int unroll,
              bool interleaved, bool last_warp, int each, cudaStream_t stream);

at::Tensor row_sum(const at::Tensor& x, int threads, int unroll, bool interleaved, bool last_warp,
                   int each) {
  at::Tensor out = at::empty({x.size(0)}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  sum_rows(x.const_data_ptr(), out.mutable_data_ptr<float>(), type, x.size(0), x.size(1), threads,
           unroll, interleaved, last_warp, each, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_row_sum_cuda_tree",
        BINDING,
        CUDA,
        functions=["row_sum"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Half a column to 4,096 a thread; a tree has one way to end."""
    each = shape["N"] / params["THREADS"]
    one_end = not (params["INTERLEAVED"] and params["LAST_WARP"])
    return one_end and 0.5 <= each <= 4096 and params["UNROLL"] <= max(1, 2 * each)


def kernel(x, *, THREADS=256, UNROLL=1, INTERLEAVED=False, LAST_WARP=True, ROWS=1):
    return extension().row_sum(x, THREADS, UNROLL, INTERLEAVED, LAST_WARP, ROWS)
