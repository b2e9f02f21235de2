"""CUDA C++: a block a row; passes of a few bits in shared memory, as many as RANGE needs."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.argsort_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "BITS": [1, 2, 3, 4],
    "PADDED": [False, True],
}

CUDA = r"""
// Entries lie in words of 32 in a row, one more word after each where `padded`, against conflicts.
template <int BITS>
__global__ void radix_rows(const int* keys, int* out, int columns, int key_bits, bool padded) {
  constexpr int DIGITS = 1 << BITS;
  extern __shared__ unsigned shared[];
  __shared__ int sums[32];
  const int t = threadIdx.x, threads = blockDim.x, lane = t % 32, warp = t / 32;
  const int gap = padded ? 32 : 1 << 30;
  const int room = padded ? columns + columns / 32 : columns;
  unsigned* from = shared;
  unsigned* to = shared + room;
  int* counts = reinterpret_cast<int*>(shared + 2 * room);
  const long long row = static_cast<long long>(blockIdx.x) * columns;
  for (int i = t; i < columns; i += threads) {
    from[i + i / gap] = static_cast<unsigned>(keys[row + i]) << 16 | i;
  }
  const int each = (columns + threads - 1) / threads;
  const int first = t * each;
  const int end = first + each < columns ? first + each : columns;
  for (int shift = 16; shift < 16 + key_bits; shift += BITS) {
    // Counts, digit by digit and in a digit thread by thread: sums of them are places.
#pragma unroll
    for (int d = 0; d < DIGITS; ++d) counts[d * threads + t] = 0;
    __syncthreads();
    for (int i = first; i < end; ++i) {
      counts[(from[i + i / gap] >> shift & (DIGITS - 1)) * threads + t] += 1;
    }
    __syncthreads();
    int sum = 0;
#pragma unroll
    for (int d = 0; d < DIGITS; ++d) sum += counts[t * DIGITS + d];
    int upto = sum;
#pragma unroll
    for (int far = 1; far < 32; far *= 2) {
      const int before = __shfl_up_sync(0xffffffff, upto, far);
      if (lane >= far) upto += before;
    }
    if (lane == 31) sums[warp] = upto;
    __syncthreads();
    int place = upto - sum;
    for (int w = 0; w < warp; ++w) place += sums[w];
#pragma unroll
    for (int d = 0; d < DIGITS; ++d) {
      const int count = counts[t * DIGITS + d];
      counts[t * DIGITS + d] = place;
      place += count;
    }
    __syncthreads();
    for (int i = first; i < end; ++i) {
      const unsigned entry = from[i + i / gap];
      const int slot = (entry >> shift & (DIGITS - 1)) * threads + t;
      const int target = counts[slot];
      counts[slot] = target + 1;
      to[target + target / gap] = entry;
    }
    __syncthreads();
    unsigned* spare = from;
    from = to;
    to = spare;
  }
  for (int i = t; i < columns; i += threads) {
    out[row + i] = static_cast<int>(from[i + i / gap] & 0xffff);
  }
}

void sort_rows(const int* keys, int* out, int rows, int columns, int key_bits, int threads,
               int bits, bool padded, cudaStream_t stream) {
  const int room = padded ? columns + columns / 32 : columns;
  const int shared = 8 * room + (threads * 4 << bits);
  switch (bits) {
    case 1:
      radix_rows<1><<<rows, threads, shared, stream>>>(keys, out, columns, key_bits, padded);
      break;
    case 2:
      radix_rows<2><<<rows, threads, shared, stream>>>(keys, out, columns, key_bits, padded);
      break;
    case 3:
      radix_rows<3><<<rows, threads, shared, stream>>>(keys, out, columns, key_bits, padded);
      break;
    default:
      radix_rows<4><<<rows, threads, shared, stream>>>(keys, out, columns, key_bits, padded);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void sort_rows(const int* keys, int* out, int rows, int columns, int key_bits, int threads,
               int bits, bool padded, cudaStream_t stream);

at::Tensor argsort(const at::Tensor& keys, int key_bits, int threads, int bits, bool padded) {
  at::Tensor out = at::empty_like(keys);
  sort_rows(keys.const_data_ptr<int>(), out.mutable_data_ptr<int>(), keys.size(0), keys.size(1),
            key_bits, threads, bits, padded, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_argsort_rows_cuda_radix_passes",
        BINDING,
        CUDA,
        functions=["argsort"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB with the sums; half an element to 64 a thread."""
    N, threads = shape["N"], params["THREADS"]
    room = N + N // 32 if params["PADDED"] else N
    shared = 8 * room + (threads * 4 << params["BITS"]) + 128
    return shared <= 48 * 1024 and 0.5 <= N / threads <= 64


def kernel(keys, below, *, THREADS=128, BITS=4, PADDED=True):
    return extension().argsort(keys, (below - 1).bit_length(), THREADS, BITS, PADDED)
