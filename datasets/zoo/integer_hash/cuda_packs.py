"""CUDA C++: packs of one, two or four numbers a thread, whose chains run side by side."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.integer_hash.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "THREADS": [64, 128, 256, 512, 1024],
    "BLOCKS": [264, 1056, 4224, 16896],
    "EACH": [1, 2, 4],
}

CUDA = r"""
template <int V> struct alignas(4 * V) Words { unsigned values[V]; };

__device__ unsigned mixed(unsigned word) {
  word = (word ^ (word >> 16)) * 0x7FEB352Du;
  word = (word ^ (word >> 15)) * 0x846CA68Bu;
  return word ^ (word >> 16);
}

// What does not fill a pack at the end is done one by one.
template <int EACH>
__global__ void hash(const unsigned* x, unsigned* out, int size, int rounds) {
  const int step = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
  const int packs = size / EACH;
  for (int i = first; i < packs; i += step) {
    Words<EACH> words = reinterpret_cast<const Words<EACH>*>(x)[i];
#pragma unroll 4
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
      for (int e = 0; e < EACH; ++e) words.values[e] = mixed(words.values[e]);
    }
    reinterpret_cast<Words<EACH>*>(out)[i] = words;
  }
  for (int i = packs * EACH + first; i < size; i += step) {
    unsigned word = x[i];
    for (int round = 0; round < rounds; ++round) word = mixed(word);
    out[i] = word;
  }
}

void hash_any(const unsigned* x, unsigned* out, int size, int rounds, int threads, int most,
              int each, cudaStream_t stream) {
  const int wanted = (size + threads * each - 1) / (threads * each);
  const int blocks = wanted < most ? wanted : most;
  if (each == 1) {
    hash<1><<<blocks, threads, 0, stream>>>(x, out, size, rounds);
  } else if (each == 2) {
    hash<2><<<blocks, threads, 0, stream>>>(x, out, size, rounds);
  } else {
    hash<4><<<blocks, threads, 0, stream>>>(x, out, size, rounds);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void hash_any(const unsigned* x, unsigned* out, int size, int rounds, int threads, int most,
              int each, cudaStream_t stream);

at::Tensor hashes(const at::Tensor& x, int rounds, int threads, int most, int each) {
  at::Tensor out = at::empty_like(x);
  hash_any(static_cast<const unsigned*>(x.const_data_ptr()),
           static_cast<unsigned*>(out.mutable_data_ptr()), x.numel(), rounds, threads, most, each,
           c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_integer_hash_cuda_packs",
        BINDING,
        CUDA,
        functions=["hashes"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Not far more threads than numbers."""
    return params["THREADS"] * params["EACH"] * params["BLOCKS"] <= 4 * max(shape["N"], 1 << 20)


def kernel(x, rounds, *, THREADS=256, BLOCKS=1056, EACH=4):
    return extension().hashes(x, rounds, THREADS, BLOCKS, EACH)
