"""CUDA C++: Philox written out, some draws of a thread side by side, hits voted by the warp."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.monte_carlo_pi.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "THREADS": [64, 128, 256, 512],
    "SIDE_BY_SIDE": [1, 2, 4],
    "DRAWS_A_THREAD": [4, 16, 64, 256],
    "VOTE": [False, True],
}

CUDA = r"""
__device__ int hits_of(unsigned a, unsigned b) {
  a >>= 17;
  b >>= 17;
  return a * a + b * b < 1u << 30;
}

// Blocks along y take streams, those along x shares of a stream. With VOTE a warp counts its hits
// by a ballot after each draw; else each thread counts and all are added up at the end.
template <int SIDE, bool VOTE>
__global__ void draw(const int* seeds, int* out, int streams, int draws, int per_block) {
  for (int stream = blockIdx.y; stream < streams; stream += gridDim.y) {
    const unsigned seed = seeds[stream];
    const int begin = blockIdx.x * per_block, end = min(begin + per_block, draws);
    int hits = 0;
    for (int start = begin; start < end; start += blockDim.x * SIDE) {
      unsigned c0[SIDE], c1[SIDE], c2[SIDE], c3[SIDE];
#pragma unroll
      for (int s = 0; s < SIDE; ++s) {
        c0[s] = start + s * blockDim.x + threadIdx.x;
        c1[s] = c2[s] = c3[s] = 0;
      }
      unsigned key = seed, key2 = 0;
#pragma unroll
      for (int round = 0; round < 10; ++round) {
#pragma unroll
        for (int s = 0; s < SIDE; ++s) {
          const unsigned even = c0[s], odd = c2[s];
          c0[s] = __umulhi(0xCD9E8D57u, odd) ^ c1[s] ^ key;
          c2[s] = __umulhi(0xD2511F53u, even) ^ c3[s] ^ key2;
          c1[s] = 0xCD9E8D57u * odd;
          c3[s] = 0xD2511F53u * even;
        }
        key += 0x9E3779B9u;
        key2 += 0xBB67AE85u;
      }
#pragma unroll
      for (int s = 0; s < SIDE; ++s) {
        const bool inside = start + s * static_cast<int>(blockDim.x) + threadIdx.x < end;
        const int one = inside && hits_of(c0[s], c1[s]), two = inside && hits_of(c2[s], c3[s]);
        if (VOTE) {
          hits += __popc(__ballot_sync(0xffffffffu, one)) + __popc(__ballot_sync(0xffffffffu, two));
        } else {
          hits += one + two;
        }
      }
    }
    if (!VOTE) {
#pragma unroll
      for (int apart = 16; apart > 0; apart /= 2) {
        hits += __shfl_xor_sync(0xffffffffu, hits, apart);
      }
    }
    if (threadIdx.x % 32 == 0 && hits) atomicAdd(out + stream, hits);
  }
}

template <int SIDE>
void launch(const int* seeds, int* out, int streams, int draws, int threads, int each, bool vote,
            cudaStream_t stream) {
  const int per_block = threads * each;
  const dim3 grid((draws + per_block - 1) / per_block, streams < 65535 ? streams : 65535);
  if (vote) {
    draw<SIDE, true><<<grid, threads, 0, stream>>>(seeds, out, streams, draws, per_block);
  } else {
    draw<SIDE, false><<<grid, threads, 0, stream>>>(seeds, out, streams, draws, per_block);
  }
}

void draw_any(const int* seeds, int* out, int streams, int draws, int threads, int side, int each,
              bool vote, cudaStream_t stream) {
  if (side == 1) launch<1>(seeds, out, streams, draws, threads, each, vote, stream);
  if (side == 2) launch<2>(seeds, out, streams, draws, threads, each, vote, stream);
  if (side == 4) launch<4>(seeds, out, streams, draws, threads, each, vote, stream);
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void draw_any(const int* seeds, int* out, int streams, int draws, int threads, int side, int each,
              bool vote, cudaStream_t stream);

at::Tensor count_hits(const at::Tensor& seeds, int draws, int threads, int side, int each,
                      bool vote) {
  const int streams = seeds.numel();
  at::Tensor out = at::zeros({streams}, seeds.options());
  draw_any(seeds.const_data_ptr<int>(), out.mutable_data_ptr<int>(), streams, draws, threads, side,
           each, vote, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_monte_carlo_pi_cuda_rounds",
        BINDING,
        CUDA,
        functions=["count_hits"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No block's share is far longer than a stream, nor shorter than what goes side by side."""
    each = params["DRAWS_A_THREAD"]
    near = params["THREADS"] * each < 8 * max(shape["N"], 257)
    return near and each >= params["SIDE_BY_SIDE"]


def kernel(seeds, draws, *, THREADS=128, SIDE_BY_SIDE=2, DRAWS_A_THREAD=16, VOTE=False):
    return extension().count_hits(seeds, draws, THREADS, SIDE_BY_SIDE, DRAWS_A_THREAD, VOTE)
