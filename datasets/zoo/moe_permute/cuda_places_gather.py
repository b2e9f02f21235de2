"""CUDA C++: a row of threads takes a place and fetches its token's row in packs."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.moe_permute.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ACROSS": [16, 32, 64, 128, 256],
    "TALL": [1, 2, 4, 8],
    "EACH": [1, 2, 4, 8],
    "STREAM": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int EACH> struct alignas(sizeof(T) * EACH) Pack { T values[EACH]; };

// Packs divide rows; `once` tells caches that what is written is not read again.
template <typename T, int EACH>
__global__ void gather_tokens(const T* x, const int* choices, T* out, int rows, int columns,
                              int top, bool once) {
  using P = Pack<T, EACH>;
  const int row = blockIdx.x * blockDim.y + threadIdx.y, packs = columns / EACH;
  if (row >= rows) return;
  const P* from = reinterpret_cast<const P*>(x);
  from += static_cast<long long>(choices[row] / top) * packs;
  P* to = reinterpret_cast<P*>(out) + static_cast<long long>(row) * packs;
#pragma unroll 4
  for (int p = threadIdx.x; p < packs; p += blockDim.x) {
    const P pack = from[p];
    if (once && sizeof(P) == 4) {
      __stcs(reinterpret_cast<int*>(to + p), *reinterpret_cast<const int*>(&pack));
    } else if (once && sizeof(P) == 8) {
      __stcs(reinterpret_cast<int2*>(to + p), *reinterpret_cast<const int2*>(&pack));
    } else if (once && sizeof(P) == 16) {
      __stcs(reinterpret_cast<int4*>(to + p), *reinterpret_cast<const int4*>(&pack));
    } else {
      to[p] = pack;
    }
  }
}

template <typename T, int EACH>
void launch(const void* x, const int* choices, void* out, int rows, int columns, int top,
            int across, int tall, int once, cudaStream_t stream) {
  const T* x_t = static_cast<const T*>(x);
  T* out_t = static_cast<T*>(out);
  const dim3 block(across, tall);
  gather_tokens<T, EACH><<<(rows + tall - 1) / tall, block, 0, stream>>>(x_t, choices, out_t, rows,
                                                                         columns, top, once);
}

template <typename T>
void by_each(const void* x, const int* choices, void* out, int rows, int columns, int top,
             int across, int tall, int each, int once, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(x, choices, out, rows, columns, top, across, tall, once, stream);
  } else if (each == 2) {
    launch<T, 2>(x, choices, out, rows, columns, top, across, tall, once, stream);
  } else if (each == 4) {
    launch<T, 4>(x, choices, out, rows, columns, top, across, tall, once, stream);
  } else {
    launch<T, 8>(x, choices, out, rows, columns, top, across, tall, once, stream);
  }
}

void run(const void* x, const int* choices, void* out, int type, int rows, int columns, int top,
         int across, int tall, int each, int once, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(x, choices, out, rows, columns, top, across, tall, each, once, stream);
      break;
    case 1:
      by_each<__half>(x, choices, out, rows, columns, top, across, tall, each, once, stream);
      break;
    default:
      by_each<__nv_bfloat16>(x, choices, out, rows, columns, top, across, tall, each, once,
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

void run(const void* x, const int* choices, void* out, int type, int rows, int columns, int top,
         int across, int tall, int each, int once, cudaStream_t stream);

at::Tensor moe_permute(const at::Tensor& x, const at::Tensor& choices, int top, int across,
                       int tall, int each, int once) {
  const int64_t rows = choices.size(0);
  const int64_t columns = x.size(1);
  at::Tensor out = at::empty({rows, columns}, x.options());
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  run(x.const_data_ptr(), choices.const_data_ptr<int>(), out.mutable_data_ptr(), type, rows,
      columns, top, across, tall, each, once, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_moe_permute_cuda_places_gather",
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


def kernel(x, choices, places, top, *, ACROSS=128, TALL=2, EACH=1, STREAM=False):
    return extension().moe_permute(x, choices, top, ACROSS, TALL, EACH, STREAM)
