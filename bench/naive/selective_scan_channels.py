"""A selective scan, as of Mamba: a channel a program, its states carried from step to step."""

import torch
import triton
import triton.language as tl

SHAPES = [{"B": 8, "L": 1024, "D": 2048}]
HELD_OUT_SHAPES = [{"B": 2, "L": 77, "D": 96}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(u, delta, A, Bm, Cm):
    state = torch.zeros(u.shape[0], u.shape[2], A.shape[1], device=u.device)
    ys = []
    for t in range(u.shape[1]):
        decay = torch.exp(delta[:, t, :, None] * A)
        state = decay * state + (delta[:, t] * u[:, t])[..., None] * Bm[:, t, None]
        ys.append((state * Cm[:, t, None]).sum(-1))
    return torch.stack(ys, 1)


def inputs(B=8, L=1024, D=2048, S=16, device="cuda"):
    u = torch.randn(B, L, D, device=device)
    delta = torch.rand(B, L, D, device=device) * 0.1
    A = -torch.rand(D, S, device=device)
    return u, delta, A, *(torch.randn(B, L, S, device=device) for _ in range(2))


@triton.jit
def selective_scan_kernel(
    u_ptr, delta_ptr, A_ptr, B_ptr, C_ptr, y_ptr, L, D, STATE: tl.constexpr
):  # fmt: skip
    pid_b = tl.program_id(0)
    pid_d = tl.program_id(1)
    s = tl.arange(0, STATE)
    a = tl.load(A_ptr + pid_d * STATE + s)
    h = tl.zeros((STATE,), dtype=tl.float32)
    for t in range(L):
        u = tl.load(u_ptr + (pid_b * L + t) * D + pid_d)
        dt = tl.load(delta_ptr + (pid_b * L + t) * D + pid_d)
        b = tl.load(B_ptr + (pid_b * L + t) * STATE + s)
        c = tl.load(C_ptr + (pid_b * L + t) * STATE + s)
        h = tl.exp(dt * a) * h + dt * u * b
        y = tl.sum(h * c, axis=0)
        tl.store(y_ptr + (pid_b * L + t) * D + pid_d, y)


def kernel(u, delta, A, Bm, Cm):
    B, L, D = u.shape
    y = torch.empty_like(u)
    selective_scan_kernel[(B, D)](u, delta, A, Bm, Cm, y, L, D, STATE=A.shape[1])
    return y
