"""How far off every example is on the CPU, where Triton interprets its kernels."""

import importlib.util

import torch

# Sizes that divide no block, and parameters that reach each branch: several rows a program,
# a last group of tile rows that is not full, K with and without remainder, key blocks longer and
# shorter than query blocks, a head whose length is a whole number of blocks, several chunks a row.
CASES = [
    ("softmax", {"M": 5, "N": 37}, {"ROWS": 2}),
    ("softmax", {"M": 3, "N": 64}, {"ROWS": 1}),
    ("rmsnorm", {"M": 5, "N": 37}, {}),
    (
        "matmul",
        {"M": 50, "N": 70, "K": 90},
        {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 3},
    ),
    (
        "matmul",
        {"M": 33, "N": 31, "K": 64},
        {"BLOCK_M": 32, "BLOCK_N": 16, "BLOCK_K": 32, "GROUP_M": 1},
    ),
    ("causal_attention", {"B": 2, "H": 2, "S": 77, "D": 32}, {"BLOCK_M": 32, "BLOCK_N": 16}),
    ("causal_attention", {"B": 1, "H": 2, "S": 77, "D": 16}, {"BLOCK_M": 16, "BLOCK_N": 64}),
    ("causal_attention", {"B": 1, "H": 1, "S": 128, "D": 64}, {"BLOCK_M": 64, "BLOCK_N": 32}),
    ("cross_entropy", {"T": 5, "V": 1003}, {"BLOCK": 256}),
    ("cross_entropy", {"T": 3, "V": 100}, {"BLOCK": 128}),
    ("bias_gelu", {"M": 7, "N": 53}, {"BLOCK_M": 4, "BLOCK_N": 16}),
]
DTYPES = (torch.float32, torch.float16)  # the interpreter gets bfloat16 wrong


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compare(got, want):
    """Largest error in units of the largest wanted value, and whether dtype and shape are right."""
    error = (got.double() - want.double()).abs().max() / want.double().abs().max()
    return error.item(), got.dtype == want.dtype and got.shape == want.shape


def native(module, shape, params, dtype):
    torch.manual_seed(0)
    args = list(module.inputs(**shape, dtype=dtype, device="cpu"))
    args[0] *= 4  # GELU's tails, and rows that one softmax weight dominates
    if module.__name__ == "rmsnorm":
        args[0][0] *= 1e-4  # a row whose mean square is below EPS
    if module.__name__ == "cross_entropy":
        args[1][1] = -100  # PyTorch's ignore_index
    return compare(module.kernel(*args, **params), module.reference(*args))


def kernelbench(folder):
    torch.manual_seed(0)
    reference = load(folder / "reference.py").Model(300)
    for parameter in reference.parameters():
        torch.nn.init.normal_(parameter)
    candidate = load(folder / "candidate.py").ModelNew(300)
    candidate.load_state_dict(reference.state_dict())
    # Far from zero: a variance taken as E[x^2] - E[x]^2 would lose its digits.
    x, residual = torch.randn(2, 3, 300) + 10, torch.randn(2, 3, 300)
    with torch.no_grad():
        return compare(candidate(x, residual), reference(x, residual))


def errors(examples):
    """For each case `compare`'s answer."""
    results = {}
    for name, shape, params in CASES:
        module = load(examples / f"{name}.py")
        for dtype in DTYPES:
            label = f"{name} {shape} {str(dtype).removeprefix('torch.')}"
            results[label] = native(module, shape, params, dtype)
    results["kernelbench float32"] = kernelbench(examples / "kernelbench")
    return results
