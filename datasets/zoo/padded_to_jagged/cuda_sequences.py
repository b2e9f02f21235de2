"""CUDA C++: some blocks share the rows of one sequence; rows of threads copy packs."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.padded_to_jagged.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ACROSS": [8, 16, 32, 64, 128],
    "TALL": [1, 2, 4, 8, 16],
    "EACH": [1, 2, 4],
    "BLOCKS": [1, 4, 16],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int EACH> struct alignas(sizeof(T) * EACH) Pack { T values[EACH]; };

// Packs divide rows.
template <typename T, int EACH>
__global__ void pack_sequences(const T* padded, const int* offsets, T* out, int length,
                               int columns) {
  using P = Pack<T, EACH>;
  const int first = offsets[blockIdx.x], many = offsets[blockIdx.x + 1] - first;
  const int packs = columns / EACH, step = gridDim.y * blockDim.y;
  const P* from = reinterpret_cast<const P*>(padded);
  P* to = reinterpret_cast<P*>(out) + static_cast<long long>(first) * packs;
  from += static_cast<long long>(blockIdx.x) * length * packs;
  for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < many; row += step) {
    for (int p = threadIdx.x; p < packs; p += blockDim.x) {
      P pack{};
      if (row < length) pack = from[row * packs + p];
      to[row * packs + p] = pack;
    }
  }
}

template <typename T, int EACH>
void launch(const void* padded, const int* offsets, void* out, int batch, int length, int columns,
            int total, int across, int tall, int blocks, cudaStream_t stream) {
  const T* padded_t = static_cast<const T*>(padded);
  T* out_t = static_cast<T*>(out);
  const dim3 grid(batch, blocks), block(across, tall);
  pack_sequences<T, EACH><<<grid, block, 0, stream>>>(padded_t, offsets, out_t, length, columns);
}

template <typename T>
void by_each(const void* padded, const int* offsets, void* out, int batch, int length,
             int columns, int total, int across, int tall, int each, int blocks,
             cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(padded, offsets, out, batch, length, columns, total, across, tall, blocks,
                 stream);
  } else if (each == 2) {
    launch<T, 2>(padded, offsets, out, batch, length, columns, total, across, tall, blocks,
                 stream);
  } else {
    launch<T, 4>(padded, offsets, out, batch, length, columns, total, across, tall, blocks,
                 stream);
  }
}

void run(const void* padded, const int* offsets, void* out, int type, int batch, int length,
         int columns, int total, int across, int tall, int each, int blocks,
         cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(padded, offsets, out, batch, length, columns, total, across, tall, each,
                     blocks, stream);
      break;
    case 1:
      by_each<__half>(padded, offsets, out, batch, length, columns, total, across, tall, each,
                      blocks, stream);
      break;
    default:
      by_each<__nv_bfloat16>(padded, offsets, out, batch, length, columns, total, across, tall,
                             each, blocks, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* padded, const int* offsets, void* out, int type, int batch, int length,
         int columns, int total, int across, int tall, int each, int blocks, cudaStream_t stream);

at::Tensor padded_to_jagged(const at::Tensor& padded, const at::Tensor& offsets, int total,
                            int across, int tall, int each, int blocks) {
  const int64_t batch = padded.size(0);
  const int64_t length = padded.size(1);
  const int64_t columns = padded.size(2);
  at::Tensor out = at::empty({total, columns}, padded.options());
  const auto kind = padded.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(padded.const_data_ptr(), offsets.const_data_ptr<int>(), out.mutable_data_ptr(), type, batch,
      length, columns, total, across, tall, each, blocks, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_padded_to_jagged_cuda_sequences",
        BINDING,
        CUDA,
        functions=["padded_to_jagged"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Packs divide rows; 32 to 512 threads; no more blocks than a sequence has rows."""
    each, columns, across = params["EACH"], shape["D"], params["ACROSS"]
    fits = across < 2 * columns // each and columns // each <= 32 * across
    rows = params["TALL"] * params["BLOCKS"] <= max(32, shape["MEAN"])
    return columns % each == 0 and fits and 32 <= across * params["TALL"] <= 512 and rows


def kernel(padded, offsets, total, *, ACROSS=32, TALL=8, EACH=1, BLOCKS=4):
    return extension().padded_to_jagged(padded, offsets, total, ACROSS, TALL, EACH, BLOCKS)
