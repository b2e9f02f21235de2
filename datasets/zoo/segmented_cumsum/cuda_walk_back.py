"""CUDA C++: one launch; a block walks back from its tile to where the open run begins, and sums.

Nothing is exchanged between blocks, so long runs are read again by every tile that they span.
"""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.segmented_cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [128, 256, 512],
    "EACH": [4, 8, 16],
    "BACK": [1, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// The sum of the elements of the open run before `end`; all threads get it.
template <typename T, int BACK>
__device__ float walk_back(const T* x, const unsigned char* marks, long long end) {
  __shared__ int nearest_shared;
  __shared__ float sum_shared;
  const int t = threadIdx.x, threads = blockDim.x;
  float sum = 0.0f;
  bool open = true;
  if (t == 0) sum_shared = 0.0f;
  while (open && end > 0) {
    if (t == 0) nearest_shared = threads * BACK;
    __syncthreads();
    int nearest = threads * BACK;
#pragma unroll
    for (int b = BACK - 1; b >= 0; --b) {
      const long long at = end - 1 - b * threads - t;
      if (at >= 0 && marks[at]) nearest = b * threads + t;
    }
    if (nearest < threads * BACK) atomicMin(&nearest_shared, nearest);
    __syncthreads();
    nearest = nearest_shared;
#pragma unroll
    for (int b = 0; b < BACK; ++b) {
      const long long at = end - 1 - b * threads - t;
      if (at >= 0 && b * threads + t <= nearest) sum += wide(x[at]);
    }
    open = nearest == threads * BACK;
    end -= threads * BACK;
    __syncthreads();
  }
  for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
  if (t % 32 == 0) atomicAdd(&sum_shared, sum);
  __syncthreads();
  return sum_shared;
}

template <typename T, int EACH, int BACK>
__global__ void segmented_tiles(const T* x, const unsigned char* marks, float* out,
                                long long size) {
  __shared__ float sums[32];
  __shared__ int marked[32];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const long long start = static_cast<long long>(blockIdx.x) * blockDim.x * EACH;
  const long long first = start + t * EACH;
  float carry = 0.0f;
  if (!marks[start]) carry = walk_back<T, BACK>(x, marks, start);
  float held[EACH];
  int any = EACH;  // the first that is marked
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const bool inside = first + i < size;
    const bool mark = inside && marks[first + i];
    held[i] = inside ? wide(x[first + i]) : 0.0f;
    if (i > 0 && !mark) held[i] += held[i - 1];
    if (mark && any == EACH) any = i;
  }
  float sum = held[EACH - 1];
  int mark = any < EACH;
#pragma unroll
  for (int far = 1; far < 32; far *= 2) {
    const float sum_before = __shfl_up_sync(0xffffffff, sum, far);
    const int mark_before = __shfl_up_sync(0xffffffff, mark, far);
    if (lane >= far) {
      if (!mark) sum += sum_before;
      mark |= mark_before;
    }
  }
  if (lane == 31) {
    sums[warp] = sum;
    marked[warp] = mark;
  }
  __syncthreads();
  for (int i = 0; i < warp; ++i) carry = marked[i] ? sums[i] : carry + sums[i];
  const float sum_before = __shfl_up_sync(0xffffffff, sum, 1);
  const int mark_before = __shfl_up_sync(0xffffffff, mark, 1);
  if (lane > 0) carry = mark_before ? sum_before : carry + sum_before;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    if (first + i < size) out[first + i] = i < any ? held[i] + carry : held[i];
  }
}

template <typename T, int BACK>
void launch(const void* x, const unsigned char* marks, float* out, long long size, int threads,
            int each, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  const int tile = threads * each;
  const int blocks = (size + tile - 1) / tile;
  if (each == 4) {
    segmented_tiles<T, 4, BACK><<<blocks, threads, 0, stream>>>(from, marks, out, size);
  } else if (each == 8) {
    segmented_tiles<T, 8, BACK><<<blocks, threads, 0, stream>>>(from, marks, out, size);
  } else {
    segmented_tiles<T, 16, BACK><<<blocks, threads, 0, stream>>>(from, marks, out, size);
  }
}

template <int BACK>
void launch_type(const void* x, const unsigned char* marks, float* out, int type, long long size,
                 int threads, int each, cudaStream_t stream) {
  if (type == 0) launch<float, BACK>(x, marks, out, size, threads, each, stream);
  if (type == 1) launch<__half, BACK>(x, marks, out, size, threads, each, stream);
  if (type == 2) launch<__nv_bfloat16, BACK>(x, marks, out, size, threads, each, stream);
}

void scan_runs(const void* x, const void* marks, float* out, int type, long long size, int threads,
               int each, int back, cudaStream_t stream) {
  const unsigned char* bytes = static_cast<const unsigned char*>(marks);
  if (back == 1) {
    launch_type<1>(x, bytes, out, type, size, threads, each, stream);
  } else {
    launch_type<4>(x, bytes, out, type, size, threads, each, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void scan_runs(const void* x, const void* marks, float* out, int type, long long size, int threads,
               int each, int back, cudaStream_t stream);

at::Tensor segmented_cumsum(const at::Tensor& x, const at::Tensor& marks, int threads, int each,
                            int back) {
  at::Tensor out = at::empty({x.numel()}, x.options().dtype(at::kFloat));
  const int type = x.scalar_type() == at::kFloat ? 0 : x.scalar_type() == at::kHalf ? 1 : 2;
  scan_runs(x.const_data_ptr(), marks.const_data_ptr(), out.mutable_data_ptr<float>(), type,
            x.numel(), threads, each, back, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_segmented_cumsum_cuda_walk_back",
        BINDING,
        CUDA,
        functions=["segmented_cumsum"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Tiles of 1,024 elements or more."""
    return params["THREADS"] * params["EACH"] >= 1024


def kernel(x, marks, *, THREADS=256, EACH=8, BACK=4):
    return extension().segmented_cumsum(x, marks, THREADS, EACH, BACK)
