"""CUDA C++: full fp32 without tensor cores, float4 from shared memory, a tile in registers."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.gemm_tf32.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "TILE": ["64x64", "128x64", "128x128"],
    "DEPTH": [8, 16],
    "GROUP": [1, 4, 8, 16, 32],
    "AHEAD": [False, True],
}

CUDA = r"""
// A block makes BM x BN results; a thread two stretches of TM / 2 rows by two of four columns, so
// that it reads its factors as float4. With AHEAD the next tiles are loaded before the products.
template <int BM, int BN, int BK, int TM, bool AHEAD>
__global__ void __launch_bounds__(BM * BN / (TM * 8))
    sgemm(const float* x, const float* w, float* out, int M, int N, int K, int group) {
  constexpr int ACROSS = BN / 8, THREADS = BM * BN / (TM * 8);
  constexpr int X_EACH = BM * BK / THREADS, W_EACH = BK * BN / THREADS;
  __shared__ __align__(16) float xs[BK][BM + 4];
  __shared__ __align__(16) float ws[BK][BN];
  const int high = (M + BM - 1) / BM, wide = (N + BN - 1) / BN;
  const int band = blockIdx.x / (group * wide) * group;
  const int within = blockIdx.x % (group * wide), rows = min(group, high - band);
  const int m0 = (band + within % rows) * BM, n0 = within / rows * BN;
  const int tx = threadIdx.x % ACROSS, ty = threadIdx.x / ACROSS;

  float x_next[X_EACH], w_next[W_EACH], sum[TM][8] = {};
  auto fetch = [&](int k0) {
#pragma unroll
    for (int i = 0; i < X_EACH; ++i) {
      const int at = threadIdx.x + i * THREADS, m = m0 + at / BK, k = k0 + at % BK;
      x_next[i] = m < M && k < K ? x[static_cast<long long>(m) * K + k] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < W_EACH; ++i) {
      const int at = threadIdx.x + i * THREADS, k = k0 + at / BN, n = n0 + at % BN;
      w_next[i] = k < K && n < N ? w[static_cast<long long>(k) * N + n] : 0.0f;
    }
  };
  if (AHEAD) fetch(0);
  for (int k0 = 0; k0 < K; k0 += BK) {
    if (!AHEAD) fetch(k0);
#pragma unroll
    for (int i = 0; i < X_EACH; ++i) {
      const int at = threadIdx.x + i * THREADS;
      xs[at % BK][at / BK] = x_next[i];
    }
#pragma unroll
    for (int i = 0; i < W_EACH; ++i) {
      const int at = threadIdx.x + i * THREADS;
      ws[at / BN][at % BN] = w_next[i];
    }
    __syncthreads();
    if (AHEAD && k0 + BK < K) fetch(k0 + BK);
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[8];
#pragma unroll
      for (int i = 0; i < TM; i += 4) {
        *reinterpret_cast<float4*>(a + i) =
            *reinterpret_cast<const float4*>(&xs[k][ty * 4 + i * (BM / TM)]);
      }
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        *reinterpret_cast<float4*>(b + j) =
            *reinterpret_cast<const float4*>(&ws[k][tx * 4 + j * ACROSS]);
      }
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] += a[i] * b[j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int m = m0 + ty * 4 + i / 4 * 4 * (BM / TM) + i % 4;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int n = n0 + tx * 4 + j / 4 * 4 * ACROSS + j % 4;
      if (m < M && n < N) out[static_cast<long long>(m) * N + n] = sum[i][j];
    }
  }
}

template <int BM, int BN, int BK, int TM>
void launch(const float* x, const float* w, float* out, int M, int N, int K, int group, bool ahead,
            cudaStream_t stream) {
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  const int threads = BM * BN / (TM * 8);
  if (ahead) {
    sgemm<BM, BN, BK, TM, true><<<blocks, threads, 0, stream>>>(x, w, out, M, N, K, group);
  } else {
    sgemm<BM, BN, BK, TM, false><<<blocks, threads, 0, stream>>>(x, w, out, M, N, K, group);
  }
}

template <int BM, int BN, int TM>
void by_depth(const float* x, const float* w, float* out, int M, int N, int K, int depth,
              int group, bool ahead, cudaStream_t stream) {
  if (depth == 8) launch<BM, BN, 8, TM>(x, w, out, M, N, K, group, ahead, stream);
  if (depth == 16) launch<BM, BN, 16, TM>(x, w, out, M, N, K, group, ahead, stream);
}

void multiply(const float* x, const float* w, float* out, int M, int N, int K, int high,
              int across, int depth, int group, bool ahead, cudaStream_t stream) {
  if (high == 64) {
    by_depth<64, 64, 4>(x, w, out, M, N, K, depth, group, ahead, stream);
  } else if (across == 64) {
    by_depth<128, 64, 8>(x, w, out, M, N, K, depth, group, ahead, stream);
  } else {
    by_depth<128, 128, 8>(x, w, out, M, N, K, depth, group, ahead, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void multiply(const float* x, const float* w, float* out, int M, int N, int K, int high,
              int across, int depth, int group, bool ahead, cudaStream_t stream);

at::Tensor matmul(const at::Tensor& x, const at::Tensor& w, int high, int across, int depth,
                  int group, bool ahead) {
  at::Tensor out = at::empty({x.size(0), w.size(1)}, x.options());
  multiply(x.const_data_ptr<float>(), w.const_data_ptr<float>(), out.mutable_data_ptr<float>(),
           x.size(0), w.size(1), x.size(1), high, across, depth, group, ahead,
           c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_gemm_tf32_cuda_fp32_pipes",
        BINDING,
        CUDA,
        functions=["matmul"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Not where a few blocks would do all the work."""
    high, across = map(int, params["TILE"].split("x"))
    return shape["M"] * shape["N"] >= 64 * high * across


def kernel(x, w, *, TILE="128x128", DEPTH=8, GROUP=8, AHEAD=True):
    high, across = map(int, TILE.split("x"))
    return extension().matmul(x, w, high, across, DEPTH, GROUP, AHEAD)
