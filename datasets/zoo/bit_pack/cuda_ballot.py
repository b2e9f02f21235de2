"""CUDA C++: a warp votes on 32 elements at a time, and its first lane has the word."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.bit_pack.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "WORDS": [1, 2, 4, 8, 32],
}

CUDA = r"""
#include <cuda_fp16.h>
#include <cstdint>

__device__ bool is_set(uint8_t x) { return x != 0; }
__device__ bool is_set(float x) { return x < 0.0f; }
__device__ bool is_set(__half x) { return __half2float(x) < 0.0f; }

// A warp makes WORDS words in a row; lane w keeps word w, so that they are stored together.
template <typename T, int WORDS>
__global__ void pack_votes(const T* x, uint32_t* out, long long rows, int columns, int words) {
  const int lane = threadIdx.x % 32, groups = (words + WORDS - 1) / WORDS;
  const long long warp = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const long long row = warp / groups;
  if (row >= rows) return;
  const int first = static_cast<int>(warp % groups) * WORDS;
  const T* from = x + row * columns;
  uint32_t mine = 0;
#pragma unroll
  for (int w = 0; w < WORDS; ++w) {
    const int column = (first + w) * 32 + lane;
    const bool bit = column < columns && is_set(from[column]);
    const uint32_t word = __ballot_sync(0xffffffffu, bit);
    if (lane == w) mine = word;
  }
  if (lane < WORDS && first + lane < words) out[row * words + first + lane] = mine;
}

template <typename T, int WORDS>
void launch(const void* x, uint32_t* out, long long rows, int columns, int words, int threads,
            cudaStream_t stream) {
  const int64_t warps = rows * ((words + WORDS - 1) / WORDS);
  const int blocks = (warps * 32 + threads - 1) / threads;
  pack_votes<T, WORDS>
      <<<blocks, threads, 0, stream>>>(static_cast<const T*>(x), out, rows, columns, words);
}

template <typename T>
void by_words(const void* x, uint32_t* out, long long rows, int columns, int words, int threads,
              int each, cudaStream_t stream) {
  if (each == 1) launch<T, 1>(x, out, rows, columns, words, threads, stream);
  if (each == 2) launch<T, 2>(x, out, rows, columns, words, threads, stream);
  if (each == 4) launch<T, 4>(x, out, rows, columns, words, threads, stream);
  if (each == 8) launch<T, 8>(x, out, rows, columns, words, threads, stream);
  if (each == 32) launch<T, 32>(x, out, rows, columns, words, threads, stream);
}

void pack_any(const void* x, void* out, int type, long long rows, int columns, int words,
              int threads, int each, cudaStream_t stream) {
  uint32_t* to = static_cast<uint32_t*>(out);
  if (type == 0) by_words<float>(x, to, rows, columns, words, threads, each, stream);
  if (type == 1) by_words<__half>(x, to, rows, columns, words, threads, each, stream);
  if (type == 2) by_words<uint8_t>(x, to, rows, columns, words, threads, each, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void pack_any(const void* x, void* out, int type, long long rows, int columns, int words,
              int threads, int each, cudaStream_t stream);

at::Tensor bit_pack(const at::Tensor& x, int threads, int each) {
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  const int64_t words = (x.size(1) + 31) / 32;
  at::Tensor out = at::empty({x.size(0), words}, x.options().dtype(at::kInt));
  pack_any(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), words, threads,
           each, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_bit_pack_cuda_ballot",
        BINDING,
        CUDA,
        functions=["bit_pack"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No more words a warp than a row has, but for the default."""
    return params["WORDS"] < 2 * -(-shape["N"] // 32) or params["WORDS"] == 4


def kernel(x, *, THREADS=256, WORDS=4):
    return extension().bit_pack(x, THREADS, WORDS)
