"""CUDA C++: a blur of 3 by 3 that leaves it to L1 to share what neighbours read."""

import torch
from torch.utils.cpp_extension import load_inline

TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}
CUDA = r"""
__global__ void blur(const float* __restrict__ x, float* y, int rows, int columns) {
  const int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
  if (r >= rows || c >= columns) return;
  float sum = 0.0f;
  for (int i = -1; i <= 1; i++)
    for (int j = -1; j <= 1; j++)
      if (r + i >= 0 && r + i < rows && c + j >= 0 && c + j < columns)
        sum += x[(r + i) * columns + c + j];
  y[r * columns + c] = sum / 9.0f;
}

torch::Tensor run(torch::Tensor x) {
  int rows = x.size(0), columns = x.size(1);
  auto y = torch::empty_like(x);
  blur<<<dim3((columns + 31) / 32, (rows + 7) / 8), dim3(32, 8)>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), rows, columns);
  return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x);"
extension = load_inline("cuda_stencil", DECLARED, CUDA, functions=["run"])


def reference(x):
    return torch.nn.functional.conv2d(
        x[None, None], torch.full((1, 1, 3, 3), 1 / 9, device=x.device), padding=1
    )[0, 0]


def inputs(M=4000, N=4096, device="cuda"):
    return torch.randn(M, N, device=device)


def kernel(x):
    return extension.run(x)
