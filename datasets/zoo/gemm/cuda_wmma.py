"""CUDA C++: tensor cores through wmma, tiles brought ahead by cp.async into a ring of buffers."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TILE": ["64x64", "64x128", "128x128"],
    "STAGES": [2, 3, 4],
    "PAD": [0, 8, 16],
    "GROUP": [1, 2, 4, 8, 16, 32],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda;

constexpr int BK = 32;  // of K a step
constexpr int WM = 32;  // a warp's part of a tile is 32 x 32: two by two fragments
constexpr int WN = 32;

template <typename T> __device__ T zero();
template <> __device__ __half zero() { return __float2half(0.0f); }
template <> __device__ __nv_bfloat16 zero() { return __float2bfloat16(0.0f); }
__device__ void put(__half* at, float x) { *at = __float2half(x); }
__device__ void put(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }

// Brings a tile of ROWS x COLUMNS into shared memory in pieces of 16 bytes; zeros lie beyond the
// edges. Where rows are not whole pieces they are copied by element, at once.
template <typename T, int ROWS, int COLUMNS, int THREADS>
__device__ void bring(const T* from, T* to, int rows, int columns, long long stride, int pitch) {
  constexpr int PIECE = 16 / sizeof(T), PIECES = COLUMNS / PIECE;
  for (int i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
    const int r = i / PIECES, c = i % PIECES * PIECE;
    T* at = to + r * pitch + c;
    if (stride % PIECE == 0 && r < rows && c + PIECE <= columns) {
      __pipeline_memcpy_async(at, from + r * stride + c, 16);
    } else {
#pragma unroll
      for (int e = 0; e < PIECE; ++e) {
        at[e] = r < rows && c + e < columns ? from[r * stride + c + e] : zero<T>();
      }
    }
  }
}

template <typename T, int BM, int BN, int STAGES>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32)
    gemm_wmma(const T* x, const T* w, T* out, int M, int N, int K, int pad, int group) {
  constexpr int THREADS = BM / WM * (BN / WN) * 32;
  extern __shared__ __align__(128) unsigned char shared[];
  const int x_pitch = BK + pad, w_pitch = BN + pad;
  T* xs = reinterpret_cast<T*>(shared);
  T* ws = xs + STAGES * BM * x_pitch;
  const int high = (M + BM - 1) / BM, across = (N + BN - 1) / BN;
  const int band = blockIdx.x / (group * across) * group;
  const int within = blockIdx.x % (group * across), rows = min(group, high - band);
  const int m0 = (band + within % rows) * BM, n0 = within / rows * BN;
  const int warp = threadIdx.x / 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
  }
  const int steps = (K + BK - 1) / BK;
  auto fetch = [&](int step) {
    if (step < steps) {
      const int stage = step % STAGES, k0 = step * BK;
      bring<T, BM, BK, THREADS>(x + static_cast<long long>(m0) * K + k0,
                                xs + stage * BM * x_pitch, M - m0, K - k0, K, x_pitch);
      bring<T, BK, BN, THREADS>(w + static_cast<long long>(k0) * N + n0,
                                ws + stage * BK * w_pitch, K - k0, N - n0, N, w_pitch);
    }
    __pipeline_commit();  // an empty group at the end keeps the count right
  };
  for (int step = 0; step < STAGES - 1; ++step) fetch(step);
  for (int step = 0; step < steps; ++step) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    fetch(step + STAGES - 1);
    const T* a_tile = xs + step % STAGES * BM * x_pitch + wm * x_pitch;
    const T* b_tile = ws + step % STAGES * BK * w_pitch + wn;
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> b[2];
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(a[i], a_tile + i * 16 * x_pitch + k, x_pitch);
        wmma::load_matrix_sync(b[i], b_tile + k * w_pitch + i * 16, w_pitch);
      }
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) wmma::mma_sync(sum[i][j], a[i], b[j], sum[i][j]);
      }
    }
  }

  // Through shared memory, a warp's own 32 x 32, since only there its elements have places.
  __pipeline_wait_prior(0);
  __syncthreads();
  float* mine = reinterpret_cast<float*>(shared) + warp * WM * WN;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      wmma::store_matrix_sync(mine + i * 16 * WN + j * 16, sum[i][j], WN, wmma::mem_row_major);
    }
  }
  __syncwarp();
  for (int i = threadIdx.x % 32; i < WM * WN; i += 32) {
    const int m = m0 + wm + i / WN, n = n0 + wn + i % WN;
    if (m < M && n < N) put(out + static_cast<long long>(m) * N + n, mine[i]);
  }
}

template <typename T, int BM, int BN, int STAGES>
void launch(const void* x, const void* w, void* out, int M, int N, int K, int pad, int group,
            cudaStream_t stream) {
  const T* a = static_cast<const T*>(x);
  const T* b = static_cast<const T*>(w);
  T* c = static_cast<T*>(out);
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  const int threads = BM / WM * (BN / WN) * 32;
  const int ring = STAGES * (BM * (BK + pad) + BK * (BN + pad)) * 2;
  const int result = BM * BN * 4;
  const int shared = ring > result ? ring : result;
  cudaFuncSetAttribute(gemm_wmma<T, BM, BN, STAGES>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       shared);
  gemm_wmma<T, BM, BN, STAGES><<<blocks, threads, shared, stream>>>(a, b, c, M, N, K, pad, group);
}

template <typename T, int BM, int BN>
void by_stages(const void* x, const void* w, void* out, int M, int N, int K, int stages, int pad,
               int group, cudaStream_t stream) {
  if (stages == 2) launch<T, BM, BN, 2>(x, w, out, M, N, K, pad, group, stream);
  if (stages == 3) launch<T, BM, BN, 3>(x, w, out, M, N, K, pad, group, stream);
  if (stages == 4) launch<T, BM, BN, 4>(x, w, out, M, N, K, pad, group, stream);
}

template <typename T>
void by_tile(const void* x, const void* w, void* out, int M, int N, int K, int high, int across,
             int stages, int pad, int group, cudaStream_t stream) {
  if (across == 64) {
    by_stages<T, 64, 64>(x, w, out, M, N, K, stages, pad, group, stream);
  } else if (high == 64) {
    by_stages<T, 64, 128>(x, w, out, M, N, K, stages, pad, group, stream);
  } else {
    by_stages<T, 128, 128>(x, w, out, M, N, K, stages, pad, group, stream);
  }
}

void multiply(const void* x, const void* w, void* out, bool is_half, int M, int N, int K, int high,
              int across, int stages, int pad, int group, cudaStream_t stream) {
  if (is_half) {
    by_tile<__half>(x, w, out, M, N, K, high, across, stages, pad, group, stream);
  } else {
    by_tile<__nv_bfloat16>(x, w, out, M, N, K, high, across, stages, pad, group, stream);
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
              int across, int stages, int pad, int group, cudaStream_t stream);

at::Tensor gemm(const at::Tensor& x, const at::Tensor& w, int high, int across, int stages,
                int pad, int group) {
  TORCH_CHECK(x.element_size() == 2, "expected half or bfloat16, not ", x.scalar_type());
  at::Tensor out = at::empty({x.size(0), w.size(1)}, x.options());
  multiply(x.const_data_ptr(), w.const_data_ptr(), out.mutable_data_ptr(),
           x.scalar_type() == at::kHalf, x.size(0), w.size(1), x.size(1), high, across, stages,
           pad, group, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_gemm_cuda_wmma",
        BINDING,
        CUDA,
        functions=["gemm"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Types of two bytes; tiles no larger than the matrix."""
    high, across = map(int, params["TILE"].split("x"))
    fits = high < 2 * shape["M"] and across < 2 * shape["N"]
    return fits and itemsize(shape) == 2


def kernel(x, w, *, TILE="64x64", STAGES=3, PAD=8, GROUP=4):
    high, across = map(int, TILE.split("x"))
    return extension().gemm(x, w, high, across, STAGES, PAD, GROUP)
