"""The roofline of every example at each of its shapes, derived by hand.

What is counted: the bytes of each input and each output once; a multiply-add of a contraction as
two operations; exponentials, tanh, reciprocals and reciprocal roots as one result of the special
function unit (SFU) each; all other arithmetic as fp32 operations, bf16 tensors' included. The
roofline is the time of the slowest resource, all of them at their highest clock.
"""

import ast
import functools
from dataclasses import dataclass
from pathlib import Path

import pytest

import solkit

EXAMPLES = Path(__file__).parents[2] / "examples"

# H100 SXM5. Per SM and clock: 4096 bf16 tensor operations, 256 fp32 (128 lanes, a multiply-add
# being two), 16 SFU results (CUDA C++ Programming Guide, throughput of native arithmetic
# instructions, compute capability 9.0). NVML's maximum SM clock is 1980 MHz.
SM_COUNT, SM_HZ = 132, 1980e6
TENSOR_BF16 = SM_COUNT * 4096 * SM_HZ  # 1070.5 TFLOP/s
FP32 = SM_COUNT * 256 * SM_HZ  # 66.9 TFLOP/s
SFU = SM_COUNT * 16 * SM_HZ  # 4.18e12 results/s
DRAM = 2619e6 * 2 * 5120 / 8  # 2619 MHz, two transfers a clock, 5120 bits: 3352.3 GB/s

BF16, FP32_BYTES, INT64 = 2, 4, 8


@dataclass(frozen=True)
class Derived:
    """A problem's least cost, worked out by hand.

    Attributes:
        read, write: bytes that must cross DRAM.
        fp32: fp32 operations, to show that they are not the limit.
        sfu: special-function results.
        tensor: bf16 contraction operations.
    """

    read: int
    write: int
    fp32: int
    sfu: int
    tensor: int = 0

    @property
    def roofline_ms(self) -> float:
        return 1e3 * max(
            (self.read + self.write) / DRAM,
            self.tensor / TENSOR_BF16,
            self.fp32 / FP32,
            self.sfu / SFU,
        )


def softmax(M, N):
    # 16384 x 4096: 268.4 MB, 80.1 us; its 67 M exponentials take 16 us.
    return Derived(
        read=M * N * BF16,
        write=M * N * BF16,
        fp32=4 * M * N,  # maximum, subtraction, sum, product with the reciprocal of the sum
        sfu=M * N + M,  # an exponential an element, a reciprocal a row
    )


def rmsnorm(M, N):
    # 16384 x 4096: 268.4 MB and 8 KB of weights, 80.1 us.
    return Derived(
        read=M * N * BF16 + N * BF16,  # x, weight
        write=M * N * BF16,
        fp32=4 * M * N,  # square, sum, two products
        sfu=M,  # a reciprocal root a row
    )


def matmul(M, N, K):
    # 4096 cubed: 137.4 GFLOP at 1070.5 TFLOP/s, 128.4 us; its 100.7 MB take 30 us.
    return Derived(
        read=(M * K + K * N) * BF16,
        write=M * N * BF16,
        fp32=0,
        sfu=0,
        tensor=2 * M * N * K,
    )


def causal_attention(B, H, S, D):
    # A query meets the keys up to its own: S (S+1) / 2 pairs a head.
    # D = 128, S = 4096, 128 heads: 1.074e9 pairs of 512 operations, 513.7 us on tensor cores.
    # D = 64: an exponential a pair takes an SM 1/16 clock, and so do the pair's 4 * 64
    # operations at 4096 a clock: a tie, 256.8 us, which the reciprocals tip to the SFU.
    # S = 1003, 10 heads: 5.1 MB take 1.53 us, the pairs 1.21 us: DRAM.
    pairs = B * H * S * (S + 1) // 2
    elements = B * H * S * D
    return Derived(
        read=3 * elements * BF16,  # q, k, v
        write=elements * BF16,
        # Scale, maximum, subtraction and sum a pair, the division by the row's sum an element.
        fp32=4 * pairs + elements,
        sfu=pairs + B * H * S,  # an exponential a pair, a reciprocal a row
        tensor=4 * D * pairs,  # D multiply-adds for the score, D for the weighted sum of v
    )


