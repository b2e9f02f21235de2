"""CUDA C++: a point or a few a thread, in one long row; everything comes from global memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.heat3d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512],
    "POINTS": [1, 2, 4, 8],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(float* at, float x) { *at = x; }
__device__ void put(__half* at, float x) { *at = __float2half(x); }
__device__ void put(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }

// What flows to a point from a neighbour, or nothing where there is none.
template <typename T>
__device__ float from(const T* u, const T* c, long long there, bool is_there, float u_here,
                      float c_here) {
  return is_there ? (wide(c[there]) + c_here) * (wide(u[there]) - u_here) : 0.0f;
}

template <typename T, int POINTS>
__global__ void heat_points(const T* u, const T* c, T* out, int X, int Y, int Z) {
  const int total = X * Y * Z, plane = Y * Z;
  const int start = blockIdx.x * blockDim.x * POINTS + threadIdx.x;
#pragma unroll
  for (int p = 0; p < POINTS; ++p) {
    const int at = start + p * blockDim.x;
    if (at >= total) return;
    const int z = at % Z, y = at / Z % Y, x = at / plane;
    const float u_here = wide(u[at]), c_here = wide(c[at]);
    float flow = from(u, c, at - plane, x > 0, u_here, c_here);
    flow += from(u, c, at + plane, x < X - 1, u_here, c_here);
    flow += from(u, c, at - Z, y > 0, u_here, c_here);
    flow += from(u, c, at + Z, y < Y - 1, u_here, c_here);
    flow += from(u, c, at - 1, z > 0, u_here, c_here);
    flow += from(u, c, at + 1, z < Z - 1, u_here, c_here);
    put(out + at, u_here + 0.05f * flow);
  }
}

template <typename T, int POINTS>
void launch(const void* u, const void* c, void* out, int X, int Y, int Z, int threads,
            cudaStream_t stream) {
  const int each = threads * POINTS, total = X * Y * Z;
  const int blocks = (total + each - 1) / each;
  heat_points<T, POINTS><<<blocks, threads, 0, stream>>>(
      static_cast<const T*>(u), static_cast<const T*>(c), static_cast<T*>(out), X, Y, Z);
}

template <typename T>
void by_points(const void* u, const void* c, void* out, int X, int Y, int Z, int threads,
               int points, cudaStream_t stream) {
  if (points == 1) launch<T, 1>(u, c, out, X, Y, Z, threads, stream);
  if (points == 2) launch<T, 2>(u, c, out, X, Y, Z, threads, stream);
  if (points == 4) launch<T, 4>(u, c, out, X, Y, Z, threads, stream);
  if (points == 8) launch<T, 8>(u, c, out, X, Y, Z, threads, stream);
}

void step_any(const void* u, const void* c, void* out, int type, int X, int Y, int Z, int threads,
              int points, cudaStream_t stream) {
  if (type == 0) by_points<float>(u, c, out, X, Y, Z, threads, points, stream);
  if (type == 1) by_points<__half>(u, c, out, X, Y, Z, threads, points, stream);
  if (type == 2) by_points<__nv_bfloat16>(u, c, out, X, Y, Z, threads, points, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void step_any(const void* u, const void* c, void* out, int type, int X, int Y, int Z, int threads,
              int points, cudaStream_t stream);

at::Tensor heat3d(const at::Tensor& u, const at::Tensor& c, int threads, int points) {
  at::Tensor out = at::empty_like(u);
  const int type = u.scalar_type() == at::kFloat ? 0 : u.scalar_type() == at::kHalf ? 1 : 2;
  step_any(u.const_data_ptr(), c.const_data_ptr(), out.mutable_data_ptr(), type, u.size(0),
           u.size(1), u.size(2), threads, points, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_heat3d_cuda_flat_points",
        BINDING,
        CUDA,
        functions=["heat3d"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Every block has points to spare."""
    return params["THREADS"] * params["POINTS"] < shape["X"] * shape["Y"] * shape["Z"]


def kernel(u, c, *, THREADS=256, POINTS=2):
    return extension().heat3d(u, c, THREADS, POINTS)
