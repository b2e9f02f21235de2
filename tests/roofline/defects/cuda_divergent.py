"""Expected: "branches depend on data". Neighbouring threads take different paths."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(N=2**25, device="cuda"):
    return (
        torch.randn(N, device=device),
        torch.randint(0, 4, (N,), dtype=torch.int32, device=device),
    )


def reference(x, kind):
    powers = torch.stack([x.pow(n) for n in (2, 3, 4, 5)])
    return powers.gather(0, kind[None].long())[0]


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void powers(const float* x, const int* kind, float* out) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  const float value = x[at];
  float found;
  if (kind[at] == 0) found = powf(value, 2.f + 1e-9f * value);
  else if (kind[at] == 1) found = powf(value, 3.f + 1e-8f * value);
  else if (kind[at] == 2) found = powf(value, 4.f + 1e-7f * value);
  else found = powf(value, 5.f + 1e-6f * value);
  out[at] = found;
}

at::Tensor run(const at::Tensor& x, const at::Tensor& kind) {
  at::Tensor out = at::empty_like(x);
  powers<<<x.numel() / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), kind.const_data_ptr<int>(), out.mutable_data_ptr<float>());
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_divergent",
        "#include <torch/extension.h>\n"
        "at::Tensor run(const at::Tensor& x, const at::Tensor& kind);",
        CUDA,
        functions=["run"],
    )


def kernel(x, kind):
    return extension().run(x, kind)
