"""CUDA C++: additions of 4, 8 or 16 bytes at once, which Hopper has; the table is copied first."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.index_add_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512, 1024],
    "EACH": [1, 2, 4],
    "ROUNDS": [1, 2, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T, int EACH> struct alignas(sizeof(T) * EACH) Pack { T values[EACH]; };

// Before Hopper there are no additions wider than 4 bytes.
template <int EACH>
__device__ void add(float* to, const float* x) {
#if __CUDA_ARCH__ >= 900
  if (EACH == 1) atomicAdd(to, x[0]);
  if (EACH == 2) atomicAdd(reinterpret_cast<float2*>(to), make_float2(x[0], x[1]));
  if (EACH == 4) atomicAdd(reinterpret_cast<float4*>(to), make_float4(x[0], x[1], x[2], x[3]));
#else
  for (int e = 0; e < EACH; ++e) atomicAdd(to + e, x[e]);
#endif
}

// A thread takes the packs that lie a grid apart, whichever rows they are of.
template <typename T, int EACH, int ROUNDS>
__global__ void add_packs(const T* rows, const int* index, float* out, int packs, int across,
                          float factor) {
  const int step = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
  Pack<T, EACH> pack[ROUNDS];
  int target[ROUNDS];
#pragma unroll
  for (int r = 0; r < ROUNDS; ++r) {
    const int at = first + r * step;
    target[r] = at < packs ? index[at / across] : -1;
    if (at < packs) pack[r] = reinterpret_cast<const Pack<T, EACH>*>(rows)[at];
  }
#pragma unroll
  for (int r = 0; r < ROUNDS; ++r) {
    if (target[r] < 0) return;
    float x[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) x[e] = wide(pack[r].values[e]) * factor;
    const int place = target[r] * across + (first + r * step) % across;
    add<EACH>(out + static_cast<long long>(place) * EACH, x);
  }
}

template <typename T, int EACH, int ROUNDS>
void launch(const float* table, const void* rows, const int* index, float* out, int count,
            int columns, float factor, int threads, cudaStream_t stream) {
  const T* rows_t = static_cast<const T*>(rows);
  const int across = columns / EACH, packs = count * across, span = threads * ROUNDS;
  add_packs<T, EACH, ROUNDS><<<(packs + span - 1) / span, threads, 0, stream>>>(
      rows_t, index, out, packs, across, factor);
}

template <typename T, int EACH>
void by_rounds(const float* table, const void* rows, const int* index, float* out, int count,
               int columns, float factor, int threads, int rounds, cudaStream_t stream) {
  if (rounds == 1) {
    launch<T, EACH, 1>(table, rows, index, out, count, columns, factor, threads, stream);
  } else if (rounds == 2) {
    launch<T, EACH, 2>(table, rows, index, out, count, columns, factor, threads, stream);
  } else {
    launch<T, EACH, 4>(table, rows, index, out, count, columns, factor, threads, stream);
  }
}

template <typename T>
void by_each(const float* table, const void* rows, const int* index, float* out, int count,
             int columns, float factor, int threads, int each, int rounds, cudaStream_t stream) {
  if (each == 1) {
    by_rounds<T, 1>(table, rows, index, out, count, columns, factor, threads, rounds, stream);
  } else if (each == 2) {
    by_rounds<T, 2>(table, rows, index, out, count, columns, factor, threads, rounds, stream);
  } else {
    by_rounds<T, 4>(table, rows, index, out, count, columns, factor, threads, rounds, stream);
  }
}

void run(const float* table, const void* rows, const int* index, float* out, int type, int count,
         int columns, float factor, int threads, int each, int rounds, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(table, rows, index, out, count, columns, factor, threads, each, rounds,
                     stream);
      break;
    case 1:
      by_each<__half>(table, rows, index, out, count, columns, factor, threads, each, rounds,
                      stream);
      break;
    default:
      by_each<__nv_bfloat16>(table, rows, index, out, count, columns, factor, threads, each,
                             rounds, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const float* table, const void* rows, const int* index, float* out, int type, int count,
         int columns, float factor, int threads, int each, int rounds, cudaStream_t stream);

at::Tensor index_add_rows(const at::Tensor& table, const at::Tensor& rows,
                          const at::Tensor& index, double factor, int threads, int each,
                          int rounds) {
  const int64_t count = rows.size(0);
  const int64_t columns = rows.size(1);
  at::Tensor out = table.clone();
  const int type = rows.scalar_type() == at::kFloat ? 0 : rows.scalar_type() == at::kHalf ? 1 : 2;
  run(table.const_data_ptr<float>(), rows.const_data_ptr(), index.const_data_ptr<int>(),
      out.mutable_data_ptr<float>(), type, count, columns, factor, threads, each, rounds,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_index_add_rows_cuda_wide_atomics",
        BINDING,
        CUDA,
        functions=["index_add_rows"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Packs divide rows."""
    return shape["D"] % params["EACH"] == 0


def kernel(table, rows, index, factor, *, THREADS=256, EACH=1, ROUNDS=1):
    return extension().index_add_rows(table, rows, index, factor, THREADS, EACH, ROUNDS)
