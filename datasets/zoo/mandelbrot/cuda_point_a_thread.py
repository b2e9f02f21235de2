"""CUDA C++: a thread a point, which stops by itself; tiles of different proportions."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.mandelbrot.problem import SHAPES, TOLERANCE, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "check", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "WIDE": [4, 8, 16, 32, 64],
    "HIGH": [1, 2, 4, 8, 16],
    "UNROLL": [1, 2, 8],
}

CUDA = r"""
// Looks whether the point has left every UNROLL steps; steps beyond that one are not counted.
template <int UNROLL>
__global__ void escape(const float* real, const float* imaginary, int* out, int width, int height,
                       int steps) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= width || row >= height) return;
  const float a = real[column], b = imaginary[row];
  float x = 0.0f, y = 0.0f, xx = 0.0f, yy = 0.0f;
  int count = 0;
  for (int step = 0; step < steps && xx + yy <= 4.0f; step += UNROLL) {
#pragma unroll
    for (int turn = 0; turn < UNROLL; ++turn) {
      y = 2.0f * x * y + b;
      x = xx - yy + a;
      xx = x * x;
      yy = y * y;
      count += xx + yy <= 4.0f && step + turn < steps;
    }
  }
  out[static_cast<long long>(row) * width + column] = count;
}

void escape_any(const float* real, const float* imaginary, int* out, int width, int height,
                int steps, int wide, int high, int unroll, cudaStream_t stream) {
  const dim3 block(wide, high);
  const dim3 grid((width + wide - 1) / wide, (height + high - 1) / high);
  if (unroll == 1) {
    escape<1><<<grid, block, 0, stream>>>(real, imaginary, out, width, height, steps);
  } else if (unroll == 2) {
    escape<2><<<grid, block, 0, stream>>>(real, imaginary, out, width, height, steps);
  } else {
    escape<8><<<grid, block, 0, stream>>>(real, imaginary, out, width, height, steps);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void escape_any(const float* real, const float* imaginary, int* out, int width, int height,
                int steps, int wide, int high, int unroll, cudaStream_t stream);

at::Tensor mandelbrot(const at::Tensor& real, const at::Tensor& imaginary, int steps, int wide,
                      int high, int unroll) {
  const int width = real.numel(), height = imaginary.numel();
  at::Tensor out = at::empty({height, width}, real.options().dtype(at::kInt));
  escape_any(real.const_data_ptr<float>(), imaginary.const_data_ptr<float>(),
             out.mutable_data_ptr<int>(), width, height, steps, wide, high, unroll,
             c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_mandelbrot_cuda_point_a_thread",
        BINDING,
        CUDA,
        functions=["mandelbrot"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 1,024 threads."""
    return 32 <= params["WIDE"] * params["HIGH"] <= 1024


def kernel(real, imaginary, steps, *, WIDE=16, HIGH=8, UNROLL=2):
    return extension().mandelbrot(real, imaginary, steps, WIDE, HIGH, UNROLL)
