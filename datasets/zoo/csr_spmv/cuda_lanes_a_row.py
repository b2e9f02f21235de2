"""CUDA C++: from one lane to a whole warp a row, as long as its rows are on average, or not."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.csr_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "LANES": [1, 2, 4, 8, 16, 32],
    "THREADS": [64, 128, 256, 512],
    "UNROLL": [1, 2, 4],
    "READ_ONLY": [False, True],
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

template <typename T, int UNROLL>
__global__ void spmv_lanes(const int* row_ptr, const int* columns, const T* values, const T* x,
                           T* out, int rows, int lanes, bool read_only) {
  const int lane = threadIdx.x % lanes;
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / lanes;
  float sum = 0.0f;
  if (row < rows) {
    const int end = row_ptr[row + 1];
#pragma unroll UNROLL
    for (int at = row_ptr[row] + lane; at < end; at += lanes) {
      const T factor = read_only ? __ldg(x + columns[at]) : x[columns[at]];
      sum += wide(values[at]) * wide(factor);
    }
  }
  for (int far = lanes / 2; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
  if (row < rows && lane == 0) put(out + row, sum);
}

template <typename T>
void launch(const int* row_ptr, const int* columns, const void* values, const void* x, void* out,
            int rows, int lanes, int threads, int unroll, bool read_only, cudaStream_t stream) {
  const T* a = static_cast<const T*>(values);
  const T* b = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int per_block = threads / lanes;
  const int blocks = (rows + per_block - 1) / per_block;
  switch (unroll) {
    case 1:
      spmv_lanes<T, 1>
          <<<blocks, threads, 0, stream>>>(row_ptr, columns, a, b, to, rows, lanes, read_only);
      break;
    case 2:
      spmv_lanes<T, 2>
          <<<blocks, threads, 0, stream>>>(row_ptr, columns, a, b, to, rows, lanes, read_only);
      break;
    default:
      spmv_lanes<T, 4>
          <<<blocks, threads, 0, stream>>>(row_ptr, columns, a, b, to, rows, lanes, read_only);
  }
}

void multiply(const int* row_ptr, const int* columns, const void* values, const void* x, void* out,
              int type, int rows, int lanes, int threads, int unroll, bool read_only,
              cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(row_ptr, columns, values, x, out, rows, lanes, threads, unroll, read_only,
                    stream);
      break;
    case 1:
      launch<__half>(row_ptr, columns, values, x, out, rows, lanes, threads, unroll, read_only,
                     stream);
      break;
    default:
      launch<__nv_bfloat16>(row_ptr, columns, values, x, out, rows, lanes, threads, unroll,
                            read_only, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void multiply(const int* row_ptr, const int* columns, const void* values, const void* x, void* out,
              int type, int rows, int lanes, int threads, int unroll, bool read_only,
              cudaStream_t stream);

at::Tensor spmv(const at::Tensor& row_ptr, const at::Tensor& columns, const at::Tensor& values,
                const at::Tensor& x, int lanes, int threads, int unroll, bool read_only) {
  const int64_t rows = row_ptr.size(0) - 1;
  at::Tensor out = at::empty({rows}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  multiply(row_ptr.const_data_ptr<int>(), columns.const_data_ptr<int>(), values.const_data_ptr(),
           x.const_data_ptr(), out.mutable_data_ptr(), type, rows, lanes, threads, unroll,
           read_only, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_csr_spmv_cuda_lanes_a_row",
        BINDING,
        CUDA,
        functions=["spmv"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 512 products a lane where rows are alike."""
    return shape["PER_ROW"] <= 512 * params["LANES"]


def kernel(row_ptr, cols, values, x, *, LANES=8, THREADS=128, UNROLL=2, READ_ONLY=True):
    return extension().spmv(row_ptr, cols, values, x, LANES, THREADS, UNROLL, READ_ONLY)
