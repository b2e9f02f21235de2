"""CUDA C++: stretches of rows, 16 bytes an access, summed by shuffles and an atomic a block."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.row_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8, 16],
    "STRETCH": [1024, 4096, 16384, 65536],
    "DEPTH": [1, 2, 4],
    "STREAMED": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float sum_of(float x) { return x; }
__device__ float sum_of(__half2 x) { return __low2float(x) + __high2float(x); }
__device__ float sum_of(__nv_bfloat162 x) { return __low2float(x) + __high2float(x); }
__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// E is what four of make 16 bytes: a float, or two of a smaller type.
template <typename T, typename E, int DEPTH>
__global__ void row_sum_stretches(const T* x, float* out, int columns, int stretch, int cuts,
                                  bool streamed) {
  __shared__ float shared[32];
  const int row = blockIdx.x / cuts, begin = blockIdx.x % cuts * stretch;
  const int length = min(stretch, columns - begin);
  const T* from = x + static_cast<long long>(row) * columns + begin;
  constexpr int EACH = 16 / sizeof(T);
  float sum = 0.0f;
  int done = 0;
  if (columns % EACH == 0) {
    const float4* packs = reinterpret_cast<const float4*>(from);
    const int count = length / EACH, step = blockDim.x * DEPTH;
    for (int start = threadIdx.x; start < count; start += step) {
      float4 pack[DEPTH];
#pragma unroll
      for (int d = 0; d < DEPTH; ++d) {
        const int at = start + d * blockDim.x;
        pack[d] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);  // zero in every type
        if (at < count) pack[d] = streamed ? __ldcs(packs + at) : packs[at];
      }
#pragma unroll
      for (int d = 0; d < DEPTH; ++d) {
        const E* parts = reinterpret_cast<const E*>(&pack[d]);
#pragma unroll
        for (int i = 0; i < 4; ++i) sum += sum_of(parts[i]);
      }
    }
    done = count * EACH;
  }
  for (int c = done + threadIdx.x; c < length; c += blockDim.x) sum += wide(from[c]);

  for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < blockDim.x / 32 ? shared[threadIdx.x] : 0.0f;
  for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
  if (threadIdx.x == 0) atomicAdd(out + row, sum);
}

template <typename T, typename E>
void launch(const void* x, float* out, int rows, int columns, int warps, int stretch, int depth,
            bool streamed, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  const int cuts = (columns + stretch - 1) / stretch;
  const int blocks = rows * cuts, threads = 32 * warps;
  switch (depth) {
    case 1:
      row_sum_stretches<T, E, 1>
          <<<blocks, threads, 0, stream>>>(from, out, columns, stretch, cuts, streamed);
      break;
    case 2:
      row_sum_stretches<T, E, 2>
          <<<blocks, threads, 0, stream>>>(from, out, columns, stretch, cuts, streamed);
      break;
    default:
      row_sum_stretches<T, E, 4>
          <<<blocks, threads, 0, stream>>>(from, out, columns, stretch, cuts, streamed);
  }
}

void sum_rows(const void* x, float* out, int type, int rows, int columns, int warps, int stretch,
              int depth, bool streamed, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float, float>(x, out, rows, columns, warps, stretch, depth, streamed, stream);
      break;
    case 1:
      launch<__half, __half2>(x, out, rows, columns, warps, stretch, depth, streamed, stream);
      break;
    default:
      launch<__nv_bfloat16, __nv_bfloat162>(x, out, rows, columns, warps, stretch, depth, streamed,
                                            stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void sum_rows(const void* x, float* out, int type, int rows, int columns, int warps, int stretch,
              int depth, bool streamed, cudaStream_t stream);

at::Tensor row_sum(const at::Tensor& x, int warps, int stretch, int depth, bool streamed) {
  at::Tensor out = at::zeros({x.size(0)}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  sum_rows(x.const_data_ptr(), out.mutable_data_ptr<float>(), type, x.size(0), x.size(1), warps,
           stretch, depth, streamed, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_row_sum_cuda_vectors_atomic",
        BINDING,
        CUDA,
        functions=["row_sum"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No stretch far longer than a row; 4 to 2,048 columns a thread, where a row has so many."""
    shorter = params["STRETCH"] < 4 * shape["N"] or params["STRETCH"] == 4096
    each = min(params["STRETCH"], shape["N"]) / (32 * params["WARPS"])
    return shorter and each <= 2048 and (each >= 4 or params["WARPS"] <= 4)


def kernel(x, *, WARPS=4, STRETCH=4096, DEPTH=2, STREAMED=False):
    return extension().row_sum(x, WARPS, STRETCH, DEPTH, STREAMED)
