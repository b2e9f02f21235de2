"""CUDA C++: a thread takes EACH boxes of the second set for a row and stores them as a pack."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.box_iou.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256],
    "EACH": [1, 2, 4],
    "DOWN": [1, 4, 16],
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

__device__ float area(float4 a) { return (a.z - a.x) * (a.w - a.y); }

template <bool FAST> __device__ float overlap(float4 a, float4 b) {
  const float across = fmaxf(fminf(a.z, b.z) - fmaxf(a.x, b.x), 0.0f);
  const float down = fmaxf(fminf(a.w, b.w) - fmaxf(a.y, b.y), 0.0f);
  const float both = across * down, all = area(a) + area(b) - both;
  return FAST ? __fdividef(both, all) : both / all;
}

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

template <typename T, int EACH>
__global__ void iou_packs(const float4* a, const float4* b, T* out, int M, int N, int down) {
  const int n = (blockIdx.x * blockDim.x + threadIdx.x) * EACH;
  if (n >= N) return;
  float4 mine[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) mine[e] = b[n + e];
  const int first = blockIdx.y * down;
  for (int m = first; m < min(first + down, M); ++m) {
    const float4 other = __ldg(a + m);
    Pack<T, EACH> pack;
#pragma unroll
    for (int e = 0; e < EACH; ++e) put(&pack.values[e], overlap<true>(other, mine[e]));
    *reinterpret_cast<Pack<T, EACH>*>(out + static_cast<long long>(m) * N + n) = pack;
  }
}

template <typename T, int EACH>
void launch(const float4* a, const float4* b, void* out, int M, int N, int threads, int down,
            cudaStream_t stream) {
  const int across = threads * EACH;
  const dim3 grid((N + across - 1) / across, (M + down - 1) / down);
  iou_packs<T, EACH><<<grid, threads, 0, stream>>>(a, b, static_cast<T*>(out), M, N, down);
}

template <typename T>
void by_each(const float4* a, const float4* b, void* out, int M, int N, int threads, int each,
             int down, cudaStream_t stream) {
  if (each == 1) launch<T, 1>(a, b, out, M, N, threads, down, stream);
  if (each == 2) launch<T, 2>(a, b, out, M, N, threads, down, stream);
  if (each == 4) launch<T, 4>(a, b, out, M, N, threads, down, stream);
}

void overlaps(const void* a, const void* b, void* out, int type, int M, int N, int threads,
              int each, int down, cudaStream_t stream) {
  const float4* x = static_cast<const float4*>(a);
  const float4* y = static_cast<const float4*>(b);
  if (type == 0) by_each<float>(x, y, out, M, N, threads, each, down, stream);
  if (type == 1) by_each<__half>(x, y, out, M, N, threads, each, down, stream);
  if (type == 2) by_each<__nv_bfloat16>(x, y, out, M, N, threads, each, down, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void overlaps(const void* a, const void* b, void* out, int type, int M, int N, int threads,
              int each, int down, cudaStream_t stream);

at::Tensor box_iou(const at::Tensor& a, const at::Tensor& b, at::ScalarType type, int threads,
                   int each, int down) {
  at::Tensor out = at::empty({a.size(0), b.size(0)}, a.options().dtype(type));
  const int code = type == at::kFloat ? 0 : type == at::kHalf ? 1 : 2;
  overlaps(a.const_data_ptr(), b.const_data_ptr(), out.mutable_data_ptr(), code, a.size(0),
           b.size(0), threads, each, down, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_box_iou_cuda_packed_results",
        BINDING,
        CUDA,
        functions=["box_iou"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Whole packs; not far more rows than there are, and no more blocks than a grid has."""
    down = params["DOWN"]
    fits = (down < 2 * shape["M"] or down == 4) and shape["M"] <= 65535 * down
    return fits and shape["N"] % params["EACH"] == 0


def kernel(a, b, dtype, *, THREADS=128, EACH=1, DOWN=4):
    return extension().box_iou(a, b, dtype, THREADS, EACH, DOWN)
