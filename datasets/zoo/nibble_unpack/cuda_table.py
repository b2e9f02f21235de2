"""CUDA C++: a warp a group: its 16 possible results in shared memory, looked up byte by byte."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.nibble_unpack.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8, 16],
    "GROUPS": [1, 4, 16],
    "SHUFFLED": [False, True],
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

template <typename T> struct alignas(2 * sizeof(T)) Pair { T low, high; };

// The table is in shared memory, or with SHUFFLED a lane holds one entry and is asked for it.
template <typename T, bool SHUFFLED>
__global__ void unpack_groups(const uint8_t* packed, const T* scales, T* out, long long groups,
                              int bytes, int each) {
  __shared__ float tables[16][16];
  const int lane = threadIdx.x % 32, mine = threadIdx.x / 32;
  const long long warp = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  for (int g = 0; g < each; ++g) {
    const long long group = warp * each + g;
    if (group >= groups) return;
    const float entry = static_cast<float>((lane & 15 ^ 8) - 8) * wide(scales[group]);
    if (!SHUFFLED) {
      __syncwarp();
      if (lane < 16) tables[mine][lane] = entry;
      __syncwarp();
    }
    const uint8_t* from = packed + group * bytes;
    Pair<T>* to = reinterpret_cast<Pair<T>*>(out) + group * bytes;
    for (int i = lane; i < (bytes + 31) / 32 * 32; i += 32) {
      const int two = i < bytes ? from[i] : 0;
      Pair<T> pair;
      if (SHUFFLED) {
        put(&pair.low, __shfl_sync(0xffffffffu, entry, two & 15));
        put(&pair.high, __shfl_sync(0xffffffffu, entry, two >> 4));
      } else {
        put(&pair.low, tables[mine][two & 15]);
        put(&pair.high, tables[mine][two >> 4]);
      }
      if (i < bytes) to[i] = pair;
    }
  }
}

template <typename T>
void launch(const uint8_t* packed, const void* scales, void* out, long long groups, int bytes,
            int warps, int each, bool shuffled, cudaStream_t stream) {
  const T* factors = static_cast<const T*>(scales);
  T* to = static_cast<T*>(out);
  const int64_t of_block = int64_t(warps) * each;
  const int blocks = (groups + of_block - 1) / of_block;
  if (shuffled) {
    unpack_groups<T, true>
        <<<blocks, 32 * warps, 0, stream>>>(packed, factors, to, groups, bytes, each);
  } else {
    unpack_groups<T, false>
        <<<blocks, 32 * warps, 0, stream>>>(packed, factors, to, groups, bytes, each);
  }
}

void unpack(const void* packed, const void* scales, void* out, int type, long long groups,
            int bytes, int warps, int each, bool shuffled, cudaStream_t stream) {
  const uint8_t* from = static_cast<const uint8_t*>(packed);
  if (type == 0) launch<float>(from, scales, out, groups, bytes, warps, each, shuffled, stream);
  if (type == 1) launch<__half>(from, scales, out, groups, bytes, warps, each, shuffled, stream);
  if (type == 2) {
    launch<__nv_bfloat16>(from, scales, out, groups, bytes, warps, each, shuffled, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void unpack(const void* packed, const void* scales, void* out, int type, long long groups,
            int bytes, int warps, int each, bool shuffled, cudaStream_t stream);

at::Tensor nibble_unpack(const at::Tensor& packed, const at::Tensor& scales, int group, int warps,
                         int each, bool shuffled) {
  at::Tensor out = at::empty({packed.size(0), 2 * packed.size(1)}, scales.options());
  const at::ScalarType held = scales.scalar_type();
  const int type = held == at::kFloat ? 0 : held == at::kHalf ? 1 : 2;
  unpack(packed.const_data_ptr(), scales.const_data_ptr(), out.mutable_data_ptr(), type,
         scales.numel(), group / 2, warps, each, shuffled, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_nibble_unpack_cuda_table",
        BINDING,
        CUDA,
        functions=["nibble_unpack"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Not far more groups a warp than there are."""
    return params["GROUPS"] * 1000 < shape["M"] * shape["N"] // shape["GROUP"] or (
        params["GROUPS"] == 4
    )


def kernel(packed, scales, group, *, WARPS=4, GROUPS=4, SHUFFLED=True):
    return extension().nibble_unpack(packed, scales, group, WARPS, GROUPS, SHUFFLED)
