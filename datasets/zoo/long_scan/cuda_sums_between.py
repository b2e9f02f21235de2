"""CUDA C++: sums of stretches by vector loads, torch.cumsum of these, then scans of stretches."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.long_scan.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [4, 8, 16],
    "VECTOR": [2, 4, 8],
    "ROUNDS": [1, 4, 16],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

// A pack, or single values at the vector's end.
template <typename T, int V>
__device__ void read_pack(const T* x, long long at, long long size, float* held) {
  if (at + V <= size) {
    const Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(x + at);
#pragma unroll
    for (int i = 0; i < V; ++i) held[i] = wide(pack.values[i]);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) held[i] = at + i < size ? wide(x[at + i]) : 0.0f;
  }
}

template <typename T, int V>
__global__ void sum_stretches(const T* x, float* sums, long long size, int rounds) {
  __shared__ float shared[32];
  const int t = threadIdx.x;
  const long long first = static_cast<long long>(blockIdx.x) * rounds * blockDim.x * V;
  float sum = 0.0f;
  for (int turn = 0; turn < rounds; ++turn) {
    float held[V];
    read_pack<T, V>(x, first + (static_cast<long long>(turn) * blockDim.x + t) * V, size, held);
#pragma unroll
    for (int i = 0; i < V; ++i) sum += held[i];
  }
  for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
  if (t % 32 == 0) shared[t / 32] = sum;
  __syncthreads();
  if (t == 0) {
    for (int i = 1; i < blockDim.x / 32; ++i) sum += shared[i];
    sums[blockIdx.x] = sum;
  }
}

template <typename T, int V>
__global__ void scan_stretches(const T* x, const float* upto, float* out, long long size,
                               int rounds) {
  __shared__ float shared[2][32];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32;
  const long long first = static_cast<long long>(blockIdx.x) * rounds * blockDim.x * V;
  float carry = blockIdx.x ? upto[blockIdx.x - 1] : 0.0f;
  for (int turn = 0; turn < rounds; ++turn) {
    const long long at = first + (static_cast<long long>(turn) * blockDim.x + t) * V;
    float held[V];
    read_pack<T, V>(x, at, size, held);
#pragma unroll
    for (int i = 1; i < V; ++i) held[i] += held[i - 1];
    float mine = held[V - 1];
#pragma unroll
    for (int far = 1; far < 32; far *= 2) {
      const float before = __shfl_up_sync(0xffffffff, mine, far);
      if (lane >= far) mine += before;
    }
    float* sums = shared[turn % 2];
    if (lane == 31) sums[warp] = mine;
    __syncthreads();
    float before = carry + mine - held[V - 1];
    for (int i = 0; i < warps; ++i) {
      if (i < warp) before += sums[i];
      carry += sums[i];
    }
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (at + i < size) out[at + i] = before + held[i];
    }
  }
}

template <typename T, int V>
void launch_either(const T* x, const float* upto, float* out, bool scans, long long size,
                   int blocks, int threads, int rounds, cudaStream_t stream) {
  if (scans) {
    scan_stretches<T, V><<<blocks, threads, 0, stream>>>(x, upto, out, size, rounds);
  } else {
    sum_stretches<T, V><<<blocks, threads, 0, stream>>>(x, out, size, rounds);
  }
}

template <typename T>
void launch(const void* x, const float* upto, float* out, bool scans, long long size, int blocks,
            int threads, int vector, int rounds, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  if (vector == 2) {
    launch_either<T, 2>(from, upto, out, scans, size, blocks, threads, rounds, stream);
  } else if (vector == 4) {
    launch_either<T, 4>(from, upto, out, scans, size, blocks, threads, rounds, stream);
  } else {
    launch_either<T, 8>(from, upto, out, scans, size, blocks, threads, rounds, stream);
  }
}

// `scans`: a scan of each stretch; otherwise the sum of each.
void over_stretches(const void* x, const float* upto, float* out, bool scans, int type,
                    long long size, int blocks, int threads, int vector, int rounds,
                    cudaStream_t stream) {
  if (type == 0) {
    launch<float>(x, upto, out, scans, size, blocks, threads, vector, rounds, stream);
  } else if (type == 1) {
    launch<__half>(x, upto, out, scans, size, blocks, threads, vector, rounds, stream);
  } else {
    launch<__nv_bfloat16>(x, upto, out, scans, size, blocks, threads, vector, rounds, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void over_stretches(const void* x, const float* upto, float* out, bool scans, int type,
                    long long size, int blocks, int threads, int vector, int rounds,
                    cudaStream_t stream);

at::Tensor sums_of(const at::Tensor& x, int threads, int vector, int rounds) {
  const int64_t stretch = int64_t(threads) * vector * rounds;
  const int64_t blocks = (x.numel() + stretch - 1) / stretch;
  at::Tensor sums = at::empty({blocks}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  float* to = sums.mutable_data_ptr<float>();
  over_stretches(x.const_data_ptr(), to, to, false, type, x.numel(), blocks, threads, vector,
                 rounds, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return sums;
}

at::Tensor scan_from(const at::Tensor& x, const at::Tensor& upto, int threads, int vector,
                     int rounds) {
  at::Tensor out = at::empty({x.numel()}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  over_stretches(x.const_data_ptr(), upto.const_data_ptr<float>(), out.mutable_data_ptr<float>(),
                 true, type, x.numel(), upto.numel(), threads, vector, rounds,
                 c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_long_scan_cuda_sums_between",
        BINDING,
        CUDA,
        functions=["sums_of", "scan_from"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At least a stretch for every second multiprocessor of the larger GPUs."""
    return shape["N"] >= 64 * 32 * params["WARPS"] * params["VECTOR"] * params["ROUNDS"]


def kernel(x, *, WARPS=8, VECTOR=4, ROUNDS=4):
    built = extension()
    upto = built.sums_of(x, 32 * WARPS, VECTOR, ROUNDS).cumsum(0)
    return built.scan_from(x, upto, 32 * WARPS, VECTOR, ROUNDS)
