"""Causal linear attention whose memory fades: out_t = sum_s<=t exp(fade (t - s)) (q_t k_s) v_s."""

import torch
import torch.nn.functional as F

KIND = "attention"
SHAPES = [
    {"B": 1, "H": 16, "S": 4096, "D": 64, "dtype": "bfloat16"},
    {"B": 2, "H": 8, "S": 2048, "D": 128, "dtype": "bfloat16"},
    {"B": 4, "H": 16, "S": 1024, "D": 64, "dtype": "float16"},
    {"B": 1, "H": 4, "S": 8192, "D": 64, "dtype": "float16"},
    {"B": 1, "H": 5, "S": 1003, "D": 128, "dtype": "bfloat16"},
    {"B": 16, "H": 8, "S": 200, "D": 32, "dtype": "bfloat16"},
    {"B": 1, "H": 3, "S": 777, "D": 64, "dtype": "float32"},
]
# Weights and memory are rounded to the inputs' dtype before a product.
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}
CHUNK = 32  # tokens between two memories of the reference


def inputs(B=1, H=16, S=4096, D=64, dtype=torch.bfloat16, device="cuda"):
    q, k, v = (torch.randn(B, H, S, D, dtype=dtype, device=device) for _ in range(3))
    return q, k * D**-0.5, v, -torch.linspace(0.02, 0.5, H, device=device)


def reference(q, k, v, fade):
    B, H, S, D = q.shape
    rest, dtype = -S % CHUNK, q.dtype
    q, k, v = (F.pad(x.float(), (0, 0, 0, rest)).view(B, H, -1, CHUNK, D) for x in (q, k, v))
    fade = fade[:, None, None, None]
    i = torch.arange(CHUNK, device=q.device)[:, None]
    faded = torch.where(i >= i.T, ((i - i.T) * fade).exp(), 0.0)
    within = (q @ k.mT * faded) @ v
    added = (k * ((CHUNK - 1 - i) * fade).exp()).mT @ v
    memory = torch.zeros_like(added[:, :, 0])
    memories = []
    for chunk in added.unbind(2):
        memories.append(memory)
        memory = memory * (CHUNK * fade[:, 0]).exp() + chunk
    out = within + (q * ((i + 1) * fade).exp()) @ torch.stack(memories, 2)
    return out.reshape(B, H, -1, D)[:, :, :S].to(dtype)
