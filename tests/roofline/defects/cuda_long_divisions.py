"""Expected: "% of them integer". 64-bit divisions by strides of run time."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(A=64, B=64, C=64, D=128, device="cuda"):
    return (torch.randn(A, B, C, D, device=device),)


def reference(x):
    return x.permute(0, 2, 1, 3).contiguous()


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void permute(const float* x, float* out, long long b, long long c, long long d) {
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  const long long l = at % d, k = at / d % b, j = at / (d * b) % c, i = at / (d * b * c);
  out[at] = x[((i * b + k) * c + j) * d + l];
}

at::Tensor run(const at::Tensor& x) {
  at::Tensor out = at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options());
  permute<<<x.numel() / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), x.size(1), x.size(2), x.size(3));
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_long_divisions",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& x);",
        CUDA,
        functions=["run"],
    )


def kernel(x):
    return extension().run(x)
