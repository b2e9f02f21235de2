"""CUDA C++: an atomic for every entry; a thread has EACH of them in flight, a grid apart."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.coo_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512, 1024],
    "EACH": [1, 2, 4, 8],
    "ROUNDS": [1, 4, 16],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T, int EACH>
__global__ void add_entries(const int* rows, const int* cols, const T* values, const T* x,
                            float* out, int count) {
  const int step = gridDim.x * blockDim.x;
  for (int start = blockIdx.x * blockDim.x + threadIdx.x; start < count; start += step * EACH) {
    float product[EACH];
    int row[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int i = start + e * step;
      row[e] = i < count ? rows[i] : -1;
      product[e] = i < count ? wide(values[i]) * wide(x[cols[i]]) : 0.0f;
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      if (row[e] >= 0) atomicAdd(out + row[e], product[e]);
    }
  }
}

template <typename T, int EACH>
void launch(const int* rows, const int* cols, const void* values, const void* x, float* out,
            int count, int height, int threads, int rounds, cudaStream_t stream) {
  const T* values_t = static_cast<const T*>(values);
  const T* x_t = static_cast<const T*>(x);
  const int span = threads * EACH * rounds;
  add_entries<T, EACH><<<(count + span - 1) / span, threads, 0, stream>>>(rows, cols, values_t, x_t,
                                                                          out, count);
}

template <typename T>
void by_each(const int* rows, const int* cols, const void* values, const void* x, float* out,
             int count, int height, int threads, int each, int rounds, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(rows, cols, values, x, out, count, height, threads, rounds, stream);
  } else if (each == 2) {
    launch<T, 2>(rows, cols, values, x, out, count, height, threads, rounds, stream);
  } else if (each == 4) {
    launch<T, 4>(rows, cols, values, x, out, count, height, threads, rounds, stream);
  } else {
    launch<T, 8>(rows, cols, values, x, out, count, height, threads, rounds, stream);
  }
}

void run(const int* rows, const int* cols, const void* values, const void* x, float* out,
         int type, int count, int height, int threads, int each, int rounds,
         cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<float>(rows, cols, values, x, out, count, height, threads, each, rounds, stream);
      break;
    case 1:
      by_each<__half>(rows, cols, values, x, out, count, height, threads, each, rounds, stream);
      break;
    default:
      by_each<__nv_bfloat16>(rows, cols, values, x, out, count, height, threads, each, rounds,
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

void run(const int* rows, const int* cols, const void* values, const void* x, float* out,
         int type, int count, int height, int threads, int each, int rounds, cudaStream_t stream);

at::Tensor coo_spmv(const at::Tensor& rows, const at::Tensor& cols, const at::Tensor& values,
                    const at::Tensor& x, int height, int threads, int each, int rounds) {
  const int64_t count = values.size(0);
  at::Tensor out = at::zeros({height}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  run(rows.const_data_ptr<int>(), cols.const_data_ptr<int>(), values.const_data_ptr(),
      x.const_data_ptr(), out.mutable_data_ptr<float>(), type, count, height, threads, each,
      rounds, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_coo_spmv_cuda_atomic_each",
        BINDING,
        CUDA,
        functions=["coo_spmv"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """A block for two SMs at least."""
    return 66 * params["THREADS"] * params["EACH"] * params["ROUNDS"] <= shape["NNZ"]


def kernel(rows, cols, values, x, height, *, THREADS=256, EACH=4, ROUNDS=1):
    return extension().coo_spmv(rows, cols, values, x, height, THREADS, EACH, ROUNDS)
