"""Operations of single ops, each derived by hand in its row, by brute force or from a table."""

from __future__ import annotations

import functools
import itertools
import math

import pytest
import torch
from torch.utils._pytree import tree_leaves

from solkit.roofline.work import work_of
from solkit.roofline.work.costs import cost_of
from solkit.roofline.work.program import TensorUse, TracedOp


def randn(*shape, dtype="torch.float32"):
    return f"torch.randn({', '.join(map(str, shape))}, dtype={dtype}, device=device)"


def ints(high, *shape):
    return f"torch.randint(0, {high}, ({', '.join(map(str, shape))},), device=device)"


C64, BF = "torch.complex64", "torch.bfloat16"

# name: (inputs, reference body, operations)
ELEMENTWISE = {
    # (a+bi)(c+di): ac - bd and ad + bc
    "complex product": (f"{randn(9, dtype=C64)};{randn(9, dtype=C64)}", "a0 * a1", {"fp32": 54}),
    "complex times real": (f"{randn(9, dtype=C64)};{randn(9)}", "a0 * a1", {"fp32": 18}),
    "complex sum": (f"{randn(9, dtype=C64)};{randn(9, dtype=C64)}", "a0 + a1", {"fp32": 18}),
    "modulus": (randn(9, dtype=C64), "a0.abs()", {"fp32": 27, "sfu": 9}),
    "a sign is free": (randn(9), "-a0.abs() + 1", {"fp32": 9}),
    "a scaled sum": (f"{randn(9)};{randn(9)}", "torch.add(a0, a1, alpha=3)", {"fp32": 18}),
    "addcmul": (";".join([randn(9)] * 3), "torch.addcmul(a0, a1, a2)", {"fp32": 18}),
    "a reciprocal per divisor": (
        f"{randn(9, 8)};{randn(9, 1)}",
        "a0 / a1",
        {"fp32": 72, "sfu": 9},
    ),
    "cube: two products": (randn(9), "a0 ** 3", {"fp32": 18}),
    "x to the 1.5: a root and a product": (randn(9), "a0 ** 1.5", {"fp32": 9, "sfu": 9}),
    "an outer sum": (f"{randn(9, 1)};{randn(1, 8)}", "a0 + a1", {"fp32": 72}),
    "what repeats itself": (randn(9, 1), "a0.expand(9, 8) * 2", {"fp32": 9}),
    "four booleans a word": (
        "torch.randn(64, device=device) > 0;torch.randn(64, device=device) > 0",
        "a0 & a1",
        {"int32": 16},
    ),
    "integers have no special functions": (
        f"{ints(9, 64)};{ints(9, 64)}",
        "torch.remainder(a0, a1 + 1)",
        {"int32": 128},
    ),
    "cross product: three times two products and a difference": (
        f"{randn(5, 3)};{randn(5, 3)}",
        "torch.linalg.cross(a0, a1)",
        {"fp32": 45},
    ),
    "addr": (f"{randn(9, 8)};{randn(9)};{randn(8)}", "torch.addr(a0, a1, a2)", {"fp32": 144}),
    "polar": (f"{randn(9)};{randn(9)}", "torch.polar(a0, a1)", {"fp32": 18, "sfu": 18}),
}

