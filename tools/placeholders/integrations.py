"""Names that docs/integrations.md leaves to its reader."""

import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 2**at}) for at in (8, 9, 10)], key=["n"])
@triton.jit
def matmul(x_ptr, n, BLOCK: tl.constexpr):
    """An autotuned kernel."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, 0.0, mask=at < n)


def my_time_ms(params):
    """A time that prefers four warps."""
    return 1.0 + abs(params["num_warps"] - 4) + params["ROWS"] / 8


def objective(trial):
    """The same, for Optuna."""
    names = {"ROWS": [1, 2, 4, 8], "num_warps": [2, 4, 8, 16]}
    return my_time_ms({name: trial.suggest_categorical(name, names[name]) for name in names})


model = torch.nn.Linear(4, 4)
