"""ROUNDS rounds of a hash of N 32-bit numbers: shifts, products, exclusive or."""

import torch

KIND = "elementwise"
SHAPES = [
    {"N": 1 << 24, "ROUNDS": 32},
    {"N": 1 << 26, "ROUNDS": 4},
    {"N": 3000017, "ROUNDS": 64},
    {"N": 1 << 22, "ROUNDS": 100},
    {"N": 50000017, "ROUNDS": 8},
    {"N": 1 << 20, "ROUNDS": 200},
    {"N": 1 << 25, "ROUNDS": 16},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}
LOW = 0xFFFFFFFF


def inputs(N=1 << 24, ROUNDS=32, dtype=torch.int32, device="cuda"):
    return torch.randint(-(1 << 31), 1 << 31, (N,), device=device).to(dtype), ROUNDS


def reference(x, rounds):
    word = x.long() & LOW
    for _ in range(rounds):
        word = (word ^ (word >> 16)) * 0x7FEB352D & LOW
        word = (word ^ (word >> 15)) * 0x846CA68B & LOW
        word = word ^ (word >> 16)
    return word.int()
