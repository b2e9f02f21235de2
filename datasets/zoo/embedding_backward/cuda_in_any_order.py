"""CUDA C++: an atomic an element; lanes of a row keep EACH columns in flight."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.embedding_backward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "LANES": [8, 16, 32, 64],
    "EACH": [1, 2, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T, int EACH>
__global__ void add_gradients(const T* grads, const int* tokens, float* out, int count,
                              int columns, int lanes) {
  const int t = (blockIdx.x * blockDim.x + threadIdx.x) / lanes;
  if (t >= count) return;
  const T* from = grads + static_cast<long long>(t) * columns;
  float* to = out + static_cast<long long>(tokens[t]) * columns;
  for (int start = threadIdx.x % lanes; start < columns; start += lanes * EACH) {
    float held[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int c = start + e * lanes;
      held[e] = c < columns ? wide(from[c]) : 0.0f;
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int c = start + e * lanes;
      if (c < columns) atomicAdd(to + c, held[e]);
    }
  }
}

template <typename T, int EACH>
void launch(const void* grads, const int* tokens, float* out, int count, int columns,
            int vocabulary, int threads, int lanes, cudaStream_t stream) {
  const T* grads_t = static_cast<const T*>(grads);
  const int per_block = threads / lanes;
  add_gradients<T, EACH><<<(count + per_block - 1) / per_block, threads, 0, stream>>>(
      grads_t, tokens, out, count, columns, lanes);
}

template <typename T>
void by_each(const void* grads, const int* tokens, float* out, int count, int columns,
             int vocabulary, int threads, int lanes, int each, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(grads, tokens, out, count, columns, vocabulary, threads, lanes, stream);
  } else if (each == 2) {
    launch<T, 2>(grads, tokens, out, count, columns, vocabulary, threads, lanes, stream);
  } else {
    launch<T, 4>(grads, tokens, out, count, columns, vocabulary, threads, lanes, stream);
  }
}

void run(const void* grads, const int* tokens, float* out, int type, int count, int columns,
         int vocabulary, int threads, int lanes, int each, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(grads, tokens, out, count, columns, vocabulary, threads, lanes, each,
                     stream);
      break;
    case 1:
      by_each<__half>(grads, tokens, out, count, columns, vocabulary, threads, lanes, each,
                      stream);
      break;
    default:
      by_each<__nv_bfloat16>(grads, tokens, out, count, columns, vocabulary, threads, lanes, each,
                             stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* grads, const int* tokens, float* out, int type, int count, int columns,
         int vocabulary, int threads, int lanes, int each, cudaStream_t stream);

at::Tensor embedding_backward(const at::Tensor& grads, const at::Tensor& tokens, int vocabulary,
                              int threads, int lanes, int each) {
  const int64_t count = grads.size(0);
  const int64_t columns = grads.size(1);
  at::Tensor out = at::zeros({vocabulary, columns}, grads.options().dtype(at::kFloat));
  const auto kind = grads.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(grads.const_data_ptr(), tokens.const_data_ptr<int>(), out.mutable_data_ptr<float>(), type,
      count, columns, vocabulary, threads, lanes, each, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_embedding_backward_cuda_in_any_order",
        BINDING,
        CUDA,
        functions=["embedding_backward"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """One to 128 columns a lane."""
    return params["LANES"] <= shape["D"] <= 128 * params["LANES"]


def kernel(grads, tokens, order, starts, *, THREADS=256, LANES=32, EACH=2):
    vocabulary = starts.shape[0] - 1
    return extension().embedding_backward(grads, tokens, vocabulary, THREADS, LANES, EACH)
