"""CUDA C++: a thread looks for a key slot by slot; EACH keys of a thread are a grid apart."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.hash_lookup.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512, 1024],
    "EACH": [1, 2, 4, 8],
    "FIRST": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// With `ahead`, the first slots of all keys are read before any key is looked for further.
template <typename T, int EACH>
__global__ void look_up(const int* asked, const int* table, const T* values, T* out, int count,
                        int capacity, int shift, bool ahead) {
  const int step = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
  int key[EACH], seen[EACH];
  unsigned slot[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int i = first + e * step;
    key[e] = i < count ? asked[i] : 0;
    slot[e] = static_cast<unsigned>(key[e]) * 2654435761u >> shift;
    if (ahead) seen[e] = table[slot[e]];
  }
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int i = first + e * step;
    if (i >= count) return;
    int here = ahead ? seen[e] : table[slot[e]];
    for (int probe = 1; probe < 16 && here != key[e] && here != -1; ++probe) {
      slot[e] = (slot[e] + 1) & (capacity - 1);
      here = table[slot[e]];
    }
    T value{};
    if (here == key[e]) value = values[slot[e]];
    out[i] = value;
  }
}

template <typename T, int EACH>
void launch(const int* asked, const int* table, const void* values, void* out, int count,
            int capacity, int threads, int ahead, cudaStream_t stream) {
  const T* values_t = static_cast<const T*>(values);
  T* out_t = static_cast<T*>(out);
  int shift = 32;
  for (int slots = capacity; slots > 1; slots /= 2) --shift;
  const int span = threads * EACH;
  look_up<T, EACH><<<(count + span - 1) / span, threads, 0, stream>>>(
      asked, table, values_t, out_t, count, capacity, shift, ahead);
}

template <typename T>
void by_each(const int* asked, const int* table, const void* values, void* out, int count,
             int capacity, int threads, int each, int ahead, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(asked, table, values, out, count, capacity, threads, ahead, stream);
  } else if (each == 2) {
    launch<T, 2>(asked, table, values, out, count, capacity, threads, ahead, stream);
  } else if (each == 4) {
    launch<T, 4>(asked, table, values, out, count, capacity, threads, ahead, stream);
  } else {
    launch<T, 8>(asked, table, values, out, count, capacity, threads, ahead, stream);
  }
}

void run(const int* asked, const int* table, const void* values, void* out, int type, int count,
         int capacity, int threads, int each, int ahead, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(asked, table, values, out, count, capacity, threads, each, ahead, stream);
      break;
    case 1:
      by_each<__half>(asked, table, values, out, count, capacity, threads, each, ahead, stream);
      break;
    default:
      by_each<__nv_bfloat16>(asked, table, values, out, count, capacity, threads, each, ahead,
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
         int capacity, int threads, int each, int ahead, cudaStream_t stream);

at::Tensor hash_lookup(const at::Tensor& asked, const at::Tensor& table, const at::Tensor& values,
                       int threads, int each, int ahead) {
  const int64_t count = asked.size(0);
  const int64_t capacity = table.size(0);
  at::Tensor out = at::empty({count}, values.options());
  const auto kind = values.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(asked.const_data_ptr<int>(), table.const_data_ptr<int>(), values.const_data_ptr(),
      out.mutable_data_ptr(), type, count, capacity, threads, each, ahead,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_hash_lookup_cuda_thread_a_key",
        BINDING,
        CUDA,
        functions=["hash_lookup"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """One key a thread has no other first."""
    return params["EACH"] > 1 or not params["FIRST"]


def kernel(asked, table, values, *, THREADS=256, EACH=4, FIRST=True):
    return extension().hash_lookup(asked, table, values, THREADS, EACH, FIRST)
