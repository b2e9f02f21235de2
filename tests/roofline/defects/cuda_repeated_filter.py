"""Expected: "what the problem needs". A box of 128 is added up anew each time."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(B=512, N=16384, device="cuda"):
    return (torch.randn(B, N, device=device),)


def reference(x):
    sums = torch.cumsum(x, 1)
    return sums[:, 128:] - sums[:, :-128]


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void box(const float* x, float* out, int n) {
  __shared__ float tile[256 + 128];
  const int first = blockIdx.x * 256;
  for (int i = threadIdx.x; i < 384; i += 256)
    tile[i] = first + i < n ? x[blockIdx.y * n + first + i] : 0.f;
  __syncthreads();
  float total = 0.f;
#pragma unroll 8
  for (int i = 1; i <= 128; ++i) total += tile[threadIdx.x + i];
  if (first + threadIdx.x < n - 128) out[blockIdx.y * (n - 128) + first + threadIdx.x] = total;
}

at::Tensor run(const at::Tensor& x) {
  const int b = x.size(0), n = x.size(1);
  at::Tensor out = at::empty({b, n - 128}, x.options());
  box<<<dim3(n / 256, b), 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), n);
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_repeated_filter",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& x);",
        CUDA,
        functions=["run"],
    )


def kernel(x):
    return extension().run(x)
