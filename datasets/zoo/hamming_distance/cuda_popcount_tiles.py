"""CUDA C++: tiles of both codes in shared memory, EACH x EACH distances a thread."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.hamming_distance.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TILE": [32, 64],
    "EACH": [2, 4],
    "DEPTH": [4, 8, 16],
    "PADDED": [False, True],
}

CUDA = r"""
#include <cstdint>

// A thread's distances are TILE / EACH rows and columns apart, so that a warp reads neighbours.
template <int TILE, int EACH, int DEPTH, bool PADDED>
__global__ void hamming_tiles(const uint32_t* a, const uint32_t* b, int* out, int M, int N,
                              int words) {
  constexpr int SIDE = TILE / EACH, PITCH = DEPTH + (PADDED ? 1 : 0);
  __shared__ uint32_t as[TILE][PITCH], bs[TILE][PITCH];
  const int m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE;
  const int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  int counts[EACH][EACH] = {};
  for (int first = 0; first < words; first += DEPTH) {
    for (int i = threadIdx.x; i < TILE * DEPTH; i += SIDE * SIDE) {
      const int row = i / DEPTH, word = first + i % DEPTH;
      const bool there = word < words;
      as[row][i % DEPTH] =
          there && m0 + row < M ? a[static_cast<long long>(m0 + row) * words + word] : 0u;
      bs[row][i % DEPTH] =
          there && n0 + row < N ? b[static_cast<long long>(n0 + row) * words + word] : 0u;
    }
    __syncthreads();
#pragma unroll
    for (int w = 0; w < DEPTH; ++w) {
      uint32_t mine[EACH], other[EACH];
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        mine[i] = as[ty + i * SIDE][w];
        other[i] = bs[tx + i * SIDE][w];
      }
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) counts[i][j] += __popc(mine[i] ^ other[j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int m = m0 + ty + i * SIDE;
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
      const int n = n0 + tx + j * SIDE;
      if (m < M && n < N) out[static_cast<long long>(m) * N + n] = counts[i][j];
    }
  }
}

template <int TILE, int EACH, int DEPTH>
void launch(const uint32_t* a, const uint32_t* b, int* out, int M, int N, int words, bool padded,
            cudaStream_t stream) {
  const dim3 grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
  const int threads = (TILE / EACH) * (TILE / EACH);
  if (padded) {
    hamming_tiles<TILE, EACH, DEPTH, true><<<grid, threads, 0, stream>>>(a, b, out, M, N, words);
  } else {
    hamming_tiles<TILE, EACH, DEPTH, false><<<grid, threads, 0, stream>>>(a, b, out, M, N, words);
  }
}

template <int TILE, int EACH>
void by_depth(const uint32_t* a, const uint32_t* b, int* out, int M, int N, int words, int depth,
              bool padded, cudaStream_t stream) {
  if (depth == 4) launch<TILE, EACH, 4>(a, b, out, M, N, words, padded, stream);
  if (depth == 8) launch<TILE, EACH, 8>(a, b, out, M, N, words, padded, stream);
  if (depth == 16) launch<TILE, EACH, 16>(a, b, out, M, N, words, padded, stream);
}

void distances(const void* a, const void* b, int* out, int M, int N, int words, int tile, int each,
               int depth, bool padded, cudaStream_t stream) {
  const uint32_t* x = static_cast<const uint32_t*>(a);
  const uint32_t* y = static_cast<const uint32_t*>(b);
  if (tile == 32 && each == 2) by_depth<32, 2>(x, y, out, M, N, words, depth, padded, stream);
  if (tile == 32 && each == 4) by_depth<32, 4>(x, y, out, M, N, words, depth, padded, stream);
  if (tile == 64 && each == 2) by_depth<64, 2>(x, y, out, M, N, words, depth, padded, stream);
  if (tile == 64 && each == 4) by_depth<64, 4>(x, y, out, M, N, words, depth, padded, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void distances(const void* a, const void* b, int* out, int M, int N, int words, int tile, int each,
               int depth, bool padded, cudaStream_t stream);

at::Tensor hamming(const at::Tensor& a, const at::Tensor& b, int tile, int each, int depth,
                   bool padded) {
  at::Tensor out = at::empty({a.size(0), b.size(0)}, a.options());
  distances(a.const_data_ptr(), b.const_data_ptr(), out.mutable_data_ptr<int>(), a.size(0),
            b.size(0), a.size(1), tile, each, depth, padded, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_hamming_distance_cuda_popcount_tiles",
        BINDING,
        CUDA,
        functions=["hamming"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No deeper than codes are long, and no more rows of blocks than a grid has."""
    depth = params["DEPTH"]
    return (depth < 2 * shape["WORDS"] or depth == 4) and shape["M"] <= 65535 * params["TILE"]


def kernel(a, b, *, TILE=64, EACH=4, DEPTH=4, PADDED=True):
    return extension().hamming(a, b, TILE, EACH, DEPTH, PADDED)
