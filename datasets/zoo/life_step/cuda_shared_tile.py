"""CUDA C++: a tile of bytes with its border in shared memory, sums of three, then the step."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.life_step.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WIDE": [32, 64, 128, 256],
    "HIGH": [8, 16, 32],
    "THREADS_Y": [2, 4, 8],
}

CUDA = r"""
#include <cstdint>

// `tile` holds cells, `sums` those of three side by side; both lie in shared memory.
template <typename T>
__global__ void life_tile(const T* x, T* out, int rows, int columns, int across, int high) {
  extern __shared__ uint8_t shared[];
  const int pitch = across + 2;
  uint8_t* tile = shared;
  uint8_t* sums = tile + pitch * (high + 2);
  const int row0 = blockIdx.y * high, column0 = blockIdx.x * across;
  for (int r = threadIdx.y; r < high + 2; r += blockDim.y) {
    const int row = row0 + r - 1;
    for (int c = threadIdx.x; c < pitch; c += blockDim.x) {
      const int column = column0 + c - 1;
      const bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
      tile[r * pitch + c] = inside && x[static_cast<long long>(row) * columns + column] != T(0);
    }
  }
  __syncthreads();
  for (int r = threadIdx.y; r < high + 2; r += blockDim.y) {
    for (int c = threadIdx.x; c < across; c += blockDim.x) {
      const uint8_t* at = tile + r * pitch + c;
      sums[r * across + c] = at[0] + at[1] + at[2];
    }
  }
  __syncthreads();
  for (int r = threadIdx.y; r < high && row0 + r < rows; r += blockDim.y) {
    for (int c = threadIdx.x; c < across && column0 + c < columns; c += blockDim.x) {
      const uint8_t* three = sums + r * across + c;
      const int self = tile[(r + 1) * pitch + c + 1];
      const int around = three[0] + three[across] + three[2 * across] - self;
      const bool lives = around == 3 || (around == 2 && self);
      out[static_cast<long long>(row0 + r) * columns + column0 + c] = T(lives);
    }
  }
}

template <typename T>
void launch(const void* x, void* out, int rows, int columns, int across, int high, int threads_y,
            cudaStream_t stream) {
  const dim3 grid((columns + across - 1) / across, (rows + high - 1) / high);
  const dim3 block(32, threads_y);
  const int bytes = (high + 2) * (2 * across + 2);
  life_tile<T><<<grid, block, bytes, stream>>>(static_cast<const T*>(x), static_cast<T*>(out),
                                               rows, columns, across, high);
}

// Types: 0 for float, otherwise the bytes of an integer.
void step_any(const void* x, void* out, int type, int rows, int columns, int across, int high,
              int threads_y, cudaStream_t stream) {
  if (type == 0) launch<float>(x, out, rows, columns, across, high, threads_y, stream);
  if (type == 1) launch<uint8_t>(x, out, rows, columns, across, high, threads_y, stream);
  if (type == 2) launch<int16_t>(x, out, rows, columns, across, high, threads_y, stream);
  if (type == 4) launch<int32_t>(x, out, rows, columns, across, high, threads_y, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void step_any(const void* x, void* out, int type, int rows, int columns, int across, int high,
              int threads_y, cudaStream_t stream);

at::Tensor life_step(const at::Tensor& x, int across, int high, int threads_y) {
  at::Tensor out = at::empty_like(x);
  const int type = x.scalar_type() == at::kFloat ? 0 : x.element_size();
  step_any(x.const_data_ptr(), out.mutable_data_ptr(), type, x.size(0), x.size(1), across, high,
           threads_y, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_life_step_cuda_shared_tile",
        BINDING,
        CUDA,
        functions=["life_step"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Two rows a thread or more; no tile far wider than a row."""
    fits = params["WIDE"] < 2 * shape["N"] and params["HIGH"] < 2 * shape["M"]
    return fits and 2 * params["THREADS_Y"] <= params["HIGH"]


def kernel(x, *, WIDE=64, HIGH=16, THREADS_Y=4):
    return extension().life_step(x, WIDE, HIGH, THREADS_Y)