REDUCTIONS = {
    "a sum": (randn(64, 32), "a0.sum(1)", {"fp32": 64 * 31}),
    "a mean is scaled": (randn(64, 32), "a0.mean(1)", {"fp32": 64 * 32}),
    "a sum in fp64": (randn(64), "a0.sum(dtype=torch.float64)", {"fp64": 63}),
    "a product of integers": (ints(9, 64), "a0.prod()", {"int32": 63}),
    "a complex sum": (randn(64, dtype=C64), "a0.sum()", {"fp32": 2 * 63}),
    "a scan": (randn(8, 64), "a0.cumsum(1)", {"fp32": 8 * 63}),
    "a scan in fp64": (randn(8, 64), "a0.cumsum(1, dtype=torch.float64)", {"fp64": 8 * 63}),
    "a sort compares all": (randn(8, 64), "a0.sort(dim=1)[0]", {"fp32": 8 * 63}),
    "the sum of absolute values": (randn(8, 64), "a0.norm(p=1, dim=1)", {"fp32": 8 * 63}),
    "a euclidean norm": (randn(8, 64), "a0.norm(dim=1)", {"fp32": 8 * 127, "sfu": 8}),
    "trace": (randn(5, 7), "a0.trace()", {"fp32": 4}),
    "look-ups": (f"{randn(10)};{randn(64)}", "torch.searchsorted(a0, a1)", {"fp32": 64}),
    "scatter_add to 10 slots": (
        f"{randn(10)};{ints(10, 100)};{randn(100)}",
        "a0.scatter_add(0, a1, a2)",
        {"fp32": 100},
    ),
    "index_add of rows": (
        f"{randn(10, 4)};{ints(10, 50)};{randn(50, 4)}",
        "a0.index_add(0, a1, a2)",
        {"fp32": 200},
    ),
    "index_put of rows, accumulated": (
        f"{randn(10, 4)};{ints(10, 50)};{randn(50, 4)}",
        "a0.index_put((a1,), a2, accumulate=True)",
        {"fp32": 200},
    ),
    "index_put moves": (
        f"{randn(10, 4)};{ints(10, 50)};{randn(50, 4)}",
        "a0.index_put((a1,), a2)",
        {},
    ),
    "a bag of embeddings": (
        f"{randn(100, 8)};{ints(100, 2, 5)}",
        "F.embedding_bag(a1, a0, mode='sum')",
        {"fp32": (10 - 2) * 8},
    ),
    "folding 9 blocks of 2x2 onto 4x4": (
        randn(1, 4, 9),
        "F.fold(a0, (4, 4), (2, 2))",
        {"fp32": 9 * 4 - 16},
    ),
}

DISTANCES = {
    "city block: difference and sum": (
        f"{randn(20, 4)};{randn(30, 4)}",
        "torch.cdist(a0, a1, p=1)",
        {"fp32": 2 * 20 * 30 * 4},
    ),
    "euclidean: a product of matrices": (
        f"{randn(20, 4)};{randn(30, 4)}",
        "torch.cdist(a0, a1)",
        {"contraction.fp32": 2 * 20 * 30 * 4, "sfu": 600},
    ),
    "bilinear layer: x1 x2^T (24), then with the weight (168)": (
        f"{randn(4, 3)};{randn(4, 2)};{randn(7, 3, 2)}",
        "F.bilinear(a0, a1, a2)",
        {"contraction.fp32": 2 * (24 + 168)},
    ),
    "a bias is free": (
        f"{randn(2, 3, 8)};{randn(5, 3, 1)};{randn(5)}",
        "F.conv1d(a0, a1, a2)",
        {"contraction.fp32": 2 * 2 * 5 * 3 * 8},
    ),
    "experts, each on its rows": (
        f"{randn(32, 16, dtype=BF)};{randn(4, 16, 8, dtype=BF)};"
        "torch.tensor([8, 16, 24, 32], dtype=torch.int32, device=device)",
        "torch._grouped_mm(a0, a1, a2)",
        {"contraction.bf16": 2 * 32 * 16 * 8},
    ),
}

# Johnson and Frigo's table: fewest known operations of a complex transform of 4, 8 and 64 numbers
JF4, JF8, JF64 = 16, 56, 1152

TRANSFORMS = {
    "fft of 64": (randn(8, 64, dtype=C64), "torch.fft.fft(a0)", {"fp32": 8 * JF64}),
    "fft2 of 4 x 4": (randn(4, 4, dtype=C64), "torch.fft.fft2(a0)", {"fp32": 8 * JF4}),
    # real split radix: 2 n lg n - 4 n + 6 (Sorensen and others, 1987)
    "rfft of 8": (randn(3, 8), "torch.fft.rfft(a0)", {"fp32": 3 * 22}),
    "irfft to 8": (randn(3, 5, dtype=C64), "torch.fft.irfft(a0)", {"fp32": 3 * 22}),
    "fft of a prime length": (
        randn(100, 7, dtype=C64),
        "torch.fft.fft(a0)",
        {"fp32": int(100 * 7 * math.log2(7))},
    ),
}

LINEAR_ALGEBRA = {
    "cholesky: n^3 / 3": (randn(2, 6, 6), "torch.linalg.cholesky(a0)", 2 * 72),
    "inverse: 2 n^3": (randn(4, 4), "torch.linalg.inv(a0)", 128),
    "determinant: 2/3 n^3": (randn(6, 6), "torch.linalg.det(a0)", 144),
    "solve: 2/3 n^3 + 2 n^2 k": (f"{randn(6, 6)};{randn(6, 2)}", "torch.linalg.solve(a0, a1)", 288),
    "triangular solve: n (n - 1) k": (
        f"{randn(6, 6)};{randn(6, 2)}",
        "torch.linalg.solve_triangular(a0, a1, upper=True)",
        60,
    ),
    "symmetric eigenvalues: 4/3 n^3": (randn(6, 6), "torch.linalg.eigvalsh(a0)", 288),
    "r of a qr: m n^2 + n^3 / 3": (randn(8, 6), "torch.linalg.qr(a0, 'r')[1]", 288 + 72),
    "singular values: m n^2 + 4/3 n^3": (randn(8, 6), "torch.linalg.svdvals(a0)", 288 + 288),
    "exponential: a product": (randn(6, 6), "torch.linalg.matrix_exp(a0)", 432),
}

