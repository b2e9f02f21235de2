"""CUDA C++: a thread makes a word or several from vector loads of its own elements."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.bit_pack.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "PACK_BYTES": [1, 4, 8, 16],
}

CUDA = r"""
#include <cuda_fp16.h>
#include <cstdint>

__device__ bool is_set(uint8_t x) { return x != 0; }
__device__ bool is_set(float x) { return x < 0.0f; }
__device__ bool is_set(__half x) { return __half2float(x) < 0.0f; }

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

// Neighbouring threads read 32 elements apart: caches have to serve what packs do not.
template <typename T, int V>
__global__ void pack_words(const T* x, uint32_t* out, long long total, int columns, int words) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= total) return;
  const long long row = at / words;
  const int first = static_cast<int>(at % words) * 32;
  const T* from = x + row * columns + first;
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 32; i += V) {
    if (first + i < columns) {
      const Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(from + i);
#pragma unroll
      for (int v = 0; v < V; ++v) word |= static_cast<uint32_t>(is_set(pack.values[v])) << (i + v);
    }
  }
  out[at] = word;
}

template <typename T, int V>
void launch(const void* x, uint32_t* out, long long rows, int columns, int words, int threads,
            cudaStream_t stream) {
  const int64_t total = rows * words;
  const int blocks = (total + threads - 1) / threads;
  pack_words<T, V>
      <<<blocks, threads, 0, stream>>>(static_cast<const T*>(x), out, total, columns, words);
}

template <typename T>
void by_vector(const void* x, uint32_t* out, long long rows, int columns, int words, int threads,
               int vector, cudaStream_t stream) {
  if (vector == 1) launch<T, 1>(x, out, rows, columns, words, threads, stream);
  if (vector == 2) launch<T, 2>(x, out, rows, columns, words, threads, stream);
  if (vector == 4) launch<T, 4>(x, out, rows, columns, words, threads, stream);
}

void pack_any(const void* x, void* out, int type, long long rows, int columns, int words,
              int threads, int vector, cudaStream_t stream) {
  uint32_t* to = static_cast<uint32_t*>(out);
  if (type == 0) {
    by_vector<float>(x, to, rows, columns, words, threads, vector, stream);
  } else if (type == 1 && vector == 8) {
    launch<__half, 8>(x, to, rows, columns, words, threads, stream);
  } else if (type == 1) {
    by_vector<__half>(x, to, rows, columns, words, threads, vector, stream);
  } else if (vector == 16) {
    launch<uint8_t, 16>(x, to, rows, columns, words, threads, stream);
  } else if (vector == 8) {
    launch<uint8_t, 8>(x, to, rows, columns, words, threads, stream);
  } else {
    by_vector<uint8_t>(x, to, rows, columns, words, threads, vector, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void pack_any(const void* x, void* out, int type, long long rows, int columns, int words,
              int threads, int vector, cudaStream_t stream);

at::Tensor bit_pack(const at::Tensor& x, int threads, int vector) {
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  const int64_t words = (x.size(1) + 31) / 32;
  at::Tensor out = at::empty({x.size(0), words}, x.options().dtype(at::kInt));
  pack_any(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), words, threads,
           vector, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_bit_pack_cuda_word_a_thread",
        BINDING,
        CUDA,
        functions=["bit_pack"],
        no_implicit_headers=True,
    )


def packed(pack_bytes, itemsize, wide):
    """Elements of the widest packs that divide a row."""
    vector = max(pack_bytes // itemsize, 1)
    while wide % vector:
        vector //= 2
    return vector


def valid(params, shape):
    """Packs that differ from those of the default and of 4 bytes."""
    size, wide, pack = itemsize(shape), shape["N"], params["PACK_BYTES"]
    vector = packed(pack, size, wide)
    known = {packed(each, size, wide) for each in (16, 4, 8) if each != pack and pack != 16}
    return pack == 16 or vector not in known


def kernel(x, *, THREADS=128, PACK_BYTES=16):
    vector = packed(PACK_BYTES, x.element_size(), x.shape[1])
    return extension().bit_pack(x, THREADS, vector)
