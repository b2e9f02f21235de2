"""CUDA C++: a lane a state or two, its transitions in registers; scores go round by shuffles."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.viterbi.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8],
    "SPLIT": [1, 2, 4],
    "AHEAD": [False, True],
}

CUDA = r"""
// WIDE: the states, rounded up. Fewer than 32 leave room for several sequences in a warp. A
// maximum is taken as SPLIT independent ones, so that these overlap.
template <int WIDE, int SPLIT>
__global__ void lane_states(const float* seen, const float* moves, const int* lengths, float* out,
                            int sequences, int steps, int states, bool ahead) {
  constexpr int LANES = WIDE < 32 ? WIDE : 32, HELD = WIDE / LANES;
  const int lane = threadIdx.x % LANES;
  const int sequence = (blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  const int length = sequence < sequences ? lengths[sequence] : 0;
  const float* mine = seen + static_cast<long long>(sequence) * steps * states;
  float move[HELD][WIDE], score[HELD], next[HELD];
#pragma unroll
  for (int h = 0; h < HELD; ++h) {
    const int state = h * 32 + lane;
#pragma unroll
    for (int i = 0; i < WIDE; ++i) {
      move[h][i] = i < states && state < states ? moves[i * states + state] : -INFINITY;
    }
    score[h] = length > 0 && state < states ? mine[state] : -INFINITY;
    next[h] = ahead && length > 1 && state < states ? mine[states + state] : 0.0f;
  }
  for (int t = 1; __any_sync(0xffffffff, t < length); ++t) {
    float observed[HELD], best[HELD][SPLIT];
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      const int state = h * 32 + lane;
      observed[h] = next[h];
      const int wanted = ahead ? t + 1 : t;
      const float read = wanted < length && state < states ? mine[wanted * states + state] : 0.0f;
      if (ahead) next[h] = read;
      if (!ahead) observed[h] = read;
#pragma unroll
      for (int s = 0; s < SPLIT; ++s) best[h][s] = -INFINITY;
    }
#pragma unroll
    for (int i = 0; i < WIDE; ++i) {
      const float from = __shfl_sync(0xffffffff, score[i / 32], i % 32, LANES);
#pragma unroll
      for (int h = 0; h < HELD; ++h) {
        best[h][i % SPLIT] = fmaxf(best[h][i % SPLIT], from + move[h][i]);
      }
    }
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
#pragma unroll
      for (int s = 1; s < SPLIT; ++s) best[h][0] = fmaxf(best[h][0], best[h][s]);
      if (t < length) score[h] = best[h][0] + observed[h];
    }
  }
#pragma unroll
  for (int h = 0; h < HELD; ++h) {
    const int state = h * 32 + lane;
    if (length > 0 && state < states) {
      out[static_cast<long long>(sequence) * states + state] = score[h];
    }
  }
}

template <int WIDE>
void launch(const float* seen, const float* moves, const int* lengths, float* out, int sequences,
            int steps, int states, int warps, int split, bool ahead, cudaStream_t stream) {
  const int threads = 32 * warps, each = WIDE < 32 ? threads / WIDE : warps;
  const int blocks = (sequences + each - 1) / each;
  if (split == 1) {
    lane_states<WIDE, 1><<<blocks, threads, 0, stream>>>(seen, moves, lengths, out, sequences,
                                                         steps, states, ahead);
  } else if (split == 2) {
    lane_states<WIDE, 2><<<blocks, threads, 0, stream>>>(seen, moves, lengths, out, sequences,
                                                         steps, states, ahead);
  } else {
    lane_states<WIDE, 4><<<blocks, threads, 0, stream>>>(seen, moves, lengths, out, sequences,
                                                         steps, states, ahead);
  }
}

void follow(const float* seen, const float* moves, const int* lengths, float* out, int sequences,
            int steps, int states, int warps, int split, bool ahead, cudaStream_t stream) {
  if (states <= 16) {
    launch<16>(seen, moves, lengths, out, sequences, steps, states, warps, split, ahead, stream);
  } else if (states <= 32) {
    launch<32>(seen, moves, lengths, out, sequences, steps, states, warps, split, ahead, stream);
  } else {
    launch<64>(seen, moves, lengths, out, sequences, steps, states, warps, split, ahead, stream);
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
            int steps, int states, int warps, int split, bool ahead, cudaStream_t stream);

at::Tensor best_scores(const at::Tensor& seen, const at::Tensor& moves, const at::Tensor& lengths,
                       int warps, int split, bool ahead) {
  at::Tensor out = at::empty({seen.size(0), seen.size(2)}, seen.options());
  follow(seen.const_data_ptr<float>(), moves.const_data_ptr<float>(),
         lengths.const_data_ptr<int>(), out.mutable_data_ptr<float>(), seen.size(0), seen.size(1),
         seen.size(2), warps, split, ahead, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_viterbi_cuda_lane_states",
        BINDING,
        CUDA,
        functions=["best_scores"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """At most 64 states."""
    return shape["S"] <= 64


def kernel(seen, moves, lengths, *, WARPS=2, SPLIT=2, AHEAD=True):
    return extension().best_scores(seen, moves, lengths, WARPS, SPLIT, AHEAD)
