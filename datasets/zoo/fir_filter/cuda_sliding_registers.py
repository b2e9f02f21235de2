"""CUDA C++: a segment in shared memory; a thread's neighbouring results share what they read."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.fir_filter.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256],
    "EACH": [1, 2, 4, 8],
    "PADDED": [False, True],
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

// Where element i of the segment lies: with padding, threads EACH apart meet in different banks.
template <int EACH, bool PADDED> __device__ int place(int i) {
  return PADDED ? i + i / EACH : i;
}

// Thread t makes EACH results in sequence; `window` slides backwards over the signal.
template <typename T, int EACH, bool PADDED>
__global__ void filter_segment(const T* x, const float* taps, T* out, int length, int count) {
  extern __shared__ float shared[];
  float* segment = shared + count;
  const int span = blockDim.x * EACH, first = blockIdx.x * span, before = count - 1;
  const T* from = x + static_cast<long long>(blockIdx.y) * length;
  T* to = out + static_cast<long long>(blockIdx.y) * length;
  for (int i = threadIdx.x; i < count; i += blockDim.x) shared[i] = taps[i];
  for (int i = threadIdx.x; i < span + before; i += blockDim.x) {
    const int t = first + i - before;
    segment[place<EACH, PADDED>(i)] = t >= 0 && t < length ? wide(from[t]) : 0.0f;
  }
  __syncthreads();
  const int mine = threadIdx.x * EACH;
  float sum[EACH] = {}, window[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) window[e] = segment[place<EACH, PADDED>(mine + before + e)];
  for (int k = 0; k < count; ++k) {
    const float tap = shared[k];
#pragma unroll
    for (int e = 0; e < EACH; ++e) sum[e] += tap * window[e];
#pragma unroll
    for (int e = EACH - 1; e > 0; --e) window[e] = window[e - 1];
    if (k < before) window[0] = segment[place<EACH, PADDED>(mine + before - k - 1)];
  }
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    if (first + mine + e < length) put(to + first + mine + e, sum[e]);
  }
}

template <typename T, int EACH>
void launch(const void* x, const float* taps, void* out, int signals, int length, int count,
            int threads, bool padded, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int span = threads * EACH, held = span + count;
  const dim3 grid((length + span - 1) / span, signals);
  const int bytes = 4 * (count + held + held / EACH);
  if (padded) {
    filter_segment<T, EACH, true><<<grid, threads, bytes, stream>>>(from, taps, to, length, count);
  } else {
    filter_segment<T, EACH, false>
        <<<grid, threads, bytes, stream>>>(from, taps, to, length, count);
  }
}

template <typename T>
void by_each(const void* x, const float* taps, void* out, int signals, int length, int count,
             int threads, int each, bool padded, cudaStream_t stream) {
  if (each == 1) launch<T, 1>(x, taps, out, signals, length, count, threads, padded, stream);
  if (each == 2) launch<T, 2>(x, taps, out, signals, length, count, threads, padded, stream);
  if (each == 4) launch<T, 4>(x, taps, out, signals, length, count, threads, padded, stream);
  if (each == 8) launch<T, 8>(x, taps, out, signals, length, count, threads, padded, stream);
}

void filter_any(const void* x, const float* taps, void* out, int type, int signals, int length,
                int count, int threads, int each, bool padded, cudaStream_t stream) {
  if (type == 0) {
    by_each<float>(x, taps, out, signals, length, count, threads, each, padded, stream);
  }
  if (type == 1) {
    by_each<__half>(x, taps, out, signals, length, count, threads, each, padded, stream);
  }
  if (type == 2) {
    by_each<__nv_bfloat16>(x, taps, out, signals, length, count, threads, each, padded, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void filter_any(const void* x, const float* taps, void* out, int type, int signals, int length,
                int count, int threads, int each, bool padded, cudaStream_t stream);

at::Tensor fir_filter(const at::Tensor& x, const at::Tensor& taps, int threads, int each,
                      bool padded) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  filter_any(x.const_data_ptr(), taps.const_data_ptr<float>(), out.mutable_data_ptr(), type,
             x.size(0), x.size(1), taps.size(0), threads, each, padded,
             c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_fir_filter_cuda_sliding_registers",
        BINDING,
        CUDA,
        functions=["fir_filter"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Padding only between several results a thread; no segment far longer than a signal."""
    each = params["EACH"]
    return params["THREADS"] * each < 2 * shape["T"] and (each > 1 or not params["PADDED"])


def kernel(x, taps, *, THREADS=128, EACH=4, PADDED=True):
    return extension().fir_filter(x, taps, THREADS, EACH, PADDED)
