"""CUDA C++: a row of threads copies a padded row in packs; blocks take rows of one sequence."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.jagged_to_padded.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ACROSS": [8, 16, 32, 64],
    "TALL": [2, 4, 8, 16],
    "EACH": [1, 2, 4, 8],
    "ROUNDS": [1, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int EACH> struct alignas(sizeof(T) * EACH) Pack { T values[EACH]; };

// Packs divide rows. A block takes blockDim.y * rounds rows of the sequence blockIdx.y.
template <typename T, int EACH>
__global__ void pad_rows(const T* values, const int* offsets, T* out, int length, int columns,
                         int rounds) {
  using P = Pack<T, EACH>;
  const int first = offsets[blockIdx.y], many = offsets[blockIdx.y + 1] - first;
  const int packs = columns / EACH;
  for (int r = 0; r < rounds; ++r) {
    const int row = (blockIdx.x * rounds + r) * blockDim.y + threadIdx.y;
    if (row >= length) return;
    const P* from = reinterpret_cast<const P*>(values);
    from += static_cast<long long>(first + row) * packs;
    P* to = reinterpret_cast<P*>(out) + (static_cast<long long>(blockIdx.y) * length + row) * packs;
    for (int p = threadIdx.x; p < packs; p += blockDim.x) {
      P pack{};
      if (row < many) pack = from[p];
      to[p] = pack;
    }
  }
}

template <typename T, int EACH>
void launch(const void* values, const int* offsets, void* out, int batch, int columns, int length,
            int across, int tall, int rounds, cudaStream_t stream) {
  const T* values_t = static_cast<const T*>(values);
  T* out_t = static_cast<T*>(out);
  const int span = tall * rounds;
  const dim3 grid((length + span - 1) / span, batch), block(across, tall);
  pad_rows<T, EACH><<<grid, block, 0, stream>>>(values_t, offsets, out_t, length, columns, rounds);
}

template <typename T>
void by_each(const void* values, const int* offsets, void* out, int batch, int columns,
             int length, int across, int tall, int each, int rounds, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(values, offsets, out, batch, columns, length, across, tall, rounds, stream);
  } else if (each == 2) {
    launch<T, 2>(values, offsets, out, batch, columns, length, across, tall, rounds, stream);
  } else if (each == 4) {
    launch<T, 4>(values, offsets, out, batch, columns, length, across, tall, rounds, stream);
  } else {
    launch<T, 8>(values, offsets, out, batch, columns, length, across, tall, rounds, stream);
  }
}

void run(const void* values, const int* offsets, void* out, int type, int batch, int columns,
         int length, int across, int tall, int each, int rounds, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(values, offsets, out, batch, columns, length, across, tall, each, rounds,
                     stream);
      break;
    case 1:
      by_each<__half>(values, offsets, out, batch, columns, length, across, tall, each, rounds,
                      stream);
      break;
    default:
      by_each<__nv_bfloat16>(values, offsets, out, batch, columns, length, across, tall, each,
                             rounds, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* values, const int* offsets, void* out, int type, int batch, int columns,
         int length, int across, int tall, int each, int rounds, cudaStream_t stream);

at::Tensor jagged_to_padded(const at::Tensor& values, const at::Tensor& offsets, int length,
                            int across, int tall, int each, int rounds) {
  const int64_t batch = offsets.size(0) - 1;
  const int64_t columns = values.size(1);
  at::Tensor out = at::empty({batch, length, columns}, values.options());
  const auto kind = values.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(values.const_data_ptr(), offsets.const_data_ptr<int>(), out.mutable_data_ptr(), type, batch,
      columns, length, across, tall, each, rounds, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_jagged_to_padded_cuda_rows_of_threads",
        BINDING,
        CUDA,
        functions=["jagged_to_padded"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Packs of at most 16 bytes divide rows; sequences fit in a grid's second dimension."""
    each, columns = params["EACH"], shape["D"]
    wide = each * (4 if "float32" in str(shape["dtype"]) else 2) > 16
    fits = params["ACROSS"] < 2 * columns // each and columns // each <= 64 * params["ACROSS"]
    tall = 32 <= params["ACROSS"] * params["TALL"] <= 512 and shape["B"] < 65536
    return columns % each == 0 and not wide and fits and tall


def kernel(values, offsets, length, *, ACROSS=16, TALL=8, EACH=1, ROUNDS=1):
    return extension().jagged_to_padded(values, offsets, length, ACROSS, TALL, EACH, ROUNDS)
