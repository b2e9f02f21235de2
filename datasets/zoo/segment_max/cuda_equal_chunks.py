"""CUDA C++: equal chunks of rows whatever the segments; atomic maxima where a segment ends."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.segment_max.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "COLS": [16, 32, 64, 128, 256],
    "TALL": [1, 2, 4, 8],
    "CHUNK": [8, 16, 32, 64, 128],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// Numbers that are not negative are in the order of their bits.
template <typename T>
__global__ void max_chunks(const T* rows, const int* ids, float* out, int count, int columns,
                           int chunk) {
  const int c = blockIdx.y * blockDim.x + threadIdx.x;
  const int first = (blockIdx.x * blockDim.y + threadIdx.y) * chunk;
  const int end = min(first + chunk, count);
  if (c >= columns || first >= end) return;
  int* to = reinterpret_cast<int*>(out);
  int segment = ids[first];
  float most = 0.0f;
  for (int t = first; t < end; ++t) {
    const int here = ids[t];
    if (here != segment) {
      atomicMax(to + static_cast<long long>(segment) * columns + c, __float_as_int(most));
      most = 0.0f;
      segment = here;
    }
    most = fmaxf(most, wide(rows[static_cast<long long>(t) * columns + c]));
  }
  atomicMax(to + static_cast<long long>(segment) * columns + c, __float_as_int(most));
}

template <typename T>
void launch(const void* rows, const int* ids, float* out, int count, int columns, int segments,
            int cols, int tall, int chunk, cudaStream_t stream) {
  const T* rows_t = static_cast<const T*>(rows);
  const int span = tall * chunk;
  const dim3 grid((count + span - 1) / span, (columns + cols - 1) / cols), block(cols, tall);
  max_chunks<T><<<grid, block, 0, stream>>>(rows_t, ids, out, count, columns, chunk);
}

void run(const void* rows, const int* ids, float* out, int type, int count, int columns,
         int segments, int cols, int tall, int chunk, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(rows, ids, out, count, columns, segments, cols, tall, chunk, stream);
      break;
    case 1:
      launch<__half>(rows, ids, out, count, columns, segments, cols, tall, chunk, stream);
      break;
    default:
      launch<__nv_bfloat16>(rows, ids, out, count, columns, segments, cols, tall, chunk, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* rows, const int* ids, float* out, int type, int count, int columns,
         int segments, int cols, int tall, int chunk, cudaStream_t stream);

at::Tensor segment_max(const at::Tensor& rows, const at::Tensor& ids, int segments, int cols,
                       int tall, int chunk) {
  const int64_t count = rows.size(0);
  const int64_t columns = rows.size(1);
  at::Tensor out = at::zeros({segments, columns}, rows.options().dtype(at::kFloat));
  const int type = rows.scalar_type() == at::kFloat ? 0 : rows.scalar_type() == at::kHalf ? 1 : 2;
  run(rows.const_data_ptr(), ids.const_data_ptr<int>(), out.mutable_data_ptr<float>(), type,
      count, columns, segments, cols, tall, chunk, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_segment_max_cuda_equal_chunks",
        BINDING,
        CUDA,
        functions=["segment_max"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 512 threads, and a band not far wider than a row."""
    return 32 <= params["COLS"] * params["TALL"] <= 512 and params["COLS"] < 4 * shape["D"]


def kernel(rows, ids, offsets, *, COLS=32, TALL=4, CHUNK=32):
    segments = offsets.shape[0] - 1
    return extension().segment_max(rows, ids, segments, COLS, TALL, CHUNK)
