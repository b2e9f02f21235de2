"""CUDA C++: a block holds its row in registers between its sum of squares and its result."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512, 1024],
    "VECTOR": [1, 2, 4, 8],
    "HELD": [1, 2, 4, 8],
    "ROWS": [1, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(float* at, float x) { *at = x; }
__device__ void put(__half* at, float x) { *at = __float2half(x); }
__device__ void put(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

__device__ float over_block(float mine, float* shared) {
  for (int far = 16; far > 0; far /= 2) mine += __shfl_xor_sync(0xffffffff, mine, far);
  __syncthreads();  // the row before has been read
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
  __syncthreads();
  float all = 0.0f;
  for (int warp = 0; warp < blockDim.x / 32; ++warp) all += shared[warp];
  return all;
}

// Of a row the first HELD packs of each thread stay in registers, others are read again.
template <typename T, int V, int HELD>
__global__ void rms_norm_held(const T* x, const T* weight, T* out, int rows, int columns,
                              float eps, int each) {
  __shared__ float shared[32];
  using P = Pack<T, V>;
  const int packs = columns / V, threads = blockDim.x;
  const P* factors = reinterpret_cast<const P*>(weight);
  const int first = blockIdx.x * each;
  for (int row = first; row < min(rows, first + each); ++row) {
    const P* from = reinterpret_cast<const P*>(x + static_cast<long long>(row) * columns);
    P* to = reinterpret_cast<P*>(out + static_cast<long long>(row) * columns);
    P held[HELD];
    float squares = 0.0f;
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      const int at = h * threads + threadIdx.x;
      if (at < packs) {
        held[h] = from[at];
#pragma unroll
        for (int i = 0; i < V; ++i) squares += wide(held[h].values[i]) * wide(held[h].values[i]);
      }
    }
    for (int at = HELD * threads + threadIdx.x; at < packs; at += threads) {
      const P pack = from[at];
#pragma unroll
      for (int i = 0; i < V; ++i) squares += wide(pack.values[i]) * wide(pack.values[i]);
    }
    const float scale = rsqrtf(over_block(squares, shared) / columns + eps);
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      const int at = h * threads + threadIdx.x;
      if (at < packs) {
        const P factor = factors[at];
#pragma unroll
        for (int i = 0; i < V; ++i) {
          put(&held[h].values[i], wide(held[h].values[i]) * scale * wide(factor.values[i]));
        }
        to[at] = held[h];
      }
    }
    for (int at = HELD * threads + threadIdx.x; at < packs; at += threads) {
      P pack = from[at];
      const P factor = factors[at];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        put(&pack.values[i], wide(pack.values[i]) * scale * wide(factor.values[i]));
      }
      to[at] = pack;
    }
  }
}

template <typename T, int V>
void by_held(const void* x, const void* weight, void* out, int rows, int columns, float eps,
             int threads, int held, int each, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  const T* w = static_cast<const T*>(weight);
  T* to = static_cast<T*>(out);
  const int blocks = (rows + each - 1) / each;
  switch (held) {
    case 1:
      rms_norm_held<T, V, 1>
          <<<blocks, threads, 0, stream>>>(from, w, to, rows, columns, eps, each);
      break;
    case 2:
      rms_norm_held<T, V, 2>
          <<<blocks, threads, 0, stream>>>(from, w, to, rows, columns, eps, each);
      break;
    case 4:
      rms_norm_held<T, V, 4>
          <<<blocks, threads, 0, stream>>>(from, w, to, rows, columns, eps, each);
      break;
    default:
      rms_norm_held<T, V, 8>
          <<<blocks, threads, 0, stream>>>(from, w, to, rows, columns, eps, each);
  }
}

template <typename T>
void by_vector(const void* x, const void* weight, void* out, int rows, int columns, float eps,
               int threads, int vector, int held, int each, cudaStream_t stream) {
  if (columns % vector) vector = 1;
  switch (vector) {
    case 1:
      by_held<T, 1>(x, weight, out, rows, columns, eps, threads, held, each, stream);
      break;
    case 2:
      by_held<T, 2>(x, weight, out, rows, columns, eps, threads, held, each, stream);
      break;
    case 4:
      by_held<T, 4>(x, weight, out, rows, columns, eps, threads, held, each, stream);
      break;
    default:
      by_held<T, 8>(x, weight, out, rows, columns, eps, threads, held, each, stream);
  }
}

void normalise(const void* x, const void* weight, void* out, int type, int rows, int columns,
               float eps, int threads, int vector, int held, int each, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_vector<float>(x, weight, out, rows, columns, eps, threads, vector, held, each, stream);
      break;
    case 1:
      by_vector<__half>(x, weight, out, rows, columns, eps, threads, vector, held, each, stream);
      break;
    default:
      by_vector<__nv_bfloat16>(x, weight, out, rows, columns, eps, threads, vector, held, each,
                               stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void normalise(const void* x, const void* weight, void* out, int type, int rows, int columns,
               float eps, int threads, int vector, int held, int each, cudaStream_t stream);

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, int threads,
                    int vector, int held, int each) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  normalise(x.const_data_ptr(), weight.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0),
            x.size(1), eps, threads, vector, held, each, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_rms_norm_cuda_held_in_registers",
        BINDING,
        CUDA,
        functions=["rms_norm"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Packs that fit the rows, or VECTOR=4 for single values; few registers that hold nothing."""
    threads, vector, held = params["THREADS"], params["VECTOR"], params["HELD"]
    packs = vector in (1, 4) or shape["N"] % vector == 0
    packs_each = shape["N"] / vector / threads
    return packs and vector * held <= 32 and held < max(2, 2 * packs_each) and packs_each <= 256


def kernel(x, weight, *, THREADS=256, VECTOR=4, HELD=1, ROWS=1):
    return extension().rms_norm(x, weight, EPS, THREADS, VECTOR, HELD, ROWS)
