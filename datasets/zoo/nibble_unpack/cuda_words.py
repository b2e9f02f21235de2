"""CUDA C++: a thread unpacks words of eight values and stores them in packs of 16 bytes."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.nibble_unpack.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WORDS": [1, 2, 4],
    "THREADS": [64, 128, 256, 512],
    "APART": [False, True],
}

CUDA = r"""
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(float* at, float x) { *at = x; }
__device__ void put(__half* at, float x) { *at = __float2half(x); }
__device__ void put(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }

template <typename T, int V> struct alignas(V * sizeof(T) > 16 ? 16 : V * sizeof(T)) Pack {
  T values[V];
};

// A thread's words are neighbours, or with APART a block's width away from each other.
template <typename T, int WORDS, bool APART>
__global__ void unpack_words(const uint32_t* packed, const T* scales, T* out, long long words,
                             int words_of_group) {
  const long long block = static_cast<long long>(blockIdx.x) * blockDim.x * WORDS;
#pragma unroll
  for (int w = 0; w < WORDS; ++w) {
    const int mine = threadIdx.x;
    const long long at = block + (APART ? w * blockDim.x + mine : mine * WORDS + w);
    if (at >= words) return;
    const uint32_t word = packed[at];
    const float scale = wide(scales[at / words_of_group]);
    Pack<T, 8> pack;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int value = static_cast<int>(word << (28 - 4 * i)) >> 28;
      put(&pack.values[i], static_cast<float>(value) * scale);
    }
    *reinterpret_cast<Pack<T, 8>*>(out + 8 * at) = pack;
  }
}

template <typename T, int WORDS>
void launch(const uint32_t* packed, const void* scales, void* out, long long words,
            int words_of_group, int threads, bool apart, cudaStream_t stream) {
  const T* factors = static_cast<const T*>(scales);
  T* to = static_cast<T*>(out);
  const int64_t each = int64_t(threads) * WORDS;
  const int blocks = (words + each - 1) / each;
  if (apart) {
    unpack_words<T, WORDS, true>
        <<<blocks, threads, 0, stream>>>(packed, factors, to, words, words_of_group);
  } else {
    unpack_words<T, WORDS, false>
        <<<blocks, threads, 0, stream>>>(packed, factors, to, words, words_of_group);
  }
}

template <typename T>
void by_words(const uint32_t* packed, const void* scales, void* out, long long words,
              int words_of_group, int each, int threads, bool apart, cudaStream_t stream) {
  if (each == 1) launch<T, 1>(packed, scales, out, words, words_of_group, threads, apart, stream);
  if (each == 2) launch<T, 2>(packed, scales, out, words, words_of_group, threads, apart, stream);
  if (each == 4) launch<T, 4>(packed, scales, out, words, words_of_group, threads, apart, stream);
}

void unpack(const void* packed, const void* scales, void* out, int type, long long words,
            int words_of_group, int each, int threads, bool apart, cudaStream_t stream) {
  const uint32_t* from = static_cast<const uint32_t*>(packed);
  if (type == 0) {
    by_words<float>(from, scales, out, words, words_of_group, each, threads, apart, stream);
  }
  if (type == 1) {
    by_words<__half>(from, scales, out, words, words_of_group, each, threads, apart, stream);
  }
  if (type == 2) {
    by_words<__nv_bfloat16>(from, scales, out, words, words_of_group, each, threads, apart,
                            stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void unpack(const void* packed, const void* scales, void* out, int type, long long words,
            int words_of_group, int each, int threads, bool apart, cudaStream_t stream);

at::Tensor nibble_unpack(const at::Tensor& packed, const at::Tensor& scales, int group, int each,
                         int threads, bool apart) {
  at::Tensor out = at::empty({packed.size(0), 2 * packed.size(1)}, scales.options());
  const at::ScalarType held = scales.scalar_type();
  const int type = held == at::kFloat ? 0 : held == at::kHalf ? 1 : 2;
  unpack(packed.const_data_ptr(), scales.const_data_ptr(), out.mutable_data_ptr(), type,
         packed.numel() / 4, group / 8, each, threads, apart, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_nibble_unpack_cuda_words",
        BINDING,
        CUDA,
        functions=["nibble_unpack"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Groups of whole words; one word is not apart from others."""
    return shape["GROUP"] % 8 == 0 and (params["WORDS"] > 1 or not params["APART"])


def kernel(packed, scales, group, *, WORDS=2, THREADS=256, APART=True):
    return extension().nibble_unpack(packed, scales, group, WORDS, THREADS, APART)
