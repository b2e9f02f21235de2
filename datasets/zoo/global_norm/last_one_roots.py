"""One launch: a ticket counts the programs' sums, and who draws the last one folds them."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.global_norm.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [128, 256, 512, 1024],
    "BLOCK": [512, 1024, 2048, 4096, 8192],
    "UNROLL": [1, 2, 4],
    "num_warps": [2, 4, 8, 16],
}


@triton.jit
def norm_ticket_kernel(
    x_ptr, part_ptr, ticket_ptr, out_ptr, n,
    BLOCK: tl.constexpr, UNROLL: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    total = tl.zeros((UNROLL, BLOCK), dtype=tl.float32)
    lane = tl.arange(0, UNROLL)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    for start in range(pid * UNROLL * BLOCK, n, PROGRAMS * UNROLL * BLOCK):
        x = tl.load(x_ptr + start + lane, mask=start + lane < n, other=0.0).to(tl.float32)
        total += x * x
    tl.store(part_ptr + pid, tl.sum(tl.sum(total, axis=1), axis=0))
    tl.debug_barrier()  # the sum is stored before the ticket is drawn
    if tl.atomic_add(ticket_ptr, 1, sem="acq_rel") == PROGRAMS - 1:
        part = tl.load(part_ptr + tl.arange(0, PROGRAMS), cache_modifier=".cg")
        tl.store(out_ptr, tl.sqrt(tl.sum(part, axis=0)))


def valid(params, shape):
    """One to 64 elements a thread, and a tile for every second program."""
    tile = params["BLOCK"] * params["UNROLL"]
    busy = params["PROGRAMS"] * tile <= 2 * shape["N"]
    return 1 <= tile / (32 * params["num_warps"]) <= 64 and busy


def kernel(x, *, PROGRAMS=256, BLOCK=1024, UNROLL=2, num_warps=8):
    part = torch.empty(PROGRAMS, dtype=torch.float32, device=x.device)
    ticket = torch.zeros(1, dtype=torch.int32, device=x.device)
    out = torch.empty(1, dtype=torch.float32, device=x.device)
    norm_ticket_kernel[(PROGRAMS,)](
        x, part, ticket, out, x.numel(), BLOCK, UNROLL, PROGRAMS, num_warps=num_warps
    )
    return out
