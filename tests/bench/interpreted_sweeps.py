"""How far off the kernels of bench/sweeps are on the CPU, where Triton interprets them."""

import importlib.util
import inspect

import torch

from solkit.core import Tolerance
from solkit.measure.checking.tolerance import Standard

# Sizes that divide no block, and parameters that reach each branch.
CASES = {
    "argmax": ({"M": 5, "N": 300}, {"ROWS": 2, "BLOCK": 128}),
    "attention": ({"H": 2, "S": 50, "D": 32}, {"BLOCK_M": 32, "BLOCK_N": 16}),
    "column_sum": ({"M": 150, "N": 50}, {"ROWS": 8, "COLS": 32, "LENGTH": 128}),
    "conv1d_depthwise": ({"B": 1, "T": 37, "C": 20}, {"BLOCK_T": 16, "BLOCK_C": 16}),
    "cumsum": ({"M": 3, "N": 150}, {"ROWS": 2, "BLOCK": 64}),
    "decode_attention": ({"H": 2, "S": 100, "D": 32}, {"BLOCK": 16, "SPLITS": 4}),
    "embedding": ({"T": 21, "V": 10, "D": 40}, {"TOKENS": 4, "BLOCK": 32}),
    "gated_mlp": ({"M": 33, "N": 50, "K": 70}, {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}),
    "gemm_batched": (
        {"B": 2, "M": 20, "N": 40, "K": 50},
        {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32},
    ),
    "gemm_fp16_nt": ({"M": 40, "N": 33, "K": 50}, {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}),
    "gemm_int8": ({"M": 40, "N": 72, "K": 80}, {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32}),
    "gemm_split_k": (
        {"M": 20, "N": 40, "K": 300},
        {"SPLIT_K": 4, "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64},
    ),
    "gemm_tf32": (
        {"M": 40, "N": 33, "K": 50},
        {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "PRECISION": "tf32x3"},
    ),
    "gemm_tma": ({"M": 100, "N": 40, "K": 72}, {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32}),
    "group_norm": ({"B": 1, "C": 64, "HW": 150}, {"BLOCK": 256}),
    "histogram": ({"N": 5000}, {"BLOCK": 512, "ROUNDS": 4}),
    "layer_norm": ({"M": 5, "N": 300}, {"ROWS": 2}),
    "layer_norm ": ({"M": 3, "N": 300}, {"WHOLE": False, "BLOCK": 256}),
    "matvec": ({"N": 9, "K": 300}, {"ROWS": 4, "BLOCK": 128}),
    "potentials": ({"N": 50}, {"BLOCK_M": 16, "BLOCK_N": 32}),
    "quantise_rows": ({"M": 3, "N": 300}, {"ROWS": 2, "BLOCK": 256}),
    "rms_norm_backward": ({"M": 9, "N": 100}, {"PROGRAMS": 4, "BLOCK_N": 16}),
    "rope": ({"T": 5, "H": 3, "D": 16}, {"TOKENS": 2, "HEADS": 2}),
    "row_sum": ({"M": 5, "N": 300}, {"ROWS": 2, "BLOCK": 128}),
    "softmax_two_pass": ({"M": 3, "N": 1200}, {"BLOCK": 512}),
    "stencil": ({"M": 9, "N": 50}, {"BLOCK_M": 4, "BLOCK_N": 32}),
    "swiglu": ({"M": 5, "N": 100}, {"ROWS": 2, "BLOCK": 64}),
    "transpose": ({"M": 9, "N": 20}, {"BLOCK_M": 4, "BLOCK_N": 16}),
}
FP32 = Tolerance(1e-5, 1e-5)  # of one rounding, with a little for sums in another order


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judged(module, shape, params):
    torch.manual_seed(0)
    # the interpreter gets bfloat16 wrong
    wide = (
        {"dtype": torch.float32} if "dtype" in inspect.signature(module.inputs).parameters else {}
    )
    args = module.inputs(**shape, **wide, device="cpu")
    got, want = module.kernel(*args, **params), module.reference(*args)
    listed = [[x] if isinstance(x, torch.Tensor) else list(x) for x in (got, want)]
    tolerance = FP32 if wide else Tolerance(**getattr(module, "TOLERANCE", {"rtol": 0, "atol": 0}))
    got, want = listed
    standard = Standard(want, tolerance, check=getattr(module, "check", None))
    return list(standard.judge(got).errors)


def errors(folder):
    """Judgements of `solkit.measure.checking.tolerance.judge`, by case."""
    return {
        name: judged(load(folder / f"{name.strip()}.py"), shape, params)
        for name, (shape, params) in CASES.items()
    }
