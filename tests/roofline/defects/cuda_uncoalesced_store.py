"""Expected: "32 sectors a request where 4 would do". A naive transpose."""

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
  const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
  out[column * n + row] = x[row * n + column];
}

at::Tensor run(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  const int n = x.size(0);
  transpose<<<dim3(n / 32, n / 8), dim3(32, 8), 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), n);
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_uncoalesced_store",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& x);",
        CUDA,
        functions=["run"],
    )


def kernel(x):
    return extension().run(x)
