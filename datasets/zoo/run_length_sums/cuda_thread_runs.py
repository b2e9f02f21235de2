"""CUDA C++: a thread walks a few elements and adds where a run ends; torch.cumsum between."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.run_length_sums.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "EACH": [4, 8, 16],
    "BY_WARP": [False, True],
}

CUDA = r"""
#include <cstdint>

__global__ void count_changes(const int* keys, int* counts, int size, int tile) {
  __shared__ int all;
  if (threadIdx.x == 0) all = 0;
  __syncthreads();
  int mine = 0;
  for (int i = threadIdx.x; i < tile; i += blockDim.x) {
    const int at = blockIdx.x * tile + i;
    if (at > 0 && at < size) mine += keys[at] != keys[at - 1];
  }
  for (int far = 16; far > 0; far /= 2) mine += __shfl_xor_sync(0xffffffff, mine, far);
  if (threadIdx.x % 32 == 0 && mine) atomicAdd(&all, mine);
  __syncthreads();
  if (threadIdx.x == 0) counts[blockIdx.x] = all;
}

// `by_warp`: where a warp's elements are all of one run, one lane adds for all.
template <int EACH>
__global__ void add_runs(const int* keys, const float* x, const int* counts, const int64_t* upto,
                         float* out, int size, bool by_warp) {
  __shared__ int sums[32];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int first = (blockIdx.x * blockDim.x + t) * EACH;
  int key[EACH + 1];
  float value[EACH];
  key[0] = first > 0 && first <= size ? keys[first - 1] : 0;
  int changes = 0;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const bool inside = first + i < size;
    key[i + 1] = inside ? keys[first + i] : key[i];
    value[i] = inside ? x[first + i] : 0.0f;
    if (first + i == 0) key[0] = key[1];
    changes += key[i + 1] != key[i];
  }
  int before = changes;
#pragma unroll
  for (int far = 1; far < 32; far *= 2) {
    const int other = __shfl_up_sync(0xffffffff, before, far);
    if (lane >= far) before += other;
  }
  if (lane == 31) sums[warp] = before;
  __syncthreads();
  int run = static_cast<int>(upto[blockIdx.x]) - counts[blockIdx.x] + before - changes;
  for (int w = 0; w < warp; ++w) run += sums[w];
  if (by_warp && __all_sync(0xffffffff, changes == 0)) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; ++i) sum += value[i];
    for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
    if (lane == 0 && first < size) atomicAdd(out + run, sum);
    return;
  }
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    if (key[i + 1] != key[i]) {
      if (i > 0) atomicAdd(out + run, sum);
      sum = 0.0f;
      ++run;
    }
    sum += value[i];
  }
  if (first < size) atomicAdd(out + run, sum);
}

void count_any(const int* keys, int* counts, int size, int tile, int blocks, int threads,
               cudaStream_t stream) {
  count_changes<<<blocks, threads, 0, stream>>>(keys, counts, size, tile);
}

void add_any(const int* keys, const float* x, const int* counts, const int64_t* upto, float* out,
             int size, int blocks, int threads, int each, bool by_warp, cudaStream_t stream) {
  if (each == 4) {
    add_runs<4><<<blocks, threads, 0, stream>>>(keys, x, counts, upto, out, size, by_warp);
  } else if (each == 8) {
    add_runs<8><<<blocks, threads, 0, stream>>>(keys, x, counts, upto, out, size, by_warp);
  } else {
    add_runs<16><<<blocks, threads, 0, stream>>>(keys, x, counts, upto, out, size, by_warp);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void count_any(const int* keys, int* counts, int size, int tile, int blocks, int threads,
               cudaStream_t stream);
void add_any(const int* keys, const float* x, const int* counts, const int64_t* upto, float* out,
             int size, int blocks, int threads, int each, bool by_warp, cudaStream_t stream);

at::Tensor count(const at::Tensor& keys, int threads, int each) {
  const int64_t tile = threads * each;
  const int64_t blocks = (keys.numel() + tile - 1) / tile;
  at::Tensor counts = at::empty({blocks}, keys.options());
  count_any(keys.const_data_ptr<int>(), counts.mutable_data_ptr<int>(), keys.numel(), tile, blocks,
            threads, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return counts;
}

at::Tensor add(const at::Tensor& keys, const at::Tensor& x, const at::Tensor& counts,
               const at::Tensor& upto, int runs, int threads, int each, bool by_warp) {
  at::Tensor out = at::zeros({runs}, x.options());
  add_any(keys.const_data_ptr<int>(), x.const_data_ptr<float>(), counts.const_data_ptr<int>(),
          upto.const_data_ptr<int64_t>(), out.mutable_data_ptr<float>(), keys.numel(),
          counts.numel(), threads, each, by_warp, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_run_length_sums_cuda_thread_runs",
        BINDING,
        CUDA,
        functions=["count", "add"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Tiles of 512 elements or more."""
    return params["THREADS"] * params["EACH"] >= 512


def kernel(keys, x, runs, *, THREADS=256, EACH=8, BY_WARP=True):
    built = extension()
    counts = built.count(keys, THREADS, EACH)
    return built.add(keys, x, counts, counts.cumsum(0), runs, THREADS, EACH, BY_WARP)
