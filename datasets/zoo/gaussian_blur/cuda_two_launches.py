"""CUDA C++: rows from segments in shared memory, then columns, by way of float32."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.gaussian_blur.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256],
    "EACH": [1, 2, 4],
    "DOWN": [4, 16, 64],
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

// A block's segment of a row, with what lies within reach, is in shared memory behind the taps.
template <typename T>
__global__ void blur_rows(const T* x, const float* taps, float* out, int columns, int reach,
                          int each) {
  extern __shared__ float shared[];
  float* held = shared + 2 * reach + 1;
  const int span = blockDim.x * each, first = blockIdx.y * span;
  const long long start = static_cast<long long>(blockIdx.x) * columns;
  for (int i = threadIdx.x; i < 2 * reach + 1; i += blockDim.x) shared[i] = taps[i];
  for (int i = threadIdx.x; i < span + 2 * reach; i += blockDim.x) {
    const int column = first + i - reach;
    held[i] = column >= 0 && column < columns ? wide(x[start + column]) : 0.0f;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < span; i += blockDim.x) {
    float sum = 0.0f;
    for (int k = 0; k <= 2 * reach; ++k) sum += shared[k] * held[i + k];
    if (first + i < columns) out[start + first + i] = sum;
  }
}

// A thread goes `down` points down a column; caches hold what its neighbours read.
template <typename T>
__global__ void blur_columns(const float* x, const float* taps, T* out, int rows, int columns,
                             int reach, int down) {
  extern __shared__ float shared[];
  for (int i = threadIdx.x; i < 2 * reach + 1; i += blockDim.x) shared[i] = taps[i];
  __syncthreads();
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const long long start = static_cast<long long>(blockIdx.z) * rows * columns + column;
  const int first = blockIdx.y * down, end = min(first + down, rows);
  for (int row = first; row < end; ++row) {
    float sum = 0.0f;
    const int low = max(row - reach, 0), high = min(row + reach, rows - 1);
    for (int r = low; r <= high; ++r) {
      sum += shared[r - row + reach] * x[start + static_cast<long long>(r) * columns];
    }
    put(out + start + static_cast<long long>(row) * columns, sum);
  }
}

template <typename T>
void launch(const void* x, const float* taps, float* between, void* out, int images, int rows,
            int columns, int reach, int threads, int each, int down, cudaStream_t stream) {
  const int span = threads * each;
  const dim3 segments(images * rows, (columns + span - 1) / span);
  const int held = 4 * (span + 4 * reach + 1);
  blur_rows<T><<<segments, threads, held, stream>>>(static_cast<const T*>(x), taps, between,
                                                    columns, reach, each);
  const dim3 strips((columns + threads - 1) / threads, (rows + down - 1) / down, images);
  const int weights = 4 * (2 * reach + 1);
  blur_columns<T><<<strips, threads, weights, stream>>>(between, taps, static_cast<T*>(out), rows,
                                                        columns, reach, down);
}

void blur_any(const void* x, const float* taps, float* between, void* out, int type, int images,
              int rows, int columns, int reach, int threads, int each, int down,
              cudaStream_t stream) {
  if (type == 0) {
    launch<float>(x, taps, between, out, images, rows, columns, reach, threads, each, down,
                  stream);
  } else if (type == 1) {
    launch<__half>(x, taps, between, out, images, rows, columns, reach, threads, each, down,
                   stream);
  } else {
    launch<__nv_bfloat16>(x, taps, between, out, images, rows, columns, reach, threads, each, down,
                          stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void blur_any(const void* x, const float* taps, float* between, void* out, int type, int images,
              int rows, int columns, int reach, int threads, int each, int down,
              cudaStream_t stream);

at::Tensor gaussian_blur(const at::Tensor& x, const at::Tensor& taps, int threads, int each,
                         int down) {
  at::Tensor out = at::empty_like(x);
  at::Tensor between = at::empty(x.sizes(), x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  blur_any(x.const_data_ptr(), taps.const_data_ptr<float>(), between.mutable_data_ptr<float>(),
           out.mutable_data_ptr(), type, x.size(0), x.size(1), x.size(2), taps.size(0) / 2,
           threads, each, down, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_gaussian_blur_cuda_two_launches",
        BINDING,
        CUDA,
        functions=["gaussian_blur"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No segment far longer than a row."""
    return params["THREADS"] * params["EACH"] < 2 * shape["W"]


def kernel(x, taps, *, THREADS=128, EACH=2, DOWN=16):
    return extension().gaussian_blur(x, taps, THREADS, EACH, DOWN)
