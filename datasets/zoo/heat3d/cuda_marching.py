"""CUDA C++: a thread goes along X; its plane lies in shared memory, neighbours in registers."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.heat3d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WIDE": [32, 64],
    "HIGH": [4, 8, 16],
    "DEEP": [8, 32, 128],
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

constexpr int MOST_WIDE = 64, MOST_HIGH = 16;

// Planes lie in shared memory with a border; a point's own values before and after it do not.
template <typename T>
__global__ void heat_marching(const T* u, const T* c, T* out, int X, int Y, int Z, int deep) {
  __shared__ float heat[MOST_HIGH + 2][MOST_WIDE + 2];
  __shared__ float conduct[MOST_HIGH + 2][MOST_WIDE + 2];
  const int wide_tile = blockDim.x, high = blockDim.y;
  const int z = blockIdx.x * wide_tile + threadIdx.x, y = blockIdx.y * high + threadIdx.y;
  const int ty = threadIdx.y + 1, tz = threadIdx.x + 1;
  const bool mine = z < Z && y < Y;
  const long long plane = static_cast<long long>(Y) * Z;
  const long long at = static_cast<long long>(y) * Z + z;
  const int first = blockIdx.z * deep, end = min(first + deep, X);
  float u_before = 0.0f, c_before = 0.0f, u_here = 0.0f, c_here = 0.0f;
  if (mine && first > 0) {
    u_before = wide(u[at + (first - 1) * plane]);
    c_before = wide(c[at + (first - 1) * plane]);
  }
  if (mine) {
    u_here = wide(u[at + first * plane]);
    c_here = wide(c[at + first * plane]);
  }
  for (int x = first; x < end; ++x) {
    const long long start = x * plane;
    float u_after = 0.0f, c_after = 0.0f;
    if (mine && x + 1 < X) {
      u_after = wide(u[at + start + plane]);
      c_after = wide(c[at + start + plane]);
    }
    __syncthreads();
    heat[ty][tz] = u_here;
    conduct[ty][tz] = c_here;
    if (threadIdx.x == 0 && z > 0 && y < Y) {
      heat[ty][0] = wide(u[at + start - 1]);
      conduct[ty][0] = wide(c[at + start - 1]);
    }
    if (threadIdx.x == wide_tile - 1 && z + 1 < Z && y < Y) {
      heat[ty][tz + 1] = wide(u[at + start + 1]);
      conduct[ty][tz + 1] = wide(c[at + start + 1]);
    }
    if (threadIdx.y == 0 && y > 0 && z < Z) {
      heat[0][tz] = wide(u[at + start - Z]);
      conduct[0][tz] = wide(c[at + start - Z]);
    }
    if (threadIdx.y == high - 1 && y + 1 < Y && z < Z) {
      heat[ty + 1][tz] = wide(u[at + start + Z]);
      conduct[ty + 1][tz] = wide(c[at + start + Z]);
    }
    __syncthreads();
    if (mine) {
      float flow = 0.0f;
      if (x > 0) flow += (c_before + c_here) * (u_before - u_here);
      if (x + 1 < X) flow += (c_after + c_here) * (u_after - u_here);
      if (y > 0) flow += (conduct[ty - 1][tz] + c_here) * (heat[ty - 1][tz] - u_here);
      if (y + 1 < Y) flow += (conduct[ty + 1][tz] + c_here) * (heat[ty + 1][tz] - u_here);
      if (z > 0) flow += (conduct[ty][tz - 1] + c_here) * (heat[ty][tz - 1] - u_here);
      if (z + 1 < Z) flow += (conduct[ty][tz + 1] + c_here) * (heat[ty][tz + 1] - u_here);
      put(out + at + start, u_here + 0.05f * flow);
    }
    u_before = u_here;
    c_before = c_here;
    u_here = u_after;
    c_here = c_after;
  }
}

template <typename T>
void launch(const void* u, const void* c, void* out, int X, int Y, int Z, int wide_tile, int high,
            int deep, cudaStream_t stream) {
  const dim3 grid((Z + wide_tile - 1) / wide_tile, (Y + high - 1) / high, (X + deep - 1) / deep);
  const dim3 block(wide_tile, high);
  heat_marching<T><<<grid, block, 0, stream>>>(static_cast<const T*>(u), static_cast<const T*>(c),
                                               static_cast<T*>(out), X, Y, Z, deep);
}

void step_any(const void* u, const void* c, void* out, int type, int X, int Y, int Z,
              int wide_tile, int high, int deep, cudaStream_t stream) {
  if (type == 0) launch<float>(u, c, out, X, Y, Z, wide_tile, high, deep, stream);
  if (type == 1) launch<__half>(u, c, out, X, Y, Z, wide_tile, high, deep, stream);
  if (type == 2) launch<__nv_bfloat16>(u, c, out, X, Y, Z, wide_tile, high, deep, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void step_any(const void* u, const void* c, void* out, int type, int X, int Y, int Z,
              int wide_tile, int high, int deep, cudaStream_t stream);

at::Tensor heat3d(const at::Tensor& u, const at::Tensor& c, int wide_tile, int high, int deep) {
  at::Tensor out = at::empty_like(u);
  const int type = u.scalar_type() == at::kFloat ? 0 : u.scalar_type() == at::kHalf ? 1 : 2;
  step_any(u.const_data_ptr(), c.const_data_ptr(), out.mutable_data_ptr(), type, u.size(0),
           u.size(1), u.size(2), wide_tile, high, deep, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_heat3d_cuda_marching",
        BINDING,
        CUDA,
        functions=["heat3d"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No stretch far longer than the block."""
    return params["DEEP"] < 2 * shape["X"] or params["DEEP"] == 8


def kernel(u, c, *, WIDE=32, HIGH=8, DEEP=8):
    return extension().heat3d(u, c, WIDE, HIGH, DEEP)
