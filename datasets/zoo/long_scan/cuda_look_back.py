"""CUDA C++: one launch; blocks take tickets and look back at the sums of the tiles before theirs.

A state holds a tile's sum (1 in its upper half) or the sum of all up to it (2). A block draws its
ticket when it runs, so whatever it waits for is running or done.
"""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.long_scan.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [128, 256, 512, 1024],
    "EACH": [4, 8, 16],
    "PAUSE": [0, 20],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ float scan_warp(float x) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int far = 1; far < 32; far *= 2) {
    const float before = __shfl_up_sync(0xffffffff, x, far);
    if (lane >= far) x += before;
  }
  return x;
}

__device__ unsigned long long state_of(int flag, float sum) {
  return static_cast<unsigned long long>(flag) << 32 | __float_as_uint(sum);
}

// A warp reads 32 states at a time, the nearest first, until one holds all up to its tile.
__device__ float look_back(volatile unsigned long long* states, int tile, int pause) {
  const int lane = threadIdx.x % 32;
  float before = 0.0f;
  for (int last = tile - 1; last >= 0; last -= 32) {
    const int at = last - lane;
    unsigned long long state = state_of(2, 0.0f);
    if (at >= 0) state = states[at];
    while (__any_sync(0xffffffff, (state >> 32) == 0)) {
      if (pause) __nanosleep(pause);
      if (at >= 0) state = states[at];
    }
    const unsigned whole = __ballot_sync(0xffffffff, (state >> 32) == 2);
    const int nearest = whole ? __ffs(whole) - 1 : 31;
    float sum = lane <= nearest ? __uint_as_float(static_cast<unsigned>(state)) : 0.0f;
    for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
    before += sum;
    if (whole) break;
  }
  return before;
}

template <typename T, int EACH>
__global__ void scan_look_back(const T* x, float* out, unsigned long long* states, long long size,
                               int pause) {
  __shared__ float sums[32];
  __shared__ float before_tile;
  __shared__ int ticket;
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32;
  if (t == 0) ticket = atomicAdd(reinterpret_cast<int*>(states), 1);
  __syncthreads();
  const int tile = ticket;
  const long long first = (static_cast<long long>(tile) * blockDim.x + t) * EACH;
  float held[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    held[i] = first + i < size ? wide(x[first + i]) : 0.0f;
    if (i > 0) held[i] += held[i - 1];
  }
  const float mine = scan_warp(held[EACH - 1]);
  if (lane == 31) sums[warp] = mine;
  __syncthreads();
  if (warp == 0) {
    const float sum = lane < warps ? sums[lane] : 0.0f;
    const float scanned = scan_warp(sum);
    const float all = __shfl_sync(0xffffffff, scanned, 31);
    if (lane < warps) sums[lane] = scanned - sum;
    volatile unsigned long long* known = states + 1;
    if (lane == 0) known[tile] = state_of(tile ? 1 : 2, all);
    const float before = look_back(known, tile, pause);
    if (lane == 0 && tile) known[tile] = state_of(2, before + all);
    if (lane == 0) before_tile = before;
  }
  __syncthreads();
  const float before = before_tile + sums[warp] + mine - held[EACH - 1];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    if (first + i < size) out[first + i] = before + held[i];
  }
}

template <typename T>
void launch(const void* x, float* out, unsigned long long* states, long long size, int threads,
            int each, int pause, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  const int tile = threads * each;
  const int blocks = (size + tile - 1) / tile;
  if (each == 4) {
    scan_look_back<T, 4><<<blocks, threads, 0, stream>>>(from, out, states, size, pause);
  } else if (each == 8) {
    scan_look_back<T, 8><<<blocks, threads, 0, stream>>>(from, out, states, size, pause);
  } else {
    scan_look_back<T, 16><<<blocks, threads, 0, stream>>>(from, out, states, size, pause);
  }
}

void scan_vector(const void* x, float* out, void* states, int type, long long size, int threads,
                 int each, int pause, cudaStream_t stream) {
  unsigned long long* all = static_cast<unsigned long long*>(states);
  if (type == 0) launch<float>(x, out, all, size, threads, each, pause, stream);
  if (type == 1) launch<__half>(x, out, all, size, threads, each, pause, stream);
  if (type == 2) launch<__nv_bfloat16>(x, out, all, size, threads, each, pause, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void scan_vector(const void* x, float* out, void* states, int type, long long size, int threads,
                 int each, int pause, cudaStream_t stream);

at::Tensor long_scan(const at::Tensor& x, int threads, int each, int pause) {
  at::Tensor out = at::empty({x.numel()}, x.options().dtype(at::kFloat));
  const int64_t tiles = (x.numel() + threads * each - 1) / (threads * each);
  at::Tensor states = at::zeros({tiles + 1}, x.options().dtype(at::kLong));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  scan_vector(x.const_data_ptr(), out.mutable_data_ptr<float>(), states.mutable_data_ptr(), type,
              x.numel(), threads, each, pause, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_long_scan_cuda_look_back",
        BINDING,
        CUDA,
        functions=["long_scan"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 65,536 tiles, since each looks back at others."""
    return shape["N"] <= 65536 * params["THREADS"] * params["EACH"]


def kernel(x, *, THREADS=512, EACH=8, PAUSE=0):
    return extension().long_scan(x, THREADS, EACH, PAUSE)
