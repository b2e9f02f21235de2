"""CUDA C++: lanes of equal digits find one another by match; torch.cumsum is in between."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.counting_sort_digit.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [2, 4, 8, 16],
    "EACH": [4, 8, 16],
    "SLICED": [False, True],
}

CUDA = r"""
#include <cstdint>

__device__ int digit_of(int key, int shift, int digits) { return key >> shift & (digits - 1); }

__global__ void count_digits(const int* keys, int* counts, int size, int shift, int digits,
                             int tile) {
  extern __shared__ int shared[];
  for (int d = threadIdx.x; d < digits; d += blockDim.x) shared[d] = 0;
  __syncthreads();
  const int first = blockIdx.x * tile;
  for (int i = threadIdx.x; i < tile; i += blockDim.x) {
    if (first + i < size) atomicAdd(shared + digit_of(keys[first + i], shift, digits), 1);
  }
  __syncthreads();
  for (int d = threadIdx.x; d < digits; d += blockDim.x) {
    counts[d * gridDim.x + blockIdx.x] = shared[d];
  }
}

// Each warp has 32 * EACH keys in a row and counts of its own. One more digit marks what is none.
// `sliced`: a warp's counts lie next to one another; otherwise a digit's.
template <int EACH>
__global__ void move_keys(const int* keys, const int* counts, const int64_t* upto, int* out,
                          int size, int shift, int digits, bool sliced) {
  extern __shared__ int shared[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int by_digit = sliced ? 1 : warps, by_warp = sliced ? digits + 1 : 1;
  for (int i = threadIdx.x; i < (digits + 1) * warps; i += blockDim.x) shared[i] = 0;
  __syncthreads();
  const int first = (blockIdx.x * warps + warp) * 32 * EACH + lane;
  int held[EACH], rank[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int at = first + i * 32;
    held[i] = at < size ? keys[at] : 0;
    const int digit = at < size ? digit_of(held[i], shift, digits) : digits;
    const unsigned same = __match_any_sync(0xffffffff, digit);
    int* count = shared + digit * by_digit + warp * by_warp;
    const int before = *count;
    rank[i] = before + __popc(same & ((1u << lane) - 1));
    __syncwarp();
    if (rank[i] == before) *count = before + __popc(same);
    __syncwarp();
  }
  __syncthreads();
  for (int d = threadIdx.x; d < digits; d += blockDim.x) {
    const int slot = d * gridDim.x + blockIdx.x;
    int place = static_cast<int>(upto[slot]) - counts[slot];
    for (int w = 0; w < warps; ++w) {
      int* count = shared + d * by_digit + w * by_warp;
      const int mine = *count;
      *count = place;
      place += mine;
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    if (first + i * 32 < size) {
      const int digit = digit_of(held[i], shift, digits);
      out[shared[digit * by_digit + warp * by_warp] + rank[i]] = held[i];
    }
  }
}

void count_any(const int* keys, int* counts, int size, int shift, int digits, int tile, int blocks,
               int threads, cudaStream_t stream) {
  count_digits<<<blocks, threads, digits * 4, stream>>>(keys, counts, size, shift, digits, tile);
}

void move_any(const int* keys, const int* counts, const int64_t* upto, int* out, int size,
              int shift, int digits, int blocks, int warps, int each, bool sliced,
              cudaStream_t stream) {
  const int threads = 32 * warps, shared = (digits + 1) * warps * 4;
  if (each == 4) {
    move_keys<4><<<blocks, threads, shared, stream>>>(keys, counts, upto, out, size, shift, digits,
                                                      sliced);
  } else if (each == 8) {
    move_keys<8><<<blocks, threads, shared, stream>>>(keys, counts, upto, out, size, shift, digits,
                                                      sliced);
  } else {
    move_keys<16><<<blocks, threads, shared, stream>>>(keys, counts, upto, out, size, shift,
                                                       digits, sliced);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void count_any(const int* keys, int* counts, int size, int shift, int digits, int tile, int blocks,
               int threads, cudaStream_t stream);
void move_any(const int* keys, const int* counts, const int64_t* upto, int* out, int size,
              int shift, int digits, int blocks, int warps, int each, bool sliced,
              cudaStream_t stream);

at::Tensor count(const at::Tensor& keys, int bits, int shift, int warps, int each) {
  const int64_t tile = 32 * warps * each;
  const int64_t blocks = (keys.numel() + tile - 1) / tile;
  at::Tensor counts = at::empty({int64_t(1) << bits, blocks}, keys.options());
  count_any(keys.const_data_ptr<int>(), counts.mutable_data_ptr<int>(), keys.numel(), shift,
            1 << bits, tile, blocks, 32 * warps, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return counts;
}

at::Tensor move(const at::Tensor& keys, const at::Tensor& counts, const at::Tensor& upto, int shift,
                int warps, int each, bool sliced) {
  at::Tensor out = at::empty_like(keys);
  move_any(keys.const_data_ptr<int>(), counts.const_data_ptr<int>(),
           upto.const_data_ptr<int64_t>(), out.mutable_data_ptr<int>(), keys.numel(), shift,
           counts.size(0), counts.size(1), warps, each, sliced,
           c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_counting_sort_digit_cuda_matched_lanes",
        BINDING,
        CUDA,
        functions=["count", "move"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Tiles of 512 to 8,192 keys."""
    return 512 <= 32 * params["WARPS"] * params["EACH"] <= 8192


def kernel(keys, bits, shift, *, WARPS=8, EACH=8, SLICED=False):
    built = extension()
    counts = built.count(keys, bits, shift, WARPS, EACH)
    upto = counts.view(-1).cumsum(0)
    return built.move(keys, counts, upto, shift, WARPS, EACH, SLICED)
