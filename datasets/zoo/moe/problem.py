"""Mixture of experts: a token goes through the weights of its TOP experts; weighted and summed."""

import torch

KIND = "matmul"
SHAPES = [
    {"T": 1024, "E": 8, "TOP": 2, "N": 2048, "K": 1024, "dtype": "bfloat16"},
    {"T": 512, "E": 64, "TOP": 6, "N": 704, "K": 2048, "dtype": "bfloat16"},
    {"T": 2048, "E": 32, "TOP": 4, "N": 512, "K": 512, "dtype": "float16"},
    {"T": 16, "E": 16, "TOP": 2, "N": 2048, "K": 2048, "dtype": "bfloat16"},
    {"T": 1, "E": 8, "TOP": 2, "N": 4096, "K": 4096, "dtype": "float16"},
    {"T": 333, "E": 12, "TOP": 3, "N": 520, "K": 264, "dtype": "float16"},
    {"T": 97, "E": 5, "TOP": 2, "N": 331, "K": 251, "dtype": "bfloat16"},  # primes
    {"T": 256, "E": 16, "TOP": 2, "N": 512, "K": 512, "dtype": "float32"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}  # outputs of order one


def reference(x, w, gates, slots, offsets, sizes):
    top = gates.shape[1]
    out = torch.zeros(x.shape[0], w.shape[2], dtype=torch.float32, device=x.device)
    for expert, mine in enumerate(slots.long().split(sizes)):
        tokens = mine // top
        product = (x[tokens] @ w[expert]).float()
        out.index_add_(0, tokens, product * gates.flatten()[mine, None])
    return out.to(x.dtype)


def inputs(T=1024, E=8, TOP=2, N=2048, K=1024, dtype=torch.bfloat16, device="cuda"):
    """Tokens, weights and how tokens are routed.

    Slot i is choice i % TOP of token i // TOP; `gates` (T, TOP) has its weight. `slots` lists them
    by expert, those of expert e from offsets[e] to offsets[e + 1]; `sizes` are the same counts on
    the host, for the reference alone. The first experts are liked more than the last.
    """
    x = torch.randn(T, K, dtype=dtype, device=device)
    w = torch.randn(E, K, N, dtype=dtype, device=device) * K**-0.5
    gates = torch.softmax(torch.randn(T, TOP, device=device), dim=1)
    liking = torch.rand(T, E) + torch.linspace(0.3, 0, E)
    experts = liking.topk(TOP, dim=1).indices.flatten()
    slots = experts.argsort(stable=True).to(torch.int32)
    sizes = torch.bincount(experts, minlength=E)
    offsets = torch.cat((torch.zeros(1, dtype=torch.int64), sizes.cumsum(0))).to(torch.int32)
    return x, w, gates, slots.to(device), offsets.to(device), sizes.tolist()


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
