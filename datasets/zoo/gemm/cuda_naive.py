"""CUDA C++: a thread an element, or a few of a row, everything read from memory as it is wanted."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_X": [8, 16, 32, 64, 128],
    "BLOCK_Y": [1, 2, 4, 8, 16],
    "EACH": [1, 2, 4, 8],
    "UNROLL": [1, 4],
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

// Threads along x take columns that lie `blockDim.x` apart, so that a warp reads w in a row.
template <typename T, int EACH, int UNROLL>
__global__ void gemm_naive(const T* x, const T* w, T* out, int M, int N, int K) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int column = blockIdx.x * blockDim.x * EACH + threadIdx.x;
  if (row >= M) return;
  float sum[EACH] = {};
#pragma unroll UNROLL
  for (int k = 0; k < K; ++k) {
    const float a = wide(x[static_cast<long long>(row) * K + k]);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int c = column + i * blockDim.x;
      if (c < N) sum[i] += a * wide(w[static_cast<long long>(k) * N + c]);
    }
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int c = column + i * blockDim.x;
    if (c < N) put(out + static_cast<long long>(row) * N + c, sum[i]);
  }
}

template <typename T, int EACH>
void launch(const void* x, const void* w, void* out, int M, int N, int K, int across, int down,
            int unroll, cudaStream_t stream) {
  const T* a = static_cast<const T*>(x);
  const T* b = static_cast<const T*>(w);
  T* c = static_cast<T*>(out);
  const dim3 block(across, down);
  const dim3 grid((N + across * EACH - 1) / (across * EACH), (M + down - 1) / down);
  if (unroll == 1) {
    gemm_naive<T, EACH, 1><<<grid, block, 0, stream>>>(a, b, c, M, N, K);
  } else {
    gemm_naive<T, EACH, 4><<<grid, block, 0, stream>>>(a, b, c, M, N, K);
  }
}

template <typename T>
void by_each(const void* x, const void* w, void* out, int M, int N, int K, int across, int down,
             int each, int unroll, cudaStream_t stream) {
  if (each == 1) launch<T, 1>(x, w, out, M, N, K, across, down, unroll, stream);
  if (each == 2) launch<T, 2>(x, w, out, M, N, K, across, down, unroll, stream);
  if (each == 4) launch<T, 4>(x, w, out, M, N, K, across, down, unroll, stream);
  if (each == 8) launch<T, 8>(x, w, out, M, N, K, across, down, unroll, stream);
}

void multiply(const void* x, const void* w, void* out, int type, int M, int N, int K, int across,
              int down, int each, int unroll, cudaStream_t stream) {
  if (type == 0) by_each<float>(x, w, out, M, N, K, across, down, each, unroll, stream);
  if (type == 1) by_each<__half>(x, w, out, M, N, K, across, down, each, unroll, stream);
  if (type == 2) by_each<__nv_bfloat16>(x, w, out, M, N, K, across, down, each, unroll, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void multiply(const void* x, const void* w, void* out, int type, int M, int N, int K, int across,
              int down, int each, int unroll, cudaStream_t stream);

at::Tensor gemm(const at::Tensor& x, const at::Tensor& w, int across, int down, int each,
                int unroll) {
  at::Tensor out = at::empty({x.size(0), w.size(1)}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  multiply(x.const_data_ptr(), w.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0),
           w.size(1), x.size(1), across, down, each, unroll, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_gemm_cuda_naive",
        BINDING,
        CUDA,
        functions=["gemm"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """64 to 1,024 threads; not the largest products, which take tens of milliseconds."""
    operations = 2 * shape["M"] * shape["N"] * shape["K"]
    return 64 <= params["BLOCK_X"] * params["BLOCK_Y"] <= 1024 and operations < 1 << 34


def kernel(x, w, *, BLOCK_X=32, BLOCK_Y=8, EACH=2, UNROLL=4):
    return extension().gemm(x, w, BLOCK_X, BLOCK_Y, EACH, UNROLL)
