"""CUDA C++: a warp a pair; a lane has a few columns, and is a row behind the lane before it."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.edit_distance_batch.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8, 16],
    "SPARE": [1, 2],
    "CACHED": [False, True],
}

CUDA = r"""
// Lane l is in row `step - l`: what it needs of lane l - 1 was found one step before.
template <int EACH>
__global__ void wavefront(const unsigned char* a, const unsigned char* b, const int* a_length,
                          const int* b_length, int* out, int pairs, int most, bool cached) {
  const int lane = threadIdx.x % 32;
  const int pair = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (pair >= pairs) return;
  a += static_cast<long long>(pair) * most;
  b += static_cast<long long>(pair) * most;
  const int rows = a_length[pair], columns = b_length[pair];
  int letter[EACH], cost[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int column = lane * EACH + i;
    letter[i] = column < columns ? b[column] : 256;
    cost[i] = column + 1;
  }
  int above_left = lane * EACH;  // the row above, the column before the lane's first
  int letter_a = -1, ahead = -1;
  for (int step = 0; step < rows + 31; ++step) {
    const int row = step - lane;
    int left = __shfl_up_sync(0xffffffff, cost[EACH - 1], 1);
    if (lane == 0) left = row + 1;
    const bool works = row >= 0 && row < rows;
    if (cached) {
      // 32 letters are read at once; lane 0 takes the next, the others what their neighbour had.
      if (step % 32 == 0) ahead = step + lane < rows ? a[step + lane] : -1;
      const int next = __shfl_sync(0xffffffff, ahead, step % 32);
      letter_a = __shfl_up_sync(0xffffffff, letter_a, 1);
      if (lane == 0) letter_a = next;
    } else if (works) {
      letter_a = a[row];
    }
    if (works) {
      int diagonal = above_left;
      above_left = left;
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        const int change = letter[i] == letter_a ? 0 : 1;
        const int best = min(min(left, cost[i]) + 1, diagonal + change);
        diagonal = cost[i];
        cost[i] = best;
        left = best;
        if (row == rows - 1 && lane * EACH + i == columns - 1) out[pair] = best;
      }
    }
  }
}

void measure(const unsigned char* a, const unsigned char* b, const int* a_length,
             const int* b_length, int* out, int pairs, int most, int warps, int each, bool cached,
             cudaStream_t stream) {
  const int blocks = (pairs + warps - 1) / warps, threads = 32 * warps;
  if (each == 1) {
    wavefront<1><<<blocks, threads, 0, stream>>>(a, b, a_length, b_length, out, pairs, most,
                                                 cached);
  } else if (each == 2) {
    wavefront<2><<<blocks, threads, 0, stream>>>(a, b, a_length, b_length, out, pairs, most,
                                                 cached);
  } else if (each == 4) {
    wavefront<4><<<blocks, threads, 0, stream>>>(a, b, a_length, b_length, out, pairs, most,
                                                 cached);
  } else {
    wavefront<8><<<blocks, threads, 0, stream>>>(a, b, a_length, b_length, out, pairs, most,
                                                 cached);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void measure(const unsigned char* a, const unsigned char* b, const int* a_length,
             const int* b_length, int* out, int pairs, int most, int warps, int each, bool cached,
             cudaStream_t stream);

at::Tensor distances(const at::Tensor& a, const at::Tensor& b, const at::Tensor& a_length,
                     const at::Tensor& b_length, int warps, int each, bool cached) {
  at::Tensor out = at::empty_like(a_length);
  measure(a.const_data_ptr<unsigned char>(), b.const_data_ptr<unsigned char>(),
          a_length.const_data_ptr<int>(), b_length.const_data_ptr<int>(),
          out.mutable_data_ptr<int>(), a.size(0), a.size(1), warps, each, cached,
          c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_edit_distance_batch_cuda_wavefront",
        BINDING,
        CUDA,
        functions=["distances"],
        no_implicit_headers=True,
    )


def columns_a_lane(length, spare):
    """The power of two that suffices, times `spare`, which leaves lanes idle."""
    return spare << (max(length - 1, 31) // 32).bit_length()


def valid(params, shape):
    """Strings of at most 128 letters, and 8 columns a lane."""
    return shape["L"] <= 128 and columns_a_lane(shape["L"], params["SPARE"]) <= 8


def kernel(a, b, a_length, b_length, letters, *, WARPS=4, SPARE=1, CACHED=False):
    each = columns_a_lane(a.shape[1], SPARE)
    return extension().distances(a, b, a_length, b_length, WARPS, each, CACHED)
