"""CUDA C++: a block a row that scans until P is reached, then copies scaled packs and zeroes."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.top_p_mask.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [4, 8, 16, 32],
    "EACH": [1, 4, 8],
    "STREAMED": [False, True],
}

CUDA = r"""
__device__ float scan_warp(float x) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int far = 1; far < 32; far *= 2) {
    const float before = __shfl_up_sync(0xffffffff, x, far);
    if (lane >= far) x += before;
  }
  return x;
}

template <int EACH>
__global__ void top_p_row(const float* x, float* out, int columns, float p, bool streamed) {
  __shared__ float sums[32];
  __shared__ float kept_shared;
  __shared__ int count_shared;
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32;
  const float* from = x + static_cast<long long>(blockIdx.x) * columns;
  float* to = out + static_cast<long long>(blockIdx.x) * columns;
  if (t == 0) {
    kept_shared = 0.0f;
    count_shared = 0;
  }
  float carry = 0.0f;
  for (int start = 0; start < columns && carry < p; start += blockDim.x * EACH) {
    float held[EACH];
    float mine = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int c = start + t * EACH + i;
      held[i] = c < columns ? from[c] : 0.0f;
      mine += held[i];
    }
    const float upto = scan_warp(mine);
    __syncthreads();  // the sums of the chunk before have been read
    if (lane == 31) sums[warp] = upto;
    __syncthreads();
    float before = carry + upto - mine;
    for (int w = 0; w < warps; ++w) {
      if (w < warp) before += sums[w];
      carry += sums[w];
    }
    float kept = 0.0f;
    int count = 0;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      if (before < p && start + t * EACH + i < columns) {
        kept += held[i];
        ++count;
      }
      before += held[i];
    }
    for (int far = 16; far > 0; far /= 2) {
      kept += __shfl_xor_sync(0xffffffff, kept, far);
      count += __shfl_xor_sync(0xffffffff, count, far);
    }
    if (lane == 0 && count) {
      atomicAdd(&kept_shared, kept);
      atomicAdd(&count_shared, count);
    }
  }
  __syncthreads();
  const float scale = 1.0f / kept_shared;
  const int count = count_shared;
  for (int c = t; c < columns; c += blockDim.x) {
    const float y = c < count ? from[c] * scale : 0.0f;
    if (streamed) {
      __stcs(to + c, y);
    } else {
      to[c] = y;
    }
  }
}

void cut_rows(const float* x, float* out, int rows, int columns, float p, int threads, int each,
              bool streamed, cudaStream_t stream) {
  if (each == 1) top_p_row<1><<<rows, threads, 0, stream>>>(x, out, columns, p, streamed);
  if (each == 4) top_p_row<4><<<rows, threads, 0, stream>>>(x, out, columns, p, streamed);
  if (each == 8) top_p_row<8><<<rows, threads, 0, stream>>>(x, out, columns, p, streamed);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void cut_rows(const float* x, float* out, int rows, int columns, float p, int threads, int each,
              bool streamed, cudaStream_t stream);

at::Tensor top_p(const at::Tensor& x, double p, int threads, int each, bool streamed) {
  at::Tensor out = at::empty_like(x);
  cut_rows(x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), x.size(0), x.size(1), p,
           threads, each, streamed, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_top_p_mask_cuda_early_exit",
        BINDING,
        CUDA,
        functions=["top_p"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No chunk far longer than a row."""
    return 32 * params["WARPS"] * params["EACH"] < 2 * shape["N"]


def kernel(x, p, *, WARPS=8, EACH=1, STREAMED=True):
    return extension().top_p(x, p, 32 * WARPS, EACH, STREAMED)
