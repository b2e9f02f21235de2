"""CUDA C++: a block takes a token and a band of columns and gathers its rows: no atomics."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.embedding_backward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "COLS": [16, 32, 64, 128, 256],
    "TALL": [1, 2, 4, 8],
    "UNROLL": [1, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T, int UNROLL>
__global__ void gather_gradients(const T* grads, const int* order, const int* starts, float* out,
                                 int columns) {
  extern __shared__ float sums[];
  const int c = blockIdx.y * blockDim.x + threadIdx.x, end = starts[blockIdx.x + 1];
  float sum = 0.0f;
  if (c < columns) {
#pragma unroll UNROLL
    for (int i = starts[blockIdx.x] + threadIdx.y; i < end; i += blockDim.y) {
      sum += wide(grads[static_cast<long long>(order[i]) * columns + c]);
    }
  }
  sums[threadIdx.y * blockDim.x + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y || c >= columns) return;
  for (int y = 1; y < blockDim.y; ++y) sum += sums[y * blockDim.x + threadIdx.x];
  out[static_cast<long long>(blockIdx.x) * columns + c] = sum;
}

template <typename T, int UNROLL>
void launch(const void* grads, const int* order, const int* starts, float* out, int vocabulary,
            int columns, int cols, int tall, cudaStream_t stream) {
  const T* grads_t = static_cast<const T*>(grads);
  const dim3 grid(vocabulary, (columns + cols - 1) / cols), block(cols, tall);
  gather_gradients<T, UNROLL><<<grid, block, 4 * cols * tall, stream>>>(grads_t, order, starts, out,
                                                                        columns);
}

template <typename T>
void by_unroll(const void* grads, const int* order, const int* starts, float* out, int vocabulary,
               int columns, int cols, int tall, int unroll, cudaStream_t stream) {
  if (unroll == 1) {
    launch<T, 1>(grads, order, starts, out, vocabulary, columns, cols, tall, stream);
  } else {
    launch<T, 4>(grads, order, starts, out, vocabulary, columns, cols, tall, stream);
  }
}

void run(const void* grads, const int* order, const int* starts, float* out, int type,
         int vocabulary, int columns, int cols, int tall, int unroll, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_unroll<float>(grads, order, starts, out, vocabulary, columns, cols, tall, unroll,
                       stream);
      break;
    case 1:
      by_unroll<__half>(grads, order, starts, out, vocabulary, columns, cols, tall, unroll,
                        stream);
      break;
    default:
      by_unroll<__nv_bfloat16>(grads, order, starts, out, vocabulary, columns, cols, tall, unroll,
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

void run(const void* grads, const int* order, const int* starts, float* out, int type,
         int vocabulary, int columns, int cols, int tall, int unroll, cudaStream_t stream);

at::Tensor embedding_backward(const at::Tensor& grads, const at::Tensor& order,
                              const at::Tensor& starts, int cols, int tall, int unroll) {
  const int64_t vocabulary = starts.size(0) - 1;
  const int64_t columns = grads.size(1);
  at::Tensor out = at::empty({vocabulary, columns}, grads.options().dtype(at::kFloat));
  const auto kind = grads.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(grads.const_data_ptr(), order.const_data_ptr<int>(), starts.const_data_ptr<int>(),
      out.mutable_data_ptr<float>(), type, vocabulary, columns, cols, tall, unroll,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_embedding_backward_cuda_token_at_a_time",
        BINDING,
        CUDA,
        functions=["embedding_backward"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 1,024 threads; a band not far wider than a row."""
    return 32 <= params["COLS"] * params["TALL"] <= 1024 and params["COLS"] < 2 * shape["D"]


def kernel(grads, tokens, order, starts, *, COLS=64, TALL=4, UNROLL=4):
    return extension().embedding_backward(grads, order, starts, COLS, TALL, UNROLL)
