"""CUDA C++: moments by blocks; a row's last block joins them; a second launch applies."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.split_layer_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [128, 256, 512],
    "BLOCKS": [32, 128, 512],
    "VECTOR": [1, 4, 8],
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
  float count, mean, squares;
};

__device__ Moments join(Moments a, Moments b) {
  const float both = a.count + b.count;
  if (both == 0.0f) return a;
  const float apart = b.mean - a.mean, share = b.count / both;
  return {both, a.mean + apart * share, a.squares + b.squares + apart * apart * a.count * share};
}

__device__ Moments join_block(Moments mine) {
  __shared__ Moments shared[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int far = 16; far > 0; far /= 2) {
    const Moments other = {__shfl_xor_sync(0xffffffff, mine.count, far),
                           __shfl_xor_sync(0xffffffff, mine.mean, far),
                           __shfl_xor_sync(0xffffffff, mine.squares, far)};
    mine = join(mine, other);
  }
  __syncthreads();
  if (lane == 0) shared[warp] = mine;
  __syncthreads();
  Moments all = shared[0];
  for (int w = 1; w < blockDim.x / 32; ++w) all = join(all, shared[w]);
  return all;
}

// `known`: a row's mean and scale; then three numbers for each of its blocks.
template <typename T, int V>
__global__ void find_moments(const T* x, float* known, int* tickets, int columns, float eps) {
  __shared__ int ticket;
  const int rows = gridDim.y, row = blockIdx.y, blocks = gridDim.x;
  const Pack<T, V>* packs =
      reinterpret_cast<const Pack<T, V>*>(x + static_cast<long long>(row) * columns);
  // About a first value, so that little cancels.
  const float shift = wide(packs[0].values[0]);
  float sum = 0.0f, square = 0.0f;
  int seen = 0;
  for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < columns / V;
       p += blocks * blockDim.x) {
    const Pack<T, V> pack = packs[p];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float off = wide(pack.values[i]) - shift;
      sum += off;
      square += off * off;
    }
    seen += V;
  }
  const float count = seen, mean = seen ? sum / count : 0.0f;
  const Moments all = join_block({count, shift + mean, square - sum * mean});
  float* parts = known + 2 * rows + row * blocks * 3;
  if (threadIdx.x == 0) {
    parts[3 * blockIdx.x] = all.count;
    parts[3 * blockIdx.x + 1] = all.mean;
    parts[3 * blockIdx.x + 2] = all.squares;
    __threadfence();
    ticket = atomicAdd(tickets + row, 1);
  }
  __syncthreads();
  if (ticket != blocks - 1) return;
  __threadfence();
  Moments whole = {0.0f, 0.0f, 0.0f};
  for (int b = threadIdx.x; b < blocks; b += blockDim.x) {
    whole = join(whole, {__ldcg(parts + 3 * b), __ldcg(parts + 3 * b + 1),
                         __ldcg(parts + 3 * b + 2)});
  }
  whole = join_block(whole);
  if (threadIdx.x == 0) {
    known[2 * row] = whole.mean;
    known[2 * row + 1] = rsqrtf(whole.squares / columns + eps);
  }
}

template <typename T, int V>
__global__ void apply_moments(const T* x, const T* weight, const T* bias, const float* known,
                              T* out, int columns) {
  using P = Pack<T, V>;
  const long long base = static_cast<long long>(blockIdx.y) * columns;
  const P* from = reinterpret_cast<const P*>(x + base);
  P* to = reinterpret_cast<P*>(out + base);
  const float mean = known[2 * blockIdx.y], scale = known[2 * blockIdx.y + 1];
  for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < columns / V;
       p += gridDim.x * blockDim.x) {
    P pack = from[p];
    const P factor = reinterpret_cast<const P*>(weight)[p];
    const P shift = reinterpret_cast<const P*>(bias)[p];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float y = (wide(pack.values[i]) - mean) * scale;
      put(pack.values[i], y * wide(factor.values[i]) + wide(shift.values[i]));
    }
    to[p] = pack;
  }
}

template <typename T, int V>
void launch(const T* x, const T* weight, const T* bias, float* known, int* tickets, T* out,
            int rows, int columns, float eps, int threads, int blocks, cudaStream_t stream) {
  const dim3 grid(blocks, rows);
  find_moments<T, V><<<grid, threads, 0, stream>>>(x, known, tickets, columns, eps);
  apply_moments<T, V><<<grid, threads, 0, stream>>>(x, weight, bias, known, out, columns);
}

template <typename T>
void launch_any(const void* x, const void* weight, const void* bias, float* known, int* tickets,
                void* out, int rows, int columns, float eps, int threads, int blocks, int vector,
                cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  const T* w = static_cast<const T*>(weight);
  const T* b = static_cast<const T*>(bias);
  T* to = static_cast<T*>(out);
  if (columns % vector) vector = 1;
  if (vector == 1) {
    launch<T, 1>(from, w, b, known, tickets, to, rows, columns, eps, threads, blocks, stream);
  } else if (vector == 4) {
    launch<T, 4>(from, w, b, known, tickets, to, rows, columns, eps, threads, blocks, stream);
  } else {
    launch<T, 8>(from, w, b, known, tickets, to, rows, columns, eps, threads, blocks, stream);
  }
}

void normalise(const void* x, const void* weight, const void* bias, float* known, int* tickets,
               void* out, int type, int rows, int columns, float eps, int threads, int blocks,
               int vector, cudaStream_t stream) {
  if (type == 0) {
    launch_any<float>(x, weight, bias, known, tickets, out, rows, columns, eps, threads, blocks,
                      vector, stream);
  } else if (type == 1) {
    launch_any<__half>(x, weight, bias, known, tickets, out, rows, columns, eps, threads, blocks,
                       vector, stream);
  } else {
    launch_any<__nv_bfloat16>(x, weight, bias, known, tickets, out, rows, columns, eps, threads,
                              blocks, vector, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void normalise(const void* x, const void* weight, const void* bias, float* known, int* tickets,
               void* out, int type, int rows, int columns, float eps, int threads, int blocks,
               int vector, cudaStream_t stream);

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps, int threads, int blocks, int vector) {
  const int64_t rows = x.size(0), columns = x.size(1);
  at::Tensor out = at::empty_like(x);
  at::Tensor known = at::empty({rows * (2 + 3 * blocks)}, x.options().dtype(at::kFloat));
  at::Tensor tickets = at::zeros({rows}, x.options().dtype(at::kInt));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  normalise(x.const_data_ptr(), weight.const_data_ptr(), bias.const_data_ptr(),
            known.mutable_data_ptr<float>(), tickets.mutable_data_ptr<int>(),
            out.mutable_data_ptr(), type, rows, columns, eps, threads, blocks, vector,
            c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_split_layer_norm_cuda_last_block",
        BINDING,
        CUDA,
        functions=["layer_norm"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """A pack a thread; rows of whole packs, or VECTOR=4 for single values."""
    vector = params["VECTOR"]
    packs = vector in (1, 4) or shape["N"] % vector == 0
    return packs and params["THREADS"] * params["BLOCKS"] * vector <= shape["N"]


def kernel(x, weight, bias, *, THREADS=256, BLOCKS=128, VECTOR=4):
    return extension().layer_norm(x, weight, bias, EPS, THREADS, BLOCKS, VECTOR)
