"""How often each expert was chosen in each sequence: a token a program, one atomic each."""

import torch
import triton
import triton.language as tl

SHAPES = [{"sequences": 32, "tokens": 8192}]
HELD_OUT_SHAPES = [{"sequences": 3, "tokens": 777}]


def reference(choice):
    return torch.stack([torch.bincount(row.long(), minlength=64) for row in choice]).int()


def inputs(sequences=32, tokens=8192, device="cuda"):
    return (torch.randint(0, 64, (sequences, tokens), dtype=torch.int32, device=device),)


@triton.jit
def count_choice(choice_ptr, counts_ptr, tokens, n_experts):
    seq = tl.program_id(0)
    tok = tl.program_id(1)
    e = tl.load(choice_ptr + seq * tokens + tok)
    tl.atomic_add(counts_ptr + seq * n_experts + e, 1)


def kernel(choice):
    sequences, tokens = choice.shape
    counts = torch.zeros((sequences, 64), dtype=torch.int32, device=choice.device)
    count_choice[(sequences, tokens)](choice, counts, tokens, 64)
    return counts
