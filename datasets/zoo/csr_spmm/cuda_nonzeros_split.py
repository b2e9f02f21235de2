"""CUDA C++: a block takes a row and stages its nonzeros; rows of threads split them."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.csr_spmm.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "COLS": [16, 32, 64, 128],
    "TALL": [1, 2, 4, 8, 16],
    "STAGE": [64, 256, 1024],
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

template <typename T>
__global__ void multiply_split(const int* row_ptr, const int* cols, const T* values, const T* x,
                               T* out, int width, int stage) {
  extern __shared__ float held[];
  int* places = reinterpret_cast<int*>(held + stage);
  float* sums = held + 2 * stage;
  const int end = row_ptr[blockIdx.x + 1], c = blockIdx.y * blockDim.x + threadIdx.x;
  const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
  float sum = 0.0f;
  for (int start = row_ptr[blockIdx.x]; start < end; start += stage) {
    const int many = min(stage, end - start);
    __syncthreads();  // those before have been used
    for (int i = thread; i < many; i += threads) {
      held[i] = wide(values[start + i]);
      places[i] = cols[start + i];
    }
    __syncthreads();
    if (c >= width) continue;
#pragma unroll 4
    for (int i = threadIdx.y; i < many; i += blockDim.y) {
      sum += held[i] * wide(x[static_cast<long long>(places[i]) * width + c]);
    }
  }
  sums[thread] = sum;
  __syncthreads();
  if (threadIdx.y || c >= width) return;
  for (int y = 1; y < blockDim.y; ++y) sum += sums[y * blockDim.x + threadIdx.x];
  put(out + static_cast<long long>(blockIdx.x) * width + c, sum);
}

template <typename T>
void launch(const int* row_ptr, const int* cols, const void* values, const void* x, void* out,
            int rows, int width, int across, int tall, int stage, cudaStream_t stream) {
  const T* values_t = static_cast<const T*>(values);
  const T* x_t = static_cast<const T*>(x);
  T* out_t = static_cast<T*>(out);
  const dim3 grid(rows, (width + across - 1) / across), block(across, tall);
  const int shared = 8 * stage + 4 * across * tall;
  multiply_split<T><<<grid, block, shared, stream>>>(row_ptr, cols, values_t, x_t, out_t, width,
                                                     stage);
}

void run(const int* row_ptr, const int* cols, const void* values, const void* x, void* out,
         int type, int rows, int width, int across, int tall, int stage, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(row_ptr, cols, values, x, out, rows, width, across, tall, stage, stream);
      break;
    case 1:
      launch<__half>(row_ptr, cols, values, x, out, rows, width, across, tall, stage, stream);
      break;
    default:
      launch<__nv_bfloat16>(row_ptr, cols, values, x, out, rows, width, across, tall, stage,
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

void run(const int* row_ptr, const int* cols, const void* values, const void* x, void* out,
         int type, int rows, int width, int across, int tall, int stage, cudaStream_t stream);

at::Tensor csr_spmm(const at::Tensor& row_ptr, const at::Tensor& cols, const at::Tensor& values,
                    const at::Tensor& x, int across, int tall, int stage) {
  const int64_t rows = row_ptr.size(0) - 1;
  const int64_t width = x.size(1);
  at::Tensor out = at::empty({rows, width}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  run(row_ptr.const_data_ptr<int>(), cols.const_data_ptr<int>(), values.const_data_ptr(),
      x.const_data_ptr(), out.mutable_data_ptr(), type, rows, width, across, tall, stage,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_csr_spmm_cuda_nonzeros_split",
        BINDING,
        CUDA,
        functions=["csr_spmm"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 512 threads, no band far wider than a row, no stage far longer than rows are."""
    across, stage = params["COLS"], params["STAGE"]
    fits = across < 2 * shape["D"] and (stage == 64 or stage <= 8 * shape["PER_ROW"])
    return 32 <= across * params["TALL"] <= 512 and fits


def kernel(row_ptr, cols, values, x, *, COLS=32, TALL=4, STAGE=64):
    return extension().csr_spmm(row_ptr, cols, values, x, COLS, TALL, STAGE)
