"""CUDA C++: blocks count in shared memory, several copies of the bins against collisions."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.histogram.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512, 1024],
    "BLOCKS": [132, 264, 528, 1056],
    "COPIES": [1, 2, 4, 8],
    "BATCH": [1, 4, 8],
}

CUDA = r"""
#include <cstdint>

// Warp by warp another copy; copies lie side by side, so that a bin's are in different banks.
template <typename T, int BATCH>
__global__ void histogram_shared(const T* x, int* counts, long long size, int bins, int copies) {
  extern __shared__ int shared[];
  for (int i = threadIdx.x; i < bins * copies; i += blockDim.x) shared[i] = 0;
  __syncthreads();
  int* mine = shared + threadIdx.x / 32 % copies;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (long long start = first; start < size; start += step * BATCH) {
    int seen[BATCH];
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
      const long long at = start + b * step;
      seen[b] = at < size ? static_cast<int>(x[at]) : -1;
    }
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
      if (seen[b] >= 0) atomicAdd(mine + seen[b] * copies, 1);
    }
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
    int sum = 0;
    for (int copy = 0; copy < copies; ++copy) sum += shared[bin * copies + copy];
    if (sum) atomicAdd(counts + bin, sum);
  }
}

template <typename T>
void launch(const void* x, int* counts, long long size, int bins, int threads, int most,
            int copies, int batch, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  const int64_t each = int64_t(threads) * batch;
  const int64_t wanted = (size + each - 1) / each;
  const int blocks = wanted < most ? wanted : most;
  const int shared = bins * copies * 4;
  if (batch == 1) {
    histogram_shared<T, 1><<<blocks, threads, shared, stream>>>(from, counts, size, bins, copies);
  } else if (batch == 4) {
    histogram_shared<T, 4><<<blocks, threads, shared, stream>>>(from, counts, size, bins, copies);
  } else {
    histogram_shared<T, 8><<<blocks, threads, shared, stream>>>(from, counts, size, bins, copies);
  }
}

// Every value lies within 0 .. bins - 1, and none of 8 bytes beyond what 4 hold.
void count_any(const void* x, int* counts, int bytes, long long size, int bins, int threads,
               int most, int copies, int batch, cudaStream_t stream) {
  switch (bytes) {
    case 1:
      launch<uint8_t>(x, counts, size, bins, threads, most, copies, batch, stream);
      break;
    case 2:
      launch<int16_t>(x, counts, size, bins, threads, most, copies, batch, stream);
      break;
    case 4:
      launch<int>(x, counts, size, bins, threads, most, copies, batch, stream);
      break;
    default:
      launch<int64_t>(x, counts, size, bins, threads, most, copies, batch, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void count_any(const void* x, int* counts, int bytes, long long size, int bins, int threads,
               int most, int copies, int batch, cudaStream_t stream);

at::Tensor histogram(const at::Tensor& x, int bins, int threads, int most, int copies, int batch) {
  at::Tensor counts = at::zeros({bins}, x.options().dtype(at::kInt));
  count_any(x.const_data_ptr(), counts.mutable_data_ptr<int>(), x.element_size(), x.numel(), bins,
            threads, most, copies, batch, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return counts;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_histogram_cuda_shared_copies",
        BINDING,
        CUDA,
        functions=["histogram"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 48 KiB, which needs no opting in, and no more copies than warps."""
    copies = params["COPIES"]
    return 4 * copies * shape["BINS"] <= 48 * 1024 and copies <= params["THREADS"] // 32


def kernel(x, bins, *, THREADS=256, BLOCKS=528, COPIES=1, BATCH=4):
    return extension().histogram(x, bins, THREADS, BLOCKS, COPIES, BATCH)
