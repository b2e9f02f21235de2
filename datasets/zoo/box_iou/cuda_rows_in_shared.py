"""CUDA C++: some boxes of the first set in shared memory; a thread compares its own with each."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.box_iou.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 4, 16, 64],
    "THREADS": [64, 128, 256, 512],
    "FAST": [False, True],
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

__device__ float area(float4 a) { return (a.z - a.x) * (a.w - a.y); }

template <bool FAST> __device__ float overlap(float4 a, float4 b) {
  const float across = fmaxf(fminf(a.z, b.z) - fmaxf(a.x, b.x), 0.0f);
  const float down = fmaxf(fminf(a.w, b.w) - fmaxf(a.y, b.y), 0.0f);
  const float both = across * down, all = area(a) + area(b) - both;
  return FAST ? __fdividef(both, all) : both / all;
}

template <typename T, bool FAST>
__global__ void iou_rows(const float4* a, const float4* b, T* out, int M, int N, int rows) {
  __shared__ float4 held[64];
  const int m0 = blockIdx.y * rows, n = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < rows && m0 + threadIdx.x < M) held[threadIdx.x] = a[m0 + threadIdx.x];
  __syncthreads();
  if (n >= N) return;
  const float4 mine = b[n];
  for (int m = m0; m < min(m0 + rows, M); ++m) {
    put(out + static_cast<long long>(m) * N + n, overlap<FAST>(held[m - m0], mine));
  }
}

template <typename T>
void launch(const float4* a, const float4* b, void* out, int M, int N, int rows, int threads,
            bool fast, cudaStream_t stream) {
  T* to = static_cast<T*>(out);
  const dim3 grid((N + threads - 1) / threads, (M + rows - 1) / rows);
  if (fast) {
    iou_rows<T, true><<<grid, threads, 0, stream>>>(a, b, to, M, N, rows);
  } else {
    iou_rows<T, false><<<grid, threads, 0, stream>>>(a, b, to, M, N, rows);
  }
}

void overlaps(const void* a, const void* b, void* out, int type, int M, int N, int rows,
              int threads, bool fast, cudaStream_t stream) {
  const float4* x = static_cast<const float4*>(a);
  const float4* y = static_cast<const float4*>(b);
  if (type == 0) launch<float>(x, y, out, M, N, rows, threads, fast, stream);
  if (type == 1) launch<__half>(x, y, out, M, N, rows, threads, fast, stream);
  if (type == 2) launch<__nv_bfloat16>(x, y, out, M, N, rows, threads, fast, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void overlaps(const void* a, const void* b, void* out, int type, int M, int N, int rows,
              int threads, bool fast, cudaStream_t stream);

at::Tensor box_iou(const at::Tensor& a, const at::Tensor& b, at::ScalarType type, int rows,
                   int threads, bool fast) {
  at::Tensor out = at::empty({a.size(0), b.size(0)}, a.options().dtype(type));
  const int code = type == at::kFloat ? 0 : type == at::kHalf ? 1 : 2;
  overlaps(a.const_data_ptr(), b.const_data_ptr(), out.mutable_data_ptr(), code, a.size(0),
           b.size(0), rows, threads, fast, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_box_iou_cuda_rows_in_shared",
        BINDING,
        CUDA,
        functions=["box_iou"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Not far more rows than there are, and no more blocks of them than a grid has."""
    rows = params["ROWS"]
    return (rows < 2 * shape["M"] or rows == 4) and shape["M"] <= 65535 * rows


def kernel(a, b, dtype, *, ROWS=4, THREADS=128, FAST=True):
    return extension().box_iou(a, b, dtype, ROWS, THREADS, FAST)
