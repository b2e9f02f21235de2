"""A few sequences a program; each step adds scores to all transitions and takes maxima."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.viterbi.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "AHEAD": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def chain_kernel(
    seen_ptr, moves_ptr, lengths_ptr, out_ptr, B, T, S,
    ROWS: tl.constexpr, STATES: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    state = tl.arange(0, STATES)
    both = (state[:, None] < S) & (state[None, :] < S)
    moves = tl.load(moves_ptr + state[:, None] * S + state[None, :], mask=both, other=float("-inf"))
    lengths = tl.load(lengths_ptr + rows, mask=rows < B, other=0)
    inside = (rows[:, None] < B) & (state[None, :] < S)
    seen_ptrs = seen_ptr + rows[:, None] * T * S + state[None, :]
    score = tl.load(seen_ptrs, mask=inside, other=float("-inf"))
    following = tl.load(seen_ptrs + S, mask=inside & (lengths[:, None] > 1), other=0.0)
    for t in range(1, tl.max(lengths, axis=0)):
        going = inside & (t < lengths[:, None])
        if AHEAD:
            seen = following
            more = inside & (t + 1 < lengths[:, None])
            following = tl.load(seen_ptrs + (t + 1) * S, mask=more, other=0.0)
        else:
            seen = tl.load(seen_ptrs + t * S, mask=going, other=0.0)
        best = tl.max(score[:, :, None] + moves[None, :, :], axis=1) + seen
        score = tl.where(going, best, score)
    tl.store(out_ptr + rows[:, None] * S + state[None, :], score, mask=inside)


def valid(params, shape):
    """One to 128 sums a thread and step."""
    states = triton.next_power_of_2(shape["S"])
    return 1 <= params["ROWS"] * states**2 / (32 * params["num_warps"]) <= 128


def kernel(seen, moves, lengths, *, ROWS=1, AHEAD=True, num_warps=2):
    B, T, S = seen.shape
    out = torch.empty((B, S), dtype=torch.float32, device=seen.device)
    chain_kernel[(triton.cdiv(B, ROWS),)](
        seen, moves, lengths, out, B, T, S, ROWS, triton.next_power_of_2(S), AHEAD,
        num_warps=num_warps,
    )  # fmt: skip
    return out
