"""CUDA C++: a transpose whose stores are a column apart."""

import torch
from torch.utils.cpp_extension import load_inline

TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}
CUDA = r"""
__global__ void transpose_naive(const float* x, float* y, int rows, int columns) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows && c < columns) y[c * rows + r] = x[r * columns + c];
}

torch::Tensor run(torch::Tensor x) {
  int rows = x.size(0), columns = x.size(1);
  auto y = torch::empty({columns, rows}, x.options());
  dim3 block(32, 8), grid((columns + 31) / 32, (rows + 7) / 8);
  transpose_naive<<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, columns);
  return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x);"
extension = load_inline("cuda_transpose_naive", DECLARED, CUDA, functions=["run"])


def reference(x):
    return x.t().contiguous()


def inputs(M=4096, N=3000, device="cuda"):
    return torch.randn(M, N, device=device)


def kernel(x):
    return extension.run(x)
