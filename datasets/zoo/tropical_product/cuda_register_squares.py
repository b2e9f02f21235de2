"""CUDA C++: tiles in shared memory and a square of results a thread, as products without min."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.tropical_product.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "TILE": ["32x32", "64x64", "128x64", "128x128"],
    "DEPTH": [8, 16, 32],
    "PADDED": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// Results of a thread lie apart, so that a warp reads neighbours. x's tile is turned.
template <typename T, int BM, int BN, int BK, int EACH, bool PADDED>
__global__ void __launch_bounds__(BM * BN / (EACH * EACH))
    least_sums(const T* x, const T* w, float* out, int M, int N, int K) {
  constexpr int ACROSS = BN / EACH, DOWN = BM / EACH, THREADS = ACROSS * DOWN;
  __shared__ float xs[BK][BM + (PADDED ? 1 : 0)];
  __shared__ float ws[BK][BN];
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  const int tx = threadIdx.x % ACROSS, ty = threadIdx.x / ACROSS;
  float best[EACH][EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
#pragma unroll
    for (int j = 0; j < EACH; ++j) best[i][j] = INFINITY;
  }
  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
      const int m = i / BK, k = i % BK;
      const bool inside = m0 + m < M && k0 + k < K;
      xs[k][m] = inside ? wide(x[static_cast<long long>(m0 + m) * K + k0 + k]) : INFINITY;
    }
    for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
      const int k = i / BN, n = i % BN;
      const bool inside = k0 + k < K && n0 + n < N;
      ws[k][n] = inside ? wide(w[static_cast<long long>(k0 + k) * N + n0 + n]) : INFINITY;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[EACH], b[EACH];
#pragma unroll
      for (int i = 0; i < EACH; ++i) a[i] = xs[k][ty + i * DOWN];
#pragma unroll
      for (int j = 0; j < EACH; ++j) b[j] = ws[k][tx + j * ACROSS];
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) best[i][j] = fminf(best[i][j], a[i] + b[j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int m = m0 + ty + i * DOWN;
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
      const int n = n0 + tx + j * ACROSS;
      if (m < M && n < N) out[static_cast<long long>(m) * N + n] = best[i][j];
    }
  }
}

template <typename T, int BM, int BN, int BK, int EACH>
void launch(const void* x, const void* w, float* out, int M, int N, int K, bool padded,
            cudaStream_t stream) {
  const T* a = static_cast<const T*>(x);
  const T* b = static_cast<const T*>(w);
  const dim3 grid((N + BN - 1) / BN, (M + BM - 1) / BM);
  const int threads = BM * BN / (EACH * EACH);
  if (padded) {
    least_sums<T, BM, BN, BK, EACH, true><<<grid, threads, 0, stream>>>(a, b, out, M, N, K);
  } else {
    least_sums<T, BM, BN, BK, EACH, false><<<grid, threads, 0, stream>>>(a, b, out, M, N, K);
  }
}

template <typename T, int BM, int BN, int EACH>
void by_depth(const void* x, const void* w, float* out, int M, int N, int K, int depth, bool padded,
              cudaStream_t stream) {
  if (depth == 8) launch<T, BM, BN, 8, EACH>(x, w, out, M, N, K, padded, stream);
  if (depth == 16) launch<T, BM, BN, 16, EACH>(x, w, out, M, N, K, padded, stream);
  if (depth == 32) launch<T, BM, BN, 32, EACH>(x, w, out, M, N, K, padded, stream);
}

template <typename T>
void by_tile(const void* x, const void* w, float* out, int M, int N, int K, int high, int across,
             int depth, bool padded, cudaStream_t stream) {
  if (high == 32) {
    by_depth<T, 32, 32, 2>(x, w, out, M, N, K, depth, padded, stream);
  } else if (high == 64) {
    by_depth<T, 64, 64, 4>(x, w, out, M, N, K, depth, padded, stream);
  } else if (across == 64) {
    by_depth<T, 128, 64, 8>(x, w, out, M, N, K, depth, padded, stream);
  } else {
    by_depth<T, 128, 128, 8>(x, w, out, M, N, K, depth, padded, stream);
  }
}

void least_any(const void* x, const void* w, float* out, int type, int M, int N, int K, int high,
               int across, int depth, bool padded, cudaStream_t stream) {
  if (type == 0) by_tile<float>(x, w, out, M, N, K, high, across, depth, padded, stream);
  if (type == 1) by_tile<__half>(x, w, out, M, N, K, high, across, depth, padded, stream);
  if (type == 2) by_tile<__nv_bfloat16>(x, w, out, M, N, K, high, across, depth, padded, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void least_any(const void* x, const void* w, float* out, int type, int M, int N, int K, int high,
               int across, int depth, bool padded, cudaStream_t stream);

at::Tensor tropical(const at::Tensor& x, const at::Tensor& w, int high, int across, int depth,
                    bool padded) {
  at::Tensor out = at::empty({x.size(0), w.size(1)}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  least_any(x.const_data_ptr(), w.const_data_ptr(), out.mutable_data_ptr<float>(), type, x.size(0),
            w.size(1), x.size(1), high, across, depth, padded,
            c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_tropical_product_cuda_register_squares",
        BINDING,
        CUDA,
        functions=["tropical"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No tile larger than the result; 48 KiB of shared memory are never reached."""
    high, across = map(int, params["TILE"].split("x"))
    return high <= shape["M"] and across <= shape["N"]


def kernel(x, w, *, TILE="64x64", DEPTH=16, PADDED=True):
    high, across = map(int, TILE.split("x"))
    return extension().tropical(x, w, high, across, DEPTH, PADDED)
