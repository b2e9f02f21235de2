"""CUDA C++: three launches that read the rows: atomic maxima, atomic sums, and the division."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.split_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [128, 256, 512],
    "BLOCKS": [32, 128, 512],
    "VECTOR": [1, 4],
    "FAST": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(float& at, float x) { at = x; }
__device__ void put(__half& at, float x) { at = __float2half(x); }
__device__ void put(__nv_bfloat16& at, float x) { at = __float2bfloat16(x); }

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

// Unsigned numbers from 1 up in the order of the floats; 0 is below all of these.
__device__ unsigned ordered(float x) {
  const unsigned bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ float from_ordered(unsigned bits) {
  return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}
__device__ float raised(float x, bool fast) { return fast ? __expf(x) : expf(x); }

template <typename T, int V>
__global__ void find_peaks(const T* x, unsigned* peaks, int columns) {
  const T* row = x + static_cast<long long>(blockIdx.y) * columns;
  const Pack<T, V>* packs = reinterpret_cast<const Pack<T, V>*>(row);
  float peak = -INFINITY;
  for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < columns / V;
       p += gridDim.x * blockDim.x) {
    const Pack<T, V> pack = packs[p];
#pragma unroll
    for (int i = 0; i < V; ++i) peak = fmaxf(peak, wide(pack.values[i]));
  }
  for (int far = 16; far > 0; far /= 2) {
    peak = fmaxf(peak, __shfl_xor_sync(0xffffffff, peak, far));
  }
  if (threadIdx.x % 32 == 0) atomicMax(peaks + blockIdx.y, ordered(peak));
}

template <typename T, int V>
__global__ void add_up(const T* x, const unsigned* peaks, float* sums, int columns, bool fast) {
  const T* row = x + static_cast<long long>(blockIdx.y) * columns;
  const Pack<T, V>* packs = reinterpret_cast<const Pack<T, V>*>(row);
  const float peak = from_ordered(peaks[blockIdx.y]);
  float sum = 0.0f;
  for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < columns / V;
       p += gridDim.x * blockDim.x) {
    const Pack<T, V> pack = packs[p];
#pragma unroll
    for (int i = 0; i < V; ++i) sum += raised(wide(pack.values[i]) - peak, fast);
  }
  for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
  if (threadIdx.x % 32 == 0) atomicAdd(sums + blockIdx.y, sum);
}

template <typename T, int V>
__global__ void divide(const T* x, const unsigned* peaks, const float* sums, T* out, int columns,
                       bool fast) {
  const long long base = static_cast<long long>(blockIdx.y) * columns;
  const Pack<T, V>* packs = reinterpret_cast<const Pack<T, V>*>(x + base);
  Pack<T, V>* to = reinterpret_cast<Pack<T, V>*>(out + base);
  const float peak = from_ordered(peaks[blockIdx.y]), scale = 1.0f / sums[blockIdx.y];
  for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < columns / V;
       p += gridDim.x * blockDim.x) {
    Pack<T, V> pack = packs[p];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      put(pack.values[i], raised(wide(pack.values[i]) - peak, fast) * scale);
    }
    to[p] = pack;
  }
}

template <typename T, int V>
void launch(const T* x, T* out, unsigned* peaks, float* sums, int rows, int columns, int threads,
            int blocks, bool fast, cudaStream_t stream) {
  const dim3 grid(blocks, rows);
  find_peaks<T, V><<<grid, threads, 0, stream>>>(x, peaks, columns);
  add_up<T, V><<<grid, threads, 0, stream>>>(x, peaks, sums, columns, fast);
  divide<T, V><<<grid, threads, 0, stream>>>(x, peaks, sums, out, columns, fast);
}

template <typename T>
void launch_any(const void* x, void* out, unsigned* peaks, float* sums, int rows, int columns,
                int threads, int blocks, int vector, bool fast, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  if (vector == 1 || columns % vector) {
    launch<T, 1>(from, to, peaks, sums, rows, columns, threads, blocks, fast, stream);
  } else {
    launch<T, 4>(from, to, peaks, sums, rows, columns, threads, blocks, fast, stream);
  }
}

// `known`: zeros; first the peaks, then the sums.
void softmax_rows(const void* x, void* out, int* known, int type, int rows, int columns,
                  int threads, int blocks, int vector, bool fast, cudaStream_t stream) {
  unsigned* peaks = reinterpret_cast<unsigned*>(known);
  float* sums = reinterpret_cast<float*>(known + rows);
  if (type == 0) {
    launch_any<float>(x, out, peaks, sums, rows, columns, threads, blocks, vector, fast, stream);
  } else if (type == 1) {
    launch_any<__half>(x, out, peaks, sums, rows, columns, threads, blocks, vector, fast, stream);
  } else {
    launch_any<__nv_bfloat16>(x, out, peaks, sums, rows, columns, threads, blocks, vector, fast,
                              stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void softmax_rows(const void* x, void* out, int* known, int type, int rows, int columns,
                  int threads, int blocks, int vector, bool fast, cudaStream_t stream);

at::Tensor softmax(const at::Tensor& x, int threads, int blocks, int vector, bool fast) {
  at::Tensor out = at::empty_like(x);
  at::Tensor known = at::zeros({2 * x.size(0)}, x.options().dtype(at::kInt));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  softmax_rows(x.const_data_ptr(), out.mutable_data_ptr(), known.mutable_data_ptr<int>(), type,
               x.size(0), x.size(1), threads, blocks, vector, fast,
               c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_split_softmax_cuda_atomic_steps",
        BINDING,
        CUDA,
        functions=["softmax"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """A pack a thread, or the smallest launch."""
    wanted = params["THREADS"] * params["BLOCKS"] * params["VECTOR"]
    return wanted <= shape["N"] or wanted <= 32768


def kernel(x, *, THREADS=256, BLOCKS=32, VECTOR=4, FAST=True):
    return extension().softmax(x, THREADS, BLOCKS, VECTOR, FAST)
