"""CUDA C++: a thread a pair with its row of the table in shared memory; no exchange at all."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.edit_distance_batch.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [32, 64, 96, 128, 256],
    "BYTES": [1, 2],
    "B_SHARED": [False, True],
}

CUDA = r"""
// Rows lie side by side, so that a warp's threads are in different banks or in one word.
template <typename C>
__global__ void thread_table(const unsigned char* a, const unsigned char* b, const int* a_length,
                             const int* b_length, int* out, int pairs, int most, bool b_shared) {
  extern __shared__ unsigned char shared[];
  C* cost = reinterpret_cast<C*>(shared);
  unsigned char* text = shared + blockDim.x * most * sizeof(C);
  const int t = threadIdx.x, threads = blockDim.x;
  const int pair = blockIdx.x * threads + t;
  if (pair >= pairs) return;
  a += static_cast<long long>(pair) * most;
  b += static_cast<long long>(pair) * most;
  const int rows = a_length[pair], columns = b_length[pair];
  for (int j = 0; j < columns; ++j) {
    cost[j * threads + t] = j + 1;
    if (b_shared) text[j * threads + t] = b[j];
  }
  for (int i = 0; i < rows; ++i) {
    const int letter = a[i];
    int diagonal = i, left = i + 1;
    for (int j = 0; j < columns; ++j) {
      const int other = b_shared ? text[j * threads + t] : b[j];
      const int above = cost[j * threads + t];
      const int best = min(min(left, above) + 1, diagonal + (other == letter ? 0 : 1));
      cost[j * threads + t] = best;
      diagonal = above;
      left = best;
    }
  }
  out[pair] = cost[(columns - 1) * threads + t];
}

void measure(const unsigned char* a, const unsigned char* b, const int* a_length,
             const int* b_length, int* out, int pairs, int most, int threads, int bytes,
             bool b_shared, cudaStream_t stream) {
  const int blocks = (pairs + threads - 1) / threads;
  const int shared = threads * most * (bytes + (b_shared ? 1 : 0));
  if (bytes == 1) {
    thread_table<unsigned char><<<blocks, threads, shared, stream>>>(a, b, a_length, b_length, out,
                                                                     pairs, most, b_shared);
  } else {
    thread_table<unsigned short><<<blocks, threads, shared, stream>>>(
        a, b, a_length, b_length, out, pairs, most, b_shared);
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
             const int* b_length, int* out, int pairs, int most, int threads, int bytes,
             bool b_shared, cudaStream_t stream);

at::Tensor distances(const at::Tensor& a, const at::Tensor& b, const at::Tensor& a_length,
                     const at::Tensor& b_length, int threads, int bytes, bool b_shared) {
  at::Tensor out = at::empty_like(a_length);
  measure(a.const_data_ptr<unsigned char>(), b.const_data_ptr<unsigned char>(),
          a_length.const_data_ptr<int>(), b_length.const_data_ptr<int>(),
          out.mutable_data_ptr<int>(), a.size(0), a.size(1), threads, bytes, b_shared,
          c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_edit_distance_batch_cuda_thread_table",
        BINDING,
        CUDA,
        functions=["distances"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB."""
    each = params["BYTES"] + params["B_SHARED"]
    return params["THREADS"] * shape["L"] * each <= 48 * 1024


def kernel(a, b, a_length, b_length, letters, *, THREADS=64, BYTES=1, B_SHARED=True):
    return extension().distances(a, b, a_length, b_length, THREADS, BYTES, B_SHARED)
