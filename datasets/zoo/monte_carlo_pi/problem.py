"""Of N draws from each of S random streams (Philox 4 x 32, ten rounds), those within a circle.

A draw makes four words, and so two points whose coordinates are the upper 15 bits of a word.
"""

import torch

KIND = "reduction"
SHAPES = [
    {"S": 64, "N": 1 << 20},
    {"S": 1024, "N": 50000},
    {"S": 7, "N": 5000011},
    {"S": 16384, "N": 1000},
    {"S": 1, "N": 1 << 25},
    {"S": 300, "N": 20011},
    {"S": 100003, "N": 257},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}
LOW = 0xFFFFFFFF


def inputs(S=64, N=1 << 20, dtype=torch.int32, device="cuda"):
    """The streams' seeds, and how many draws each makes."""
    return torch.randint(0, 1 << 30, (S,), dtype=dtype, device=device), N


def rounds(words, key, key2):
    """Ten rounds on words of 32 bits, held in 64."""
    c0, c1, c2, c3 = words
    for _ in range(10):
        even, odd = c0 * 0xD2511F53, c2 * 0xCD9E8D57  # the upper bits wrap as they should
        c0, c2 = (odd >> 32 & LOW) ^ c1 ^ key, (even >> 32 & LOW) ^ c3 ^ key2
        c1, c3 = odd & LOW, even & LOW
        key, key2 = key + 0x9E3779B9 & LOW, key2 + 0xBB67AE85 & LOW
    return c0, c1, c2, c3


def reference(seeds, draws):
    count = torch.arange(draws, device=seeds.device, dtype=torch.int64)[None, :]
    key = seeds.long()[:, None]
    none = torch.zeros_like(key)
    a, b, c, d = (word >> 17 for word in rounds((count, none, none, none), key, 0))
    hits = (a * a + b * b < 1 << 30).int() + (c * c + d * d < 1 << 30).int()
    return hits.sum(dim=1, dtype=torch.int32)
