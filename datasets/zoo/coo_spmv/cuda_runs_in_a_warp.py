"""CUDA C++: lanes of one row add up by shuffles; the first of a run does the atomic."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.coo_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "ROUNDS": [1, 2, 4, 8, 16],
    "CARRY": [False, True],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// Lane by lane the sum of those that follow in the same run; a run is of neighbours in a row.
__device__ float sum_run(float x, int row, int lane) {
  for (int far = 1; far < 32; far *= 2) {
    const float other = __shfl_down_sync(0xffffffff, x, far);
    const int its = __shfl_down_sync(0xffffffff, row, far);
    const bool goes_on = lane + far < 32 && its == row;
    if (goes_on) x += other;
    if (!__any_sync(0xffffffff, goes_on)) break;
  }
  return x;
}

// With `carry`, a warp takes its rounds from one stretch, and keeps the sum of a run that goes on.
// Equal rows must then be neighbours, or nothing is saved; the result is right in any order.
template <typename T>
__global__ void add_runs(const int* rows, const int* cols, const T* values, const T* x, float* out,
                         int count, int rounds, bool carry) {
  const int lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int warps = gridDim.x * blockDim.x / 32;
  int kept = -1;
  float held = 0.0f;
  for (int r = 0; r < rounds; ++r) {
    const int i = (carry ? warp * rounds + r : warp + r * warps) * 32 + lane;
    const int row = i < count ? rows[i] : -1;
    const int before = __shfl_up_sync(0xffffffff, row, 1);
    const bool starts = lane == 0 || before != row;
    // A run in a warp is told by how many runs start before it, since rows may come again.
    const unsigned heads = __ballot_sync(0xffffffff, starts);
    const int run = __popc(heads & (0xffffffffu >> (31 - lane)));
    float sum = i < count ? wide(values[i]) * wide(x[cols[i]]) : 0.0f;
    sum = sum_run(sum, run, lane);
    if (carry && lane == 0 && row == kept) sum += held;
    if (carry && lane == 0 && row != kept && kept >= 0) atomicAdd(out + kept, held);
    const bool whole = carry && heads == 1u;
    if (starts && row >= 0 && !whole) atomicAdd(out + row, sum);
    kept = whole ? row : -1;
    held = sum;
  }
  if (lane == 0 && kept >= 0) atomicAdd(out + kept, held);
}

template <typename T>
void launch(const int* rows, const int* cols, const void* values, const void* x, float* out,
            int count, int height, int threads, int rounds, int carry, cudaStream_t stream) {
  const T* values_t = static_cast<const T*>(values);
  const T* x_t = static_cast<const T*>(x);
  const int span = threads * rounds;
  add_runs<T><<<(count + span - 1) / span, threads, 0, stream>>>(rows, cols, values_t, x_t, out,
                                                                 count, rounds, carry);
}

void run(const int* rows, const int* cols, const void* values, const void* x, float* out,
         int type, int count, int height, int threads, int rounds, int carry,
         cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(rows, cols, values, x, out, count, height, threads, rounds, carry, stream);
      break;
    case 1:
      launch<__half>(rows, cols, values, x, out, count, height, threads, rounds, carry, stream);
      break;
    default:
      launch<__nv_bfloat16>(rows, cols, values, x, out, count, height, threads, rounds, carry,
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
         int type, int count, int height, int threads, int rounds, int carry,
         cudaStream_t stream);

at::Tensor coo_spmv(const at::Tensor& rows, const at::Tensor& cols, const at::Tensor& values,
                    const at::Tensor& x, int height, int threads, int rounds, int carry) {
  const int64_t count = values.size(0);
  at::Tensor out = at::zeros({height}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  run(rows.const_data_ptr<int>(), cols.const_data_ptr<int>(), values.const_data_ptr(),
      x.const_data_ptr(), out.mutable_data_ptr<float>(), type, count, height, threads, rounds,
      carry, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_coo_spmv_cuda_runs_in_a_warp",
        BINDING,
        CUDA,
        functions=["coo_spmv"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """A sum is carried over two rounds at least."""
    return not params["CARRY"] or params["ROUNDS"] > 1


def kernel(rows, cols, values, x, height, *, THREADS=256, ROUNDS=4, CARRY=False):
    return extension().coo_spmv(rows, cols, values, x, height, THREADS, ROUNDS, CARRY)
