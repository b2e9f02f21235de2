"""CUDA C++: some warps a row of w, packs of both factors, sums by shuffles and shared memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.matvec.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8],
    "ROWS": [1, 2, 4, 8],
    "VECTOR": [1, 2, 4, 8],
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

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

// A block of `rows_each` rows of threads: blockDim.x threads, whole warps, a row of w.
template <typename T, int V, int UNROLL>
__global__ void matvec_rows(const T* w, const T* x, T* out, int N, int K) {
  __shared__ float shared[32];
  using P = Pack<T, V>;
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  const int warps = blockDim.x / 32, warp = threadIdx.y * warps + threadIdx.x / 32;
  float sum = 0.0f;
  if (row < N) {
    const P* factors = reinterpret_cast<const P*>(w + static_cast<long long>(row) * K);
    const P* others = reinterpret_cast<const P*>(x);
#pragma unroll UNROLL
    for (int at = threadIdx.x; at < K / V; at += blockDim.x) {
      const P a = factors[at], b = others[at];
#pragma unroll
      for (int i = 0; i < V; ++i) sum += wide(a.values[i]) * wide(b.values[i]);
    }
  }
  for (int far = 16; far > 0; far /= 2) sum += __shfl_down_sync(0xffffffff, sum, far);
  if (threadIdx.x % 32 == 0) shared[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0 && row < N) {
    float total = 0.0f;
    for (int i = 0; i < warps; ++i) total += shared[warp + i];
    put(out + row, total);
  }
}

template <typename T, int V>
void launch(const void* w, const void* x, void* out, int N, int K, int warps, int rows, int unroll,
            cudaStream_t stream) {
  const T* matrix = static_cast<const T*>(w);
  const T* vector = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const dim3 block(32 * warps, rows);
  const int blocks = (N + rows - 1) / rows;
  if (unroll == 1) {
    matvec_rows<T, V, 1><<<blocks, block, 0, stream>>>(matrix, vector, to, N, K);
  } else {
    matvec_rows<T, V, 4><<<blocks, block, 0, stream>>>(matrix, vector, to, N, K);
  }
}

template <typename T>
void by_vector(const void* w, const void* x, void* out, int N, int K, int warps, int rows,
               int vector, int unroll, cudaStream_t stream) {
  if (K % vector) vector = 1;
  if (vector == 1) launch<T, 1>(w, x, out, N, K, warps, rows, unroll, stream);
  if (vector == 2) launch<T, 2>(w, x, out, N, K, warps, rows, unroll, stream);
  if (vector == 4) launch<T, 4>(w, x, out, N, K, warps, rows, unroll, stream);
  if (vector == 8) launch<T, 8>(w, x, out, N, K, warps, rows, unroll, stream);
}

void multiply(const void* w, const void* x, void* out, int type, int N, int K, int warps, int rows,
              int vector, int unroll, cudaStream_t stream) {
  if (type == 0) by_vector<float>(w, x, out, N, K, warps, rows, vector, unroll, stream);
  if (type == 1) by_vector<__half>(w, x, out, N, K, warps, rows, vector, unroll, stream);
  if (type == 2) by_vector<__nv_bfloat16>(w, x, out, N, K, warps, rows, vector, unroll, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void multiply(const void* w, const void* x, void* out, int type, int N, int K, int warps, int rows,
              int vector, int unroll, cudaStream_t stream);

at::Tensor matvec(const at::Tensor& w, const at::Tensor& x, int warps, int rows, int vector,
                  int unroll) {
  at::Tensor out = at::empty({w.size(0)}, w.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  multiply(w.const_data_ptr(), x.const_data_ptr(), out.mutable_data_ptr(), type, w.size(0),
           w.size(1), warps, rows, vector, unroll, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_matvec_cuda_warps_a_row",
        BINDING,
        CUDA,
        functions=["matvec"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 1,024 threads; whole packs, or VECTOR=4 for single values."""
    packs = params["VECTOR"] in (1, 4) or shape["K"] % params["VECTOR"] == 0
    return packs and params["WARPS"] * params["ROWS"] <= 32 and params["ROWS"] <= shape["N"]


def kernel(w, x, *, WARPS=2, ROWS=2, VECTOR=4, UNROLL=4):
    return extension().matvec(w, x, WARPS, ROWS, VECTOR, UNROLL)
