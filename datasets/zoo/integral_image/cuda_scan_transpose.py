"""CUDA C++: rows are scanned and stored as columns, through a tile in shared memory; twice."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.integral_image.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [4, 8, 16, 32],
    "EACH": [1, 2, 4],
    "PAD": [0, 1],
}

CUDA = r"""
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }

// A block has 32 rows and walks along these by 32 * EACH columns; a warp scans a row at a time.
// `pad`: words between a tile's rows, against conflicts when columns are read.
template <typename T, int EACH>
__global__ void scan_transposed(const T* x, float* out, int rows, int columns, int pad) {
  extern __shared__ float tile[];
  __shared__ float carry[32];
  constexpr int WIDE = 32 * EACH;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int first = blockIdx.x * 32, pitch = WIDE + pad;
  const long long image = static_cast<long long>(blockIdx.y) * rows * columns;
  if (threadIdx.x < 32) carry[threadIdx.x] = 0.0f;
  for (int start = 0; start < columns; start += WIDE) {
    __syncthreads();  // the tile before has been stored
    for (int r = warp; r < 32; r += warps) {
      const int row = first + r;
      float before = carry[r];
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        const int column = start + i * 32 + lane;
        const bool inside = row < rows && column < columns;
        float sum =
            inside ? wide(x[image + static_cast<long long>(row) * columns + column]) : 0.0f;
#pragma unroll
        for (int far = 1; far < 32; far *= 2) {
          const float other = __shfl_up_sync(0xffffffff, sum, far);
          if (lane >= far) sum += other;
        }
        sum += before;
        before = __shfl_sync(0xffffffff, sum, 31);
        tile[r * pitch + i * 32 + lane] = sum;
      }
      __syncwarp();
      if (lane == 0) carry[r] = before;
    }
    __syncthreads();
    for (int c = warp; c < WIDE; c += warps) {
      const int row = first + lane, column = start + c;
      if (row < rows && column < columns) {
        out[image + static_cast<long long>(column) * rows + row] = tile[lane * pitch + c];
      }
    }
  }
}

template <typename T>
void launch(const void* x, float* out, int batch, int rows, int columns, int warps, int each,
            int pad, cudaStream_t stream) {
  const T* from = static_cast<const T*>(x);
  const dim3 grid((rows + 31) / 32, batch);
  const int threads = 32 * warps, shared = 32 * (32 * each + pad) * 4;
  if (each == 1) {
    scan_transposed<T, 1><<<grid, threads, shared, stream>>>(from, out, rows, columns, pad);
  } else if (each == 2) {
    scan_transposed<T, 2><<<grid, threads, shared, stream>>>(from, out, rows, columns, pad);
  } else {
    scan_transposed<T, 4><<<grid, threads, shared, stream>>>(from, out, rows, columns, pad);
  }
}

void scan_both(const void* x, float* between, float* out, bool half, int batch, int rows,
               int columns, int warps, int each, int pad, cudaStream_t stream) {
  if (half) {
    launch<__half>(x, between, batch, rows, columns, warps, each, pad, stream);
  } else {
    launch<float>(x, between, batch, rows, columns, warps, each, pad, stream);
  }
  launch<float>(between, out, batch, columns, rows, warps, each, pad, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void scan_both(const void* x, float* between, float* out, bool half, int batch, int rows,
               int columns, int warps, int each, int pad, cudaStream_t stream);

at::Tensor integral(const at::Tensor& x, int warps, int each, int pad) {
  const int64_t batch = x.size(0), rows = x.size(1), columns = x.size(2);
  at::Tensor between = at::empty({batch, columns, rows}, x.options().dtype(at::kFloat));
  at::Tensor out = at::empty({batch, rows, columns}, x.options().dtype(at::kFloat));
  scan_both(x.const_data_ptr(), between.mutable_data_ptr<float>(), out.mutable_data_ptr<float>(),
            x.scalar_type() == at::kHalf, batch, rows, columns, warps, each, pad,
            c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_integral_image_cuda_scan_transpose",
        BINDING,
        CUDA,
        functions=["integral"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Every choice fits any shape: 17 KiB at most."""
    return True


def kernel(x, *, WARPS=16, EACH=1, PAD=1):
    return extension().integral(x, WARPS, EACH, PAD)
