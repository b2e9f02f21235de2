"""CUDA C++: a thread an element or a few, so that either reads or writes lie apart."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.transpose.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_X": [8, 16, 32, 64, 128],
    "BLOCK_Y": [1, 2, 4, 8, 16],
    "EACH": [1, 2, 4],
    "READS_APART": [False, True],
}

CUDA = r"""
#include <cstdint>

// The threads of a warp lie along the rows of `from`; of `READS_APART` along those of `to`.
template <typename T, int EACH, bool READS_APART>
__global__ void transpose_elements(const T* from, T* to, int rows, int columns) {
  const int fast = blockIdx.x * blockDim.x + threadIdx.x;
  const int first = (blockIdx.y * blockDim.y + threadIdx.y) * EACH;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int row = READS_APART ? fast : first + i;
    const int column = READS_APART ? first + i : fast;
    if (row < rows && column < columns) {
      const int64_t at = static_cast<int64_t>(row) * columns + column;
      to[static_cast<int64_t>(column) * rows + row] = from[at];
    }
  }
}

template <typename T, int EACH>
void launch(const void* x, void* out, int rows, int columns, int wide, int high, bool reads_apart,
            cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const int along = reads_apart ? rows : columns, across = reads_apart ? columns : rows;
  const dim3 block(wide, high);
  const dim3 grid((along + wide - 1) / wide, (across + high * EACH - 1) / (high * EACH));
  if (reads_apart) {
    transpose_elements<T, EACH, true><<<grid, block, 0, stream>>>(from, to, rows, columns);
  } else {
    transpose_elements<T, EACH, false><<<grid, block, 0, stream>>>(from, to, rows, columns);
  }
}

template <typename T>
void by_each(const void* x, void* out, int rows, int columns, int wide, int high, int each,
             bool reads_apart, cudaStream_t stream) {
  if (each == 1) launch<T, 1>(x, out, rows, columns, wide, high, reads_apart, stream);
  if (each == 2) launch<T, 2>(x, out, rows, columns, wide, high, reads_apart, stream);
  if (each == 4) launch<T, 4>(x, out, rows, columns, wide, high, reads_apart, stream);
}

// Bits are bits: only the size of an element matters.
void transpose_any(const void* x, void* out, int bytes, int rows, int columns, int wide, int high,
                   int each, bool reads_apart, cudaStream_t stream) {
  switch (bytes) {
    case 1:
      by_each<uint8_t>(x, out, rows, columns, wide, high, each, reads_apart, stream);
      break;
    case 2:
      by_each<uint16_t>(x, out, rows, columns, wide, high, each, reads_apart, stream);
      break;
    default:
      by_each<uint32_t>(x, out, rows, columns, wide, high, each, reads_apart, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void transpose_any(const void* x, void* out, int bytes, int rows, int columns, int wide, int high,
                   int each, bool reads_apart, cudaStream_t stream);

at::Tensor transpose(const at::Tensor& x, int wide, int high, int each, bool reads_apart) {
  at::Tensor out = at::empty({x.size(1), x.size(0)}, x.options());
  transpose_any(x.const_data_ptr(), out.mutable_data_ptr(), x.element_size(), x.size(0), x.size(1),
                wide, high, each, reads_apart, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_transpose_cuda_naive",
        BINDING,
        CUDA,
        functions=["transpose"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 1,024 threads; a grid's second side has at most 65,535 blocks."""
    x, y = params["BLOCK_X"], params["BLOCK_Y"]
    across = shape["N"] if params["READS_APART"] else shape["M"]
    return 32 <= x * y <= 1024 and across <= 65535 * y * params["EACH"]


def kernel(x, *, BLOCK_X=32, BLOCK_Y=8, EACH=1, READS_APART=False):
    return extension().transpose(x, BLOCK_X, BLOCK_Y, EACH, READS_APART)
