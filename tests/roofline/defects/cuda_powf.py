"""Expected: "products instead of powf". A cube by powf."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(N=2**26, device="cuda"):
    return (torch.randn(N, device=device), torch.tensor([3.0], device=device))


def reference(x, power):
    return x**power


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void cube(const float* x, const float* power, float* out) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  out[at] = powf(x[at], *power);
}

at::Tensor run(const at::Tensor& x, const at::Tensor& power) {
  at::Tensor out = at::empty_like(x);
  cube<<<x.numel() / 512, 512, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), power.const_data_ptr<float>(), out.mutable_data_ptr<float>());
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_powf",
        "#include <torch/extension.h>\n"
        "at::Tensor run(const at::Tensor& x, const at::Tensor& power);",
        CUDA,
        functions=["run"],
    )


def kernel(x, power):
    return extension().run(x, power)
