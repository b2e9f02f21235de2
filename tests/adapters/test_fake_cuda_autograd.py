"""Backward passes on fake tensors: which gradients, hooks and ops there are."""

from __future__ import annotations

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from solkit.roofline.work.program import trace


def cuda(*shape, **options):
    return torch.randn(*shape, device="cuda", **options)


def ops_of(run):
    return [op.name for op in trace(lambda: [leaf for leaf in run() if leaf is not None]).ops]


def test_a_bias_gets_the_sum_over_the_batch(in_child):
    def shapes():
        layer = nn.Linear(4, 2).cuda()
        layer(cuda(8, 4)).sum().backward()
        return [tuple(p.grad.shape) for p in layer.parameters()]

    assert in_child(shapes) == [(2, 4), (2,)]


def test_gradients_keep_the_dtype_of_what_they_are_of(in_child):
    def dtype():
        x = cuda(4, requires_grad=True, dtype=torch.bfloat16)
        with torch.autocast("cuda", dtype=torch.float16):
            (x.float() * 2.0).sum().backward()
        return str(x.grad.dtype)

    assert in_child(dtype) == "torch.bfloat16"


def test_arguments_that_are_no_tensors_get_no_gradient(in_child):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, factor, x, fixed, y):
            ctx.factor = factor
            return x * factor + fixed + y.sum()

        @staticmethod
        def backward(ctx, grad):
            return None, grad * ctx.factor, None, grad.sum().expand(5)

    def shapes():
        x, y = cuda(3, requires_grad=True), cuda(5, requires_grad=True)
        Scale.apply(2.0, x, cuda(3), y).sum().backward()
        return tuple(x.grad.shape), tuple(y.grad.shape)

    assert in_child(shapes) == ((3,), (5,))


def test_hooks_run_once_in_order_and_may_change_gradients(in_child):
    def run():
        seen = []
        x = cuda(3, requires_grad=True)
        y = x * 2
        y.retain_grad()
        removed = y.register_hook(lambda _: seen.append("removed"))
        y.register_hook(lambda grad: seen.append("inner") or grad[:1].expand(3))
        x.register_hook(lambda _: seen.append("leaf"))
        x.register_post_accumulate_grad_hook(lambda leaf: seen.append(tuple(leaf.grad.shape)))
        removed.remove()
        y.sum().backward()
        return seen, tuple(y.grad.shape)

    assert in_child(run) == (["inner", "leaf", (3,)], (3,))


def test_hooks_of_modules_see_both_gradients(in_child):
    def run():
        seen = []
        layer = nn.Linear(4, 2).cuda()
        layer.register_full_backward_hook(
            lambda _, into, out: seen.append((tuple(into[0].shape), tuple(out[0].shape)))
        )
        layer.register_full_backward_pre_hook(lambda _, out: seen.append(len(out)))
        layer(cuda(3, 4, requires_grad=True)).sum().backward()
        return seen

    assert in_child(run) == [1, ((3, 4), (3, 2))]


@pytest.mark.quick("<lambda>-shape4")
@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda x: torch.func.grad(lambda t: (t * t).sum())(x), (5,)),
        (lambda x: torch.func.jacrev(lambda t: t * t)(x), (5, 5)),
        (lambda x: torch.func.jacfwd(lambda t: t * t)(x), (5, 5)),
        (lambda x: torch.func.hessian(lambda t: (t**3).sum())(x), (5, 5)),
        (lambda x: torch.vmap(lambda t: t * 2)(x), (5,)),
        (lambda x: torch.autograd.functional.jacobian(lambda t: t * t, x), (5, 5)),
        (lambda x: torch.autograd.functional.hvp(lambda t: (t**3).sum(), x, x)[1], (5,)),
    ],
)
def test_transforms_of_functions(in_child, call, shape):
    assert in_child(lambda: tuple(call(cuda(5)).shape)) == shape


def test_a_batch_of_gradients_is_a_jacobian(in_child):
    def shape():
        x = cuda(4, requires_grad=True)
        seeds = torch.eye(4, device="cuda")
        return tuple(torch.autograd.grad(x**2, x, seeds, is_grads_batched=True)[0].shape)

    assert in_child(shape) == (4, 4)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_compute_twice(in_child, reentrant):
    def names():
        def run():
            x = cuda(4, requires_grad=True)
            y = checkpoint(lambda t: t.exp(), x, use_reentrant=reentrant)
            y.sum().backward()
            return [x.grad]

        return ops_of(run)

    assert in_child(names).count("aten.exp") == 2


