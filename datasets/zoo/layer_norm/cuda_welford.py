"""CUDA C++: a block a row, mean and variance in one pass (Welford), merged by shuffles."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.layer_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8, 16, 32],
    "VECTOR": [1, 2, 4, 8],
    "STREAMED": [False, True],
    "ROWS": [1, 2, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(float& at, float x) { at = x; }
__device__ void put(__half& at, float x) { at = __float2half(x); }
__device__ void put(__nv_bfloat16& at, float x) { at = __float2bfloat16(x); }

template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T values[V]; };

struct Moments {
  float mean = 0.0f, squares = 0.0f, count = 0.0f;  // squares: of the deviations from the mean

  __device__ void add(float x) {
    count += 1.0f;
    const float off = x - mean;
    mean += off / count;
    squares += off * (x - mean);
  }
  __device__ void merge(float mean_too, float squares_too, float count_too) {
    const float all = count + count_too;
    if (all == 0.0f) return;
    const float off = mean_too - mean, share = count_too / all;
    mean += off * share;
    squares += squares_too + off * off * count * share;
    count = all;
  }
};

__device__ Moments over_warp(Moments mine) {
  for (int far = 16; far > 0; far /= 2) {
    const float mean = __shfl_xor_sync(0xffffffff, mine.mean, far);
    const float squares = __shfl_xor_sync(0xffffffff, mine.squares, far);
    const float count = __shfl_xor_sync(0xffffffff, mine.count, far);
    mine.merge(mean, squares, count);
  }
  return mine;
}

__device__ Moments over_block(Moments mine, float (*shared)[3]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  mine = over_warp(mine);
  if (warps == 1) return mine;
  __syncthreads();  // the row before may still be reading
  if (lane == 0) {
    shared[warp][0] = mine.mean;
    shared[warp][1] = mine.squares;
    shared[warp][2] = mine.count;
  }
  __syncthreads();
  Moments all;
  if (lane < warps) all.merge(shared[lane][0], shared[lane][1], shared[lane][2]);
  return over_warp(all);
}

template <typename T, int V>
__global__ void layer_norm_welford(const T* x, const T* weight, const T* bias, T* out, int rows,
                                   int columns, float eps, bool streamed, int each) {
  __shared__ float shared[32][3];
  using P = Pack<T, V>;
  const int packs = columns / V;
  for (int turn = 0; turn < each; ++turn) {
    const int row = blockIdx.x * each + turn;
    if (row >= rows) return;
    const P* from = reinterpret_cast<const P*>(x + static_cast<long long>(row) * columns);
    P* to = reinterpret_cast<P*>(out + static_cast<long long>(row) * columns);
    Moments mine;
    for (int p = threadIdx.x; p < packs; p += blockDim.x) {
      const P pack = from[p];
#pragma unroll
      for (int i = 0; i < V; ++i) mine.add(wide(pack.values[i]));
    }
    const Moments all = over_block(mine, shared);
    const float scale = rsqrtf(all.squares / columns + eps);
    for (int p = threadIdx.x; p < packs; p += blockDim.x) {
      P pack = from[p];
      const P factor = reinterpret_cast<const P*>(weight)[p];
      const P shift = reinterpret_cast<const P*>(bias)[p];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float y = (wide(pack.values[i]) - all.mean) * scale;
        put(pack.values[i], y * wide(factor.values[i]) + wide(shift.values[i]));
      }
      if (streamed && sizeof(P) == 16) {
        __stcs(reinterpret_cast<float4*>(to + p), *reinterpret_cast<const float4*>(&pack));
      } else {
        to[p] = pack;
      }
    }
  }
}

template <typename T>
void launch(const void* x, const void* weight, const void* bias, void* out, int rows, int columns,
            float eps, int warps, int vector, bool streamed, int each, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  const T* w = static_cast<const T*>(weight);
  const T* b = static_cast<const T*>(bias);
  T* to = static_cast<T*>(out);
  const int blocks = (rows + each - 1) / each, threads = 32 * warps;
  if (columns % vector) vector = 1;
  switch (vector) {
    case 1:
      layer_norm_welford<T, 1>
          <<<blocks, threads, 0, stream>>>(from, w, b, to, rows, columns, eps, streamed, each);
      break;
    case 2:
      layer_norm_welford<T, 2>
          <<<blocks, threads, 0, stream>>>(from, w, b, to, rows, columns, eps, streamed, each);
      break;
    case 4:
      layer_norm_welford<T, 4>
          <<<blocks, threads, 0, stream>>>(from, w, b, to, rows, columns, eps, streamed, each);
      break;
    default:
      layer_norm_welford<T, 8>
          <<<blocks, threads, 0, stream>>>(from, w, b, to, rows, columns, eps, streamed, each);
  }
}

void normalise(const void* x, const void* weight, const void* bias, void* out, int type, int rows,
               int columns, float eps, int warps, int vector, bool streamed, int each,
               cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(x, weight, bias, out, rows, columns, eps, warps, vector, streamed, each,
                    stream);
      break;
    case 1:
      launch<__half>(x, weight, bias, out, rows, columns, eps, warps, vector, streamed, each,
                     stream);
      break;
    default:
      launch<__nv_bfloat16>(x, weight, bias, out, rows, columns, eps, warps, vector, streamed,
                            each, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void normalise(const void* x, const void* weight, const void* bias, void* out, int type, int rows,
               int columns, float eps, int warps, int vector, bool streamed, int each,
               cudaStream_t stream);

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps, int warps, int vector, bool streamed, int each) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  normalise(x.const_data_ptr(), weight.const_data_ptr(), bias.const_data_ptr(),
            out.mutable_data_ptr(), type, x.size(0), x.size(1), eps, warps, vector, streamed, each,
            c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_layer_norm_cuda_welford",
        BINDING,
        CUDA,
        functions=["layer_norm"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Rows of whole vectors, or single values; at most 512 columns a thread."""
    each = shape["N"] / (32 * params["WARPS"])
    vectors = params["VECTOR"] in (1, 4) or shape["N"] % params["VECTOR"] == 0
    return vectors and params["VECTOR"] / 4 <= each <= 512


def kernel(x, weight, bias, *, WARPS=4, VECTOR=4, STREAMED=False, ROWS=1):
    return extension().layer_norm(x, weight, bias, EPS, WARPS, VECTOR, STREAMED, ROWS)
