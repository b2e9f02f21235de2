"""What the data, the way inputs are made, or algebra leave of a problem, and control flow."""

from __future__ import annotations

import pytest

N, B = 64 * 32, 4  # elements of most inputs, bytes of one
ATTENTION = "R(1, 2, 64, 32); R(1, 2, 64, 32); R(1, 2, 64, 32)"
HEADS = 2 * 64 * 32  # elements of each operand
CAUSAL = 2 * 64 * 65 // 2  # pairs of both heads
FLASH = "torch.ops.aten._scaled_dot_product_flash_attention"
ROWS = "R(128, 2, 32); R(128, 2, 32); R(128, 2, 32); tensor([0, 32, 128], d=i32)"
PACKED = 2 * (32 * 33 + 96 * 97) // 2  # causal pairs of sequences of 32 and 96, of both heads

# name: (inputs, body, bytes read, written, hard bytes read, written, contraction operations)
TABLE = {
    # early exits behind a reduction: nothing is sure to be read
    "a norm beyond a clamp": (
        "R(64, 32)",
        "return a0.norm(dim=1).clamp(max=2)",
        None,
        None,
        0,
        256,
    ),
    "a variance below a limit": ("R(64, 32)", "return a0.var(1) < 1", None, None, 0, 64),
    "a place that is compared": ("R(64, 32)", "return a0.argmax(1) == 3", None, None, 0, 64),
    "a root of squares": ("R(64, 32)", "return (a0 * a0).sum(1).sqrt() > 5", None, None, 0, 64),
    "sums of both signs need all": ("R(64, 32)", "return a0.sum(1) > 0", None, None, B * N, 64),
    "a ReLU of the largest needs all": (
        "R(64, 32)",
        "return a0.amax(1).relu()",
        *(None, None, B * N, B * 64),
    ),
    "a threshold behind a sort": (
        "R(64, 32)",
        "return a0.sort(1).values[:, :1] < 0",
        *(None, None, 0, 64),
    ),
    "a count that becomes a truth": (
        "R(64, 32)",
        "return (a0 > 0).sum(1).bool()",
        *(None, None, 0, 64),
    ),
    # the way inputs are made
    "an outer product of two vectors": (
        "R(64, 1) * R(1, 32)",
        "return a0.sum(1)",
        *(None, None, 0, 256),
    ),
    "the square of a lower triangle": (  # symmetric, too: n (n + 1) (n + 2) / 6 multiply-adds
        "R(64, 64).tril()",
        "return a0 @ a0.T",
        *(B * 2080, B * 4096, 0, None, 2 * 64 * 65 * 66 // 6),
    ),
    "rows that an index sets to zero": (
        "R(64, 32).index_fill_(0, arange(16, 64), 0); R(32, 16)",
        "return a0 @ a1",
        *(B * (16 * 32 + 512), None, 0, None, 2 * 16 * 32 * 16),
    ),
    "rows copied into zeros": (
        "zeros(64, 32).index_copy_(0, arange(16), R(16, 32)); R(32, 16)",
        "return a0 @ a1",
        *(B * (16 * 32 + 512), None, 0, None, 2 * 16 * 32 * 16),
    ),
    "the largest of sorted rows": ("R(64, 32).sort(1)[0]", "return a0.amax(1)", None, None, 0, 256),
    "what no uniform number is": (
        "torch.rand(64, 32, device='cuda')",
        "return F.relu(a0 - 2)",
        *(None, None, 0, B * N),
    ),
    "copies of a column": (
        "R(64, 1).expand(64, 32).contiguous(); R(32, 16)",
        "return a0 @ a1",
        *(None, None, B * 512, None),
    ),
    "two triangles": (  # n (n + 1) (n + 2) / 6 multiply-adds, n (n + 1) / 2 elements each
        "R(64, 64).triu(); R(64, 64).triu()",
        "return a0 @ a1",
        *(2 * B * 2080, None, 0, None, 2 * 64 * 65 * 66 // 6),
    ),
    "rows that are set to zero": (
        "pad(R(64, 32)); R(32, 16)",
        "return a0 @ a1",
        *(B * (16 * 32 + 512), None, 0, None, 2 * 16 * 32 * 16),
    ),
    # gates and weights that may be next to zero
    "an exponential of a column": (
        "R(64, 32); R(64, 1)",
        "return a0 * a1.exp()",
        *(None, None, B * 64, B * N),
    ),
    "a gate that dies out": (
        "R(64, 32); R(64, 1)",
        "return a0 * F.silu(a1)",
        *(None, None, B * 64, B * N),
    ),
    "a softmax times values": (  # scores count, and neither values nor their product
        "R(64, 32); R(64, 32); R(64, 32)",
        "return (a0 @ a1.T).softmax(-1) @ a2",
        *(3 * B * N, None, 2 * B * N, None, 2 * 2 * 64 * 64 * 32),
    ),
    # changes of nothing
    "lists by 1 and by 2": (
        "R(64, 32); R(64, 32)",
        "torch._foreach_mul_([a0, a1], [1.0, 2.0])\nreturn a0, a1",
        *(B * N, B * N, B * N, B * N),
    ),
    "a way of 0": ("R(9); R(9)", "a0.lerp_(a1, 0.0)\nreturn a0", 0, 0, 0, 0),
    "rows added with a factor of 0": (
        "R(64, 32); R(64, 32)",
        "a0.index_add_(0, arange(64), a1, alpha=0)\nreturn a0",
        *(0, 0, 0, 0),
    ),
    "a product with a 1 that is a tensor": (
        "R(64, 32)",
        "a0.mul_(torch.ones((), device='cuda'))\nreturn a0",
        *(0, 0, 0, 0),
    ),
    "a sum that is written over a term": (
        "R(64, 32); R(64, 32)",
        "return torch.add(a0, a1, out=a0)",
        *(2 * B * N, B * N, 2 * B * N, B * N),
    ),
    # one key, one element
    "a causal query alone": (
        "R(1, 2, 1, 32); R(1, 2, 64, 32); R(1, 2, 64, 32)",
        "return F.scaled_dot_product_attention(a0, a1, a2, is_causal=True)",
        *(256, 256, 256, 256, 0),
    ),
    "a norm of single elements": (
        "R(64, 1); R(1)",
        "return F.layer_norm(a0, (1,), bias=a1)",
        *(4, 256, 4, 256),
    ),
    # rows without a gradient
    "ignored targets and the gradient": (  # 16 of 64 rows forwards and backwards
        "R(64, 32); R(48, 32); torch.where(arange(64) < 16, arange(64), -100)",
        "a0.requires_grad_()\nloss = F.cross_entropy(a0 @ a1.T, a2)\n"
        "return torch.autograd.grad(loss, a0)[0]",
        *(B * (16 * 32 + 48 * 32) + 8 * 64, B * N, None, None, 2 * 2 * 16 * 32 * 48),
    ),
    "losses that a mask leaves out": (  # rows, targets and weights of 16 of 64
        "R(64, 32); R(48, 32); I(48, 64); (arange(64) < 16) * R(64)",
        "return (F.cross_entropy(a0 @ a1.T, a2, reduction='none') * a3).sum()",
        *(B * (16 * 32 + 48 * 32) + (8 + 4) * 16, 4, None, None, 2 * 16 * 32 * 48),
    ),
    "rows of a norm that a mask leaves out": (  # 16 of 64
        "R(64, 32); (arange(64) < 16)[:, None] * R(64, 1)",
        "return F.layer_norm(a0, (32,)) * a1",
        *(B * (16 * 32 + 16), B * N, None, None),
    ),
    "a step of an embedding": (  # 8 rows of 64
        "R(64, 32); torch.randperm(64, device='cuda')[:8]; R(8, 32)",
        "a0.requires_grad_()\n"
        "g = torch.autograd.grad(F.embedding(a1, a0), a0, a2)[0]\n"
        "with torch.no_grad():\n    a0.sub_(g)\nreturn a0.detach()",
        *(2 * B * 256 + 64, B * 256, None, None),
    ),
    # few choices
    "rows by one of 8": (
        "R(64, 32); R(40, 8)",
        "return a0[a1.argmax(1)]",
        *(B * (8 * 32 + 320), B * 1280, None, None),
    ),
    "rows by a remainder of 4": (
        "R(64, 32); R(40, 16)",
        "return a0[a1.argmax(1) % 4]",
        *(B * (4 * 32 + 640), B * 1280, None, None),
    ),
    "one of 8 among 12": (  # the other columns of one-hot rows are zero: 8 experts
        "R(64, 16); R(16, 8); R(12, 16, 16)",
        "m = F.one_hot((a0 @ a1).argmax(1), 12)\n"
        "return sum(m[:, e, None] * (a0 @ a2[e]) for e in range(12))",
        *(B * (64 * 16 + 128 + 8 * 256), B * 1024, None, None),
    ),
    "choices that are counted": (  # 2 of 8 experts for one row
        "R(1, 16); R(16, 8); R(8, 16, 16)",
        "i = (a0 @ a1).topk(2).indices\no = torch.zeros_like(a0)\nfor e in range(8):\n"
        "    o = o + torch.where((i == e).sum(-1, keepdim=True) > 0, a0 @ a2[e], 0.0)\nreturn o",
        *(B * (16 + 128 + 2 * 256), B * 16, None, None),
    ),
    "rows that an expert was not chosen for": (  # each of 64 rows meets one of 4 experts
        "R(64, 16); R(16, 4); R(4, 16, 16)",
        "i = (a0 @ a1).argmax(-1)\n"
        "return sum((a0 @ a2[e]).masked_fill((i != e)[:, None], 0) for e in range(4))",
        *(None, None, None, None, 2 * 64 * 16 * (4 + 16)),
    ),
    "different remainders": (  # at the most 4
        "torch.randint(0, 1 << 40, (64,), device='cuda')",
        "return torch.unique(a0 % 4)",
        *(8 * 64, 8 * 4, None, None),
    ),
    # symmetry
    "the square of a Gram matrix": (
        "R(64, 32)",
        "a = a0 @ a0.T\nreturn a @ a",
        *(None, None, None, None, 2 * (64 * 65 // 2) * (32 + 64)),
    ),
    "a polynomial of a Gram matrix": (
        "R(64, 32)",
        "a = a0 @ a0.T\nreturn a @ (2 * a + 3 * a @ a)",
        *(None, None, None, None, 2 * (64 * 65 // 2) * (32 + 64 + 64)),
    ),
    "two Gram matrices do not commute; one order is a0 (a0.T (a1 a1.T))": (
        "R(64, 32); R(64, 32)",
        "return (a0 @ a0.T) @ (a1 @ a1.T)",
        *(None, None, None, None, 2 * (64 * 65 // 2) * 32 + 2 * 2 * 64 * 64 * 32),
    ),
    # attention's own operators
    "flash attention": (
        ATTENTION,
        f"return {FLASH}(a0, a1, a2, 0.0, True)[0]",
        *(3 * B * HEADS, B * HEADS, None, None, 4 * CAUSAL * 32),
    ),
    "packed sequences": (
        ROWS,
        "from torch.nn.attention.varlen import varlen_attn\n"
        "return varlen_attn(a0, a1, a2, a3, a3, 96, 96, window_size=(-1, 0))",
        *(3 * B * 128 * 64 + 12, B * 128 * 64, None, None, 4 * PACKED * 32),
    ),
    # control flow
    "a loop of three steps": (
        "R(64, 32)",
        "i = torch.zeros((), dtype=i64, device='cuda')\n"
        "step = lambda i, x: (i + 1, x.sin())\n"
        "return torch.while_loop(lambda i, x: i < 3, step, (i, a0))[1]",
        *(B * N, B * N, B * N, B * N),
    ),
    "a map over rows": (
        "R(64, 32)",
        "from torch._higher_order_ops.map import map\nreturn map(lambda x: x.exp(), a0)",
        *(B * N, B * N, B * N, B * N),
    ),
    # the order of products
    "a chain of einsum": (  # from the vector on
        "R(64, 64); R(64, 64); R(64)",
        "return torch.einsum('ij,jk,k->i', a0, a1, a2)",
        *(B * (2 * 4096 + 64), 256, None, None, 2 * 2 * 4096),
    ),
    # ignored targets
    "targets that are ignored": (  # 16 of 64 rows
        "R(64, 32); R(48, 32); torch.where(arange(64) < 16, arange(64), -100)",
        "return F.cross_entropy(a0 @ a1.T, a2)",
        *(None, None, None, None, 2 * 16 * 32 * 48),
    ),
}
SFU = {  # special functions
    "a softmax by its logarithm of sums": (
        "R(64, 32)",
        "s = torch.logsumexp(a0, -1, keepdim=True)\nreturn (a0 - s).exp(), s",
        N + 64,
    ),
    "a function of each score": (  # an exponential and a tanh a pair, a reciprocal a row
        ATTENTION,
        "from torch.nn.attention.flex_attention import flex_attention\n"
        "return flex_attention(a0, a1, a2, score_mod=lambda s, b, h, i, j: torch.tanh(s))",
        2 * 2 * 64 * 64 + 2 * 64,
    ),
}


def _padded(row):
    """Define `pad` for the rows that use it."""
    inputs, body, *rest = row
    return (inputs.replace("pad(", "(lambda x: (x[16:].zero_(), x)[1])("), body, *rest)


ROWS_OF_TABLE = {name: _padded(row) for name, row in TABLE.items()}


@pytest.fixture(scope="module")
def work_of(traced):
    return lambda name: traced(ROWS_OF_TABLE, name)


@pytest.mark.parametrize("name", TABLE)
def test_work_is_what_was_derived(work_of, name):
    read, written, hard_read, hard_written, *operations = TABLE[name][2:]
    work = work_of(name)
    amounts = {
        "read": (read, work.dram_read_bytes),
        "written": (written, work.dram_write_bytes),
        "hard read": (hard_read, work.hard_read_bytes),
        "hard written": (hard_written, work.hard_write_bytes),
    }
    assert {k: got for k, (want, got) in amounts.items() if want not in (None, got)} == {}
    assert not work.unmodelled
    contractions = [n for key, n in work.operations.items() if key.startswith("contraction.")]
    assert operations in ([], [sum(contractions)])
    assert sum(work.hard_operations.values()) <= sum(contractions)


@pytest.mark.parametrize("name", SFU)
def test_each_exponential_is_counted_once(traced, name):
    assert traced(SFU, name).operations["sfu"] == SFU[name][2]
