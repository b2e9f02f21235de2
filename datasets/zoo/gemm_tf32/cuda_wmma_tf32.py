"""CUDA C++: wmma in tf32 from tiles that cp.async brings; factors rounded in registers or not."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.gemm_tf32.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "TILE": ["64x64", "64x128", "128x128"],
    "STAGES": [2, 3, 4],
    "GROUP": [1, 4, 8, 16],
    "ROUNDED": [True, False],
}

CUDA = r"""
#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda;

constexpr int BK = 16, WARP = 32;  // of K a step; a warp makes 32 x 32 results

// ROWS x COLUMNS into shared memory, zeros beyond the edges; by element where rows do not start at
// multiples of 16 bytes.
template <int ROWS, int COLUMNS, int THREADS>
__device__ void bring(const float* from, float* to, int rows, int columns, int stride) {
  for (int i = threadIdx.x; i < ROWS * COLUMNS / 4; i += THREADS) {
    const int r = i / (COLUMNS / 4), c = i % (COLUMNS / 4) * 4;
    const float* source = from + static_cast<long long>(r) * stride + c;
    float* at = to + r * (COLUMNS + 4) + c;
    if (stride % 4 == 0 && r < rows && c + 4 <= columns) {
      __pipeline_memcpy_async(at, source, 16);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) at[e] = r < rows && c + e < columns ? source[e] : 0.0f;
    }
  }
}

// Without ROUNDED the tensor cores cut off what tf32 does not hold.
template <int BM, int BN, int STAGES, bool ROUNDED>
__global__ void __launch_bounds__(BM / WARP * (BN / WARP) * 32)
    gemm_tf32(const float* x, const float* w, float* out, int M, int N, int K, int group) {
  constexpr int THREADS = BM / WARP * (BN / WARP) * 32, X_PITCH = BK + 4, W_PITCH = BN + 4;
  extern __shared__ __align__(128) float shared[];
  float* xs = shared;
  float* ws = xs + STAGES * BM * X_PITCH;
  const int high = (M + BM - 1) / BM, across = (N + BN - 1) / BN;
  const int band = blockIdx.x / (group * across) * group;
  const int within = blockIdx.x % (group * across), rows = min(group, high - band);
  const int m0 = (band + within % rows) * BM, n0 = within / rows * BN;
  const int warp = threadIdx.x / 32;
  const int wm = warp / (BN / WARP) * WARP, wn = warp % (BN / WARP) * WARP;

  wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum[2][2];
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
  }
  const int steps = (K + BK - 1) / BK;
  auto fetch = [&](int step) {
    if (step < steps) {
      const int stage = step % STAGES, k0 = step * BK;
      bring<BM, BK, THREADS>(x + static_cast<long long>(m0) * K + k0, xs + stage * BM * X_PITCH,
                             M - m0, K - k0, K);
      bring<BK, BN, THREADS>(w + static_cast<long long>(k0) * N + n0, ws + stage * BK * W_PITCH,
                             K - k0, N - n0, N);
    }
    __pipeline_commit();
  };
  for (int step = 0; step < STAGES - 1; ++step) fetch(step);
  for (int step = 0; step < steps; ++step) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    fetch(step + STAGES - 1);
    const float* a_tile = xs + step % STAGES * BM * X_PITCH + wm * X_PITCH;
    const float* b_tile = ws + step % STAGES * BK * W_PITCH + wn;
