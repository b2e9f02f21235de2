"""Expected: "too little in flight". One warp a row, one float a lane."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(M=1056, N=32768, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return torch.logcumsumexp(x, 1)[:, -1]


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void log_sums(const float* x, float* out, int n) {
  float peak = -1e30f, total = 0.f;
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 32) {
    const float value = x[blockIdx.x * n + i], next = fmaxf(peak, value);
    total = total * __expf(peak - next) + __expf(value - next);
    peak = next;
  }
  for (int far = 16; far > 0; far /= 2) {
    const float other = __shfl_xor_sync(~0u, peak, far), sum = __shfl_xor_sync(~0u, total, far);
    const float next = fmaxf(peak, other);
    total = total * __expf(peak - next) + sum * __expf(other - next);
    peak = next;
  }
  if (threadIdx.x == 0) out[blockIdx.x] = peak + __logf(total);
}

at::Tensor run(const at::Tensor& x) {
  at::Tensor out = at::empty({x.size(0)}, x.options());
  log_sums<<<x.size(0), 32, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), x.size(1));
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_pointer_walk",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& x);",
        CUDA,
        functions=["run"],
    )


def kernel(x):
    return extension().run(x)
