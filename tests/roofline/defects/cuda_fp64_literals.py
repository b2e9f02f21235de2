"""Expected: "write 0.5f". Constants without an f are doubles."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(N=2**26, device="cuda"):
    return (torch.randn(N, device=device),)


def reference(x):
    return x * 0.5 * (1 + 0.7978 * x + 0.0356 * x * x * x + 0.001 * x * x * x * x * x)


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void polynomial(const float* x, float* out, int n) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= n) return;
  const float v = x[at];
  out[at] = v * 0.5 * (1.0 + 0.7978 * v + 0.0356 * v * v * v + 0.001 * v * v * v * v * v);
}

at::Tensor run(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  const int n = x.numel();
  polynomial<<<(n + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), n);
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_fp64_literals",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& x);",
        CUDA,
        functions=["run"],
    )


def kernel(x):
    return extension().run(x)
