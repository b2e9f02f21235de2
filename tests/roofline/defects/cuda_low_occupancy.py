"""Expected: "Use less shared memory a block". 64 threads that reserve 64 KiB of shared memory."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(M=8192, N=8192, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return x.sum(1)


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void sums(const float* x, float* out, int n) {
  extern __shared__ float shared[];
  float total = 0.f;
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 64) total += x[blockIdx.x * n + i];
  shared[threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 64; ++i) total += shared[i];
    out[blockIdx.x] = total;
  }
}

at::Tensor run(const at::Tensor& x) {
  at::Tensor out = at::empty({x.size(0)}, x.options());
  cudaFuncSetAttribute(sums, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  sums<<<x.size(0), 64, 65536, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), x.size(1));
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_low_occupancy",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& x);",
        CUDA,
        functions=["run"],
    )


def kernel(x):
    return extension().run(x)
