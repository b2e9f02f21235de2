"""CUDA C++ with launch bounds that leave too few registers for a table of sums."""

import torch
from torch.utils.cpp_extension import load_inline

PLANTED = "spills"
SOURCE = r"""
#include <torch/extension.h>
template <int WIDTH> __device__ __forceinline__ void sums(const float* x, float* out, int n) {
  float total[WIDTH];
  #pragma unroll
  for (int i = 0; i < WIDTH; ++i) total[i] = i;
  for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x) {
    float v = x[at];
    #pragma unroll
    for (int i = 0; i < WIDTH; ++i) total[i] = total[i] * v + total[(i * 7 + 3) % WIDTH];
  }
  float all = 0;
  #pragma unroll
  for (int i = 0; i < WIDTH; ++i) all += total[i] * total[WIDTH - 1 - i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = all;
}
__global__ void roomy(const float* x, float* out, int n) { sums<48>(x, out, n); }
__global__ void __launch_bounds__(256, 8) tight(const float* x, float* out, int n) {
  sums<48>(x, out, n);
}
torch::Tensor summed(torch::Tensor x, bool plant) {
  auto out = torch::empty({264 * 256}, x.options());
  int n = x.numel();
  if (plant) tight<<<264, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
  else roomy<<<264, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""
module = load_inline(
    "cuda_sums", "torch::Tensor summed(torch::Tensor x, bool plant);", SOURCE, functions=["summed"]
)


def inputs(N=1 << 22, device="cuda"):
    return (torch.randn(N, device=device),)


def reference(x):
    return x[: 264 * 256].clone()


def kernel(x, *, PLANT=False):
    return module.summed(x, PLANT)
