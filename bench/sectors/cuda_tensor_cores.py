"""CUDA C++: a product by wmma, a warp a tile, operands from global memory."""

import torch
from torch.utils.cpp_extension import load_inline

TOLERANCE = {"rtol": 1e-2, "atol": 1e-1}
CUDA = r"""
#include <mma.h>
using namespace nvcuda;
__global__ void wmma_product(const half* a, const half* b, float* c, int M, int N, int K) {
  const int row = (blockIdx.y * blockDim.y + threadIdx.y) * 16, column = blockIdx.x * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int k = 0; k < K; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
    wmma::load_matrix_sync(left, a + row * K + k, K);
    wmma::load_matrix_sync(right, b + k * N + column, N);
    wmma::mma_sync(sum, left, right, sum);
  }
  wmma::store_matrix_sync(c + row * N + column, sum, N, wmma::mem_row_major);
}

torch::Tensor run(torch::Tensor a, torch::Tensor b) {
  int M = a.size(0), K = a.size(1), N = b.size(1);
  auto c = torch::empty({M, N}, a.options().dtype(torch::kFloat32));
  wmma_product<<<dim3(N / 16, M / 64), dim3(32, 4)>>>(
      reinterpret_cast<const half*>(a.data_ptr<at::Half>()),
      reinterpret_cast<const half*>(b.data_ptr<at::Half>()), c.data_ptr<float>(), M, N, K);
  return c;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor a, torch::Tensor b);"
extension = load_inline("cuda_tensor_cores", DECLARED, CUDA, functions=["run"])


def reference(a, b):
    return a.float() @ b.float()


def inputs(M=1024, N=1024, K=1024, device="cuda"):
    return torch.randn(M, K, device=device).half(), torch.randn(K, N, device=device).half()


def kernel(a, b):
    return extension.run(a, b)
