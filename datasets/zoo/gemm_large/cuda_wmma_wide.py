"""CUDA C++: tensor cores through wmma, 64 x 64 results a warp, the next tiles under way."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.gemm_large.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "TILE": ["128x128", "128x256", "256x128"],
    "STAGES": [2, 3, 4],
    "GROUP": [2, 4, 8, 16],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda;

constexpr int BK = 32, PITCH = BK + 8;  // of K a step; the padding spreads rows over banks
constexpr int WARP = 64;                // a warp's part of a tile: four by four fragments

template <typename T> __device__ T zero();
template <> __device__ __half zero() { return __float2half(0.0f); }
template <> __device__ __nv_bfloat16 zero() { return __float2bfloat16(0.0f); }
__device__ void put(__half* at, float x) { *at = __float2half(x); }
__device__ void put(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }

// ROWS rows of BK elements into shared memory, zeros beyond the edges; by element where rows do
// not start at multiples of 16 bytes.
template <typename T, int ROWS, int THREADS>
__device__ void bring(const T* from, T* to, int rows, int depth, int stride) {
  for (int i = threadIdx.x; i < ROWS * (BK / 8); i += THREADS) {
    const int r = i / (BK / 8), c = i % (BK / 8) * 8;
    const T* source = from + static_cast<long long>(r) * stride + c;
    T* at = to + r * PITCH + c;
    if (stride % 8 == 0 && r < rows && c + 8 <= depth) {
      __pipeline_memcpy_async(at, source, 16);
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e) at[e] = r < rows && c + e < depth ? source[e] : zero<T>();
    }
  }
}

template <typename T, int BM, int BN, int STAGES>
__global__ void __launch_bounds__(BM / WARP * (BN / WARP) * 32)
    gemm_wide(const T* x, const T* w, T* out, int M, int N, int K, int group) {
  constexpr int THREADS = BM / WARP * (BN / WARP) * 32;
  extern __shared__ __align__(128) unsigned char shared[];
  T* xs = reinterpret_cast<T*>(shared);
  T* ws = xs + STAGES * BM * PITCH;
  const int high = (M + BM - 1) / BM, across = (N + BN - 1) / BN;
  const int band = blockIdx.x / (group * across) * group;
  const int within = blockIdx.x % (group * across), rows = min(group, high - band);
  const int m0 = (band + within % rows) * BM, n0 = within / rows * BN;
  const int warp = threadIdx.x / 32;
  const int wm = warp / (BN / WARP) * WARP, wn = warp % (BN / WARP) * WARP;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
  }
  const int steps = (K + BK - 1) / BK;
  auto fetch = [&](int step) {
    if (step < steps) {
      const int stage = step % STAGES, k0 = step * BK;
      bring<T, BM, THREADS>(x + static_cast<long long>(m0) * K + k0, xs + stage * BM * PITCH,
                            M - m0, K - k0, K);
      bring<T, BN, THREADS>(w + static_cast<long long>(n0) * K + k0, ws + stage * BN * PITCH,
                            N - n0, K - k0, K);
    }
    __pipeline_commit();  // an empty group at the end keeps the count right
  };
  for (int step = 0; step < STAGES - 1; ++step) fetch(step);
  for (int step = 0; step < steps; ++step) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    fetch(step + STAGES - 1);
    const T* a_tile = xs + step % STAGES * BM * PITCH + wm * PITCH;
    const T* b_tile = ws + step % STAGES * BN * PITCH + wn * PITCH;
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> a[4];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> b;
#pragma unroll
      for (int i = 0; i < 4; ++i) wmma::load_matrix_sync(a[i], a_tile + i * 16 * PITCH + k, PITCH);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        wmma::load_matrix_sync(b, b_tile + j * 16 * PITCH + k, PITCH);
#pragma unroll
        for (int i = 0; i < 4; ++i) wmma::mma_sync(sum[i][j], a[i], b, sum[i][j]);
      }
    }
  }

  // A fragment's elements have places only in memory: each warp has room for one there.
  __pipeline_wait_prior(0);
  __syncthreads();
  float* mine = reinterpret_cast<float*>(shared) + warp * 256;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      wmma::store_matrix_sync(mine, sum[i][j], 16, wmma::mem_row_major);
      __syncwarp();
      for (int e = threadIdx.x % 32; e < 256; e += 32) {
        const int m = m0 + wm + i * 16 + e / 16, n = n0 + wn + j * 16 + e % 16;
        if (m < M && n < N) put(out + static_cast<long long>(m) * N + n, mine[e]);
      }
      __syncwarp();
    }
  }
}

template <typename T, int BM, int BN, int STAGES>
void launch(const void* x, const void* w, void* out, int M, int N, int K, int group,
            cudaStream_t stream) {
  const T* a = static_cast<const T*>(x);
  const T* b = static_cast<const T*>(w);
  T* c = static_cast<T*>(out);
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  const int threads = BM / WARP * (BN / WARP) * 32;
  const int shared = STAGES * (BM + BN) * PITCH * 2;
  cudaFuncSetAttribute(gemm_wide<T, BM, BN, STAGES>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       shared);
  gemm_wide<T, BM, BN, STAGES><<<blocks, threads, shared, stream>>>(a, b, c, M, N, K, group);
}

template <typename T, int BM, int BN>
void by_stages(const void* x, const void* w, void* out, int M, int N, int K, int stages, int group,
               cudaStream_t stream) {
  if (stages == 2) launch<T, BM, BN, 2>(x, w, out, M, N, K, group, stream);
  if (stages == 3) launch<T, BM, BN, 3>(x, w, out, M, N, K, group, stream);
  if (stages == 4) launch<T, BM, BN, 4>(x, w, out, M, N, K, group, stream);
}

template <typename T>
void by_tile(const void* x, const void* w, void* out, int M, int N, int K, int high, int across,
             int stages, int group, cudaStream_t stream) {
  if (high == 256) {
    by_stages<T, 256, 128>(x, w, out, M, N, K, stages, group, stream);
  } else if (across == 256) {
    by_stages<T, 128, 256>(x, w, out, M, N, K, stages, group, stream);
  } else {
    by_stages<T, 128, 128>(x, w, out, M, N, K, stages, group, stream);
  }
}

void multiply(const void* x, const void* w, void* out, bool is_half, int M, int N, int K, int high,
              int across, int stages, int group, cudaStream_t stream) {
  if (is_half) {
    by_tile<__half>(x, w, out, M, N, K, high, across, stages, group, stream);
  } else {
    by_tile<__nv_bfloat16>(x, w, out, M, N, K, high, across, stages, group, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void multiply(const void* x, const void* w, void* out, bool is_half, int M, int N, int K, int high,
              int across, int stages, int group, cudaStream_t stream);

at::Tensor linear(const at::Tensor& x, const at::Tensor& w, int high, int across, int stages,
                  int group) {
  at::Tensor out = at::empty({x.size(0), w.size(0)}, x.options());
  multiply(x.const_data_ptr(), w.const_data_ptr(), out.mutable_data_ptr(),
           x.scalar_type() == at::kHalf, x.size(0), w.size(0), x.size(1), high, across, stages,
           group, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_gemm_large_cuda_wmma_wide",
        BINDING,
        CUDA,
        functions=["linear"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Matrices of at least a tile."""
    high, across = map(int, params["TILE"].split("x"))
    return high <= shape["M"] and across <= shape["N"]


def kernel(x, w, *, TILE="128x128", STAGES=3, GROUP=8):
    high, across = map(int, TILE.split("x"))
    return extension().linear(x, w, high, across, STAGES, GROUP)
