"""What a correct kernel must read, write and multiply; expectations are derived by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from solkit.measure.sensitivity.needed import lower_bound, measure_needed

ALL = lower_bound(64, 64, 1e-6 / 2)  # of a tensor, where all of 64 sampled sectors count
N = 32


def randn(*shape, d=torch.float32):
    return torch.randn(*shape, dtype=d)


def permuted():
    return [randn(N, 32), torch.randperm(N)]


def symmetric():
    half = randn(N, N)
    return [half + half.T, randn(N, N)]


def twice():
    x = randn(N, 32)
    return [x, x.clone()]


def two_four():
    """Two zeros in each four, in places that differ from draw to draw."""
    x = randn(N * 8, 4)
    return [x.masked_fill(x.abs() < x.abs().sort(1).values[:, 2:3], 0.0).view(N, 32), randn(32, N)]


DENSE = {
    "a product": (lambda: [randn(N, N), randn(N, N)], torch.matmul),
    "a product of positive numbers": (lambda: [torch.rand(N, N), torch.rand(N, N)], torch.matmul),
    "a product in bf16": (
        lambda: [randn(N, N, d=torch.bfloat16), randn(N, N, d=torch.bfloat16)],
        torch.mm,
    ),
    "a sum of many": (lambda: [randn(1 << 14), randn(1 << 14)], lambda x, y: (x + y).sum()),
    "a mean of many positive ones": (
        lambda: [torch.rand(1 << 14), torch.rand(1 << 14)],
        lambda x, y: (x + y).mean(),
    ),
    "an elementwise sum": (lambda: [randn(N, N), randn(N, N)], torch.add),
    "a softmax": (lambda: [randn(N, N), randn(N, N)], lambda x, y: (x + y).softmax(-1)),
    "a norm": (lambda: [randn(N, N), randn(N, N)], lambda x, y: F.layer_norm(x * y, (N,))),
    "the largest of each row": (
        lambda: [randn(N, N), randn(N, N)],
        lambda x, y: (x.amax(1), y.amin(1)),
    ),
    "a convolution": (lambda: [randn(2, 4, 8, 8), randn(4, 4, 3, 3)], F.conv2d),
    "attention": (
        lambda: [randn(1, 2, N, 16) for _ in range(2)],
        lambda q, k: F.scaled_dot_product_attention(q, k, k),
    ),
    "a gather of permuted rows": (permuted, lambda x, i: x[i]),
    "bytes": (
        lambda: [torch.randint(-99, 99, (N, 64), dtype=torch.int8) for _ in range(2)],
        lambda x, y: (x.int() + y.int()).sum(1),
    ),
    "a transposed argument": (lambda: [randn(N, N).T, randn(N, N)], torch.matmul),
}


@pytest.mark.quick("a product", "a softmax", "a norm", "bytes")
@pytest.mark.parametrize("name", DENSE)
def test_all_of_dense_inputs_is_needed(measure, name):
    make, reference = DENSE[name]
    measurement = measure(make, reference)
    total = sum(x.numel() * x.element_size() for x in make())
    assert ALL * total * 0.99 <= measurement.read_bytes <= total


def halves():
    whole = randn(N, 2 * N)
    return [whole[:, :N], whole[:, N:]]


VIEWS = {
    "columns of a larger tensor": (lambda: [randn(N, 64)[:, :40]], lambda x: x * 2, N * 40 * 4),
    "an expanded row": (lambda: [randn(1, N).expand(N, N)], lambda x: x * 2, N * 4),
    "halves of one tensor": (halves, lambda x, y: x + y, 2 * N * N * 4),
    "one tensor twice": (lambda: [randn(N, N)] * 2, lambda x, y: x * y, N * N * 4),
    "complex numbers": (
        lambda: [torch.randn(N, N, dtype=torch.complex64)],
        lambda x: x * 2,
        N * N * 8,
    ),
    "a misaligned slice": (lambda: [randn(N * N)[3:]], lambda x: x * 2, (N * N - 3) * 4),
}


@pytest.mark.quick("an expanded row", "one tensor twice", "a misaligned slice")
@pytest.mark.parametrize("name", VIEWS)
def test_each_element_of_a_view_counts_once(measure, name):
    make, reference, size = VIEWS[name]
    assert 0.7 * size < measure(make, reference, samples=128).read_bytes <= size


FREE = {
    "a ReLU of what is never positive": (lambda: [randn(N, N)], lambda x: (-x.relu()).relu()),
    "the mean of a softmax": (lambda: [randn(N, N)], lambda x: x.softmax(-1).mean(-1)),
    "a sigmoid above 2": (lambda: [randn(N, N)], lambda x: x.sigmoid() > 2),
    "the zeroth power": (lambda: [randn(N, N)], lambda x: x**0),
    "a clamp beyond the range of the inputs": (
        lambda: [torch.rand(N, N)],
        lambda x: x.clamp(2, 3),
    ),
    "a threshold that no input reaches": (lambda: [randn(N, N)], lambda x: (x - 100).relu()),
    "any of many": (lambda: [randn(N, 4 * N)], lambda x: (x > 0).any(1)),
    "all of many": (lambda: [randn(N, 4 * N)], lambda x: (x > 0).all(1)),
    "sorted indices": (
        lambda: [torch.randint(0, 9, (N,)).cumsum(0)],
        lambda x: x.diff().sum(),
    ),
    "a mask that is always the same": (
        lambda: [torch.ones(N, N, dtype=torch.bool).tril()],
        lambda m: m.float().sum(1),
    ),
    "padding that starts at a length": (
        lambda: [torch.arange(N) < torch.randint(1, N, (N, 1))],
        lambda m: m.float().sum(1),
    ),
    "padding of which some draws have none": (
        lambda: [torch.arange(4) < torch.randint(1, 6, (1, 1))],
        lambda m: m.float().sum(1),
    ),
    "an order that does not matter": (lambda: [torch.randperm(N * N)], lambda i: i.sum()),
    "the lower of two ordered inputs": (
        lambda: (lambda x: [x, x + torch.rand(N, N)])(randn(N, N)),
        lambda low, high: torch.maximum(low, high) - high,
    ),
}


@pytest.mark.quick(
    "a ReLU of what is never positive",
    "a clamp beyond the range of the inputs",
    "a mask that is always the same",
    "padding of which some draws have none",
)
@pytest.mark.parametrize("name", FREE)
def test_what_changes_no_output_is_not_needed(measure, name):
    assert measure(*FREE[name]).read_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize("valid", [0.25, 0.05])
def test_masked_rows_are_not_needed(measure, valid):
    def make():
        return [randn(4, 64, 32), torch.rand(4, 64) < valid]

    def masked_mean(x, keep):
        return (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True).clamp(min=1)

    torch.manual_seed(0)
    keep = make()[1]
    touched = int(keep.sum()) * 32 * 4 + keep.numel()
    results = measure(make, masked_mean, samples=256).read_bytes
    assert results <= touched
    assert valid < 0.1 or results > 0.3 * touched  # of few, a lower bound on samples leaves little


@pytest.mark.slow
def test_experts_that_are_not_chosen_are_not_needed(measure):
    """Two of 64 for one token: KernelBench-like, as a kernel that was called impossible does it."""

    def make():
        return [randn(16), randn(16, 64), randn(64, 16, 8)]

    def reference(x, router, experts):
        best = (x @ router).topk(2)
        gates = torch.zeros(64).scatter(0, best.indices, best.values.softmax(0))
        return (gates[:, None] * torch.einsum("d,edf->ef", x, experts)).sum(0)

    measurement = measure(make, reference, samples=256)
    assert measurement.read_bytes <= (16 + 16 * 64 + 2 * 16 * 8) * 4
    largest = max(measurement.products, key=lambda product: product.flops)
    assert largest.flops == 2 * 64 * 16 * 8
    assert largest.needed < largest.flops / 8


def test_rows_that_no_index_names_are_not_needed(measure):
    def make():
        return [randn(256, 16), torch.randint(0, 256, (64,))]

    torch.manual_seed(0)
    rows = make()[1].unique().numel()
    results = measure(make, lambda table, i: table[i], samples=128).read_bytes
    assert 0.3 * rows * 64 < results <= rows * 64 + 64 * 8


@pytest.mark.slow
def test_equal_and_mirrored_elements_count_once(measure):
    whole = measure(lambda: [randn(N, N), randn(N, N)], torch.matmul, samples=128).read_bytes
    half = measure(symmetric, torch.matmul, samples=128).read_bytes
    assert half <= (N * (N + 1) // 2 + N * N + 8 * N) * 4 < whole
    assert measure(twice, torch.add, samples=128).read_bytes <= N * 32 * 4
    repeated = measure(lambda: [randn(N, 16).repeat(2, 1)], lambda x: x * 2, samples=128)
    assert repeated.read_bytes <= N * 16 * 4
    negated = measure(lambda: (lambda x: [x, -x])(randn(N, N)), lambda x, y: x - y, samples=128)
    assert negated.read_bytes <= N * N * 4


@pytest.mark.slow
def test_zeros_that_the_inputs_have_stay(measure):
    triangle = measure(lambda: [randn(N, N).tril(), randn(N, N)], torch.matmul, samples=128)
    touched = sum((row + 8) // 8 * 32 for row in range(N)) + N * N * 4
    assert triangle.read_bytes <= touched
    blocks = measure(
        lambda: [torch.block_diag(*randn(4, 8, 8)), randn(N, N)],
        torch.matmul,
        samples=128,
    )
    assert blocks.read_bytes <= N * 8 * 4 + N * N * 4


def test_the_second_matrix_behind_a_relu_of_one_row(measure):
    def make():
        return [randn(1, 64), randn(64, 64), randn(64, 64)]

    torch.manual_seed(0)
    x, a, _ = make()
    live = int(((x @ a) > 0).sum())
    measurement = measure(make, lambda x, a, b: (x @ a).relu() @ b, samples=128)
    assert measurement.read_bytes <= (64 + 64 * 64 + live * 64) * 4
    first, second = measurement.products
    assert (first.flops, first.needed) == (2 * 64 * 64, 2 * 64 * 64)
    assert second.needed <= 2 * live * 64 < second.flops


WRITES = {
    "a new output": (lambda: [randn(N, N)], lambda x: x * 2, lambda _: N * N * 4),
    "an expanded output": (lambda: [randn(N, 1)], lambda x: (x * 2).expand(N, N), lambda _: N * 4),
    "an argument that is handed back": (lambda: [randn(N, N)], lambda x: x, lambda _: 0),
    "a ReLU in place": (lambda: [randn(N, N)], torch.relu_, lambda x: int((x < 0).sum()) * 4),
    "a threshold in place": (
        lambda: [randn(N, N)],
        lambda x: x.masked_fill_(x > 1, 0.0),
        lambda x: int((x > 1).sum()) * 4,
    ),
    "rows that are filled": (
        lambda: [randn(N, N)],
        lambda x: x.index_fill_(0, torch.tensor([1, 5, 5]), 0.0),
        lambda _: 2 * N * 4,
    ),
    "zeros written over zeros": (
        lambda: [randn(N, N).relu()],
        lambda x: x.clamp_(min=0),
        lambda _: 0,
    ),
    "a sum in place": (lambda: [randn(N, N)], lambda x: x.add_(1), lambda _: N * N * 4),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_must_be_written(measure, name):
    make, reference, expected = WRITES[name]
    torch.manual_seed(0)
    most = expected(*make())
    # of what differs, a little differs by less than the tolerance
    assert 0.95 * most <= measure(make, reference, samples=8).write_bytes <= most


def test_the_inputs_hold_their_values_afterwards(measure):
    torch.manual_seed(0)
    kept = [randn(N, N), torch.rand(N) > 0.5]
    inputs = [x.clone() for x in kept]
    measure(lambda: inputs, lambda x, m: x.masked_fill_(m, 1.0), samples=16)
    assert all(torch.equal(a, b) for a, b in zip(kept, inputs))


def test_fewer_samples_give_a_lower_bound(measure):
    def read_bytes(**options):
        return measure(lambda: [randn(N, N)], lambda x: x * 2, **options).read_bytes

    assert read_bytes(samples=8) < read_bytes(samples=64) <= N * N * 4


def test_no_time_for_other_draws_is_no_evidence():
    x = randn(N, N)
    assert measure_needed(lambda: [x * 2], [x], lambda _: [randn(N, N)], limit_s=0.0) is None


def test_products_of_two_nonzeros(measure):
    torch.manual_seed(0)
    x, y = two_four()
    pairs = int(((x != 0).double() @ (y != 0).double()).sum())
    (product,) = measure(two_four, torch.matmul).products
    assert product.flops == 2 * N * 32 * N
    assert product.needed == 2 * pairs


def test_scores_below_the_range_of_exp_weigh_no_values(measure):
    def make():
        return [randn(1, 1, N, 16), randn(1, 1, N, 16), randn(1, 1, N, 16)]

    def late(q, k, v):
        bias = torch.where(torch.arange(N) < N // 2, 0.0, -1e4).expand(N, N)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)

    (selected_product,) = [
        p for p in measure(make, late, samples=8).products if p.flops == 4 * N * N * 16
    ]
    assert selected_product.needed <= selected_product.flops * 3 // 4


def test_a_factor_that_changes_nothing_has_no_needed_products(measure):
    measurement = measure(lambda: [randn(N, N), randn(N, N)], lambda a, b: (a @ b - 1e3).relu())
    assert measurement.read_bytes == 0
    assert [product.needed for product in measurement.products] == [0]


def test_a_reference_that_fails_on_changed_inputs_needs_nothing_of_them(measure):
    first = {}

    def picky(x):
        first.setdefault("sum", x.sum())
        if x.sum() != first["sum"]:
            raise ValueError("not what I was written for")
        return x * 2

    assert measure(lambda: [randn(N, N)], picky).read_bytes == 0
