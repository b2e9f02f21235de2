"""Three projections of one input, a launch each, with a bias; weights as nn.Linear has them."""

import torch
import triton
import triton.language as tl

SHAPES = [{"tokens": 2000, "hidden": 1024, "out": 512}]
HELD_OUT_SHAPES = [{"tokens": 37, "hidden": 72, "out": 40}]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}


def reference(x, wq, wk, wv, bq, bk, bv):
    def linear(w, b):
        return (x.float() @ w.float().t() + b.float()).to(x.dtype)

    return linear(wq, bq), linear(wk, bk), linear(wv, bv)


def inputs(tokens=2000, hidden=1024, out=512, dtype=torch.float16, device="cuda"):
    def make(*shape):
        return torch.randn(*shape, dtype=dtype, device=device)

    weights = [make(out, hidden) * hidden**-0.5 for _ in range(3)]
    return make(tokens, hidden), *weights, make(out), make(out), make(out)


@triton.jit
def linear_fwd(x, w, b, y, T, O, H, BT: tl.constexpr, BO: tl.constexpr, BH: tl.constexpr):
    rt = tl.program_id(0) * BT + tl.arange(0, BT)
    ro = tl.program_id(1) * BO + tl.arange(0, BO)
    acc = tl.zeros((BT, BO), tl.float32)
    h = 0
    while h < H:
        rh = h + tl.arange(0, BH)
        xs = tl.load(x + rt[:, None] * H + rh, mask=(rt[:, None] < T) & (rh < H), other=0)
        ws = tl.load(w + ro[None, :] * H + rh[:, None],
                     mask=(ro[None, :] < O) & (rh[:, None] < H), other=0)  # fmt: skip
        acc = tl.dot(xs, ws, acc)
        h += BH
    bias = tl.load(b + ro, mask=ro < O, other=0).to(tl.float32)
    keep = (rt[:, None] < T) & (ro[None, :] < O)
    tl.store(y + rt[:, None] * O + ro[None, :], (acc + bias).to(y.dtype.element_ty), mask=keep)


def project(x, w, b):
    T, H = x.shape
    O = w.shape[0]
    y = torch.empty((T, O), dtype=x.dtype, device=x.device)
    linear_fwd[(triton.cdiv(T, 32), triton.cdiv(O, 32))](x, w, b, y, T, O, H, BT=32, BO=32, BH=32)
    return y


def kernel(x, wq, wk, wv, bq, bk, bv):
    return project(x, wq, bq), project(x, wk, bk), project(x, wv, bv)
