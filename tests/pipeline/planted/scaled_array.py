"""CUDA C++ that reads one float a thread where it read four."""

import torch
from torch.utils.cpp_extension import load_inline

PLANTED = "vector_width"
SOURCE = r"""
#include <torch/extension.h>
__global__ void wide(const float4* x, float4* out, float factor, int n) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= n) return;
  float4 v = x[at];
  out[at] = make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor);
}
__global__ void narrow(const float* x, float* out, float factor, int n) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < n) out[at] = x[at] * factor;
}
torch::Tensor scaled(torch::Tensor x, double factor, bool plant) {
  auto out = torch::empty_like(x);
  int n = x.numel();
  if (plant) {
    narrow<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), factor, n);
  } else {
    n /= 4;
    wide<<<(n + 255) / 256, 256>>>(
        (const float4*)x.data_ptr<float>(), (float4*)out.data_ptr<float>(), factor, n);
  }
  return out;
}
"""
module = load_inline(
    "scaled_array", "torch::Tensor scaled(torch::Tensor x, double factor, bool plant);", SOURCE,
    functions=["scaled"],
)  # fmt: skip


def inputs(N=1 << 24, device="cuda"):
    return (torch.randn(N, device=device),)


def reference(x):
    return 3.0 * x


def kernel(x, *, PLANT=False):
    return module.scaled(x, 3.0, PLANT)
