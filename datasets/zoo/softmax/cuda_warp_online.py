"""CUDA C++: some lanes of a warp a row, its largest value and sum found together in one pass."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "LANES": [8, 16, 32],
    "VECTOR": [1, 2, 4, 8],
    "THREADS": [64, 128, 256, 512],
    "BACKWARDS": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T> __device__ T narrow(float x);
template <> __device__ float narrow(float x) { return x; }
template <> __device__ __half narrow(float x) { return __float2half(x); }
template <> __device__ __nv_bfloat16 narrow(float x) { return __float2bfloat16(x); }

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

// One access where a row's length allows it; what lies beyond the row is -inf.
template <typename T, int V>
__device__ Pack<T, V> load(const T* row, int at, int columns) {
  Pack<T, V> pack;
  if (columns % V == 0) return *reinterpret_cast<const Pack<T, V>*>(row + at);
#pragma unroll
  for (int i = 0; i < V; ++i) {
    pack.values[i] = at + i < columns ? row[at + i] : narrow<T>(-INFINITY);
  }
  return pack;
}

template <typename T, int V>
__global__ void softmax_online(const T* x, T* out, int rows, int columns, int lanes,
                               bool backwards) {
  const int lane = threadIdx.x % lanes;
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / lanes;
  const bool inside = row < rows;  // all lanes stay for the shuffles
  const long long start = static_cast<long long>(inside ? row : rows - 1) * columns;

  float peak = -INFINITY, total = 0.0f;
  for (int at = lane * V; at < columns; at += lanes * V) {
    const Pack<T, V> pack = load<T, V>(x + start, at, columns);
    float best = peak;
#pragma unroll
    for (int i = 0; i < V; ++i) best = fmaxf(best, wide(pack.values[i]));
    total *= __expf(peak - best);
#pragma unroll
    for (int i = 0; i < V; ++i) total += __expf(wide(pack.values[i]) - best);
    peak = best;
  }
  for (int far = lanes / 2; far > 0; far /= 2) {
    const float other = __shfl_xor_sync(0xffffffff, peak, far);
    const float others = __shfl_xor_sync(0xffffffff, total, far);
    const float best = fmaxf(peak, other);
    if (best > -INFINITY) {  // two lanes that saw nothing have nothing to scale
      total = total * __expf(peak - best) + others * __expf(other - best);
    }
    peak = best;
  }
  if (!inside) return;

  // What was read last is still in the cache: begin there.
  const int turns = (columns + lanes * V - 1) / (lanes * V);
  const float scale = 1.0f / total;
  for (int turn = 0; turn < turns; ++turn) {
    const int at = ((backwards ? turns - 1 - turn : turn) * lanes + lane) * V;
    if (at >= columns) continue;
    Pack<T, V> pack = load<T, V>(x + start, at, columns);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      pack.values[i] = narrow<T>(__expf(wide(pack.values[i]) - peak) * scale);
    }
    if (columns % V == 0) {
      *reinterpret_cast<Pack<T, V>*>(out + start + at) = pack;
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        if (at + i < columns) out[start + at + i] = pack.values[i];
      }
    }
  }
}

template <typename T>
void launch(const void* x, void* out, int rows, int columns, int lanes, int vector, int threads,
            bool backwards, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int per_block = threads / lanes;
  const int blocks = (rows + per_block - 1) / per_block;
  switch (vector) {
    case 1:
      softmax_online<T, 1>
          <<<blocks, threads, 0, stream>>>(from, to, rows, columns, lanes, backwards);
      break;
    case 2:
      softmax_online<T, 2>
          <<<blocks, threads, 0, stream>>>(from, to, rows, columns, lanes, backwards);
      break;
    case 4:
      softmax_online<T, 4>
          <<<blocks, threads, 0, stream>>>(from, to, rows, columns, lanes, backwards);
      break;
    default:
      softmax_online<T, 8>
          <<<blocks, threads, 0, stream>>>(from, to, rows, columns, lanes, backwards);
  }
}

void softmax_by_lanes(const void* x, void* out, int type, int rows, int columns, int lanes,
                      int vector, int threads, bool backwards, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, rows, columns, lanes, vector, threads, backwards, stream);
  if (type == 1) launch<__half>(x, out, rows, columns, lanes, vector, threads, backwards, stream);
  if (type == 2) {
    launch<__nv_bfloat16>(x, out, rows, columns, lanes, vector, threads, backwards, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void softmax_by_lanes(const void* x, void* out, int type, int rows, int columns, int lanes,
                      int vector, int threads, bool backwards, cudaStream_t stream);

at::Tensor softmax(const at::Tensor& x, int lanes, int vector, int threads, bool backwards) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  softmax_by_lanes(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), lanes,
                   vector, threads, backwards, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_softmax_cuda_warp_online",
        BINDING,
        CUDA,
        functions=["softmax"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Some columns for each lane, and at most 4,096."""
    lanes, vector = params["LANES"], params["VECTOR"]
    return lanes * vector <= 2 * shape["N"] and shape["N"] <= 4096 * lanes


def kernel(x, *, LANES=32, VECTOR=4, THREADS=128, BACKWARDS=True):
    return extension().softmax(x, LANES, VECTOR, THREADS, BACKWARDS)
