"""Expected: "a grid-stride loop". One warp a block, one element a thread."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(N=2**26, device="cuda"):
    return (torch.randn(N, device=device),)


def reference(x):
    return x * 2


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void twice(const float* x, float* out) {
  const int at = blockIdx.x * 32 + threadIdx.x;
  out[at] = 2.f * x[at];
}

at::Tensor run(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  twice<<<x.numel() / 32, 32, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), out.mutable_data_ptr<float>());
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_small_blocks",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& x);",
        CUDA,
        functions=["run"],
    )


def kernel(x):
    return extension().run(x)
