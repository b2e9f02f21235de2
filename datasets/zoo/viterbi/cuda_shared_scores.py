"""CUDA C++: a thread a sequence and state; all scores in shared memory, a barrier a step."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.viterbi.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SEQUENCES": [1, 2, 4, 8, 16],
    "UNROLL": [1, 4],
    "BY_STATE": [False, True],
}

CUDA = r"""
// `by_state`: neighbouring threads have neighbouring states; otherwise sequences.
template <int UNROLL>
__global__ void shared_scores(const float* seen, const float* moves, const int* lengths,
                              float* out, int sequences, int steps, int states, int each,
                              bool by_state) {
  extern __shared__ float shared[];
  float* move = shared;
  float* score = shared + states * states;  // two of these, by turns
  __shared__ int longest;
  const int t = threadIdx.x, all = each * states;
  const int state = by_state ? t % states : t / each;
  const int place = by_state ? t / states : t % each;
  const int sequence = blockIdx.x * each + place;
  const bool works = t < all && sequence < sequences;
  const int length = works ? lengths[sequence] : 0;
  const float* mine = seen + static_cast<long long>(sequence) * steps * states + state;
  if (t == 0) longest = 0;
  for (int i = t; i < states * states; i += blockDim.x) move[i] = moves[i];
  if (t < all) score[place * states + state] = works ? mine[0] : 0.0f;
  __syncthreads();
  if (length > 0) atomicMax(&longest, length);
  __syncthreads();
  const int end = longest;
  for (int step = 1; step < end; ++step) {
    const float* from = score + (step - 1) % 2 * all + place * states;
    float* to = score + step % 2 * all + place * states;
    if (t < all) {
      float result = from[state];
      if (step < length) {
        const float observed = mine[static_cast<long long>(step) * states];
        float best = -INFINITY;
#pragma unroll UNROLL
        for (int i = 0; i < states; ++i) best = fmaxf(best, from[i] + move[i * states + state]);
        result = best + observed;
      }
      to[state] = result;
    }
    __syncthreads();
  }
  if (works) {
    const int last = (end - 1) % 2 * all + place * states + state;
    out[static_cast<long long>(sequence) * states + state] = score[last];
  }
}

void follow(const float* seen, const float* moves, const int* lengths, float* out, int sequences,
            int steps, int states, int each, int unroll, bool by_state, cudaStream_t stream) {
  const int blocks = (sequences + each - 1) / each, threads = (each * states + 31) / 32 * 32;
  const int shared = (states * states + 2 * each * states) * 4;
  if (unroll == 1) {
    shared_scores<1><<<blocks, threads, shared, stream>>>(seen, moves, lengths, out, sequences,
                                                          steps, states, each, by_state);
  } else {
    shared_scores<4><<<blocks, threads, shared, stream>>>(seen, moves, lengths, out, sequences,
                                                          steps, states, each, by_state);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void follow(const float* seen, const float* moves, const int* lengths, float* out, int sequences,
            int steps, int states, int each, int unroll, bool by_state, cudaStream_t stream);

at::Tensor best_scores(const at::Tensor& seen, const at::Tensor& moves, const at::Tensor& lengths,
                       int each, int unroll, bool by_state) {
  at::Tensor out = at::empty({seen.size(0), seen.size(2)}, seen.options());
  follow(seen.const_data_ptr<float>(), moves.const_data_ptr<float>(),
         lengths.const_data_ptr<int>(), out.mutable_data_ptr<float>(), seen.size(0), seen.size(1),
         seen.size(2), each, unroll, by_state, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_viterbi_cuda_shared_scores",
        BINDING,
        CUDA,
        functions=["best_scores"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 1,024 threads."""
    return params["SEQUENCES"] * shape["S"] <= 1024


def kernel(seen, moves, lengths, *, SEQUENCES=4, UNROLL=4, BY_STATE=True):
    return extension().best_scores(seen, moves, lengths, SEQUENCES, UNROLL, BY_STATE)
