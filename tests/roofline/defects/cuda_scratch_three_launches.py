"""Expected: "that rectify reads again". Three launches pass a tensor on."""

import functools

import torch
from torch.utils.cpp_extension import load_inline


def inputs(N=2**26, device="cuda"):
    return torch.randn(N, device=device), torch.randn(N, device=device)


def reference(a, b):
    return torch.relu(a * b) + a


CUDA = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>


__global__ void multiply(const float4* a, const float4* b, float4* out) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 x = a[at], y = b[at];
  out[at] = make_float4(x.x * y.x, x.y * y.y, x.z * y.z, x.w * y.w);
}
__global__ void rectify(const float4* a, float4* out) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 x = a[at];
  out[at] = make_float4(fmaxf(x.x, 0.f), fmaxf(x.y, 0.f), fmaxf(x.z, 0.f), fmaxf(x.w, 0.f));
}
__global__ void add(const float4* a, const float4* b, float4* out) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 x = a[at], y = b[at];
  out[at] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

at::Tensor run(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor product = at::empty_like(a), positive = at::empty_like(a), out = at::empty_like(a);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const int blocks = a.numel() / 1024;
  const float4* x = reinterpret_cast<const float4*>(a.const_data_ptr<float>());
  const float4* y = reinterpret_cast<const float4*>(b.const_data_ptr<float>());
  float4* p = reinterpret_cast<float4*>(product.mutable_data_ptr<float>());
  float4* q = reinterpret_cast<float4*>(positive.mutable_data_ptr<float>());
  float4* o = reinterpret_cast<float4*>(out.mutable_data_ptr<float>());
  multiply<<<blocks, 256, 0, stream>>>(x, y, p);
  rectify<<<blocks, 256, 0, stream>>>(p, q);
  add<<<blocks, 256, 0, stream>>>(q, x, o);
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "defect_cuda_scratch_three_launches",
        "#include <torch/extension.h>\nat::Tensor run(const at::Tensor& a, const at::Tensor& b);",
        CUDA,
        functions=["run"],
    )


def kernel(a, b):
    return extension().run(a, b)
