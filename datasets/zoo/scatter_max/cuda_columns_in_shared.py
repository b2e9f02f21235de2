"""CUDA C++: a block holds a band of columns of all targets in shared memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.scatter_max.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BAND": [1, 2, 4, 8, 16, 32],
    "SHARES": [4, 16, 64, 132],
    "THREADS": [128, 256, 512, 1024],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__global__ void max_bands(const T* rows, const int* index, float* out, int count, int columns,
                          int targets, int band) {
  extern __shared__ int best[];
  const int low = blockIdx.y * band, c = threadIdx.x % band;
  for (int i = threadIdx.x; i < targets * band; i += blockDim.x) best[i] = 0;
  __syncthreads();
  const int tall = blockDim.x / band;
  if (low + c < columns) {
#pragma unroll 4
    for (int t = blockIdx.x * tall + threadIdx.x / band; t < count; t += gridDim.x * tall) {
      const float x = wide(rows[static_cast<long long>(t) * columns + low + c]);
      if (x > 0.0f) atomicMax(best + index[t] * band + c, __float_as_int(x));
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < targets * band; i += blockDim.x) {
    const int at = low + i % band;
    if (at < columns && best[i] > 0) {
      atomicMax(reinterpret_cast<int*>(out) + static_cast<long long>(i / band) * columns + at,
                best[i]);
    }
  }
}

template <typename T>
void launch(const void* rows, const int* index, float* out, int count, int columns, int targets,
            int band, int shares, int threads, cudaStream_t stream) {
  const T* rows_t = static_cast<const T*>(rows);
  const dim3 grid(shares, (columns + band - 1) / band);
  max_bands<T><<<grid, threads, 4 * targets * band, stream>>>(rows_t, index, out, count, columns,
                                                              targets, band);
}

void run(const void* rows, const int* index, float* out, int type, int count, int columns,
         int targets, int band, int shares, int threads, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(rows, index, out, count, columns, targets, band, shares, threads, stream);
      break;
    case 1:
      launch<__half>(rows, index, out, count, columns, targets, band, shares, threads, stream);
      break;
    default:
      launch<__nv_bfloat16>(rows, index, out, count, columns, targets, band, shares, threads,
                            stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* rows, const int* index, float* out, int type, int count, int columns,
         int targets, int band, int shares, int threads, cudaStream_t stream);

at::Tensor scatter_max(const at::Tensor& rows, const at::Tensor& index, int targets, int band,
                       int shares, int threads) {
  const int64_t count = rows.size(0);
  const int64_t columns = rows.size(1);
  at::Tensor out = at::zeros({targets, columns}, rows.options().dtype(at::kFloat));
  const int type = rows.scalar_type() == at::kFloat ? 0 : rows.scalar_type() == at::kHalf ? 1 : 2;
  run(rows.const_data_ptr(), index.const_data_ptr<int>(), out.mutable_data_ptr<float>(), type,
      count, columns, targets, band, shares, threads, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_scatter_max_cuda_columns_in_shared",
        BINDING,
        CUDA,
        functions=["scatter_max"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """The band fits in 48 KiB, and two columns would."""
    band = params["BAND"]
    return 4 * shape["S"] * max(band, 2) <= 48 * 1024 and band < 2 * shape["D"]


def kernel(rows, index, targets, *, BAND=2, SHARES=16, THREADS=512):
    return extension().scatter_max(rows, index, targets, BAND, SHARES, THREADS)
