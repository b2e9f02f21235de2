"""CUDA C++: row sums of a thread a row, lanes a row apart."""

import torch
from torch.utils.cpp_extension import load_inline

TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}
CUDA = r"""
__global__ void row_sum_naive(const float* x, float* y, int rows, int columns) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float sum = 0.0f;
  for (int c = 0; c < columns; c++) sum += x[(long long)r * columns + c];
  y[r] = sum;
}

torch::Tensor run(torch::Tensor x) {
  int rows = x.size(0), columns = x.size(1);
  auto y = torch::empty({rows}, x.options());
  row_sum_naive<<<(rows + 127) / 128, 128>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), rows, columns);
  return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x);"
extension = load_inline("cuda_row_sum_naive", DECLARED, CUDA, functions=["run"])


def reference(x):
    return x.sum(-1)


def inputs(M=32768, N=500, device="cuda"):
    return torch.randn(M, N, device=device)


def kernel(x):
    return extension.run(x)