def cross_entropy(T, V):
    # 4096 x 128256: 1.051 GB of logits, 313.4 us; 525 M exponentials take 125.6 us.
    # The copy to fp32 is no output, so it costs nothing.
    return Derived(
        read=T * V * BF16 + T * INT64,  # logits, targets
        write=T * FP32_BYTES,
        fp32=3 * T * V,  # maximum, subtraction, sum
        sfu=T * V + T,  # an exponential a logit, a logarithm a row
    )


def bias_gelu(M, N):
    # 16384 x 4096: 268.4 MB and 8 KB of bias, 80.1 us.
    return Derived(
        read=M * N * BF16 + N * BF16,  # x, bias
        write=M * N * BF16,
        # y = x + b; y/2 (1 + tanh(c (y + a y^3))): the sum, y^3 in two products, a multiply-add,
        # a product with c, the addition of 1, two products.
        fp32=9 * M * N,
        sfu=M * N,  # tanh
    )


def kernelbench():
    # 16 x 1024 rows of 2048, fp32: three tensors of 134.2 MB, 120.1 us.
    rows, features = 16 * 1024, 2048
    elements = rows * features
    return Derived(
        read=2 * elements * FP32_BYTES + 2 * features * FP32_BYTES,  # x, residual; weight, bias
        write=elements * FP32_BYTES,
        # x + residual; mean; centred, squared, summed; scaled, weighted, shifted.
        fp32=8 * elements,
        sfu=rows,  # a reciprocal root a row
    )


NATIVE = {
    derivation.__name__: derivation
    for derivation in (softmax, rmsnorm, matmul, causal_attention, cross_entropy, bias_gelu)
}


def shapes_of(path):
    """SHAPES as the file spells it, without importing it."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SHAPES":
            return ast.literal_eval(node.value)
    raise AssertionError(f"{path} has no SHAPES")


def cases():
    for name, derivation in NATIVE.items():
        path = EXAMPLES / f"{name}.py"
        for shape in shapes_of(path):
            label = "-".join([name, *(f"{size}={value}" for size, value in shape.items())])
            yield pytest.param(path, shape, derivation(**shape), id=label)
    path = EXAMPLES / "kernelbench" / "reference.py"
    yield pytest.param(path, None, kernelbench(), id="kernelbench")


every_example = pytest.mark.parametrize(("path", "shape", "derived"), list(cases()))


@functools.cache
def _bound(path, shape):
    return solkit.bound(str(path), device="h100", shape=None if shape is None else dict(shape))


def bound_of(path, shape):
    return _bound(path, None if shape is None else tuple(shape.items()))


def test_no_example_is_left_out():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(NATIVE)


@pytest.mark.quick(
    "softmax-M=8192-N=8192",
    "matmul-M=8192-N=8192-K=8192",
    "causal_attention-B=4-H=32-S=4096-D=64",
    "bias_gelu-M=8192-N=14336",
)
@every_example
def test_roofline(path, shape, derived):
    assert bound_of(path, shape).time_ms == pytest.approx(derived.roofline_ms, rel=5e-3)


@every_example
def test_bytes_and_tensor_operations_are_exact(path, shape, derived):
    bound = bound_of(path, shape)
    dram = next(resource for resource in bound.resources if resource.name == "dram")
    tensor = {
        pipe: flops for pipe, flops in bound.flops_by_pipe.items() if pipe.startswith("tensor.")
    }
    assert dram.amount == derived.read + derived.write
    assert tensor == ({"tensor.bf16": derived.tensor} if derived.tensor else {})


@every_example
def test_hard_bound_is_not_above_the_roofline(path, shape, derived):
    at = bound_of(path, shape).at
    assert 0 < at.hard_ms <= at.roofline_ms
    assert at.roofline_ms == pytest.approx(derived.roofline_ms, rel=5e-3)
