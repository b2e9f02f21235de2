"""Operations and bytes of small problems, each derived by hand in its row."""

from __future__ import annotations

import pytest

from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan, study

F32, BF16, I64 = 4, 2, 8


def randn(*shape, dtype="torch.float32"):
    return f"torch.randn({', '.join(map(str, shape))}, dtype={dtype}, device=device)"


def ints(high, *shape):
    return f"torch.randint(0, {high}, ({', '.join(map(str, shape))},), device=device)"


BF = "torch.bfloat16"

# name: (inputs, reference body, contraction flops by dtype, bytes read, bytes written)
CASES = {
    "matmul": (
        f"{randn(64, 32)};{randn(32, 16)}",
        "return a0 @ a1",
        {"fp32": 2 * 64 * 32 * 16},
        F32 * (64 * 32 + 32 * 16),
        F32 * 64 * 16,
    ),
    "batched matmul": (
        f"{randn(5, 64, 32, dtype=BF)};{randn(5, 32, 16, dtype=BF)}",
        "return a0 @ a1",
        {"bf16": 2 * 5 * 64 * 32 * 16},
        BF16 * 5 * (64 * 32 + 32 * 16),
        BF16 * 5 * 64 * 16,
    ),
    "batched matmul with one shared weight": (
        f"{randn(5, 64, 32)};{randn(32, 16)}",
        "return a0 @ a1",
        {"fp32": 2 * 5 * 64 * 32 * 16},
        F32 * (5 * 64 * 32 + 32 * 16),
        F32 * 5 * 64 * 16,
    ),
    "linear with bias": (
        f"{randn(64, 32)};{randn(16, 32)};{randn(16)}",
        "return F.linear(a0, a1, a2)",
        {"fp32": 2 * 64 * 32 * 16},
        F32 * (64 * 32 + 32 * 16 + 16),
        F32 * 64 * 16,
    ),
    "addmm counts the product": (
        f"{randn(64, 16)};{randn(64, 32)};{randn(32, 16)}",
        "return torch.addmm(a0, a1, a2)",
        {"fp32": 2 * 64 * 32 * 16},
        F32 * (64 * 16 + 64 * 32 + 32 * 16),
        F32 * 64 * 16,
    ),
    "baddbmm counts the product": (
        f"{randn(3, 64, 16)};{randn(3, 64, 32)};{randn(3, 32, 16)}",
        "return torch.baddbmm(a0, a1, a2)",
        {"fp32": 2 * 3 * 64 * 32 * 16},
        F32 * 3 * (64 * 16 + 64 * 32 + 32 * 16),
        F32 * 3 * 64 * 16,
    ),
    "matrix times vector": (
        f"{randn(64, 32)};{randn(32)}",
        "return a0 @ a1",
        {"fp32": 2 * 64 * 32},
        F32 * (64 * 32 + 32),
        F32 * 64,
    ),
    "tensordot": (
        f"{randn(8, 4, 32)};{randn(4, 32, 16)}",
        "return torch.tensordot(a0, a1, dims=2)",
        {"fp32": 2 * 8 * 4 * 32 * 16},
        F32 * (8 * 4 * 32 + 4 * 32 * 16),
        F32 * 8 * 16,
    ),
    "einsum": (
        f"{randn(4, 8, 32)};{randn(4, 16, 32)}",
        "return torch.einsum('bik,bjk->bij', a0, a1)",
        {"fp32": 2 * 4 * 8 * 16 * 32},
        F32 * 4 * (8 * 32 + 16 * 32),
        F32 * 4 * 8 * 16,
    ),
    "x times its transpose reads x once": (
        randn(64, 32),
        "return a0 @ a0.T",
        {"fp32": 64 * 65 * 32},
        F32 * 64 * 32,
        F32 * 64 * 64,
    ),
    "a weight used three times is read once": (
        f"{randn(64, 64)};{randn(64, 64)}",
        "return F.relu(F.relu(a0 @ a1) @ a1) @ a1",
        {"fp32": 3 * 2 * 64**3},
        2 * F32 * 64 * 64,
        F32 * 64 * 64,
    ),
    "conv2d, padding: only taps inside": (
        f"{randn(2, 3, 8, 8)};{randn(5, 3, 3, 3)}",
        "return F.conv2d(a0, a1, padding=1)",
        # along one axis of 8 with 3 taps and padding 1: 3*8 pairs, less one at either end
        {"fp32": 2 * 2 * 5 * 3 * (3 * 8 - 2) ** 2},
        F32 * (2 * 3 * 64 + 5 * 3 * 9),
        F32 * 2 * 5 * 64,
    ),
    "conv2d, grouped and strided": (
        f"{randn(2, 8, 9, 9)};{randn(16, 2, 3, 3)}",
        "return F.conv2d(a0, a1, stride=2, groups=4)",
        {"fp32": 2 * 2 * 16 * 2 * 9 * 4 * 4},  # 4x4 outputs, all 9 taps inside
        F32 * (2 * 8 * 81 + 16 * 2 * 9),
        F32 * 2 * 16 * 16,
    ),
    "conv3d, depthwise": (
        f"{randn(1, 4, 6, 6, 6)};{randn(4, 1, 3, 3, 3)}",
        "return F.conv3d(a0, a1, groups=4)",
        {"fp32": 2 * 4 * 27 * 4**3},
        F32 * (4 * 216 + 4 * 27),
        F32 * 4 * 64,
    ),
    "conv1d, dilated": (
        f"{randn(1, 2, 16)};{randn(3, 2, 3)}",
        "return F.conv1d(a0, a1, dilation=4)",
        {"fp32": 2 * 3 * 2 * 3 * 8},  # 16 - 2*4 = 8 outputs
        F32 * (32 + 18),
        F32 * 24,
    ),
    "transposed conv2d": (
        f"{randn(1, 3, 4, 4)};{randn(3, 5, 3, 3)}",
        "return F.conv_transpose2d(a0, a1, stride=2)",
        {"fp32": 2 * 3 * 5 * 9 * 16},  # each of 16 inputs meets each of 9 taps: none falls outside
        F32 * (48 + 135),
        F32 * 5 * 81,
    ),
    "dense attention": (
        ";".join([randn(2, 4, 16, 32, dtype=BF)] * 3),
        "return F.scaled_dot_product_attention(a0, a1, a2)",
        {"bf16": 4 * 2 * 4 * 16 * 16 * 32},
        BF16 * 3 * 2 * 4 * 16 * 32,
        BF16 * 2 * 4 * 16 * 32,
    ),
    "causal attention: half the pairs and the diagonal": (
        ";".join([randn(2, 4, 16, 32, dtype=BF)] * 3),
        "return F.scaled_dot_product_attention(a0, a1, a2, is_causal=True)",
        {"bf16": 4 * 2 * 4 * (16 * 17 // 2) * 32},
        BF16 * 3 * 2 * 4 * 16 * 32,
        BF16 * 2 * 4 * 16 * 32,
    ),
    "grouped-query attention": (
        f"{randn(1, 8, 16, 32, dtype=BF)};{randn(1, 2, 16, 32, dtype=BF)};"
        f"{randn(1, 2, 16, 32, dtype=BF)}",
        "return F.scaled_dot_product_attention(a0, a1, a2, enable_gqa=True)",
        {"bf16": 4 * 8 * 16 * 16 * 32},
        BF16 * 16 * 32 * (8 + 2 + 2),
        BF16 * 8 * 16 * 32,
    ),
    "a boolean mask that the program makes": (
        ";".join([randn(1, 1, 16, 32, dtype=BF)] * 3),
        "m = torch.ones(16, 16, dtype=torch.bool, device='cuda').tril(3)\n"
        "    return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=m)",
        # row i sees min(16, i + 4) keys: 4+5+...+15 for 12 rows, 16 for the other 4
        {"bf16": 4 * 32 * (sum(range(4, 16)) + 4 * 16)},
        BF16 * 3 * 16 * 32,
        BF16 * 16 * 32,
    ),
    "pointwise": (
        f"{randn(64, 32)};{randn(64, 32)}",
        "return a0 * a1 + 1",
        {},
        2 * F32 * 64 * 32,
        F32 * 64 * 32,
    ),
    "row sum": (randn(64, 32), "return a0.sum(1)", {}, F32 * 64 * 32, F32 * 64),
    "softmax": (
        randn(64, 32, dtype=BF),
        "return a0.softmax(-1)",
        {},
        BF16 * 2048,
        BF16 * 2048,
    ),
    "layer norm": (
        f"{randn(64, 32)};{randn(32)};{randn(32)}",
        "return F.layer_norm(a0, (32,), a1, a2)",
        {},
        F32 * (2048 + 64),
        F32 * 2048,
    ),
    "a view costs nothing": (randn(64, 32), "return a0.T", {}, 0, 0),
    "a transposing copy moves each byte twice": (
        randn(64, 32),
        "return a0.T.contiguous()",
        {},
        F32 * 2048,
        F32 * 2048,
    ),
    "expand is read once, written in full": (
        randn(64, 1),
        "return a0.expand(64, 32).contiguous()",
        {},
        F32 * 64,
        F32 * 2048,
    ),
    "only the slice that is used": (
        randn(64, 32),
        "return a0[:, :8] * 2",
        {},
        F32 * 64 * 8,
        F32 * 64 * 8,
    ),
    "two overlapping slices: their union": (
        randn(64, 32),
        "return a0[:, :20].sum() + a0[:, 10:25].sum()",
        {},
        F32 * 64 * 25,
        F32,
    ),
    "every second column": (randn(64, 32), "return a0[:, ::2] * 2", {}, F32 * 1024, F32 * 1024),
    "dead code": (
        f"{randn(64, 32)};{randn(64, 64)}",
        "y = a1 @ a1\n    return a0 + 1",
        {},
        F32 * 2048,
        F32 * 2048,
    ),
    "an unused input": (f"{randn(64)};{randn(64)}", "return a1 * 2", {}, F32 * 64, F32 * 64),
    "a constant result is written": (randn(64), "return torch.zeros_like(a0)", {}, 0, F32 * 64),
    "two outputs of one storage": (
        randn(64, 32),
        "y = a0 * 2\n    return y[:32], y[16:]",
        {},
        F32 * 2048,
        F32 * 2048,
    ),
    "in place": (randn(64), "a0.mul_(2)\n    return a0", {}, F32 * 64, F32 * 64),
    "in place on a slice": (
        randn(64, 32),
        "a0[:, :8].zero_()\n    return a0",
        {},
        0,
        F32 * 64 * 8,
    ),
    "overwritten before it is read": (
        f"{randn(64)};{randn(64)}",
        "a0.copy_(a1)\n    return a0 * 2",
        {},
        F32 * 64,
        F32 * 64,
    ),
    "cat": (
        f"{randn(64)};{randn(32)}",
        "return torch.cat([a0, a1])",
        {},
        F32 * 96,
        F32 * 96,
    ),
    "embedding reads the rows that are named, each once": (
        f"{randn(1000, 32)};torch.arange(50, device=device) % 10",
        "return F.embedding(a1, a0)",
        {},
        F32 * 10 * 32 + I64 * 50,
        F32 * 50 * 32,
    ),
    "index_select": (
        f"{randn(64, 100)};torch.tensor([3, 3, 7], device=device)",
        "return a0.index_select(1, a1)",
        {},
        F32 * 64 * 2 + I64 * 3,
        F32 * 64 * 3,
    ),
    "gather": (
        f"{randn(4, 100)};torch.zeros(4, 7, dtype=torch.int64, device=device)",
        "return a0.gather(1, a1)",
        {},
        F32 * 4 + I64 * 28,
        F32 * 28,
    ),
    "two lookups of one table: the union of the rows": (
        f"{randn(100, 8)};torch.arange(0, 10, device=device);torch.arange(5, 25, device=device)",
        "return a0[a1].sum() + a0[a2].sum()",
        {},
        F32 * 25 * 8 + I64 * 30,
        F32,
    ),
    "int8 matmul": (
        "torch.ones(64, 32, dtype=torch.int8, device=device);"
        "torch.ones(32, 16, dtype=torch.int8, device=device)",
        "return torch._int_mm(a0, a1)",
        {"int8": 2 * 64 * 32 * 16},
        64 * 32 + 32 * 16,
        4 * 64 * 16,
    ),
}


# name: (inputs, reference body, operations, bytes read, bytes written)
PARTS = {
    "a slice of a pointwise result": (
        randn(64, 32),
        "return (a0 * 2)[:, :8]",
        {"fp32": 64 * 8},
        F32 * 64 * 8,
        F32 * 64 * 8,
    ),
    "through a broadcast operand and a chain": (
        f"{randn(64, 32)};{randn(32)};{randn(64, 1)}",
        "return (a0.exp() * a1 + a2)[::2, 4:8]",
        {"sfu": 32 * 4, "fp32": 2 * 32 * 4},
        F32 * (32 * 4 + 4 + 32),
        F32 * 32 * 4,
    ),
    "two disjoint halves are the whole": (
        randn(64, 32),
        "y = a0 * 2\n    return y[:, :16] * y[:, 16:]",
        {"fp32": 64 * 32 + 64 * 16},
        F32 * 64 * 32,
        F32 * 64 * 16,
    ),
    "rows and columns of a product": (
        f"{randn(64, 32)};{randn(32, 16)}",
        "return (a0 @ a1)[:8, 4:8]",
        {"contraction.fp32": 2 * 8 * 4 * 32},
        F32 * (8 * 32 + 32 * 4),
        F32 * 8 * 4,
    ),
    "the last step of a sequence through a linear layer": (
        f"{randn(4, 10, 32)};{randn(16, 32)};{randn(16)}",
        "return F.linear(a0, a1, a2)[:, -1]",
        # F.linear flattens [4, 10] to 40 rows: every tenth of them
        {"contraction.fp32": 2 * 4 * 16 * 32},
        F32 * (4 * 32 + 16 * 32 + 16),
        F32 * 4 * 16,
    ),
    "part of a softmax needs whole rows": (
        randn(64, 32),
        "return a0.softmax(-1)[:8, :4]",
        {"fp32": 5 * 8 * 32 - 8, "sfu": 8 * 32 + 8},
        F32 * 8 * 32,
        F32 * 8 * 4,
    ),
    "some sums": (randn(64, 32), "return a0.sum(1)[:8]", {"fp32": 8 * 31}, F32 * 8 * 32, F32 * 8),
    "some sums along the first dimension, kept": (
        randn(64, 32, 2),
        "return a0.sum(0, keepdim=True)[:, 4:8]",
        {"fp32": 63 * 4 * 2},
        F32 * 64 * 4 * 2,
        F32 * 4 * 2,
    ),
    "some rows of a layer norm": (
        f"{randn(64, 32)};{randn(32)};{randn(32)}",
        "return F.layer_norm(a0, (32,), a1, a2)[:8]",
        {"fp32": 7 * 8 * 32, "sfu": 8},
        F32 * (8 * 32 + 64),
        F32 * 8 * 32,
    ),
    "one head of attention": (
        ";".join([randn(2, 4, 16, 32)] * 3),
        "return F.scaled_dot_product_attention(a0, a1, a2)[:, 1]",
        {
            **dict.fromkeys(("contraction.fp32", "contraction.fp32>exp"), 2 * 2 * 256 * 32),
            **{"fp32": 2 * (4 * 256 + 16 * 32), "sfu": 2 * 272},
        },
        3 * F32 * 2 * 16 * 32,
        F32 * 2 * 16 * 32,
    ),
    "part of a cat": (
        f"{randn(64, 16)};{randn(64, 16)};{randn(64, 16)}",
        "return torch.cat([a0, a1, a2], 1)[:, 8:20] * 1.5",
        {"fp32": 64 * 12},
        F32 * 64 * 12,
        F32 * 64 * 12,
    ),
    "some rows and columns of an embedding": (
        f"{randn(100, 32)};torch.arange(50, device=device)",
        "return F.embedding(a1, a0)[:10, :8]",
        {},
        F32 * 10 * 8 + I64 * 10,
        F32 * 10 * 8,
    ),
    "a transposed view in between": (
        randn(64, 32),
        "return (a0 * 2).T[:8].contiguous()",
        {"fp32": 64 * 8},
        F32 * 64 * 8,
        F32 * 64 * 8,
    ),
    "what is added to in part is still wanted there": (
        randn(64, 32),
        "y = a0 * 2\n    y[:, :8] += 1\n    return y[:, :16]",
        {"fp32": 64 * 16 + 64 * 8},
        F32 * 64 * 16,
        F32 * 64 * 16,
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_what_is_wanted_in_part_counts_in_part(work, name):
    inputs, body, operations, read, written = PARTS[name]
    result = work(inputs, body)
    assert dict(result.operations) == operations
    assert (result.dram_read_bytes, result.dram_write_bytes) == (read, written)


@pytest.mark.parametrize("name", CASES)
def test_contractions_and_bytes_are_those_derived_by_hand(work, name):
    inputs, body, contractions, read, written = CASES[name]
    result = work(inputs, body)
    counted = {k[12:]: n for k, n in result.operations.items() if k.startswith("contraction.")}
    assert counted == contractions
    assert (result.dram_read_bytes, result.dram_write_bytes) == (read, written)
    assert result.unmodelled == ()


HIGHER_ORDER = """
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
class Doubled(HigherOrderOperator):
    def __call__(self, x): return super().__call__(x)
doubled = Doubled("doubled_by_hand")
for key in ("AutogradCUDA", "AutogradCPU"): doubled.fallthrough(getattr(torch._C.DispatchKey, key))
@doubled.py_impl(FakeTensorMode)
def _(mode, x):
    with mode: return torch.empty_like(x)
return doubled(a0) + 1
"""


def test_a_higher_order_operator_that_is_not_known_is_named_and_its_bytes_count(work):
    result = work(randn(64, 32), HIGHER_ORDER.strip().replace("\n", "\n    "))
    assert result.unmodelled == ("doubled_by_hand",)
    assert (result.dram_read_bytes, result.dram_write_bytes) == (F32 * 64 * 32, F32 * 64 * 32)


def work_of_file(path):
    with Analyser("h100", cache=False) as analyser:
        return study(analyser, StudyPlan(path, analysing=False)).cases[0].work


def test_a_kernel_that_the_reference_launches_is_named_and_its_bytes_count(write):
    work = work_of_file(write(LAUNCHING))
    assert work.unmodelled == ("launch.doubling",)
    # x and y are read; the launch writes all of what it makes
    assert (work.dram_read_bytes, work.dram_write_bytes) == (2 * F32 * 4096, F32 * 4096)


LAUNCHING = """
import torch, triton, triton.language as tl

@triton.jit
def doubling(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i))

def reference(x, y):
    out = torch.empty_like(x)
    doubling[(4,)](x, out, BLOCK=1024)
    return out + y

def inputs(device="cuda"):
    return torch.randn(4096, device=device), torch.randn(4096, device=device)
"""


GATED = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Parameter(torch.FILL(1))
    def forward(self, x, y):
        return x + self.gate * (x @ y)

def get_inputs():
    return [torch.randn(64, 64), torch.randn(64, 64)]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("fill", "products", "read"), [("zeros", 0, 1), ("ones", 1, 2)])
def test_a_parameter_of_zero_leaves_no_product_in_the_hard_bound(write, fill, products, read):
    work = work_of_file(write(GATED.replace("FILL", fill)))
    assert work.operations["contraction.fp32"] == 2 * 64**3
    assert sum(work.hard_operations.values()) == products * 2 * 64**3
    assert work.hard_read_bytes == read * F32 * 64 * 64  # a kernel may look at the gate first


def test_launches_that_differ_in_a_number_are_two(write):
    work = work_of_file(write(LAUNCHING_TWICE))
    # x is read, and two results are written
    assert (work.dram_read_bytes, work.dram_write_bytes) == (F32 * 4096, 2 * F32 * 4096)


LAUNCHING_TWICE = """
import torch, triton, triton.language as tl

@triton.jit
def scaling(out, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, factor * tl.load(out + i))

def scaled(x, factor):
    out = x + 1
    scaling[(4,)](out, factor, BLOCK=1024)
    return out

def reference(x):
    return scaled(x, 2.0), scaled(x, 3.0)

def inputs(device="cuda"):
    return (torch.randn(4096, device=device),)
"""


def test_a_launch_of_no_programs_is_none(write):
    text = LAUNCHING.replace("[(4,)]", "[(0,)]").replace("empty_like", "zeros_like")
    work = work_of_file(write(text))
    assert (work.unmodelled, work.dram_read_bytes) == ((), F32 * 4096)  # only y is read


def test_tensors_in_a_tuple_that_a_launch_gets_count(write):
    text = LAUNCHING.replace("doubling(x, out,", "doubling(both,")
    text = text.replace("out + i, 2 * tl.load(x + i)", "both[1] + i, 2 * tl.load(both[0] + i)")
    text = text.replace("(x, out, BLOCK=1024)", "((x, out), BLOCK=1024)")
    work = work_of_file(write(text))
    assert work.unmodelled == ("launch.doubling",)
    assert (work.dram_read_bytes, work.dram_write_bytes) == (2 * F32 * 4096, F32 * 4096)


def test_a_launch_that_gets_addresses_alone_moves_the_arguments_once(write):
    text = LAUNCHING.replace("(x, out, BLOCK=1024)", "(x.data_ptr(), y.data_ptr(), BLOCK=1024)")
    text = text.replace("    out = torch.empty_like(x)\n", "").replace("    return out + y\n", "")
    text = text.replace("    i = tl", "    x = x.to(tl.pointer_type(tl.float32))\n    i = tl")
    text = text.replace("    i = tl", "    out = out.to(tl.pointer_type(tl.float32))\n    i = tl")
    work = work_of_file(write(text + 'OUTPUTS = ("y",)\n'))
    assert (work.dram_read_bytes, work.dram_write_bytes) == (F32 * 4096, F32 * 4096)
    assert (work.hard_read_bytes, work.hard_write_bytes) == (0, 0)  # what it does is not known


def test_what_a_launch_writes_through_a_tuple_is_no_longer_known(write):
    work = work_of_file(write(INDEXING))
    # zeros would name one row, what the launch writes names any
    assert work.dram_read_bytes == F32 * 256 * 64


INDEXING = """
import torch, triton, triton.language as tl

@triton.jit
def counting(pointers, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(pointers[0] + i, i.to(tl.int64))

def reference(x):
    index = torch.zeros(256, dtype=torch.int64, device=x.device)
    counting[(1,)]((index,), BLOCK=256)
    return x[index]

def inputs(device="cuda"):
    return (torch.randn(256, 64, device=device),)
"""


def test_elementwise_operations(work):
    result = work(f"{randn(64, 32)};{randn(64, 1)}", "return torch.exp(a0) / a1")
    # an exponential per element, a reciprocal per row, a multiplication per element
    assert result.operations == {"sfu": 2048 + 64, "fp32": 2048}


def test_a_hundred_sines_are_a_hundred_sines(work):
    result = work(randn(64), "for _ in range(100): a0 = a0.sin()\n    return a0")
    assert result.operations == {"sfu": 6400}


def test_integer_and_double_math_have_pipes_of_their_own(work):
    assert work(ints(9, 64), "return a0 + 1").operations == {"int32": 64}
    doubles = work(randn(64, dtype="torch.float64"), "return a0 + 1")
    assert doubles.operations == {"fp64": 64}


def test_unknown_indices_are_an_assumption_and_the_hard_bytes_count_no_row(work):
    table, index = randn(1000, 32), randn(50)
    result = work(f"{table};{index}", "return a0[(a1 * 10).long()]")
    assert result.dram_read_bytes == F32 * 50 * 32 + F32 * 50
    assert result.hard_read_bytes == F32 * 50
    assert any("taken to be distinct" in line for line in result.assumptions)


HARD = {
    "a plain product counts": ("return a0 @ a1", 1.0),
    "with a bias and an activation": ("return F.gelu(a0 @ a1 + 1)", 1.0),
    "both layers of a perceptron": ("return F.relu(a0 @ a1) @ a1", 1.0),
    "its own transpose": ("return a0 @ a0.T", 1.0),
    "the sum of a product needs only a matvec": ("return (a0 @ a1).sum()", 0.0),
    "so does a mean through a bias": ("return (a0 @ a1 + 1).mean(0)", 0.0),
    "a chain may be associated otherwise": ("return a0 @ a1 @ a1", 0.0),
    "a masked operand has structure": ("return a0.tril() @ a1", 0.0),
    "so has an expanded one": ("return a0[:, :1].expand(64, 64) @ a1", 0.0),
    "a part of the output counts that part": ("return (a0 @ a1)[:8]", 1.0),
}


HARD_MORE = {
    "a mask that the program adds": (
        "(a0 @ a1 + torch.full_like(a0, -9e9).triu(1)).softmax(-1)",
        0,
    ),
    "a mask that it multiplies with": ("(a0 @ a1) * torch.ones_like(a0).tril()", 0),
    "an input of two dimensions may be a mask before a softmax": ("(a0 @ a1 + a0).softmax(-1)", 0),
    "but not as a residual": ("a0 @ a1 + a0", 1),
    "a normalised row has a known sum": ("F.layer_norm(a0 @ a1, (64,)).mean(-1)", 0),
    "so has a softmax": ("(a0 @ a1).softmax(-1).mul(2).sum(-1)", 0),
    "the triangle behind an activation": ("(a0 @ a1).relu().tril()", 0),
    "a Hankel operand": ("torch.as_strided(a0, (64, 64), (1, 1)) @ a1", 0),
    "the same product twice is one product": ("(a0 @ a1, (a0 @ a1).relu())", 1),
    "a copy of itself, transposed": ("a0.contiguous() @ a0.clone().T", 0.5),
    "the largest of a product": ("(a0 @ a1).relu().amax(1)", 1),
    "nor as a bias": ("(a0 @ a1 + a0[0]).softmax(-1)", 1),
}


@pytest.mark.parametrize("name", HARD_MORE)
def test_hard_operations_mind_masks(work, name):
    body, share = HARD_MORE[name]
    result = work(f"{randn(64, 64)};{randn(64, 64)}", f"return {body}")
    counted = sum(n for key, n in result.operations.items() if key.startswith("contraction.fp32"))
    assert result.hard_operations.get("contraction.fp32", 0) == share * counted


def test_a_masked_softmax_times_values_is_not_hard(work):
    body = "m = torch.full((16, 16), -9e9, device='cuda').triu(1)\n"
    body += "    return (a0 @ a1.mT + m).softmax(-1) @ a2"
    result = work(";".join([randn(2, 4, 16, 32)] * 3), body)
    assert result.hard_operations == {}


SELECTED = {
    "torch.tril(a0).sum(1)": 0,
    "torch.where(a1 > 0, a0 * 2, a0.new_zeros(())).sum(1)": 1,  # a1 decides, and is read
    "a0.masked_fill(torch.ones_like(a0, dtype=torch.bool).triu(1), 0.0).sum(1)": 0,
    "(a0 * torch.ones_like(a0).tril()).sum(1)": 0,
    "(a0.exp() * a1).sum(1)": 2,
}


@pytest.mark.parametrize("body", SELECTED)
def test_hard_bytes_leave_out_what_may_be_selected_away(work, body):
    result = work(f"{randn(64, 64)};{randn(64, 64)}", f"return {body}")
    assert result.hard_read_bytes == SELECTED[body] * F32 * 64 * 64


def test_an_unknown_attention_mask_is_an_assumption_and_never_hard(work):
    inputs = ";".join([randn(1, 1, 16, 32)] * 3 + [randn(16, 16)])
    result = work(inputs, "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=a3)")
    assert result.operations["contraction.fp32"] == 2 * 256 * 32
    assert result.operations["contraction.fp32>exp"] == 2 * 256 * 32
    assert result.hard_operations == {}
    assert any("attention mask" in line for line in result.assumptions)


@pytest.mark.parametrize("name", HARD)
def test_hard_operations_leave_out_what_algebra_avoids(work, name):
    body, share = HARD[name]
    result = work(f"{randn(64, 64)};{randn(64, 64)}", body)
    counted = sum(n for key, n in result.operations.items() if key.startswith("contraction.fp32"))
    assert result.hard_operations.get("contraction.fp32", 0) == share * counted


def test_convolutions_are_never_hard(work):
    result = work(f"{randn(2, 3, 8, 8)};{randn(5, 3, 3, 3)}", "return F.conv2d(a0, a1)")
    assert result.hard_operations == {}
    assert result.operations["contraction.fp32"] > 0


def test_a_backward_pass_is_costed(work):
    body = (
        "a0.requires_grad_(); a1.requires_grad_()\n"
        "    return torch.autograd.grad((a0 @ a1).sum(), (a0, a1))"
    )
    result = work(f"{randn(64, 32)};{randn(32, 16)}", body)
    # two gradients, each a product with ones: 32 sums of 16, and of 64. The forward product is
    # dead: its sum's gradient is a constant
    assert result.operations["contraction.fp32"] == 32 * 15 + 32 * 63
    assert result.dram_write_bytes == F32 * (64 * 32 + 32 * 16)


def test_a_gradient_by_a_transform_costs_as_one_by_autograd(work):
    inputs = f"{randn(64, 32)};{randn(48, 32)};torch.arange(64, device='cuda') % 48"
    loss = "F.cross_entropy(a0 @ a1.T, a2)"
    transformed = work(inputs, f"return torch.func.grad(lambda a1: {loss})(a1)")
    body = f"a1.requires_grad_()\n    return torch.autograd.grad({loss}, a1)"
    same = work(inputs, body)
    assert transformed.operations["contraction.fp32"] == same.operations["contraction.fp32"]
    assert transformed.dram_bytes == same.dram_bytes == F32 * (64 * 32 + 2 * 48 * 32) + 8 * 64


def test_a_recurrent_layer_is_one_op(work):
    body = "net = torch.nn.LSTM(32, 16, device='cuda')\n    return net(a0)[0]"
    result = work(randn(100, 4, 32), body)
    # per step and batch element: 4 gates of [16, 32] and of [16, 16]; the first step starts from
    # zeros, so it has no recurrent product and no forget gate
    whole, first = 2 * 100 * 4 * 4 * 16 * (32 + 16), 2 * 4 * (4 * 16 * 16 + 16 * 32)
    assert result.operations["contraction.fp32"] == whole - first
    assert [op.op for op in result.ops] == ["solkit.lstm"]
