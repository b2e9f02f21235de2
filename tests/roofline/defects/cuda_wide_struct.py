"""Expected: "sectors a request where 4 would do". Records of 8 floats, of which one is read."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(N=2**22, device="cuda"):
    return (torch.randn(N, 8, device=device),)


def reference(x):
    return x[:, 3] * 2


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


struct Particle { float values[8]; };
__global__ void energy(const Particle* x, float* out) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  out[at] = 2.f * x[at].values[3];
}

at::Tensor run(const at::Tensor& x) {
  at::Tensor out = at::empty({x.size(0)}, x.options());
  energy<<<x.size(0) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const Particle*>(x.const_data_ptr<float>()), out.mutable_data_ptr<float>());
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_wide_struct",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& x);",
        CUDA,
        functions=["run"],
    )


def kernel(x):
    return extension().run(x)
