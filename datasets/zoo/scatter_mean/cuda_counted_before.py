"""CUDA C++: targets are counted first, in shared memory if they fit; rows are added divided."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.scatter_mean.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "LANES": [4, 8, 16, 32],
    "ROUNDS": [1, 2, 4, 8],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// With few targets, blocks count in shared memory before they go to memory.
__global__ void count_targets(const int* index, int* counts, int count, int targets, bool local) {
  extern __shared__ int held[];
  if (local) {
    for (int i = threadIdx.x; i < targets; i += blockDim.x) held[i] = 0;
    __syncthreads();
  }
  for (int t = blockIdx.x * blockDim.x + threadIdx.x; t < count; t += gridDim.x * blockDim.x) {
    atomicAdd((local ? held : counts) + index[t], 1);
  }
  if (!local) return;
  __syncthreads();
  for (int i = threadIdx.x; i < targets; i += blockDim.x) {
    if (held[i]) atomicAdd(counts + i, held[i]);
  }
}

template <typename T>
__global__ void add_shares(const T* rows, const int* index, const int* counts, float* out,
                           int count, int columns, int lanes, int rounds) {
  const int lane = threadIdx.x % lanes;
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) / lanes * rounds;
  for (int t = first; t < min(first + rounds, count); ++t) {
    const int target = index[t];
    const float share = 1.0f / counts[target];
    const T* from = rows + static_cast<long long>(t) * columns;
    float* to = out + static_cast<long long>(target) * columns;
#pragma unroll 4
    for (int c = lane; c < columns; c += lanes) atomicAdd(to + c, wide(from[c]) * share);
  }
}

template <typename T>
void launch(const void* rows, const int* index, float* out, int* work_counts, int count,
            int columns, int targets, int threads, int lanes, int rounds, cudaStream_t stream) {
  const T* rows_t = static_cast<const T*>(rows);
  const bool local = targets <= 8192;
  count_targets<<<132, 512, local ? 4 * targets : 0, stream>>>(index, work_counts, count, targets,
                                                               local);
  const int span = threads / lanes * rounds;
  add_shares<T><<<(count + span - 1) / span, threads, 0, stream>>>(
      rows_t, index, work_counts, out, count, columns, lanes, rounds);
}

void run(const void* rows, const int* index, float* out, int* work_counts, int type, int count,
         int columns, int targets, int threads, int lanes, int rounds, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(rows, index, out, work_counts, count, columns, targets, threads, lanes,
                    rounds, stream);
      break;
    case 1:
      launch<__half>(rows, index, out, work_counts, count, columns, targets, threads, lanes,
                     rounds, stream);
      break;
    default:
      launch<__nv_bfloat16>(rows, index, out, work_counts, count, columns, targets, threads,
                            lanes, rounds, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* rows, const int* index, float* out, int* work_counts, int type, int count,
         int columns, int targets, int threads, int lanes, int rounds, cudaStream_t stream);

at::Tensor scatter_mean(const at::Tensor& rows, const at::Tensor& index, int targets, int threads,
                        int lanes, int rounds) {
  const int64_t count = rows.size(0);
  const int64_t columns = rows.size(1);
  at::Tensor out = at::zeros({targets, columns}, rows.options().dtype(at::kFloat));
  at::Tensor work_counts = at::zeros({targets}, index.options());
  const int type = rows.scalar_type() == at::kFloat ? 0 : rows.scalar_type() == at::kHalf ? 1 : 2;
  run(rows.const_data_ptr(), index.const_data_ptr<int>(), out.mutable_data_ptr<float>(),
      work_counts.mutable_data_ptr<int>(), type, count, columns, targets, threads, lanes, rounds,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_scatter_mean_cuda_counted_before",
        BINDING,
        CUDA,
        functions=["scatter_mean"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 64 columns a lane."""
    return shape["D"] <= 64 * params["LANES"] and params["LANES"] < 2 * shape["D"]


def kernel(rows, index, targets, *, THREADS=256, LANES=32, ROUNDS=1):
    return extension().scatter_mean(rows, index, targets, THREADS, LANES, ROUNDS)
