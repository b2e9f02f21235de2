"""Expected: "float4". One byte a thread and request."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(N=2**28, device="cuda"):
    return (torch.randint(0, 255, (N,), dtype=torch.uint8, device=device),)


def reference(x):
    return 255 - x


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void invert(const unsigned char* x, unsigned char* out) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  out[at] = 255 - x[at];
}

at::Tensor run(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  invert<<<x.numel() / 1024, 1024, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<unsigned char>(), out.mutable_data_ptr<unsigned char>());
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_bytes",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& x);",
        CUDA,
        functions=["run"],
    )


def kernel(x):
    return extension().run(x)
