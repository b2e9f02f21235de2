"""A matrix of few dense square blocks (block-compressed rows) times a dense matrix."""

import torch

KIND = "sparse"
# M, K and N: rows of the result, rows and columns of the dense matrix; SIDE of a block; mean BLOCKS
# in a row of blocks, which has more or fewer by chance.
SHAPES = [
    {"M": 4096, "K": 4096, "N": 1024, "SIDE": 64, "BLOCKS": 8, "dtype": "bfloat16"},
    {"M": 8192, "K": 8192, "N": 512, "SIDE": 32, "BLOCKS": 12, "dtype": "float16"},
    {"M": 2048, "K": 2048, "N": 2048, "SIDE": 128, "BLOCKS": 4, "dtype": "bfloat16"},
    {"M": 4096, "K": 4096, "N": 333, "SIDE": 16, "BLOCKS": 20, "dtype": "float16"},
    {"M": 1024, "K": 8192, "N": 64, "SIDE": 64, "BLOCKS": 30, "dtype": "bfloat16"},
    {"M": 960, "K": 1280, "N": 1000, "SIDE": 32, "BLOCKS": 5, "dtype": "float32"},
    {"M": 16384, "K": 16384, "N": 128, "SIDE": 64, "BLOCKS": 3, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def inputs(
    M=4096, K=4096, N=1024, SIDE=64, BLOCKS=8, dtype=torch.bfloat16, device="cuda"
):  # fmt: skip
    rows = M // SIDE
    count = rows * BLOCKS
    ends = torch.randint(count + 1, (rows - 1,), device=device).sort().values
    row_ptr = torch.nn.functional.pad(ends, (1, 1)).to(torch.int32)
    row_ptr[-1] = count
    cols = torch.randint(K // SIDE, (count,), dtype=torch.int32, device=device)
    values = torch.randn(count, SIDE, SIDE, dtype=dtype, device=device) * (BLOCKS * SIDE) ** -0.5
    return row_ptr, cols, values, torch.randn(K, N, dtype=dtype, device=device)


def reference(row_ptr, cols, values, x):
    count, side, _ = values.shape
    places = torch.arange(count, dtype=row_ptr.dtype, device=x.device)
    rows = torch.searchsorted(row_ptr, places, right=True) - 1
    products = values @ x.view(-1, side, x.shape[1])[cols]
    out = torch.zeros(row_ptr.numel() - 1, *products.shape[1:], device=x.device)
    return out.index_add(0, rows, products.float()).flatten(0, 1).to(x.dtype)


def fits(shape, block_n, warps, stages):
    """Whether tiles of a block's rows by `block_n` columns fit in shared memory and registers."""
    side, item = shape["SIDE"], 4 if shape.get("dtype") == "float32" else 2
    shared = max(1, stages) * side * (side + block_n) * item
    return shared <= 220 * 1024 and 2 <= side * block_n / (32 * warps) <= 128
