"""Expected: "nvcuda::wmma". A product that may be tf32, by scalar FMAs."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(M=2048, N=2048, K=2048, dtype=torch.float32, device="cuda"):
    return (
        torch.randn(M, K, dtype=dtype, device=device),
        torch.randn(K, N, dtype=dtype, device=device),
    )


def reference(a, b):
    return a @ b


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


// 128 x 128 of the result a block, 8 x 8 a thread.
__global__ void product(const float* a, const float* b, float* out, int m, int n, int k) {
  __shared__ float left[8][128], right[8][128];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int row = blockIdx.y * 128, column = blockIdx.x * 128;
  float sums[8][8] = {};
  for (int at = 0; at < k; at += 8) {
    for (int i = threadIdx.x; i < 1024; i += 256) {
      left[i % 8][i / 8] = a[(row + i / 8) * k + at + i % 8];
      right[i / 128][i % 128] = b[(at + i / 128) * n + column + i % 128];
    }
    __syncthreads();
#pragma unroll
    for (int inner = 0; inner < 8; ++inner) {
      float x[8], y[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        x[i] = left[inner][ty * 8 + i];
        y[i] = right[inner][tx + 16 * i];
      }
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j)
      out[(row + ty * 8 + i) * n + column + tx + 16 * j] = sums[i][j];
}

at::Tensor run(const at::Tensor& a, const at::Tensor& b) {
  const int m = a.size(0), k = a.size(1), n = b.size(1);
  at::Tensor out = at::empty({m, n}, a.options());
  product<<<dim3(n / 128, m / 128), 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      a.const_data_ptr<float>(),
      b.const_data_ptr<float>(),
      out.mutable_data_ptr<float>(), m, n, k);
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_scalar_product",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& a, const at::Tensor& b);",
        CUDA,
        functions=["run"],
    )


def kernel(a, b):
    return extension().run(a, b)
