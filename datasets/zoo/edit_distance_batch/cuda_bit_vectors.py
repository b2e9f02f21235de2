"""CUDA C++: a thread a pair; a row's differences are bits of two words, a letter a few operations.

This is Myers' algorithm for strings of up to 64 letters. Where each letter stands is a word in
shared memory.
"""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.edit_distance_batch.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [32, 64, 128, 256],
    "WORD": [32, 64],
    "CLEAR": ["all", "used"],
}

CUDA = r"""
template <typename W>
__global__ void bit_vectors(const unsigned char* a, const unsigned char* b, const int* a_length,
                            const int* b_length, int* out, int pairs, int most, int letters,
                            bool clear_all) {
  extern __shared__ unsigned long long shared[];
  W* stands = reinterpret_cast<W*>(shared);
  const int t = threadIdx.x, threads = blockDim.x;
  const int pair = blockIdx.x * threads + t;
  if (pair >= pairs) return;
  a += static_cast<long long>(pair) * most;
  b += static_cast<long long>(pair) * most;
  const int rows = a_length[pair], columns = b_length[pair];
  if (clear_all) {
    for (int c = 0; c < letters; ++c) stands[c * threads + t] = 0;
  } else {
    for (int i = 0; i < rows; ++i) stands[a[i] * threads + t] = 0;
    for (int j = 0; j < columns; ++j) stands[b[j] * threads + t] = 0;
  }
  for (int j = 0; j < columns; ++j) stands[b[j] * threads + t] |= static_cast<W>(1) << j;
  const W last = static_cast<W>(1) << (columns - 1);
  W up = ~static_cast<W>(0), down = 0;  // where a column's cost is one more, or one less
  int cost = columns;
  for (int i = 0; i < rows; ++i) {
    const W equal = stands[a[i] * threads + t];
    const W vertical = equal | down;
    const W across = (((equal & up) + up) ^ up) | equal;
    W rising = down | ~(across | up);
    W falling = up & across;
    cost += (rising & last) != 0;
    cost -= (falling & last) != 0;
    rising = rising << 1 | 1;
    falling <<= 1;
    up = falling | ~(vertical | rising);
    down = rising & vertical;
  }
  out[pair] = cost;
}

void measure(const unsigned char* a, const unsigned char* b, const int* a_length,
             const int* b_length, int* out, int pairs, int most, int letters, int threads, int word,
             bool clear_all, cudaStream_t stream) {
  const int blocks = (pairs + threads - 1) / threads, shared = threads * letters * word / 8;
  if (word == 32) {
    bit_vectors<unsigned><<<blocks, threads, shared, stream>>>(
        a, b, a_length, b_length, out, pairs, most, letters, clear_all);
  } else {
    bit_vectors<unsigned long long><<<blocks, threads, shared, stream>>>(
        a, b, a_length, b_length, out, pairs, most, letters, clear_all);
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
             const int* b_length, int* out, int pairs, int most, int letters, int threads, int word,
             bool clear_all, cudaStream_t stream);

at::Tensor distances(const at::Tensor& a, const at::Tensor& b, const at::Tensor& a_length,
                     const at::Tensor& b_length, int letters, int threads, int word,
                     bool clear_all) {
  at::Tensor out = at::empty_like(a_length);
  measure(a.const_data_ptr<unsigned char>(), b.const_data_ptr<unsigned char>(),
          a_length.const_data_ptr<int>(), b_length.const_data_ptr<int>(),
          out.mutable_data_ptr<int>(), a.size(0), a.size(1), letters, threads, word, clear_all,
          c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_edit_distance_batch_cuda_bit_vectors",
        BINDING,
        CUDA,
        functions=["distances"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No more letters than a word has bits; at most 48 KiB."""
    shared = params["THREADS"] * shape["LETTERS"] * params["WORD"] // 8
    return shape["L"] <= params["WORD"] and shared <= 48 * 1024


def kernel(a, b, a_length, b_length, letters, *, THREADS=64, WORD=64, CLEAR="all"):
    return extension().distances(a, b, a_length, b_length, letters, THREADS, WORD, CLEAR == "all")
