"""Values looked up by key in a hash table with open addressing, in at most 16 slots in a row."""

import torch

KIND = "indexing"
PROBES = 16
# LOAD is how full the table is; SKEW > 1 asks for some keys far more often than for others.
SHAPES = [
    {"Q": 1 << 22, "CAPACITY": 1 << 20, "LOAD": 0.5, "SKEW": 1},
    {"Q": 1 << 23, "CAPACITY": 1 << 16, "LOAD": 0.8, "SKEW": 4},
    {"Q": 3000017, "CAPACITY": 1 << 24, "LOAD": 0.3, "SKEW": 1, "dtype": "bfloat16"},
    {"Q": 1000003, "CAPACITY": 1 << 12, "LOAD": 0.9, "SKEW": 2},
    {"Q": 1 << 21, "CAPACITY": 1 << 22, "LOAD": 0.95, "SKEW": 1, "dtype": "bfloat16"},
    {"Q": 5000011, "CAPACITY": 1 << 18, "LOAD": 0.7, "SKEW": 10},
    {"Q": 300007, "CAPACITY": 1 << 23, "LOAD": 0.6, "SKEW": 2},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def hashed(keys, capacity):
    """A slot for each key: the highest bits of a product."""
    bits = capacity.bit_length() - 1
    return (keys.long() * 2654435761 & 0xFFFFFFFF) >> (32 - bits)


def inputs(Q=1 << 22, CAPACITY=1 << 20, LOAD=0.5, SKEW=1, dtype=torch.float32, device="cuda"):
    """Keys asked for, a fifth of them absent; keys by slot (-1: empty), values by slot."""
    stored = torch.randint(1 << 30, (int(CAPACITY * LOAD),), dtype=torch.int32, device=device)
    table = torch.full((CAPACITY,), -1, dtype=torch.int32, device=device)
    slot = hashed(stored, CAPACITY)
    done = torch.zeros_like(stored, dtype=torch.bool)
    for _ in range(PROBES):  # of those who want a free slot, the greatest gets it
        wants = torch.where(done | (table[slot] != -1), -1, stored)
        table = table.scatter_reduce(0, slot, wants, "amax")
        done = done | (table[slot] == stored)
        slot = (slot + 1) % CAPACITY
    which = (torch.rand(Q, device=device).pow(SKEW) * stored.shape[0]).long()
    known = stored[which.clamp_(max=stored.shape[0] - 1)]
    other = torch.randint(1 << 30, (Q,), dtype=torch.int32, device=device)
    asked = torch.where(torch.rand(Q, device=device) < 0.8, known, other)
    return asked, table, torch.randn(CAPACITY, dtype=dtype, device=device)


def reference(asked, table, values):
    slot = hashed(asked, table.shape[0])
    out = torch.zeros(asked.shape[0], dtype=values.dtype, device=values.device)
    ended = torch.zeros_like(asked, dtype=torch.bool)
    for _ in range(PROBES):
        key = table[slot]
        out = torch.where((key == asked) & ~ended, values[slot], out)
        ended = ended | (key == asked) | (key == -1)
        slot = (slot + 1) % table.shape[0]
    return out
