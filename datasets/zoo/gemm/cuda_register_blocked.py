"""CUDA C++: tiles in shared memory, a square of results a thread, no tensor cores."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TILE": ["64x64", "128x64", "128x128"],
    "DEPTH": [8, 16],
    "PADDED": [False, True],
    "GROUP": [1, 2, 4, 8, 16, 32],
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

// A block makes BM x BN results of K in steps of BK; a thread EACH x EACH of them, which lie apart
// so that a warp reads neighbours. x's tile is turned, so that both are read along rows. `group`
// rows of blocks go together through the columns: what they read is still in L2.
template <typename T, int BM, int BN, int BK, int EACH, bool PADDED>
__global__ void __launch_bounds__(BM * BN / (EACH * EACH))
    gemm_registers(const T* x, const T* w, T* out, int M, int N, int K, int group) {
  constexpr int ACROSS = BN / EACH, DOWN = BM / EACH, THREADS = ACROSS * DOWN;
  __shared__ float xs[BK][BM + (PADDED ? 1 : 0)];
  __shared__ float ws[BK][BN];
  const int high = (M + BM - 1) / BM, wide_grid = (N + BN - 1) / BN;
  const int band = blockIdx.x / (group * wide_grid) * group;
  const int within = blockIdx.x % (group * wide_grid), rows = min(group, high - band);
  const int m0 = (band + within % rows) * BM, n0 = within / rows * BN;
  const int tx = threadIdx.x % ACROSS, ty = threadIdx.x / ACROSS;

  float sum[EACH][EACH] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
      const int m = i / BK, k = i % BK;
      const bool inside = m0 + m < M && k0 + k < K;
      xs[k][m] = inside ? wide(x[static_cast<long long>(m0 + m) * K + k0 + k]) : 0.0f;
    }
    for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
      const int k = i / BN, n = i % BN;
      const bool inside = k0 + k < K && n0 + n < N;
      ws[k][n] = inside ? wide(w[static_cast<long long>(k0 + k) * N + n0 + n]) : 0.0f;
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
        for (int j = 0; j < EACH; ++j) sum[i][j] += a[i] * b[j];
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
      if (m < M && n < N) put(out + static_cast<long long>(m) * N + n, sum[i][j]);
    }
  }
}

template <typename T, int BM, int BN, int BK, int EACH>
void launch(const void* x, const void* w, void* out, int M, int N, int K, bool padded, int group,
            cudaStream_t stream) {
  const T* a = static_cast<const T*>(x);
  const T* b = static_cast<const T*>(w);
  T* c = static_cast<T*>(out);
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  const int threads = BM * BN / (EACH * EACH);
  if (padded) {
    gemm_registers<T, BM, BN, BK, EACH, true>
        <<<blocks, threads, 0, stream>>>(a, b, c, M, N, K, group);
  } else {
    gemm_registers<T, BM, BN, BK, EACH, false>
        <<<blocks, threads, 0, stream>>>(a, b, c, M, N, K, group);
  }
}

template <typename T, int BM, int BN, int EACH>
void by_depth(const void* x, const void* w, void* out, int M, int N, int K, int depth, bool padded,
              int group, cudaStream_t stream) {
  if (depth == 8) launch<T, BM, BN, 8, EACH>(x, w, out, M, N, K, padded, group, stream);
  if (depth == 16) launch<T, BM, BN, 16, EACH>(x, w, out, M, N, K, padded, group, stream);
}

template <typename T>
void by_tile(const void* x, const void* w, void* out, int M, int N, int K, int high, int across,
             int depth, bool padded, int group, cudaStream_t stream) {
  if (high == 64) {
    by_depth<T, 64, 64, 4>(x, w, out, M, N, K, depth, padded, group, stream);
  } else if (across == 64) {
    by_depth<T, 128, 64, 8>(x, w, out, M, N, K, depth, padded, group, stream);
  } else {
    by_depth<T, 128, 128, 8>(x, w, out, M, N, K, depth, padded, group, stream);
  }
}

void multiply(const void* x, const void* w, void* out, int type, int M, int N, int K, int high,
              int across, int depth, bool padded, int group, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_tile<float>(x, w, out, M, N, K, high, across, depth, padded, group, stream);
      break;
    case 1:
      by_tile<__half>(x, w, out, M, N, K, high, across, depth, padded, group, stream);
      break;
    default:
      by_tile<__nv_bfloat16>(x, w, out, M, N, K, high, across, depth, padded, group, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void multiply(const void* x, const void* w, void* out, int type, int M, int N, int K, int high,
              int across, int depth, bool padded, int group, cudaStream_t stream);

at::Tensor gemm(const at::Tensor& x, const at::Tensor& w, int high, int across, int depth,
                bool padded, int group) {
  at::Tensor out = at::empty({x.size(0), w.size(1)}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  multiply(x.const_data_ptr(), w.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0),
           w.size(1), x.size(1), high, across, depth, padded, group,
           c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_gemm_cuda_register_blocked",
        BINDING,
        CUDA,
        functions=["gemm"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Not the largest products, which take several milliseconds without tensor cores."""
    return 2 * shape["M"] * shape["N"] * shape["K"] < 1 << 36


def kernel(x, w, *, TILE="64x64", DEPTH=16, PADDED=True, GROUP=4):
    high, across = map(int, TILE.split("x"))
    return extension().gemm(x, w, high, across, DEPTH, PADDED, GROUP)
