"""CUDA C++: a block a row; histograms of a few bits in shared memory narrow down the value."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.quantile_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [128, 256, 512, 1024],
    "BITS": [4, 8],
    "COPIES": [1, 4],
    "UNROLL": [1, 4],
}

CUDA = r"""
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ void put(float* at, float x) { *at = x; }
__device__ void put(__half* at, float x) { *at = __float2half(x); }

// Integers from 0 up in the order of the floats.
__device__ unsigned ordered(float x) {
  const unsigned bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Warp by warp another of `copies` of the counts.
template <typename T, int BITS, int UNROLL>
__global__ void select_row(const T* x, T* out, int columns, int k, int copies) {
  constexpr int BINS = 1 << BITS;
  __shared__ int counts[4 * BINS];
  __shared__ unsigned prefix_shared;
  __shared__ int rank_shared;
  const int t = threadIdx.x;
  const T* row = x + static_cast<long long>(blockIdx.x) * columns;
  int* mine = counts + t / 32 % copies * BINS;
  unsigned prefix = 0;
  int rank = k - 1;
  for (int shift = 32 - BITS; shift >= 0; shift -= BITS) {
    for (int i = t; i < copies * BINS; i += blockDim.x) counts[i] = 0;
    __syncthreads();
#pragma unroll UNROLL
    for (int c = t; c < columns; c += blockDim.x) {
      const unsigned bits = ordered(wide(row[c]));
      const unsigned alike = (bits ^ prefix) >> shift;
      if (alike < BINS) atomicAdd(mine + (bits >> shift & (BINS - 1)), 1);
    }
    __syncthreads();
    if (t < 32) {
      // A lane has BINS / 32 bins or one; lanes scan what they hold.
      constexpr int EACH = BINS < 32 ? 1 : BINS / 32;
      int held[EACH];
      int sum = 0;
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        held[i] = 0;
        const int bin = t * EACH + i;
        for (int copy = 0; copy < copies; ++copy) {
          if (bin < BINS) held[i] += counts[copy * BINS + bin];
        }
        sum += held[i];
      }
      int before = sum;
#pragma unroll
      for (int far = 1; far < 32; far *= 2) {
        const int other = __shfl_up_sync(0xffffffff, before, far);
        if (t >= far) before += other;
      }
      before -= sum;
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        if (before <= rank && rank < before + held[i]) {
          prefix_shared = prefix | static_cast<unsigned>(t * EACH + i) << shift;
          rank_shared = rank - before;
        }
        before += held[i];
      }
    }
    __syncthreads();
    prefix = prefix_shared;
    rank = rank_shared;
  }
  if (t == 0) {
    const unsigned bits = prefix & 0x80000000u ? prefix & 0x7fffffffu : ~prefix;
    put(out + blockIdx.x, __uint_as_float(bits));
  }
}

template <typename T, int BITS>
void launch(const void* x, void* out, int rows, int columns, int k, int threads, int copies,
            int unroll, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  if (unroll == 1) {
    select_row<T, BITS, 1><<<rows, threads, 0, stream>>>(from, to, columns, k, copies);
  } else {
    select_row<T, BITS, 4><<<rows, threads, 0, stream>>>(from, to, columns, k, copies);
  }
}

template <typename T>
void launch_bits(const void* x, void* out, int rows, int columns, int k, int threads, int bits,
                 int copies, int unroll, cudaStream_t stream) {
  if (bits == 4) launch<T, 4>(x, out, rows, columns, k, threads, copies, unroll, stream);
  if (bits == 8) launch<T, 8>(x, out, rows, columns, k, threads, copies, unroll, stream);
}

void select_any(const void* x, void* out, bool half, int rows, int columns, int k, int threads,
                int bits, int copies, int unroll, cudaStream_t stream) {
  if (half) {
    launch_bits<__half>(x, out, rows, columns, k, threads, bits, copies, unroll, stream);
  } else {
    launch_bits<float>(x, out, rows, columns, k, threads, bits, copies, unroll, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void select_any(const void* x, void* out, bool half, int rows, int columns, int k, int threads,
                int bits, int copies, int unroll, cudaStream_t stream);

at::Tensor kth(const at::Tensor& x, int k, int threads, int bits, int copies, int unroll) {
  at::Tensor out = at::empty({x.size(0)}, x.options());
  select_any(x.const_data_ptr(), out.mutable_data_ptr(), x.scalar_type() == at::kHalf, x.size(0),
             x.size(1), k, threads, bits, copies, unroll, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_quantile_rows_cuda_radix_select",
        BINDING,
        CUDA,
        functions=["kth"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No block larger than a row, at most 4,096 columns a thread."""
    return params["THREADS"] <= shape["N"] <= 4096 * params["THREADS"]


def kernel(x, k, *, THREADS=256, BITS=8, COPIES=4, UNROLL=4):
    return extension().kth(x, k, THREADS, BITS, COPIES, UNROLL)