LOSSES = {
    "mse": (f"{randn(9, 8)};{randn(9, 8)}", "F.mse_loss(a0, a1)", {"fp32": 3 * 72 - 1}),
    "mse, not reduced": (
        f"{randn(9, 8)};{randn(9, 8)}",
        "F.mse_loss(a0, a1, reduction='none')",
        {"fp32": 2 * 72},
    ),
    "nll sums the picked": (f"{randn(9, 8)};{ints(8, 9)}", "F.nll_loss(a0, a1)", {"fp32": 8}),
    "soft margin": (
        f"{randn(72)};{randn(72)}",
        "F.soft_margin_loss(a0, a1, reduction='none')",
        {"fp32": 2 * 72, "sfu": 2 * 72},
    ),
}

# (taps, or a product): 3 -> 5 points with aligned corners: every other one is a copy
SAMPLING = {
    "bilinear": (
        randn(2, 7, 3, 3),
        "F.interpolate(a0, (5, 5), mode='bilinear', align_corners=True)",
        {"fp32": 2 * 14 * (25 - 9)},
    ),
    "bicubic": (
        randn(2, 7, 3, 3),
        "F.interpolate(a0, (5, 5), mode='bicubic', align_corners=True)",
        {"fp32": 7 * 14 * (25 - 9)},
    ),
    # 4 -> 8 points lie at -1/4, 1/4, 3/4, ..., 13/4: the first and the last are edge elements
    "linear, not aligned": (
        randn(2, 7, 4),
        "F.interpolate(a0, scale_factor=2, mode='linear')",
        {"fp32": 2 * 14 * 6},
    ),
    "no change": (randn(2, 7, 4), "F.interpolate(a0, 4, mode='linear')", {}),
    "a grid: four taps, and its coordinates scaled": (
        f"{randn(1, 3, 6, 6)};{randn(1, 4, 5, 2)}",
        "F.grid_sample(a0, a1, align_corners=False)",
        {"fp32": 60 * 7 + 40 * 2},
    ),
}

NORMS = {
    "batch norm with given statistics": (
        f"{randn(4, 3, 8)};{randn(3)};torch.rand(3, device=device)",
        "F.batch_norm(a0, a1, a2)",
        {"fp32": 2 * 96},
    ),
    "layer norm with a weight": (
        f"{randn(4, 32)};{randn(32)}",
        "F.layer_norm(a0, (32,), a1)",
        {"fp32": 6 * 128, "sfu": 4},
    ),
    "weight norm": (
        f"{randn(4, 32)};{randn(4, 1)}",
        "torch._weight_norm_interface(a0, a1)[0]",
        {"fp32": 3 * 128, "sfu": 4},
    ),
}

LISTS = {
    "foreach over two tensors": (
        f"{randn(9)};{randn(8)};{randn(9)};{randn(8)}",
        "torch._foreach_add([a0, a1], [a2, a3])",
        {"fp32": 17},
    ),
    "foreach with a factor": (
        f"{randn(9)};{randn(8)};{randn(9)};{randn(8)}",
        "torch._foreach_add([a0, a1], [a2, a3], alpha=2)",
        {"fp32": 34},
    ),
    "foreach powers": (f"{randn(9)};{randn(8)}", "torch._foreach_pow([a0, a1], 2)", {"fp32": 17}),
    "foreach division": (
        f"{randn(9)};{randn(8)};{randn(9)};{randn(8)}",
        "torch._foreach_div([a0, a1], [a2, a3])",
        {"fp32": 17, "sfu": 17},
    ),
    "foreach norms": (
        f"{randn(9)};{randn(8)}",
        "torch._foreach_norm([a0, a1])",
        {"fp32": 9 + 8 + 8 + 7, "sfu": 2},
    ),
}

