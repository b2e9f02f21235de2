"""CUDA C++: some queries in shared memory; a thread goes through their distances from its code."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.hamming_distance.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "QUERIES": [1, 4, 16, 32],
    "THREADS": [64, 128, 256],
    "VECTOR": [1, 2, 4],
}

CUDA = r"""
#include <cstdint>

template <int V> struct alignas(4 * V) Words { uint32_t values[V]; };

// A thread's code is read in packs of V words; every query's counts stay in registers.
template <int QUERIES, int V>
__global__ void hamming_queries(const uint32_t* a, const uint32_t* b, int* out, int M, int N,
                                int words) {
  extern __shared__ uint32_t shared[];
  const int m0 = blockIdx.y * QUERIES, n = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = threadIdx.x; i < QUERIES * words; i += blockDim.x) {
    const int m = m0 + i / words;
    shared[i] = m < M ? a[static_cast<long long>(m) * words + i % words] : 0u;
  }
  __syncthreads();
  if (n >= N) return;
  int counts[QUERIES] = {};
  const uint32_t* mine = b + static_cast<long long>(n) * words;
  for (int w = 0; w < words; w += V) {
    const Words<V> pack = *reinterpret_cast<const Words<V>*>(mine + w);
#pragma unroll
    for (int q = 0; q < QUERIES; ++q) {
#pragma unroll
      for (int v = 0; v < V; ++v) counts[q] += __popc(pack.values[v] ^ shared[q * words + w + v]);
    }
  }
#pragma unroll
  for (int q = 0; q < QUERIES; ++q) {
    if (m0 + q < M) out[static_cast<long long>(m0 + q) * N + n] = counts[q];
  }
}

template <int QUERIES>
void launch(const uint32_t* a, const uint32_t* b, int* out, int M, int N, int words, int threads,
            int vector, cudaStream_t stream) {
  const dim3 grid((N + threads - 1) / threads, (M + QUERIES - 1) / QUERIES);
  const int bytes = 4 * QUERIES * words;
  if (vector == 1) {
    hamming_queries<QUERIES, 1><<<grid, threads, bytes, stream>>>(a, b, out, M, N, words);
  }
  if (vector == 2) {
    hamming_queries<QUERIES, 2><<<grid, threads, bytes, stream>>>(a, b, out, M, N, words);
  }
  if (vector == 4) {
    hamming_queries<QUERIES, 4><<<grid, threads, bytes, stream>>>(a, b, out, M, N, words);
  }
}

void distances(const void* a, const void* b, int* out, int M, int N, int words, int queries,
               int threads, int vector, cudaStream_t stream) {
  const uint32_t* x = static_cast<const uint32_t*>(a);
  const uint32_t* y = static_cast<const uint32_t*>(b);
  if (queries == 1) launch<1>(x, y, out, M, N, words, threads, vector, stream);
  if (queries == 4) launch<4>(x, y, out, M, N, words, threads, vector, stream);
  if (queries == 16) launch<16>(x, y, out, M, N, words, threads, vector, stream);
  if (queries == 32) launch<32>(x, y, out, M, N, words, threads, vector, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void distances(const void* a, const void* b, int* out, int M, int N, int words, int queries,
               int threads, int vector, cudaStream_t stream);

at::Tensor hamming(const at::Tensor& a, const at::Tensor& b, int queries, int threads,
                   int vector) {
  at::Tensor out = at::empty({a.size(0), b.size(0)}, a.options());
  distances(a.const_data_ptr(), b.const_data_ptr(), out.mutable_data_ptr<int>(), a.size(0),
            b.size(0), a.size(1), queries, threads, vector, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_hamming_distance_cuda_query_in_shared",
        BINDING,
        CUDA,
        functions=["hamming"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Whole packs; not far more queries than there are, nor rows of blocks than a grid has."""
    fits = shape["WORDS"] % params["VECTOR"] == 0 and shape["M"] <= 65535 * params["QUERIES"]
    return fits and (params["QUERIES"] < 2 * shape["M"] or params["QUERIES"] == 4)


def kernel(a, b, *, QUERIES=4, THREADS=128, VECTOR=2):
    return extension().hamming(a, b, QUERIES, THREADS, VECTOR)