#pragma unroll
    for (int k = 0; k < BK; k += 8) {
      wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(a[i], a_tile + i * 16 * X_PITCH + k, X_PITCH);
        wmma::load_matrix_sync(b[i], b_tile + k * W_PITCH + i * 16, W_PITCH);
        if (ROUNDED) {
          for (int e = 0; e < a[i].num_elements; ++e) a[i].x[e] = wmma::__float_to_tf32(a[i].x[e]);
          for (int e = 0; e < b[i].num_elements; ++e) b[i].x[e] = wmma::__float_to_tf32(b[i].x[e]);
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(sum[i][j], a[i], b[j], sum[i][j]);
      }
    }
  }

  __pipeline_wait_prior(0);
  __syncthreads();
  float* mine = shared + warp * 256;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      wmma::store_matrix_sync(mine, sum[i][j], 16, wmma::mem_row_major);
      __syncwarp();
      for (int e = threadIdx.x % 32; e < 256; e += 32) {
        const int m = m0 + wm + i * 16 + e / 16, n = n0 + wn + j * 16 + e % 16;
        if (m < M && n < N) out[static_cast<long long>(m) * N + n] = mine[e];
      }
      __syncwarp();
    }
  }
}

template <int BM, int BN, int STAGES, bool ROUNDED>
void launch(const float* x, const float* w, float* out, int M, int N, int K, int group,
            cudaStream_t stream) {
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  const int threads = BM / WARP * (BN / WARP) * 32;
  const int ring = STAGES * (BM * (BK + 4) + BK * (BN + 4)) * 4, results = threads * 32;
  const int shared = ring > results ? ring : results;
  cudaFuncSetAttribute(gemm_tf32<BM, BN, STAGES, ROUNDED>,
                       cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  gemm_tf32<BM, BN, STAGES, ROUNDED>
      <<<blocks, threads, shared, stream>>>(x, w, out, M, N, K, group);
}

template <int BM, int BN, bool ROUNDED>
void by_stages(const float* x, const float* w, float* out, int M, int N, int K, int stages,
               int group, cudaStream_t stream) {
  if (stages == 2) launch<BM, BN, 2, ROUNDED>(x, w, out, M, N, K, group, stream);
  if (stages == 3) launch<BM, BN, 3, ROUNDED>(x, w, out, M, N, K, group, stream);
  if (stages == 4) launch<BM, BN, 4, ROUNDED>(x, w, out, M, N, K, group, stream);
}

template <bool ROUNDED>
void by_tile(const float* x, const float* w, float* out, int M, int N, int K, int high, int across,
             int stages, int group, cudaStream_t stream) {
  if (across == 64) {
    by_stages<64, 64, ROUNDED>(x, w, out, M, N, K, stages, group, stream);
  } else if (high == 64) {
    by_stages<64, 128, ROUNDED>(x, w, out, M, N, K, stages, group, stream);
  } else {
    by_stages<128, 128, ROUNDED>(x, w, out, M, N, K, stages, group, stream);
  }
}

void multiply(const float* x, const float* w, float* out, int M, int N, int K, int high,
              int across, int stages, int group, bool rounded, cudaStream_t stream) {
  if (rounded) {
    by_tile<true>(x, w, out, M, N, K, high, across, stages, group, stream);
  } else {
    by_tile<false>(x, w, out, M, N, K, high, across, stages, group, stream);
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
              int across, int stages, int group, bool rounded, cudaStream_t stream);

at::Tensor matmul(const at::Tensor& x, const at::Tensor& w, int high, int across, int stages,
                  int group, bool rounded) {
  at::Tensor out = at::empty({x.size(0), w.size(1)}, x.options());
  multiply(x.const_data_ptr<float>(), w.const_data_ptr<float>(), out.mutable_data_ptr<float>(),
           x.size(0), w.size(1), x.size(1), high, across, stages, group, rounded,
           c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_gemm_tf32_cuda_wmma_tf32",
        BINDING,
        CUDA,
        functions=["matmul"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Not where a few blocks would do all the work."""
    high, across = map(int, params["TILE"].split("x"))
    return shape["M"] * shape["N"] >= 64 * high * across


def kernel(x, w, *, TILE="128x128", STAGES=3, GROUP=8, ROUNDED=True):
    high, across = map(int, TILE.split("x"))
    return extension().matmul(x, w, high, across, STAGES, GROUP, ROUNDED)
