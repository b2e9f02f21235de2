"""CUDA C++: Stockham's passes between two buffers in shared memory, by twos or by fours."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.fft_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [32, 64, 128, 256],
    "RADIX": [2, 4],
    "FAST_SINES": [False, True],
}

CUDA = r"""
#include <cuda_fp16.h>

__device__ float2 wide(float2 x) { return x; }
__device__ float2 wide(__half2 x) { return __half22float2(x); }
__device__ void put(float2* at, float2 x) { *at = x; }
__device__ void put(__half2* at, float2 x) { *at = __float22half2_rn(x); }

__device__ float2 times(float2 a, float2 b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__device__ float2 plus(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float2 minus(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }

// exp(-2 i pi of), where `of` is at most 1.
template <bool FAST> __device__ float2 turned(float of) {
  float2 w;
  if (FAST) {
    __sincosf(-6.283185307179586f * of, &w.y, &w.x);
  } else {
    sincospif(-2.0f * of, &w.y, &w.x);
  }
  return w;
}

// A block a row. After a pass, runs of `done` elements are transformed; each pass makes them
// longer by its radix. An odd power of two takes a pass by twos first.
template <typename T, int RADIX, bool FAST>
__global__ void fft_stockham(const T* x, T* out, int n) {
  extern __shared__ float2 shared[];
  float2* from = shared;
  float2* to = shared + n;
  const long long start = static_cast<long long>(blockIdx.x) * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) from[i] = wide(x[start + i]);
  __syncthreads();
  int done = 1;
  if (RADIX == 2 || (__popc(n - 1) & 1)) {
    const int last = RADIX == 2 ? n : 2;
    for (; done < last; done *= 2) {
      for (int j = threadIdx.x; j < n / 2; j += blockDim.x) {
        const int within = j % done;
        const float2 a = from[j];
        const float2 b = times(from[j + n / 2], turned<FAST>(within / (2.0f * done)));
        float2* at = to + (j - within) * 2 + within;
        at[0] = plus(a, b);
        at[done] = minus(a, b);
      }
      __syncthreads();
      float2* other = from;
      from = to;
      to = other;
    }
  }
  if (RADIX == 4) {
    for (; done < n; done *= 4) {
      for (int j = threadIdx.x; j < n / 4; j += blockDim.x) {
        const int within = j % done;
        const float2 w = turned<FAST>(within / (4.0f * done)), w2 = times(w, w);
        const float2 a = from[j], b = times(from[j + n / 4], w);
        const float2 c = times(from[j + n / 2], w2), d = times(from[j + 3 * n / 4], times(w2, w));
        const float2 even = plus(a, c), odd = minus(a, c), sum = plus(b, d), gap = minus(b, d);
        float2* at = to + (j - within) * 4 + within;
        at[0] = plus(even, sum);
        at[done] = make_float2(odd.x + gap.y, odd.y - gap.x);
        at[2 * done] = minus(even, sum);
        at[3 * done] = make_float2(odd.x - gap.y, odd.y + gap.x);
      }
      __syncthreads();
      float2* other = from;
      from = to;
      to = other;
    }
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) put(out + start + i, from[i]);
}

template <typename T, int RADIX>
void launch(const void* x, void* out, int rows, int n, int threads, bool fast,
            cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int bytes = 16 * n;
  if (fast) {
    fft_stockham<T, RADIX, true><<<rows, threads, bytes, stream>>>(from, to, n);
  } else {
    fft_stockham<T, RADIX, false><<<rows, threads, bytes, stream>>>(from, to, n);
  }
}

void transform(const void* x, void* out, bool halves, int rows, int n, int threads, int radix,
               bool fast, cudaStream_t stream) {
  if (!halves && radix == 2) launch<float2, 2>(x, out, rows, n, threads, fast, stream);
  if (!halves && radix == 4) launch<float2, 4>(x, out, rows, n, threads, fast, stream);
  if (halves && radix == 2) launch<__half2, 2>(x, out, rows, n, threads, fast, stream);
  if (halves && radix == 4) launch<__half2, 4>(x, out, rows, n, threads, fast, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void transform(const void* x, void* out, bool halves, int rows, int n, int threads, int radix,
               bool fast, cudaStream_t stream);

at::Tensor fft_rows(const at::Tensor& x, int threads, int radix, bool fast) {
  at::Tensor out = at::empty_like(x);
  const bool halves = x.scalar_type() == at::kHalf;
  transform(x.const_data_ptr(), out.mutable_data_ptr(), halves, x.size(0), x.size(1), threads,
            radix, fast, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_fft_rows_cuda_stockham",
        BINDING,
        CUDA,
        functions=["fft_rows"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB of shared memory, and no idle threads but for the default."""
    busy = params["THREADS"] * params["RADIX"] <= shape["N"] or params["THREADS"] == 64
    return 16 * shape["N"] <= 48 * 1024 and busy


def kernel(x, *, THREADS=64, RADIX=4, FAST_SINES=True):
    return extension().fft_rows(x, THREADS, RADIX, FAST_SINES)
