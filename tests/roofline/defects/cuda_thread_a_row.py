"""Expected: "32 sectors a request where 4 would do". One thread a row."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(M=65536, N=512, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return x.sum(1)


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void row_sums(const float* x, float* out, int n) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float total = 0.f;
  for (int i = 0; i < n; ++i) total += x[row * n + i];
  out[row] = total;
}

at::Tensor run(const at::Tensor& x) {
  at::Tensor out = at::empty({x.size(0)}, x.options());
  row_sums<<<x.size(0) / 128, 128, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), x.size(1));
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_thread_a_row",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& x);",
        CUDA,
        functions=["run"],
    )


def kernel(x):
    return extension().run(x)
