"""CUDA C++: a thread a point in registers; the others pass by in tiles in shared memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.knn_distances.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [32, 64, 128, 256],
    "TILE": [32, 64, 128, 256],
}

CUDA = r"""
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }

// Keeps the K smallest in rising order.
template <int K> __device__ void keep(float (&best)[K], float value) {
  if (value >= best[K - 1]) return;
  best[K - 1] = value;
#pragma unroll
  for (int k = K - 1; k > 0; --k) {
    const float low = fminf(best[k - 1], best[k]), high = fmaxf(best[k - 1], best[k]);
    best[k - 1] = low;
    best[k] = high;
  }
}

template <typename T, int D, int K>
__global__ void knn_threads(const T* a, const T* b, float* out, int M, int N, int tile) {
  extern __shared__ float shared[];
  const int m = blockIdx.x * blockDim.x + threadIdx.x;
  float mine[D], best[K];
#pragma unroll
  for (int d = 0; d < D; ++d) mine[d] = m < M ? wide(a[static_cast<long long>(m) * D + d]) : 0.0f;
#pragma unroll
  for (int k = 0; k < K; ++k) best[k] = INFINITY;
  for (int first = 0; first < N; first += tile) {
    const int here = min(tile, N - first);
    __syncthreads();
    for (int i = threadIdx.x; i < here * D; i += blockDim.x) {
      shared[i] = wide(b[static_cast<long long>(first) * D + i]);
    }
    __syncthreads();
    for (int n = 0; n < here; ++n) {
      float sum = 0.0f;
#pragma unroll
      for (int d = 0; d < D; ++d) {
        const float off = mine[d] - shared[n * D + d];
        sum += off * off;
      }
      keep<K>(best, sum);
    }
  }
  if (m >= M) return;
#pragma unroll
  for (int k = 0; k < K; ++k) out[static_cast<long long>(m) * K + k] = best[k];
}

template <typename T, int D, int K>
void launch(const void* a, const void* b, float* out, int M, int N, int threads, int tile,
            cudaStream_t stream) {
  const int blocks = (M + threads - 1) / threads, bytes = 4 * tile * D;
  knn_threads<T, D, K><<<blocks, threads, bytes, stream>>>(
      static_cast<const T*>(a), static_cast<const T*>(b), out, M, N, tile);
}

template <typename T, int D>
void by_count(const void* a, const void* b, float* out, int M, int N, int k, int first, int second,
              cudaStream_t stream) {
  if (k == 1) launch<T, D, 1>(a, b, out, M, N, first, second, stream);
  if (k == 4) launch<T, D, 4>(a, b, out, M, N, first, second, stream);
  if (k == 8) launch<T, D, 8>(a, b, out, M, N, first, second, stream);
}

template <typename T>
void by_width(const void* a, const void* b, float* out, int M, int N, int d, int k, int first,
              int second, cudaStream_t stream) {
  if (d == 2) by_count<T, 2>(a, b, out, M, N, k, first, second, stream);
  if (d == 3) by_count<T, 3>(a, b, out, M, N, k, first, second, stream);
  if (d == 8) by_count<T, 8>(a, b, out, M, N, k, first, second, stream);
  if (d == 16) by_count<T, 16>(a, b, out, M, N, k, first, second, stream);
  if (d == 32) by_count<T, 32>(a, b, out, M, N, k, first, second, stream);
}

void nearest(const void* a, const void* b, float* out, bool halves, int M, int N, int d, int k,
             int first, int second, cudaStream_t stream) {
  if (halves) {
    by_width<__half>(a, b, out, M, N, d, k, first, second, stream);
  } else {
    by_width<float>(a, b, out, M, N, d, k, first, second, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void nearest(const void* a, const void* b, float* out, bool halves, int M, int N, int d, int k,
             int first, int second, cudaStream_t stream);

at::Tensor knn(const at::Tensor& a, const at::Tensor& b, int k, int threads, int tile) {
  at::Tensor out = at::empty({a.size(0), k}, a.options().dtype(at::kFloat));
  const bool halves = a.scalar_type() == at::kHalf;
  nearest(a.const_data_ptr(), b.const_data_ptr(), out.mutable_data_ptr<float>(), halves, a.size(0),
          b.size(0), a.size(1), k, threads, tile, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_knn_distances_cuda_thread_a_point",
        BINDING,
        CUDA,
        functions=["knn"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Dimensions and counts that have an instance."""
    known = shape["D"] in (2, 3, 8, 16, 32) and shape["K"] in (1, 4, 8)
    return known and params["THREADS"] < 2 * shape["M"]


def kernel(a, b, k, *, THREADS=64, TILE=128):
    return extension().knn(a, b, k, THREADS, TILE)
