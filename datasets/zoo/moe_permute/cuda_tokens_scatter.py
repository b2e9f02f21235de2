"""CUDA C++: a row of threads takes a token, reads it once, and writes it to each of its places."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.moe_permute.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ACROSS": [16, 32, 64, 128, 256],
    "TALL": [1, 2, 4, 8],
    "EACH": [1, 2, 4, 8],
    "IN_FLIGHT": [1, 2],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int EACH> struct alignas(sizeof(T) * EACH) Pack { T values[EACH]; };

// Packs divide rows; a thread reads `HELD` packs before it writes them.
template <typename T, int EACH, int HELD>
__global__ void scatter_tokens(const T* x, const int* places, T* out, int tokens, int columns,
                               int top) {
  using P = Pack<T, EACH>;
  const int token = blockIdx.x * blockDim.y + threadIdx.y, packs = columns / EACH;
  if (token >= tokens) return;
  const P* from = reinterpret_cast<const P*>(x) + static_cast<long long>(token) * packs;
  P* to = reinterpret_cast<P*>(out);
  for (int start = threadIdx.x; start < packs; start += blockDim.x * HELD) {
    P held[HELD];
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      const int p = start + h * blockDim.x;
      if (p < packs) held[h] = from[p];
    }
    for (int i = 0; i < top; ++i) {
      const long long place = static_cast<long long>(places[token * top + i]) * packs;
#pragma unroll
      for (int h = 0; h < HELD; ++h) {
        const int p = start + h * blockDim.x;
        if (p < packs) to[place + p] = held[h];
      }
    }
  }
}

template <typename T, int EACH, int HELD>
void launch(const void* x, const int* places, void* out, int rows, int columns, int top,
            int across, int tall, cudaStream_t stream) {
  const T* x_t = static_cast<const T*>(x);
  T* out_t = static_cast<T*>(out);
  const int tokens = rows / top;
  const dim3 block(across, tall);
  scatter_tokens<T, EACH, HELD><<<(tokens + tall - 1) / tall, block, 0, stream>>>(
      x_t, places, out_t, tokens, columns, top);
}

template <typename T, int EACH>
void by_held(const void* x, const int* places, void* out, int rows, int columns, int top,
             int across, int tall, int held, cudaStream_t stream) {
  if (held == 1) {
    launch<T, EACH, 1>(x, places, out, rows, columns, top, across, tall, stream);
  } else {
    launch<T, EACH, 2>(x, places, out, rows, columns, top, across, tall, stream);
  }
}

template <typename T>
void by_each(const void* x, const int* places, void* out, int rows, int columns, int top,
             int across, int tall, int each, int held, cudaStream_t stream) {
  if (each == 1) {
    by_held<T, 1>(x, places, out, rows, columns, top, across, tall, held, stream);
  } else if (each == 2) {
    by_held<T, 2>(x, places, out, rows, columns, top, across, tall, held, stream);
  } else if (each == 4) {
    by_held<T, 4>(x, places, out, rows, columns, top, across, tall, held, stream);
  } else {
    by_held<T, 8>(x, places, out, rows, columns, top, across, tall, held, stream);
  }
}

void run(const void* x, const int* places, void* out, int type, int rows, int columns, int top,
         int across, int tall, int each, int held, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(x, places, out, rows, columns, top, across, tall, each, held, stream);
      break;
    case 1:
      by_each<__half>(x, places, out, rows, columns, top, across, tall, each, held, stream);
      break;
    default:
      by_each<__nv_bfloat16>(x, places, out, rows, columns, top, across, tall, each, held,
                             stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* x, const int* places, void* out, int type, int rows, int columns, int top,
         int across, int tall, int each, int held, cudaStream_t stream);

at::Tensor moe_permute(const at::Tensor& x, const at::Tensor& places, int top, int across,
                       int tall, int each, int held) {
  const int64_t rows = places.size(0);
  const int64_t columns = x.size(1);
  at::Tensor out = at::empty({rows, columns}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  run(x.const_data_ptr(), places.const_data_ptr<int>(), out.mutable_data_ptr(), type, rows,
      columns, top, across, tall, each, held, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_moe_permute_cuda_tokens_scatter",
        BINDING,
        CUDA,
        functions=["moe_permute"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Packs of at most 16 bytes divide rows; 32 to 512 threads."""
    each, columns, across = params["EACH"], shape["D"], params["ACROSS"]
    wide = each * (4 if "float32" in str(shape["dtype"]) else 2) > 16
    fits = across < 2 * columns // each and columns // each <= 64 * across
    return columns % each == 0 and not wide and fits and 32 <= across * params["TALL"] <= 512


def kernel(x, choices, places, top, *, ACROSS=128, TALL=2, EACH=1, IN_FLIGHT=1):
    return extension().moe_permute(x, places, top, ACROSS, TALL, EACH, IN_FLIGHT)
