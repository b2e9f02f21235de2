"""Expected: "Pad the tile". The columns of an unpadded tile lie in one bank."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(N=8192, device="cuda"):
    return (torch.randn(N, N, device=device),)


def reference(x):
    return x.t().contiguous()


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void transpose(const float* x, float* out, int n) {
  __shared__ float tile[32][32];
  int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * n + column];
  __syncthreads();
  column = blockIdx.y * 32 + threadIdx.x;
  row = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) out[(row + i) * n + column] = tile[threadIdx.x][threadIdx.y + i];
}

at::Tensor run(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  const int n = x.size(0);
  transpose<<<dim3(n / 32, n / 32), dim3(32, 8), 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), n);
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_transpose_conflicts",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& x);",
        CUDA,
        functions=["run"],
    )


def kernel(x):
    return extension().run(x)