# input products; x of 3 steps of 2 sequences of 4, 5 hidden units, 4 gates: 20 x 4 and 20 x 5
LSTM = f"{randn(3, 2, 4)};{randn(20, 4)};{randn(20, 5)}"
LSTM_CALL = "torch.lstm(a0, (h, h), [a1, a2], False, 1, 0.0, False, False, False)[0]"
RECURRENT = {
    "from zeros: no first recurrent product, no first forget gate": (
        LSTM,
        f"(h := torch.zeros(1, 2, 5, device='cuda'), {LSTM_CALL})[1]",
        {
            "contraction.fp32": 2 * (2 * (3 * 80 - 20) + 2 * 2 * 100),
            "fp32": 10 * (2 + 2 * 4),
            "sfu": 10 * (4 + 2 * 5),
        },
    ),
    "from a given state": (
        f"{LSTM};{randn(1, 2, 5)}",
        LSTM_CALL.replace("h, h", "a3, a3"),
        {
            "contraction.fp32": 2 * 2 * (3 * 80 + 3 * 100),
            "fp32": 10 * 3 * 4,
            "sfu": 10 * 3 * 5,
        },
    ),
    "one step of a GRU from zeros needs no reset gate": (
        f"{randn(1, 2, 4)};{randn(15, 4)};{randn(15, 5)}",
        "(h := torch.zeros(1, 2, 5, device='cuda'), "
        "torch.gru(a0, h, [a1, a2], False, 1, 0.0, False, False, False)[0])[1]",
        {"contraction.fp32": 2 * 2 * 10 * 4, "fp32": 20, "sfu": 20},
    ),
    "an LSTM that projects its 5 units to 3": (
        f"{randn(3, 2, 4)};{randn(20, 4)};{randn(20, 3)};{randn(3, 5)};{randn(1, 2, 3)};"
        f"{randn(1, 2, 5)}",
        "torch.lstm(a0, (a4, a5), [a1, a2, a3], False, 1, 0.0, False, False, False)[0]",
        {
            "contraction.fp32": 2 * 2 * 3 * (80 + 60 + 15),
            "fp32": 10 * 3 * 4,
            "sfu": 10 * 3 * 5,
        },
    ),
}

TABLES = {
    **ELEMENTWISE, **REDUCTIONS, **DISTANCES, **TRANSFORMS, **LOSSES, **SAMPLING, **NORMS, **LISTS,
    **RECURRENT,
    **{name: (inputs, body, {"contraction.fp32": n}) for name, (inputs, body, n) in
       LINEAR_ALGEBRA.items()},
}  # fmt: skip


def trace(inputs, body):
    """The operations of one problem and what is unmodelled of it; an error as a text."""
    names = ", ".join(f"a{i}" for i in range(inputs.count(";") + 1))
    scope = {"torch": torch, "F": torch.nn.functional, "device": "cuda"}
    try:
        arguments = eval(f"({inputs.replace(';', ',')},)", scope)
        reference = eval(f"lambda {names}: {body}", scope)
        work = work_of(lambda: tree_leaves(reference(*arguments)))
    except Exception as error:
        return repr(error), ()
    return dict(work.operations), work.unmodelled


@functools.cache
def traces(in_child):
    """Every problem of this file, traced in one child."""
    return in_child(lambda: {problem: trace(*problem) for problem in PROBLEMS})


@pytest.fixture
def operations(in_child):
    """The operations of one problem."""

    def find(inputs, body):
        counted, unmodelled = traces(in_child)[inputs, body]
        assert unmodelled == ()
        return counted

    return find


@pytest.mark.parametrize("name", TABLES)
def test_operations_are_those_derived(operations, name):
    inputs, body, expected = TABLES[name]
    assert operations(inputs, body) == expected


# ------------------------------------------------------------------------------------ pools


def joins(size, kernel, stride, padding, dilation=1):
    """Operations at the least, by listing the windows of a square and joining what overlaps."""
    result = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    line = [
        [p for t in range(kernel) if 0 <= (p := o * stride - padding + t * dilation) < size]
        for o in range(result)
    ]
    windows = {frozenset(itertools.product(a, b)) for a in line for b in line}
    groups: list[set[tuple[int, int]]] = []
    for window in windows:
        apart = [g for g in groups if not g & window]
        groups = [*apart, set(window).union(*(g for g in groups if g & window))]
    covered = set().union(*windows)
    return max(sum(len(w) > 1 for w in windows), len(covered) - len(groups))


