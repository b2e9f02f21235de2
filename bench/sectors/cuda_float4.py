"""CUDA C++: float4 loads and stores in strides of the grid, the rest one by one."""

import torch
from torch.utils.cpp_extension import load_inline

TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}
CUDA = r"""
__global__ void scale4(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int start = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  for (int i = start; i < n / 4; i += step) {
    float4 v = reinterpret_cast<const float4*>(x)[i];
    v.x = fmaxf(v.x, 0.0f) * 3.0f; v.y = fmaxf(v.y, 0.0f) * 3.0f;
    v.z = fmaxf(v.z, 0.0f) * 3.0f; v.w = fmaxf(v.w, 0.0f) * 3.0f;
    reinterpret_cast<float4*>(y)[i] = v;
  }
  for (int i = n / 4 * 4 + start; i < n; i += step) y[i] = fmaxf(x[i], 0.0f) * 3.0f;
}

torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  scale4<<<1056, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x);"
extension = load_inline("cuda_float4", DECLARED, CUDA, functions=["run"])


def reference(x):
    return torch.relu(x) * 3.0


def inputs(N=10_000_003, device="cuda"):
    return torch.randn(N, device=device)


def kernel(x):
    return extension.run(x)
