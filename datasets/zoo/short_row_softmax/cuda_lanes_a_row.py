"""CUDA C++: LANES threads of a warp a row, all of it in registers; shuffles among them."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.short_row_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "LANES": [4, 8, 16, 32],
    "THREADS": [64, 128, 256, 512],
    "EXPONENT": ["exp", "exp2"],
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

// Lane l of a row has its elements l, l + LANES and so on; EACH of them at most.
template <typename T, int LANES, int EACH>
__global__ void softmax_lanes(const T* x, T* out, long long rows, int columns, bool base_two) {
  const int lane = threadIdx.x % LANES;
  const long long row = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) / LANES;
  const bool mine = row < rows;
  float held[EACH];
  float most = -INFINITY;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int column = e * LANES + lane;
    held[e] = mine && column < columns ? wide(x[row * columns + column]) : -INFINITY;
    most = fmaxf(most, held[e]);
  }
#pragma unroll
  for (int apart = LANES / 2; apart > 0; apart /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, apart));
  }
  float sum = 0.0f;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const float below = held[e] - most;
    held[e] = base_two ? exp2f(below * 1.4426950408889634f) : expf(below);
    sum += held[e];
  }
#pragma unroll
  for (int apart = LANES / 2; apart > 0; apart /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  }
  const float scale = 1.0f / sum;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int column = e * LANES + lane;
    if (mine && column < columns) put(out + row * columns + column, held[e] * scale);
  }
}

template <typename T, int LANES, int EACH>
void launch(const void* x, void* out, long long rows, int columns, int threads, bool base_two,
            cudaStream_t stream) {
  const int of_block = threads / LANES;
  const int blocks = (rows + of_block - 1) / of_block;
  softmax_lanes<T, LANES, EACH><<<blocks, threads, 0, stream>>>(
      static_cast<const T*>(x), static_cast<T*>(out), rows, columns, base_two);
}

template <typename T, int LANES>
void by_each(const void* x, void* out, long long rows, int columns, int each, int threads,
             bool base_two, cudaStream_t stream) {
  if (each == 1) launch<T, LANES, 1>(x, out, rows, columns, threads, base_two, stream);
  if (each == 2) launch<T, LANES, 2>(x, out, rows, columns, threads, base_two, stream);
  if (each == 4) launch<T, LANES, 4>(x, out, rows, columns, threads, base_two, stream);
  if (each == 8) launch<T, LANES, 8>(x, out, rows, columns, threads, base_two, stream);
  if (each == 16) launch<T, LANES, 16>(x, out, rows, columns, threads, base_two, stream);
}

template <typename T>
void by_lanes(const void* x, void* out, long long rows, int columns, int lanes, int each,
              int threads, bool base_two, cudaStream_t stream) {
  if (lanes == 4) by_each<T, 4>(x, out, rows, columns, each, threads, base_two, stream);
  if (lanes == 8) by_each<T, 8>(x, out, rows, columns, each, threads, base_two, stream);
  if (lanes == 16) by_each<T, 16>(x, out, rows, columns, each, threads, base_two, stream);
  if (lanes == 32) by_each<T, 32>(x, out, rows, columns, each, threads, base_two, stream);
}

void softmax_any(const void* x, void* out, int type, long long rows, int columns, int lanes,
                 int each, int threads, bool base_two, cudaStream_t stream) {
  if (type == 0) by_lanes<float>(x, out, rows, columns, lanes, each, threads, base_two, stream);
  if (type == 1) by_lanes<__half>(x, out, rows, columns, lanes, each, threads, base_two, stream);
  if (type == 2) {
    by_lanes<__nv_bfloat16>(x, out, rows, columns, lanes, each, threads, base_two, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void softmax_any(const void* x, void* out, int type, long long rows, int columns, int lanes,
                 int each, int threads, bool base_two, cudaStream_t stream);

at::Tensor short_row_softmax(const at::Tensor& x, int lanes, int each, int threads,
                             bool base_two) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  softmax_any(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), lanes, each,
              threads, base_two, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_short_row_softmax_cuda_lanes_a_row",
        BINDING,
        CUDA,
        functions=["short_row_softmax"],
        no_implicit_headers=True,
    )


def elements(lanes, columns):
    """Of a row in a lane, at most, as a power of two."""
    return 1 << (-(-columns // lanes) - 1).bit_length()


def valid(params, shape):
    """At most 16 elements a lane, and half of the lanes busy, but for the default."""
    lanes = params["LANES"]
    return elements(lanes, shape["N"]) <= 16 and (lanes < 2 * shape["N"] or lanes == 16)


def kernel(x, *, LANES=16, THREADS=128, EXPONENT="exp2"):
    each = elements(LANES, x.shape[1])
    return extension().short_row_softmax(x, LANES, each, THREADS, EXPONENT == "exp2")
