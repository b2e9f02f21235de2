"""Plans of small graphs: orders and forms derived by hand, and code that runs equal."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

from solkit.roofline.best.checking import compiled, equal_sizes
from solkit.roofline.best.graph import NoPlanError
from solkit.roofline.best.search import derive
from solkit.roofline.best.tracing import trace_graph


def derived(reference, *shapes, dtype=torch.float32):
    """The plan of a function of tensors `a`, `b`, ..., traced at shapes."""
    mode = torch._subclasses.FakeTensorMode()
    with mode:
        tensors = [torch.empty(shape, dtype=dtype) for shape in shapes]
        inputs = dict(zip("abcdefgh", tensors))
        graph = trace_graph(lambda: [reference(*tensors)], inputs)
    return derive(graph)


def equal(derivation):
    """Run plan and reference at three shapes of coprime sizes; the code at the traced sizes."""
    assert len(equal_sizes(derivation)) == 3
    return derivation.code()


def test_a_chain_is_multiplied_from_its_thin_end():
    code = equal(derived(lambda a, b, v: (a @ b) @ v, (64, 64), (64, 64), (64, 1)))
    assert code.index("b, c") < code.index("a, t")


def test_a_sum_of_a_product_is_a_product_with_a_sum():
    code = equal(derived(lambda x, w: (x @ w).sum(1), (64, 64), (64, 64)))
    assert "b.sum(1)" in code


def test_the_mean_of_a_linear_layer_takes_the_mean_of_rows_first():
    code = equal(derived(lambda x, w, b: F.linear(x, w, b).mean(0), (512, 64), (64, 64), (64,)))
    assert "a.sum(0)" in code
    assert f"* {1 / 512!r}" in code


def test_a_common_factor_is_taken_out():
    derivation = derived(lambda x, v, w: x @ v + 2 * (x @ w), *[(64, 64)] * 3)
    assert equal(derivation).count("einsum") == 1
    assert "factor a out of the sum" in derivation.steps


@pytest.mark.parametrize("parts", [[40, 24], 40])
def test_parts_of_a_split_product_are_multiplied_from_the_thin_end(parts):
    """Keys and values of 512 tokens come from one product, and one query meets them."""

    def reference(tokens, weight, query):
        keys, values = (tokens @ weight).split(parts, -1)
        return (query @ keys.T).tanh() @ values

    code = equal(derived(reference, (512, 32), (32, 64), (1, 40)))
    assert [result for result in re.findall(r'->(\w*)"', code) if len(result) > 1] == []


def test_joined_keys_are_multiplied_part_by_part():
    """Half of each key comes from a product, and one query meets them."""

    def reference(tokens, weight, query):
        narrow, others = tokens.split([32, 8], -1)
        return (query @ torch.cat([(narrow @ weight)[:, :24], others], -1).T).tanh()

    code = equal(derived(reference, (512, 40), (32, 48), (1, 32)))
    assert [result for result in re.findall(r'->(\w*)"', code) if len(result) > 1] == []


def test_joined_queries_meet_joined_keys_part_by_part():
    """Latent attention of one query: keys of 24 numbers from the cache, and 8 of their places.

    Keys and values of 512 tokens are never made; nor do parts meet that lie elsewhere.
    """

    def reference(cache, places, weight, query, query_places):
        keys, values = (cache @ weight).split([24, 16], -1)
        whole = torch.cat([query, query_places], -1)
        return F.scaled_dot_product_attention(whole, torch.cat([keys, places], -1), values)

    shapes = (512, 32), (512, 8), (32, 40), (1, 24), (1, 8)
    code = equal(derived(reference, *shapes))
    assert [result for result in re.findall(r'->(\w*)"', code) if len(result) > 1] == []
    assert "F.pad" not in code
    assert code.count("einsum") == 6  # one takes the keys' part of the weight


def test_a_repeated_product_is_made_once():
    code = equal(
        derived(lambda x, w: torch.cat([torch.tanh(x @ w), x @ (w * 2)], -1), (64, 64), (64, 64))
    )
    assert code.count("einsum") == 1


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_the_mean_of_a_convolution_counts_taps(stride, padding):
    derivation = derived(
        lambda x, w: F.conv2d(x, w, stride=stride, padding=padding).mean((2, 3)),
        (4, 16, 40, 40),
        (32, 16, 3, 3),
    )
    assert "conv" not in equal(derivation)


@pytest.mark.parametrize("options", [{"stride": 2, "padding": 1, "output_padding": 1}, {}])
def test_the_mean_of_a_transposed_convolution_counts_taps(options):
    derivation = derived(
        lambda x, w: F.conv_transpose2d(x, w, **options).mean((2, 3)),
        (4, 16, 40, 40),
        (16, 32, 3, 3),
    )
    assert "conv" not in equal(derivation)


def test_convolutions_of_the_same_data_add_their_weights():
    derivation = derived(
        lambda x, v, w: F.conv2d(x, v, padding=1) + F.conv2d(x, w, padding=1),
        (4, 16, 40, 40),
        (32, 16, 3, 3),
        (32, 16, 3, 3),
    )
    assert equal(derivation).count("F.conv2d") == 1


def test_a_depthwise_convolution_runs_with_other_channels():
    derivation = derived(
        lambda x, w: F.avg_pool2d(F.conv2d(x, w, padding=3, groups=16), 3),
        (4, 16, 42, 42),
        (16, 1, 7, 7),
    )
    assert "groups=16" in equal(derivation)


def test_causal_linear_attention_keeps_running_sums():
    code = equal(derived(lambda q, k, v: (q @ k.mT).tril() @ v, *[(4, 512, 8)] * 3))
    assert "cumsum" in code


def test_a_quantisation_is_no_copy():
    with pytest.raises(NoPlanError):
        derived(
            lambda x, w, v: (x @ w).to(torch.float8_e4m3fn).float() @ v, (64, 64), (64, 64), (64, 1)
        )


def test_a_pooled_convolution_is_a_strided_one_of_box_sums():
    code = equal(
        derived(
            lambda x, w: F.avg_pool2d(F.conv2d(x, w, padding=1), 4),
            (4, 16, 64, 64),
            (64, 16, 3, 3),
        )
    )
    assert "stride=(4, 4)" in code


def test_a_convolution_of_upsampled_data_is_four_smaller_ones():
    code = equal(
        derived(
            lambda x, w: F.conv2d(F.interpolate(x, scale_factor=2), w, padding=1),
            (4, 32, 32, 32),
            (32, 32, 3, 3),
        )
    )
    assert code.count("F.conv2d") == 4  # phases of 2 x 2 taps


def test_a_pooled_upsampling_is_nothing():
    code = equal(
        derived(lambda x: F.avg_pool2d(F.interpolate(x, scale_factor=4), 4), (2, 4, 16, 16))
    )
    assert "upsample" not in code
    assert "pool" not in code
    assert ".clone()" in code  # a tensor of its own


def test_a_matrix_power_of_a_vector_is_products_with_vectors():
    code = equal(derived(lambda a, v: torch.linalg.matrix_power(a, 8) @ v, (64, 64), (64, 1)))
    assert code.count('"ab,b->a"') == 8


def test_an_inverse_before_a_product_is_a_solution():
    code = equal(derived(lambda a, v: torch.linalg.inv(a) @ v, (64, 64), (64, 3)))
    assert "torch.linalg.solve(a, " in code
    assert "inv" not in code


def test_an_inverse_behind_a_product_is_a_solution_of_the_transposed_system():
    code = equal(derived(lambda a, v: v @ torch.linalg.inv(a), (64, 64), (3, 64)))
    assert "torch.linalg.solve(a.mT, " in code


def test_the_determinant_of_a_product_needs_no_product():
    code = equal(derived(lambda a, b: torch.linalg.slogdet(a @ b)[1], (64, 64), (64, 64)))
    assert code.count("slogdet") == 2
    assert "mm" not in code


def test_a_triangle_of_ones_is_a_running_sum():
    code = equal(derived(lambda x: torch.ones(64, 64).tril() @ x, (64, 64)))
    assert "cumsum" in code


@pytest.mark.parametrize("diagonal", [-2, -1, 1, 3])
@pytest.mark.parametrize("shape", [(64, 48), (48, 64)])
def test_running_sums_start_and_end_where_the_diagonal_says(diagonal, shape):
    lower = derived(lambda x: torch.ones(shape).tril(diagonal) @ x, (shape[1], 32))
    upper = derived(lambda x: torch.ones(shape).triu(diagonal) @ x, (shape[1], 32))
    assert "cumsum" in equal(lower)
    assert "cumsum" in equal(upper)


def test_softmax_sums_to_one():
    code = equal(derived(lambda x: x.softmax(-1).mean(-1), (64, 64)))
    assert f"{1 / 64!r}" in code
    assert "softmax" not in code


def test_what_cancels_is_gone():
    code = equal(derived(lambda x: torch.log(x.exp().sum(-1)) - torch.logsumexp(x, -1), (64, 64)))
    assert "torch.zeros" in code


def test_a_squared_distance_is_one_product():
    code = equal(derived(lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1), (64, 64), (64, 64)))
    assert '"ab,cb->ac"' in code


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        (lambda x, w: torch.relu(x @ w), "no linear part"),
        (lambda x, w: (x.bernoulli() @ w).sum(1), "bernoulli"),
        (lambda x, w: (x.add_(1) @ w).sum(1), "in place"),
    ],
)
def test_programs_without_a_plan_say_why(reference, reason):
    with pytest.raises(NoPlanError, match=reason):
        derived(reference, (64, 64), (64, 64)).code()


def test_a_wrong_plan_is_refused():
    derivation = derived(lambda x, w: (x @ w).sum(1), (64, 64), (64, 64))

    class Wrong:
        graph, traced_code = derivation.graph, derivation.traced_code
        smaller_sizes, input_shapes = derivation.smaller_sizes, derivation.input_shapes

        @staticmethod
        def code(sizes):
            return derivation.code(sizes).replace("b.sum(1)", "b.sum(1) * 1.00001")

    with pytest.raises(NoPlanError, match="differed"):
        equal_sizes(Wrong)


def test_plans_run_as_they_are_shown():
    derivation = derived(lambda x, w: (x @ w).sum(1), (6, 5), (5, 7))
    x, w = torch.randn(6, 5), torch.randn(5, 7)
    (result,) = compiled(derivation.code(), "plan")(x, w)
    torch.testing.assert_close(result, (x @ w).sum(1))
