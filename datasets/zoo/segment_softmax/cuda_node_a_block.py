"""CUDA C++: a block takes a node; lanes of a head meet in shared memory."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.segment_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "LANES": [4, 8, 16, 32, 64, 128, 256],
    "NODES": [1, 4, 16],
    "ONLINE": [False, True],
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

// A row of threads takes a node; its threads take heads of edges in the order of memory.
template <typename T>
__global__ void softmax_nodes(const T* scores, const int* offsets, T* out, int nodes, int heads,
                              int lanes, bool online) {
  extern __shared__ float parts[];
  const int x = threadIdx.x, head = x % heads, lane = x / heads, width = lanes * heads;
  const int node = blockIdx.x * blockDim.y + threadIdx.y;
  const bool inside = node < nodes;
  const int first = inside ? offsets[node] + lane : 0, end = inside ? offsets[node + 1] : 0;
  float* mine = parts + threadIdx.y * 2 * width;
  float most = -3e38f, sum = 0.0f;
  for (int e = first; e < end; e += lanes) {
    const float s = wide(scores[static_cast<long long>(e) * heads + head]);
    if (online && s > most) {
      sum *= __expf(most - s);
      most = s;
    }
    if (online) sum += __expf(s - most);
    most = fmaxf(most, s);
  }
  mine[x] = most;
  __syncthreads();
  float all = most;
  for (int l = 0; l < lanes; ++l) all = fmaxf(all, mine[l * heads + head]);
  if (online) {
    sum *= __expf(most - all);
  } else {
    for (int e = first; e < end; e += lanes) {
      sum += __expf(wide(scores[static_cast<long long>(e) * heads + head]) - all);
    }
  }
  mine[width + x] = sum;
  __syncthreads();
  float total = 0.0f;
  for (int l = 0; l < lanes; ++l) total += mine[width + l * heads + head];
  const float scale = 1.0f / total;
  for (int e = first; e < end; e += lanes) {
    const long long at = static_cast<long long>(e) * heads + head;
    put(out + at, __expf(wide(scores[at]) - all) * scale);
  }
}

template <typename T>
void launch(const void* scores, const int* offsets, void* out, int nodes, int heads, int lanes,
            int tall, int online, cudaStream_t stream) {
  const T* scores_t = static_cast<const T*>(scores);
  T* out_t = static_cast<T*>(out);
  const dim3 block(lanes * heads, tall);
  const int blocks = (nodes + tall - 1) / tall, shared = 8 * lanes * heads * tall;
  softmax_nodes<T><<<blocks, block, shared, stream>>>(scores_t, offsets, out_t, nodes, heads, lanes,
                                                      online);
}

void run(const void* scores, const int* offsets, void* out, int type, int nodes, int heads,
         int lanes, int tall, int online, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(scores, offsets, out, nodes, heads, lanes, tall, online, stream);
      break;
    case 1:
      launch<__half>(scores, offsets, out, nodes, heads, lanes, tall, online, stream);
      break;
    default:
      launch<__nv_bfloat16>(scores, offsets, out, nodes, heads, lanes, tall, online, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* scores, const int* offsets, void* out, int type, int nodes, int heads,
         int lanes, int tall, int online, cudaStream_t stream);

at::Tensor segment_softmax(const at::Tensor& scores, const at::Tensor& offsets, int lanes,
                           int tall, int online) {
  const int64_t nodes = offsets.size(0) - 1;
  const int64_t heads = scores.size(1);
  at::Tensor out = at::empty_like(scores);
  const auto kind = scores.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(scores.const_data_ptr(), offsets.const_data_ptr<int>(), out.mutable_data_ptr(), type, nodes,
      heads, lanes, tall, online, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_segment_softmax_cuda_node_a_block",
        BINDING,
        CUDA,
        functions=["segment_softmax"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """32 to 1,024 threads."""
    return 32 <= params["LANES"] * shape["H"] * params["NODES"] <= 1024


def kernel(scores, nodes, offsets, *, LANES=32, NODES=1, ONLINE=True):
    return extension().segment_softmax(scores, offsets, LANES, NODES, ONLINE)
