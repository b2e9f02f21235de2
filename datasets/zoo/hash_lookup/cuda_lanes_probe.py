"""CUDA C++: some lanes look for a key together, each in another of the slots that come next."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.hash_lookup.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "LANES": [2, 4, 8, 16],
    "KEYS": [1, 2, 4, 8],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void probe_together(const int* asked, const int* table, const T* values, T* out,
                               int count, int capacity, int shift, int lanes, int keys) {
  const int lane = threadIdx.x % lanes, group = threadIdx.x % 32 / lanes;
  const unsigned all = ((1u << lanes) - 1) << (group * lanes);
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) / lanes * keys;
  for (int i = first; i < min(first + keys, count); ++i) {
    const int key = asked[i];
    const unsigned home = static_cast<unsigned>(key) * 2654435761u >> shift;
    bool ended = false;
    for (int start = 0; start < 16 && !ended; start += lanes) {
      const unsigned slot = (home + start + lane) & (capacity - 1);
      const int here = table[slot];
      // The first lane that sees the key or nothing decides; lanes of a group act as one.
      const unsigned ends = __ballot_sync(all, here == key || here == -1) & all;
      ended = ends != 0;
      if (ended && threadIdx.x % 32 == __ffs(ends) - 1) {
        T value{};
        if (here == key) value = values[slot];
        out[i] = value;
      }
    }
    if (!ended && lane == 0) out[i] = T{};
  }
}

template <typename T>
void launch(const int* asked, const int* table, const void* values, void* out, int count,
            int capacity, int threads, int lanes, int keys, cudaStream_t stream) {
  const T* values_t = static_cast<const T*>(values);
  T* out_t = static_cast<T*>(out);
  int shift = 32;
  for (int slots = capacity; slots > 1; slots /= 2) --shift;
  const int span = threads / lanes * keys;
  probe_together<T><<<(count + span - 1) / span, threads, 0, stream>>>(
      asked, table, values_t, out_t, count, capacity, shift, lanes, keys);
}

void run(const int* asked, const int* table, const void* values, void* out, int type, int count,
         int capacity, int threads, int lanes, int keys, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(asked, table, values, out, count, capacity, threads, lanes, keys, stream);
      break;
    case 1:
      launch<__half>(asked, table, values, out, count, capacity, threads, lanes, keys, stream);
      break;
    default:
      launch<__nv_bfloat16>(asked, table, values, out, count, capacity, threads, lanes, keys,
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

void run(const int* asked, const int* table, const void* values, void* out, int type, int count,
         int capacity, int threads, int lanes, int keys, cudaStream_t stream);

at::Tensor hash_lookup(const at::Tensor& asked, const at::Tensor& table, const at::Tensor& values,
                       int threads, int lanes, int keys) {
  const int64_t count = asked.size(0);
  const int64_t capacity = table.size(0);
  at::Tensor out = at::empty({count}, values.options());
  const auto kind = values.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(asked.const_data_ptr<int>(), table.const_data_ptr<int>(), values.const_data_ptr(),
      out.mutable_data_ptr(), type, count, capacity, threads, lanes, keys,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_hash_lookup_cuda_lanes_probe",
        BINDING,
        CUDA,
        functions=["hash_lookup"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Everywhere."""
    return True


def kernel(asked, table, values, *, THREADS=256, LANES=2, KEYS=1):
    return extension().hash_lookup(asked, table, values, THREADS, LANES, KEYS)