SQUARES = randn(2, 3, 9, 9)
WINDOWS = [(2, 2, 0), (3, 1, 0), (3, 2, 1), (2, 3, 0), (3, 3, 1), (1, 2, 0), (4, 2, 1)]
MAX_POOL, ADAPTIVE_POOL = "F.max_pool2d(a0, {}, {}, {})", "F.adaptive_avg_pool2d(a0, {})"
DILATED_POOL = "F.max_pool2d(a0, 3, 1, 0, 2)"
PROBLEMS = [
    *(row[:2] for row in TABLES.values()),
    *((SQUARES, MAX_POOL.format(*window)) for window in WINDOWS),
    *((SQUARES, ADAPTIVE_POOL.format(result)) for result in (1, 3, 9)),
    (SQUARES, DILATED_POOL),
]


@pytest.mark.parametrize("window", WINDOWS)
def test_a_pool_joins_what_its_windows_cover(operations, window):
    results = operations(SQUARES, MAX_POOL.format(*window))
    assert results.get("fp32", 0) == 6 * joins(9, *window)


def test_a_dilated_pool_never_counts_more_than_joining_takes(operations):
    results = operations(SQUARES, DILATED_POOL)
    assert 6 * 25 <= results["fp32"] <= 6 * joins(9, 3, 1, 0, 2)


@pytest.mark.parametrize(("result", "joined"), [(3, 9 * 9 - 9), (9, 0), (1, 80)])
def test_an_adaptive_average_is_scaled_once(operations, result, joined):
    scaled = result * result if result < 9 else 0
    results = operations(SQUARES, ADAPTIVE_POOL.format(result))
    assert results.get("fp32", 0) == 6 * (joined + scaled)


# ---------------------------------------------------------------------- ops made by hand


def use(*shape, offset=0, stride=None, dtype=torch.float32, storage=0):
    dense = tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
    return TensorUse(storage, shape, stride or dense, offset, dtype)


def lstm(out, bidirectional=True):
    """Two sequences of 10 steps of 4, to 5 units in each direction, batch first."""
    directions = 2 if bidirectional else 1
    x, weights = use(2, 10, 4), [use(20, 4), use(20, 5)] * directions
    arguments = {
        "input": x,
        "state": [use(directions, 2, 5)] * 2,
        "weights": weights,
        "bidirectional": bidirectional,
        "batch_first": True,
        "sequences": 2,
    }
    return TracedOp("solkit.lstm", (), arguments, (x, *weights), (out,), arguments=arguments)


@pytest.mark.parametrize(
    ("out", "bidirectional", "steps"),
    [
        (use(2, 10, 10), True, 20),
        (use(2, 1, 10, offset=9 * 10, stride=(100, 10, 1)), True, 10 + 1),
        (use(2, 1, 10, offset=0, stride=(100, 10, 1)), True, 1 + 10),
        (use(2, 2, 10, offset=3 * 10, stride=(100, 20, 1)), True, 6 + 7),  # steps 3 and 5
        (use(2, 1, 5, offset=3 * 5, stride=(50, 5, 1)), False, 4),
    ],
)
def test_a_recurrent_layer_runs_as_far_as_its_output_is_wanted(out, bidirectional, steps):
    cost = cost_of(lstm(out, bidirectional))
    assert cost.operations["contraction.fp32"] == steps * 2 * 2 * (80 + 100)


def test_a_fused_adamw_step_counts_every_parameter():
    lists = [[use(9), use(8)] for _ in range(4)]
    names = ("self", "grads", "exp_avgs", "exp_avg_sqs")
    arguments = {**dict(zip(names, lists)), "weight_decay": 0.01, "amsgrad": False}
    flat = tuple(itertools.chain(*lists))
    op = TracedOp("aten._fused_adamw_", (), {}, flat, (), tuple(lists[0]), arguments=arguments)
    # m: 3, v: 4, sqrt(v) s + eps: 2, p - m / that: 2, weight decay: 1
    assert cost_of(op).operations == {"fp32": 17 * 12, "sfu": 17 * 2}


def test_ctc_counts_the_steps_at_which_a_label_can_stand():
    logs = use(5, 1, 6)
    arguments = {"log_probs": logs, "input_lengths": [5], "target_lengths": [2]}
    op = TracedOp("aten._ctc_loss", (), {}, (logs,), (use(1),), arguments=arguments)
    # each of 2 labels can stand at 4 of 5 steps: 8 cells of two additions and a product
    assert cost_of(op).operations == {"fp32": 24}


def test_an_unknown_op_has_no_cost():
    assert cost_of(TracedOp("aten.no_such_op", (), {}, (use(9),), (use(9),))) is None
