"""CUDA C++: weights widened on their way into shared memory, where wmma finds 16-bit tiles."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.gemm_mixed.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "TILE": ["32x128", "64x64", "64x128", "128x128"],
    "DEPTH": [32, 64],
    "GROUP": [1, 4, 8, 16],
    "AHEAD": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int WARP = 32;  // a warp makes 32 x 32 results

template <typename T> __device__ T zero();
template <> __device__ __half zero() { return __float2half(0.0f); }
template <> __device__ __nv_bfloat16 zero() { return __float2bfloat16(0.0f); }
__device__ __half narrow(__half, float x) { return __float2half(x); }
__device__ __nv_bfloat16 narrow(__nv_bfloat16, float x) { return __float2bfloat16(x); }

// Four weights at a time where columns allow. With AHEAD what the next step needs waits in
// registers while this step's products run.
template <typename T, int BM, int BN, int BK, bool AHEAD>
__global__ void __launch_bounds__(BM / WARP * (BN / WARP) * 32)
    gemm_widened(const T* x, const signed char* w, const float* scale, T* out, int M, int N, int K,
                 int group) {
  constexpr int THREADS = BM / WARP * (BN / WARP) * 32, X_PITCH = BK + 8, W_PITCH = BN + 8;
  constexpr int X_EACH = BM * BK / THREADS, W_EACH = BK * BN / 4 / THREADS;
  __shared__ __align__(128) T xs[BM * X_PITCH];
  __shared__ __align__(128) T ws[BK * W_PITCH];
  __shared__ __align__(128) float results[THREADS / 32 * 256];
  const int high = (M + BM - 1) / BM, across = (N + BN - 1) / BN;
  const int band = blockIdx.x / (group * across) * group;
  const int within = blockIdx.x % (group * across), rows = min(group, high - band);
  const int m0 = (band + within % rows) * BM, n0 = within / rows * BN;
  const int warp = threadIdx.x / 32;
  const int wm = warp / (BN / WARP) * WARP, wn = warp % (BN / WARP) * WARP;

  T x_next[X_EACH];
  char4 w_next[W_EACH];
  auto fetch = [&](int k0) {
#pragma unroll
    for (int i = 0; i < X_EACH; ++i) {
      const int at = threadIdx.x + i * THREADS, m = m0 + at / BK, k = k0 + at % BK;
      x_next[i] = m < M && k < K ? x[static_cast<long long>(m) * K + k] : zero<T>();
    }
#pragma unroll
    for (int i = 0; i < W_EACH; ++i) {
      const int at = threadIdx.x + i * THREADS, k = k0 + at / (BN / 4), n = n0 + at % (BN / 4) * 4;
      const signed char* from = w + static_cast<long long>(k) * N + n;
      if (N % 4 == 0) {
        w_next[i] = k < K && n < N ? *reinterpret_cast<const char4*>(from) : char4{0, 0, 0, 0};
      } else {
        w_next[i].x = k < K && n < N ? from[0] : 0;
        w_next[i].y = k < K && n + 1 < N ? from[1] : 0;
        w_next[i].z = k < K && n + 2 < N ? from[2] : 0;
        w_next[i].w = k < K && n + 3 < N ? from[3] : 0;
      }
    }
  };

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
  }
  if (AHEAD) fetch(0);
  for (int k0 = 0; k0 < K; k0 += BK) {
    if (!AHEAD) fetch(k0);
#pragma unroll
    for (int i = 0; i < X_EACH; ++i) {
      const int at = threadIdx.x + i * THREADS;
      xs[at / BK * X_PITCH + at % BK] = x_next[i];
    }
#pragma unroll
    for (int i = 0; i < W_EACH; ++i) {
      const int at = threadIdx.x + i * THREADS;
      T* to = ws + at / (BN / 4) * W_PITCH + at % (BN / 4) * 4;
      to[0] = narrow(T(), w_next[i].x);
      to[1] = narrow(T(), w_next[i].y);
      to[2] = narrow(T(), w_next[i].z);
      to[3] = narrow(T(), w_next[i].w);
    }
    __syncthreads();
    if (AHEAD && k0 + BK < K) fetch(k0 + BK);
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(a[i], xs + (wm + i * 16) * X_PITCH + k, X_PITCH);
        wmma::load_matrix_sync(b[i], ws + k * W_PITCH + wn + i * 16, W_PITCH);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(sum[i][j], a[i], b[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
  float* mine = results + warp * 256;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      wmma::store_matrix_sync(mine, sum[i][j], 16, wmma::mem_row_major);
      __syncwarp();
      for (int e = threadIdx.x % 32; e < 256; e += 32) {
        const int m = m0 + wm + i * 16 + e / 16, n = n0 + wn + j * 16 + e % 16;
        if (m < M && n < N) {
          out[static_cast<long long>(m) * N + n] = narrow(T(), mine[e] * scale[n]);
        }
      }
      __syncwarp();
    }
  }
}

template <typename T, int BM, int BN, int BK>
void launch(const void* x, const signed char* w, const float* scale, void* out, int M, int N, int K,
            int group, bool ahead, cudaStream_t stream) {
  const T* a = static_cast<const T*>(x);
  T* c = static_cast<T*>(out);
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  const int threads = BM / WARP * (BN / WARP) * 32;
  if (ahead) {
    gemm_widened<T, BM, BN, BK, true>
        <<<blocks, threads, 0, stream>>>(a, w, scale, c, M, N, K, group);
  } else {
    gemm_widened<T, BM, BN, BK, false>
        <<<blocks, threads, 0, stream>>>(a, w, scale, c, M, N, K, group);
  }
}

template <typename T, int BM, int BN>
void by_depth(const void* x, const signed char* w, const float* scale, void* out, int M, int N,
              int K, int depth, int group, bool ahead, cudaStream_t stream) {
  if (depth == 32) {
    launch<T, BM, BN, 32>(x, w, scale, out, M, N, K, group, ahead, stream);
  } else {
    launch<T, BM, BN, 64>(x, w, scale, out, M, N, K, group, ahead, stream);
  }
}

template <typename T>
void by_tile(const void* x, const signed char* w, const float* scale, void* out, int M, int N,
             int K, int high, int across, int depth, int group, bool ahead, cudaStream_t stream) {
  if (high == 32) {
    by_depth<T, 32, 128>(x, w, scale, out, M, N, K, depth, group, ahead, stream);
  } else if (across == 64) {
    by_depth<T, 64, 64>(x, w, scale, out, M, N, K, depth, group, ahead, stream);
  } else if (high == 64) {
    by_depth<T, 64, 128>(x, w, scale, out, M, N, K, depth, group, ahead, stream);
  } else {
    // steps of 64 would need more than the 48 KiB of static shared memory
    launch<T, 128, 128, 32>(x, w, scale, out, M, N, K, group, ahead, stream);
  }
}

void multiply(const void* x, const signed char* w, const float* scale, void* out, bool is_half,
              int M, int N, int K, int high, int across, int depth, int group, bool ahead,
              cudaStream_t stream) {
  if (is_half) {
    by_tile<__half>(x, w, scale, out, M, N, K, high, across, depth, group, ahead, stream);
  } else {
    by_tile<__nv_bfloat16>(x, w, scale, out, M, N, K, high, across, depth, group, ahead, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void multiply(const void* x, const signed char* w, const float* scale, void* out, bool is_half,
              int M, int N, int K, int high, int across, int depth, int group, bool ahead,
              cudaStream_t stream);

at::Tensor mixed(const at::Tensor& x, const at::Tensor& w, const at::Tensor& scale, int high,
                 int across, int depth, int group, bool ahead) {
  at::Tensor out = at::empty({x.size(0), w.size(1)}, x.options());
  multiply(x.const_data_ptr(), w.const_data_ptr<int8_t>(), scale.const_data_ptr<float>(),
           out.mutable_data_ptr(), x.scalar_type() == at::kHalf, x.size(0), w.size(1), x.size(1),
           high, across, depth, group, ahead, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_gemm_mixed_cuda_widened_tiles",
        BINDING,
        CUDA,
        functions=["mixed"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB of shared memory; no tile far higher than the result."""
    high, across = map(int, params["TILE"].split("x"))
    depth = params["DEPTH"]
    shared = 2 * (high * (depth + 8) + depth * (across + 8)) + high * across
    return shared <= 48 * 1024 and high <= max(shape["M"], 32)


def kernel(x, w, scale, *, TILE="64x128", DEPTH=32, GROUP=8, AHEAD=True):
    high, across = map(int, TILE.split("x"))
    return extension().mixed(x, w, scale, high, across, DEPTH, GROUP, AHEAD)
