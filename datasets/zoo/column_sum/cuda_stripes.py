"""CUDA C++: packs of columns a thread, stripes of rows a block, folded in shared memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.column_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS_X": [8, 16, 32, 64],
    "THREADS_Y": [2, 4, 8, 16],
    "VECTOR": [1, 2, 4],
    "STRIPES": [1, 8, 32, 128],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

// A block has blockDim.x * V columns, and of the rows every gridDim.y-th blockDim.y.
template <typename T, int V>
__global__ void column_sum_stripes(const T* x, float* out, int rows, int columns) {
  __shared__ float folded[1024 * V];
  using P = Pack<T, V>;
  const int column = (blockIdx.x * blockDim.x + threadIdx.x) * V;
  const int mine = (threadIdx.y * blockDim.x + threadIdx.x) * V;
  float sum[V] = {};
  if (column < columns) {
    const int first = blockIdx.y * blockDim.y + threadIdx.y;
    for (int row = first; row < rows; row += gridDim.y * blockDim.y) {
      const P pack =
          *reinterpret_cast<const P*>(x + static_cast<long long>(row) * columns + column);
#pragma unroll
      for (int i = 0; i < V; ++i) sum[i] += wide(pack.values[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < V; ++i) folded[mine + i] = sum[i];
  for (int half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
#pragma unroll
      for (int i = 0; i < V; ++i) folded[mine + i] += folded[mine + half * blockDim.x * V + i];
    }
  }
  if (threadIdx.y > 0 || column >= columns) return;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    if (gridDim.y == 1) {
      out[column + i] = folded[mine + i];
    } else {
      atomicAdd(out + column + i, folded[mine + i]);
    }
  }
}

template <typename T>
void launch(const void* x, float* out, int rows, int columns, int wide_block, int high, int vector,
            int stripes, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  if (columns % vector) vector = 1;
  const int each = wide_block * vector, most = (rows + high - 1) / high;
  const dim3 block(wide_block, high);
  const dim3 grid((columns + each - 1) / each, stripes < most ? stripes : most);
  if (vector == 1) {
    column_sum_stripes<T, 1><<<grid, block, 0, stream>>>(from, out, rows, columns);
  } else if (vector == 2) {
    column_sum_stripes<T, 2><<<grid, block, 0, stream>>>(from, out, rows, columns);
  } else {
    column_sum_stripes<T, 4><<<grid, block, 0, stream>>>(from, out, rows, columns);
  }
}

void sum_columns(const void* x, float* out, int type, int rows, int columns, int wide_block,
                 int high, int vector, int stripes, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, rows, columns, wide_block, high, vector, stripes, stream);
  if (type == 1) launch<__half>(x, out, rows, columns, wide_block, high, vector, stripes, stream);
  if (type == 2) {
    launch<__nv_bfloat16>(x, out, rows, columns, wide_block, high, vector, stripes, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void sum_columns(const void* x, float* out, int type, int rows, int columns, int wide_block,
                 int high, int vector, int stripes, cudaStream_t stream);

at::Tensor column_sum(const at::Tensor& x, int threads_x, int threads_y, int vector, int stripes) {
  at::Tensor out = at::zeros({x.size(1)}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  sum_columns(x.const_data_ptr(), out.mutable_data_ptr<float>(), type, x.size(0), x.size(1),
              threads_x, threads_y, vector, stripes, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_column_sum_cuda_stripes",
        BINDING,
        CUDA,
        functions=["column_sum"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At least a warp; whole packs, or VECTOR=4 for single values; at most 8,192 rows a thread."""
    x, y, vector = params["THREADS_X"], params["THREADS_Y"], params["VECTOR"]
    packs = vector in (1, 4) or shape["N"] % vector == 0
    rows = shape["M"] / (y * params["STRIPES"])
    useful = rows >= 0.5 or params["STRIPES"] <= 32
    return packs and useful and x * y >= 32 and x < 2 * shape["N"] and rows <= 8192


def kernel(x, *, THREADS_X=32, THREADS_Y=8, VECTOR=1, STRIPES=32):
    return extension().column_sum(x, THREADS_X, THREADS_Y, VECTOR, STRIPES)
