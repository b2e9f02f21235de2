"""CUDA C++: a warp goes along a row; packs of a lane first, then shuffles, then a carry."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.prefix_xor.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8],
    "EACH": [1, 2, 4, 8],
}

CUDA = r"""
#include <cstdint>

// EACH words of a lane are neighbours; what lies before them comes from the lanes below.
template <int EACH>
__global__ void xor_warps(const uint32_t* x, uint32_t* out, int rows, int columns) {
  const int lane = threadIdx.x % 32;
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  const uint32_t* from = x + static_cast<long long>(row) * columns;
  uint32_t* to = out + static_cast<long long>(row) * columns;
  uint32_t carry = 0;
  for (int first = 0; first < columns; first += 32 * EACH) {
    const int at = first + lane * EACH;
    uint32_t held[EACH], total = 0;
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      total ^= at + e < columns ? from[at + e] : 0u;
      held[e] = total;
    }
    uint32_t before = total;
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
      const uint32_t below = __shfl_up_sync(0xffffffffu, before, apart);
      if (lane >= apart) before ^= below;
    }
    const uint32_t all = __shfl_sync(0xffffffffu, before, 31);
    before ^= total ^ carry;
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      if (at + e < columns) to[at + e] = held[e] ^ before;
    }
    carry ^= all;
  }
}

template <int EACH>
void launch(const uint32_t* x, uint32_t* out, int rows, int columns, int warps,
            cudaStream_t stream) {
  const int blocks = (rows + warps - 1) / warps, threads = 32 * warps;
  xor_warps<EACH><<<blocks, threads, 0, stream>>>(x, out, rows, columns);
}

void scan(const void* x, void* out, int rows, int columns, int warps, int each,
          cudaStream_t stream) {
  const uint32_t* from = static_cast<const uint32_t*>(x);
  uint32_t* to = static_cast<uint32_t*>(out);
  if (each == 1) launch<1>(from, to, rows, columns, warps, stream);
  if (each == 2) launch<2>(from, to, rows, columns, warps, stream);
  if (each == 4) launch<4>(from, to, rows, columns, warps, stream);
  if (each == 8) launch<8>(from, to, rows, columns, warps, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void scan(const void* x, void* out, int rows, int columns, int warps, int each,
          cudaStream_t stream);

at::Tensor prefix_xor(const at::Tensor& x, int warps, int each) {
  at::Tensor out = at::empty_like(x);
  scan(x.const_data_ptr(), out.mutable_data_ptr(), x.size(0), x.size(1), warps, each,
  c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_prefix_xor_cuda_warp_a_row",
        BINDING,
        CUDA,
        functions=["prefix_xor"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Rows enough for their warps to share the work."""
    return shape["M"] >= 100 and (16 * params["EACH"] < shape["N"] or params["EACH"] == 4)


def kernel(x, *, WARPS=4, EACH=4):
    return extension().prefix_xor(x, WARPS, EACH)
