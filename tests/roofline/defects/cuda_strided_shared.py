"""Expected: "bank conflicts". A thread's 32 words lie in one bank."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(N=2**26, device="cuda"):
    return (torch.randn(N, device=device),)


def reference(x):
    return torch.cumsum(x.view(-1, 32), 1).view(-1)


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void prefix(const float* x, float* out) {
  __shared__ float tile[128 * 32];
  const int first = blockIdx.x * 4096;
  for (int i = threadIdx.x; i < 4096; i += 128) tile[i] = x[first + i];
  __syncthreads();
  float total = 0.f;
  for (int i = 0; i < 32; ++i) {
    total += tile[threadIdx.x * 32 + i];
    tile[threadIdx.x * 32 + i] = total;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 4096; i += 128) out[first + i] = tile[i];
}

at::Tensor run(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  prefix<<<x.numel() / 4096, 128, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), out.mutable_data_ptr<float>());
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_strided_shared",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& x);",
        CUDA,
        functions=["run"],
    )


def kernel(x):
    return extension().run(x)
