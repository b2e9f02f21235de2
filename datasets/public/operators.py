"""PyTorch's operators on matrices, as latency predictors time them one by one."""

from __future__ import annotations

import torch

UNARY = {
    "addu": lambda x: x + 1.5,
    "mulu": lambda x: x * 1.5,
    "divu": lambda x: x / 1.5,
    "powu": lambda x: x**1.5,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": torch.nn.functional.gelu,
    "softmax": lambda x: torch.softmax(x, -1),
}
BINARY = {
    "add": torch.add,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "bmm": torch.bmm,
}
OTHERS = {
    "linear": torch.nn.functional.linear,
    "ln": lambda x, weight, bias: torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias),
}


def reference(operator, *tensors):
    """Apply the operator."""
    return (UNARY | BINARY | OTHERS)[operator](*tensors)


def kernel(operator, *tensors):
    """Run the operator as PyTorch does without compiling it."""
    return reference(operator, *tensors)


def inputs(operator="add", B=1, M=1024, N=1024, K=1024, H=1024, dtype=torch.float32, device="cuda"):
    """Draw the operands: rows of H columns, or the factors of a product."""

    def draw(*shape):
        return torch.rand(shape, dtype=dtype, device=device)

    if operator == "linear":
        return operator, draw(B, M, K), draw(N, K), draw(N)
    if operator == "bmm":
        return operator, draw(B, M, K), draw(B, K, N)
    further = {"ln": ((H,), (H,))} | dict.fromkeys(BINARY, ((B, H),))
    return operator, draw(B, H), *(draw(*shape) for shape in further.get(operator, ()))
