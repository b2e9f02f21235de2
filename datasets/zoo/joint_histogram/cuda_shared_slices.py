"""CUDA C++: blocks count the pairs of some first codes in shared memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.joint_histogram.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [128, 256, 512, 1024],
    "SHARES": [32, 66, 132, 264, 528],
    "SLICE": [8, 16, 32, 64, 128],
}

CUDA = r"""
#include <cstdint>

// A row of blocks shares the elements, a column the table: slices of it are counted on their own.
template <typename T>
__global__ void count_slices(const T* first, const T* second, int* out, int size, int bins,
                             int slice) {
  extern __shared__ int counts[];
  const int low = blockIdx.y * slice, held = min(slice, bins - low) * bins;
  for (int i = threadIdx.x; i < held; i += blockDim.x) counts[i] = 0;
  __syncthreads();
  const int step = gridDim.x * blockDim.x;
#pragma unroll 4
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += step) {
    const int row = static_cast<int>(first[i]) - low;
    if (row >= 0 && row < slice) atomicAdd(counts + row * bins + static_cast<int>(second[i]), 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < held; i += blockDim.x) {
    if (counts[i]) atomicAdd(out + low * bins + i, counts[i]);
  }
}

template <typename T>
void launch(const void* first, const void* second, int* out, int size, int bins, int threads,
            int shares, int slice, cudaStream_t stream) {
  const T* first_t = static_cast<const T*>(first);
  const T* second_t = static_cast<const T*>(second);
  const dim3 grid(shares, (bins + slice - 1) / slice);
  count_slices<T><<<grid, threads, 4 * slice * bins, stream>>>(first_t, second_t, out, size, bins,
                                                               slice);
}

void run(const void* first, const void* second, int* out, int type, int size, int bins,
         int threads, int shares, int slice, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<uint8_t>(first, second, out, size, bins, threads, shares, slice, stream);
      break;
    case 1:
      launch<int16_t>(first, second, out, size, bins, threads, shares, slice, stream);
      break;
    default:
      launch<int>(first, second, out, size, bins, threads, shares, slice, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* first, const void* second, int* out, int type, int size, int bins,
         int threads, int shares, int slice, cudaStream_t stream);

at::Tensor joint_histogram(const at::Tensor& first, const at::Tensor& second, int bins,
                           int threads, int shares, int slice) {
  const int64_t size = first.size(0);
  at::Tensor out = at::zeros({bins, bins}, first.options().dtype(at::kInt));
  const int type = first.element_size() == 1 ? 0 : first.element_size() == 2 ? 1 : 2;
  run(first.const_data_ptr(), second.const_data_ptr(), out.mutable_data_ptr<int>(), type, size,
      bins, threads, shares, slice, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_joint_histogram_cuda_shared_slices",
        BINDING,
        CUDA,
        functions=["joint_histogram"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """A slice fits in 48 KiB; the inputs are read 128 times at most."""
    rows, bins = params["SLICE"], shape["BINS"]
    return 4 * rows * bins <= 48 * 1024 and rows < 2 * bins and bins <= 128 * rows


def kernel(first, second, bins, *, THREADS=512, SHARES=132, SLICE=8):
    return extension().joint_histogram(first, second, bins, THREADS, SHARES, SLICE)
