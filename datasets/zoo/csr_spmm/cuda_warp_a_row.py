"""CUDA C++: a warp takes a row; lanes pass their nonzeros round and keep EACH columns apiece."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.csr_spmm.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8, 16],
    "EACH": [1, 2, 4, 8],
    "SHUFFLED": [False, True],
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

// A warp's band is 32 * EACH columns wide. Nonzeros are loaded 32 at once and passed round, or
// all lanes load the same one.
template <typename T, int EACH>
__global__ void multiply_rows(const int* row_ptr, const int* cols, const T* values, const T* x,
                              T* out, int rows, int width, bool shuffled) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
  if (row >= rows) return;
  const int first = row_ptr[row], end = row_ptr[row + 1], low = blockIdx.y * 32 * EACH + lane;
  float sum[EACH] = {};
  for (int start = first; start < end; start += 32) {
    const bool inside = shuffled && start + lane < end;
    const int my_col = inside ? cols[start + lane] : 0;
    const float my_value = inside ? wide(values[start + lane]) : 0.0f;
    const int many = min(32, end - start);
    for (int i = 0; i < many; ++i) {
      const int col = shuffled ? __shfl_sync(0xffffffff, my_col, i) : cols[start + i];
      const float value = shuffled ? __shfl_sync(0xffffffff, my_value, i) : wide(values[start + i]);
      const T* from = x + static_cast<long long>(col) * width;
#pragma unroll
      for (int e = 0; e < EACH; ++e) {
        if (low + 32 * e < width) sum[e] += value * wide(from[low + 32 * e]);
      }
    }
  }
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    if (low + 32 * e < width) put(out + static_cast<long long>(row) * width + low + 32 * e, sum[e]);
  }
}

template <typename T, int EACH>
void launch(const int* row_ptr, const int* cols, const void* values, const void* x, void* out,
            int rows, int width, int warps, int shuffled, cudaStream_t stream) {
  const T* values_t = static_cast<const T*>(values);
  const T* x_t = static_cast<const T*>(x);
  T* out_t = static_cast<T*>(out);
  const dim3 grid((rows + warps - 1) / warps, (width + 32 * EACH - 1) / (32 * EACH));
  const dim3 block(32, warps);
  multiply_rows<T, EACH><<<grid, block, 0, stream>>>(row_ptr, cols, values_t, x_t, out_t, rows,
                                                     width, shuffled);
}

template <typename T>
void by_each(const int* row_ptr, const int* cols, const void* values, const void* x, void* out,
             int rows, int width, int warps, int each, int shuffled, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(row_ptr, cols, values, x, out, rows, width, warps, shuffled, stream);
  } else if (each == 2) {
    launch<T, 2>(row_ptr, cols, values, x, out, rows, width, warps, shuffled, stream);
  } else if (each == 4) {
    launch<T, 4>(row_ptr, cols, values, x, out, rows, width, warps, shuffled, stream);
  } else {
    launch<T, 8>(row_ptr, cols, values, x, out, rows, width, warps, shuffled, stream);
  }
}

void run(const int* row_ptr, const int* cols, const void* values, const void* x, void* out,
         int type, int rows, int width, int warps, int each, int shuffled, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(row_ptr, cols, values, x, out, rows, width, warps, each, shuffled, stream);
      break;
    case 1:
      by_each<__half>(row_ptr, cols, values, x, out, rows, width, warps, each, shuffled, stream);
      break;
    default:
      by_each<__nv_bfloat16>(row_ptr, cols, values, x, out, rows, width, warps, each, shuffled,
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
         int type, int rows, int width, int warps, int each, int shuffled, cudaStream_t stream);

at::Tensor csr_spmm(const at::Tensor& row_ptr, const at::Tensor& cols, const at::Tensor& values,
                    const at::Tensor& x, int warps, int each, int shuffled) {
  const int64_t rows = row_ptr.size(0) - 1;
  const int64_t width = x.size(1);
  at::Tensor out = at::empty({rows, width}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  run(row_ptr.const_data_ptr<int>(), cols.const_data_ptr<int>(), values.const_data_ptr(),
      x.const_data_ptr(), out.mutable_data_ptr(), type, rows, width, warps, each, shuffled,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_csr_spmm_cuda_warp_a_row",
        BINDING,
        CUDA,
        functions=["csr_spmm"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No band far wider than a row."""
    return 16 * params["EACH"] < shape["D"]


def kernel(row_ptr, cols, values, x, *, WARPS=4, EACH=1, SHUFFLED=True):
    return extension().csr_spmm(row_ptr, cols, values, x, WARPS, EACH, SHUFFLED)
