"""CUDA C++: a segment of a row in shared memory through all levels, ping and pong."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.haar_wavelet.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SEGMENT": [512, 1024, 2048, 4096],
    "THREADS": [64, 128, 256, 512],
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

constexpr float ROOT = 0.70710678f;

// Whole groups of 2**levels are in a segment, so that no level needs what lies beyond it. Details
// of a level go where the row has them; what is left halves.
template <typename T>
__global__ void haar_segments(const T* x, T* out, int columns, int levels, int segment) {
  extern __shared__ float shared[];
  float* now = shared;
  float* next = shared + segment;
  const int first = blockIdx.y * segment;
  int left = min(segment, columns - first), place = first, width = columns;
  const long long row = static_cast<long long>(blockIdx.x) * columns;
  for (int i = threadIdx.x; i < left; i += blockDim.x) now[i] = wide(x[row + first + i]);
  for (int level = 0; level < levels; ++level) {
    left /= 2;
    place /= 2;
    width /= 2;
    __syncthreads();
    for (int i = threadIdx.x; i < left; i += blockDim.x) {
      const float a = now[2 * i], b = now[2 * i + 1];
      next[i] = (a + b) * ROOT;
      put(out + row + width + place + i, (a - b) * ROOT);
    }
    float* other = now;
    now = next;
    next = other;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < left; i += blockDim.x) put(out + row + place + i, now[i]);
}

template <typename T>
void launch(const void* x, void* out, int rows, int columns, int levels, int segment, int threads,
            cudaStream_t stream) {
  const dim3 grid(rows, (columns + segment - 1) / segment);
  const int bytes = 8 * segment;
  haar_segments<T><<<grid, threads, bytes, stream>>>(
      static_cast<const T*>(x), static_cast<T*>(out), columns, levels, segment);
}

void transform(const void* x, void* out, int type, int rows, int columns, int levels, int segment,
               int threads, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, rows, columns, levels, segment, threads, stream);
  if (type == 1) launch<__half>(x, out, rows, columns, levels, segment, threads, stream);
  if (type == 2) launch<__nv_bfloat16>(x, out, rows, columns, levels, segment, threads, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void transform(const void* x, void* out, int type, int rows, int columns, int levels, int segment,
               int threads, cudaStream_t stream);

at::Tensor haar(const at::Tensor& x, int levels, int segment, int threads) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  transform(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), levels,
            segment, threads, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_haar_wavelet_cuda_segments_in_shared",
        BINDING,
        CUDA,
        functions=["haar"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Whole groups in a segment; none far longer than a row, but for the default."""
    segment = params["SEGMENT"]
    fits = (segment < 2 * shape["N"] or segment == 1024) and shape["LEVELS"] <= 9
    return fits and 2 * params["THREADS"] <= segment


def kernel(x, levels, *, SEGMENT=1024, THREADS=128):
    return extension().haar(x, levels, SEGMENT, THREADS)