def test_checkpoints_are_computed_again_once_for_all_that_they_kept(in_child):
    def names():
        def run():
            x = cuda(4, requires_grad=True)
            y = checkpoint(lambda t: t.exp().sin().cos() * t.tanh(), x, use_reentrant=False)
            y.sum().backward()
            first, x.grad = x.grad, None
            checkpoint(lambda t: t.erf().exp(), x, use_reentrant=False).sum().backward()
            return [first, x.grad]

        return ops_of(run)

    ops = in_child(names)
    assert (ops.count("aten.sin"), ops.count("aten.tanh"), ops.count("aten.erf")) == (3, 2, 2)


@pytest.mark.quick("GRU")
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_one_op_each_way(in_child, layer):
    def names():
        def run():
            module, x = layer(8, 16, num_layers=2).cuda(), cuda(5, 2, 8, requires_grad=True)
            module(x)[0].sum().backward()
            assert all(p.grad.shape == p.shape for p in module.parameters())
            return [x.grad]

        return [name for name in ops_of(run) if name.startswith("solkit.")]

    kind = {nn.LSTM: "lstm", nn.GRU: "gru", nn.RNN: "rnn_tanh"}[layer]
    assert in_child(names) == [f"solkit.{kind}", f"solkit.{kind}_backward"]


@pytest.mark.parametrize(("masked", "gradients"), [(False, 3), (True, 4)])
def test_attention_is_one_op_each_way(in_child, masked, gradients):
    def names():
        def run():
            q, k, v = (cuda(1, 2, n, 8, requires_grad=True) for n in (16, 32, 32))
            mask = cuda(16, 32, requires_grad=True) if masked else None
            F.scaled_dot_product_attention(q, k, v, mask).sum().backward()
            leaves = [t for t in (q, k, v, mask) if t is not None]
            assert all(t.grad.shape == t.shape for t in leaves)
            return [t.grad for t in leaves]

        program = trace(run)
        return [(op.name, len(op.outputs)) for op in program.ops if op.name.startswith("solkit.")]

    assert in_child(names) == [("solkit.attention", 1), ("solkit.attention_backward", gradients)]


def contracted(operations):
    """Operations of products; those before an exponential have a kind of their own."""
    return sum(n for kind, n in operations.items() if kind.startswith("contraction."))


def test_attention_backward_is_five_products_over_the_pairs(in_child):
    def operations():
        from solkit.roofline.work import work_of

        def run():
            q, k, v = (cuda(2, 3, 16, d, requires_grad=True) for d in (8, 8, 4))
            F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
            return [q.grad, k.grad, v.grad]

        return dict(work_of(run).operations)

    pairs = 2 * 3 * 16 * 17 // 2
    assert contracted(in_child(operations)) == 2 * pairs * (3 * 8 + 2 * 4)


@pytest.mark.quick("True-<lambda>1", "False-<lambda>1")
@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2),
        lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True),
    ],
)
@pytest.mark.parametrize("train", [True, False])
def test_transformers_take_no_fused_path(in_child, build, train):
    def names():
        module, x = build().cuda().train(train), cuda(2, 5, 16)
        padding = torch.zeros(2, 5, dtype=torch.bool, device="cuda")
        with torch.set_grad_enabled(train):
            return set(ops_of(lambda: [module(x, src_key_padding_mask=padding)]))

    result = in_child(names)
    assert "solkit.attention" in result
    assert not any("transformer" in name or "multi_head" in name for name in result)


@pytest.mark.quick("<lambda>-2080", "None-4096")
@pytest.mark.parametrize(
    ("mask", "pairs"),
    [
        (lambda _b, _h, i, j: i >= j, 64 * 65 // 2),
        (lambda _b, _h, i, j: (i >= j) & (i - j < 8), 64 * 8 - 8 * 7 // 2),
        (lambda _b, _h, i, j: i // 16 == j // 16, 4 * 16 * 16),
        (None, 64 * 64),
    ],
)
def test_flex_attention_counts_the_pairs_of_its_mask(in_child, mask, pairs):
    def operations():
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        from solkit.roofline.work import work_of

        def run():
            q = cuda(1, 2, 64, 16)
            block = None
            if mask is not None:
                block = create_block_mask(mask, None, None, 64, 64, device="cuda")
            return [flex_attention(q, q, q, block_mask=block)]

        return dict(work_of(run).operations)

    assert contracted(in_child(operations)) == 2 * pairs * 2 * (16 + 16)
