"""What the hard bound leaves out where the data may decide, and what it keeps."""

from __future__ import annotations

import pytest

N, B = 64 * 32, 4  # elements of most inputs, bytes of one

# name: (inputs, body, hard bytes read, hard bytes written, hard contraction operations)
TABLE = {
    # factors that may be zero
    "a masked mean reads the mask": (
        "R(4, 64, 32); R(4, 64) > 1.5",
        "return (a0 * a1[..., None]).sum(1) / a1.sum(1, keepdim=True)",
        *(4 * 64, B * 4 * 32, 0),
    ),
    "two of 64 experts for one token": (  # any two, so the logits alone are sure
        "R(32); R(32, 64); R(64, 32, 16)",
        "best = (a0 @ a1).topk(2)\n"
        "gates = torch.zeros(64, device='cuda').scatter(0, best.indices, best.values.softmax(0))\n"
        "return (gates[:, None] * torch.einsum('d,edf->ef', a0, a2)).sum(0)",
        *(B * (32 + 32 * 64), B * 16, 0),
    ),
    "a product that a gate of zero removes": (
        "R(64, 32); R(32, 48); zeros(1)",
        "return (a0 @ a1) * a2",
        *(0, B * 64 * 48, 0),
    ),
    "a product before a norm with a weight of zeros": (
        "R(64, 48); R(64, 32); R(32, 48); zeros(48)",
        "return a0 + F.layer_norm(a1 @ a2, (48,), a3)",
        *(B * 64 * 48, B * 64 * 48, 0),
    ),
    "a bias of zeros removes nothing": (
        "R(64, 32); R(48, 32); zeros(48)",
        "return F.linear(a0, a1, a2)",
        *(B * (N + 48 * 32), B * 64 * 48, 2 * N * 48),
    ),
    "a float mask made of a comparison": (
        "R(64, 32); R(64, 32)",
        "return a0 * (a1 > 0).float()",
        *(B * N, B * N, 0),
    ),
    "one-hot rows select rows of a table": (
        "I(32, 64); R(32, 16)",
        "return F.one_hot(a0, 32).float() @ a1",
        *(8 * 64, B * 64 * 16, 0),
    ),
    "a triangle of a factor": (
        "R(64, 64); R(64, 32)",
        "return a0.tril() @ a1",
        *(0, B * N, 0),
    ),
    "a ReLU of one row leaves rows of the next weight": (
        "R(1, 32); R(32, 48); R(48, 16)",
        "return F.relu(a0 @ a1) @ a2",
        *(B * (32 + 32 * 48), B * 16, 2 * 32 * 48 + 2 * 48 * 16),
    ),
    "a ReLU of many rows needs all of it": (
        "R(64, 32); R(32, 48); R(48, 16)",
        "return F.relu(a0 @ a1) @ a2",
        *(B * (64 * 32 + 32 * 48 + 48 * 16), B * 64 * 16, 2 * 64 * 48 * (32 + 16)),
    ),
    "attention with a mask that is an input": (
        "R(1, 2, 64, 32); R(1, 2, 64, 32); R(1, 2, 64, 32); R(64, 64) > 0",
        "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=a3)",
        *(64 * 64, B * 2 * 64 * 32, 0),
    ),
    "scores with a bias that may be minus infinity": (
        "R(64, 64); R(64, 64); R(64, 32)",
        "return (a0 + a1).softmax(-1) @ a2",
        *(2 * B * 64 * 64, B * N, 0),
    ),
    # every function that is zero at minus infinity, keeps zeros, or flattens out does the same
    "powers of two of masked scores": (
        "R(64, 64); R(64, 64) > 0; R(64, 32)",
        "return torch.exp2(a0.masked_fill(a1, -torch.inf)) @ a2",
        *(64 * 64, B * N, 0),
    ),
    "a softplus of masked scores": (
        "R(64, 64); R(64, 64) > 0; R(64, 32)",
        "return F.softplus(a0.masked_fill(a1, -torch.inf)) @ a2",
        *(64 * 64, B * N, 0),
    ),
    "scores with the logarithm of a mask": (
        "R(64, 64); R(64, 64) > 0; R(64, 32)",
        "return (a0 * 2 + torch.log(a1.float())).softmax(-1) @ a2",
        *(B * 64 * 64 + 64 * 64, B * N, 0),
    ),
    "an activation of a triangle": (
        "R(64, 64); R(64, 32)",
        "return F.gelu(a0.tril()) @ a1",
        0,
        B * N,
        0,
    ),
    "a triangle turned over": (
        "R(64, 64); R(64, 32)",
        "return a0.tril().flip(0) @ a1",
        0,
        B * N,
        0,
    ),
    "a convolution with a masked kernel": (
        "R(2, 4, 8, 8); R(4, 4, 3, 3) > 0",
        "return F.conv2d(a0, a1.float())",
        *(4 * 4 * 9, B * 2 * 4 * 6 * 6, 0),
    ),
    "a gradient where its function is flat": (
        "R(64, 32); R(64, 32)",
        "return torch.ops.aten.threshold_backward(a0, a1, 0)",
        *(B * N, B * N, 0),
    ),
    "a sample of an image at points": (
        "R(1, 4, 8, 8); R(1, 64, 64, 2).tanh()",
        "return F.grid_sample(a0, a1, align_corners=False)",
        *(B * 64 * 64 * 2, B * 4 * 64 * 64, 0),
    ),
    "rows of a table by an index that holds zeros": (  # zeros of the index are none of the rows
        "R(64, 32); arange(64); R(32, 48)",
        "a1[0] = 0\nreturn a0[a1] @ a2",
        *(B * (64 * 32 + 32 * 48), B * 64 * 48, 0),
    ),
    "an argument that is changed in place": (  # its product was followed without an end
        "R(64, 64); R(64, 32)",
        "return a0.relu_() @ a1",
        *(B * (64 * 64 + 64 * 32), B * N, 0),
    ),
    "what is scaled in place has no zeros by that": (
        "R(64, 64); R(64, 32)",
        "x = a0.clone()\nx[1:].mul_(2)\nreturn x @ a1",
        *(B * (64 * 64 + 64 * 32), B * N, 0),
    ),
    "an interpolation by a mask": (
        "R(64, 32); R(64, 32); R(64, 32) > 0",
        "return torch.lerp(a0, a1, a2.float())",
        *(N, B * N, 0),
    ),
    # arguments that are made with zeros, or are always the same
    "a triangle as an argument": ("R(64, 64).tril(); R(64, 32)", "return a0 @ a1", 0, None, 0),
    "blocks as an argument": (
        "torch.block_diag(*R(4, 8, 8)); R(32, 32)",
        "return a0 @ a1",
        *(0, None, 0),
    ),
    "a padded argument": ("F.pad(R(60, 64), (0, 0, 0, 4)); R(64, 9)", "return a0 @ a1", 0, None, 0),
    "rows of zeros behind others": (
        "torch.cat((R(60, 64), zeros(4, 64))); R(64, 9)",
        "return a0 @ a1",
        *(0, None, 0),
    ),
    "zeros of which a part is filled": (
        "zeros(64, 64).index_copy_(0, arange(9), R(9, 64)); R(64, 9)",
        "return a0 @ a1",
        *(0, None, 0),
    ),
    "a mask of drawn zeros and ones": (
        "I(2, 64, 32).float(); R(64, 32)",
        "return a0 * a1",
        *(0, None, 0),
    ),
    "a causal mask as an argument": (
        "R(64, 64); causal(64)",
        "return a0.masked_fill(~a1, -torch.inf).softmax(-1)",
        *(0, None, 0),
    ),
    "weights of ones": (
        "R(64, 32); ones(32)",
        "return F.rms_norm(a0, (32,), a1)",
        *(B * N, None, 0),
    ),
    "zeros that are all drawn anew": (
        "zeros(64, 64).normal_(); R(64, 9)",
        "return a0 @ a1",
        *(B * 64 * 73, None, 2 * 64 * 64 * 9),
    ),
    "drawn numbers, converted and scaled": (
        "(R(64, 64) * 0.1 + 1).to(bf16); I(99, 64, 9).to(bf16)",
        "return a0 @ a1",
        *(2 * 64 * 73, None, 2 * 64 * 64 * 9),
    ),
    # in-place writes
    "masked_fill_": ("R(64, 32); R(64, 32) > 0", "a0.masked_fill_(a1, 0)\nreturn a0", None, 0, 0),
    "x[x > 4] = 0": ("R(64, 32)", "a0[a0 > 4] = 0\nreturn a0", None, 0, 0),
    "index_fill_": ("R(64, 32); I(64, 5)", "a0.index_fill_(0, a1, 0.)\nreturn a0", None, 0, 0),
    "relu_": ("R(64, 32)", "return a0.relu_()", B * N, 0, 0),
    "clamp_": ("R(64, 32)", "return a0.clamp_(-1, 1)", B * N, 0, 0),
    "a product with a mask in place": (
        "R(64, 32); R(64, 32) > 0",
        "a0.mul_(a1)\nreturn a0",
        *(None, 0, 0),
    ),
    "a masked sum in place": (
        "R(64, 32); R(64, 32)",
        "a0 += a1.relu()\nreturn a0",
        *(2 * B * N, 0, 0),
    ),
    "a where that is copied back": (
        "R(64, 32); R(64, 32) > 0",
        "a0.copy_(torch.where(a1, a0, a0 + 1))\nreturn a0",
        *(None, 0, 0),
    ),
    "a sum in place": ("R(64, 32); R(64, 32)", "return a0.add_(a1)", 2 * B * N, B * N, 0),
    "a row of a cache": ("R(2, 64, 32); R(2, 1, 32)", "a0[:, 5:6] = a1\nreturn a0", 256, 256, 0),
    # values that algebra fixes
    "the mean of a softmax": ("R(64, 32)", "return a0.softmax(-1).mean(-1)", 0, None, 0),
    "a ReLU of what is never positive": ("R(64, 32)", "return (-a0.relu()).relu()", 0, None, 0),
    "a sigmoid above 2": ("R(64, 32)", "return a0.sigmoid() > 2", 0, None, 0),
    "a tanh below -1": ("R(64, 32)", "return a0.tanh() < -1", 0, None, 0),
    "the zeroth power": ("R(64, 32)", "return a0 ** 0", 0, None, 0),
    "a clamp beyond a range": ("R(64, 32)", "return a0.sigmoid().clamp(2, 3)", 0, None, 0),
    "a scaled sigmoid above its range": ("R(64, 32)", "return a0.sigmoid() * 3 >= 4", 0, None, 0),
    "a square below zero": ("R(64, 32)", "return (a0 * a0 < 0).any(-1)", 0, None, 0),
    "a product that algebra makes dead": (
        "R(64, 32); R(32, 48)",
        "return (-(a0 @ a1).relu()).relu()",
        *(0, None, 0),
    ),
    "a sigmoid above a half needs its input": (
        "R(64, 32)",
        "return a0.sigmoid() > 0.5",
        *(B * N, N, 0),
    ),
    "integers that overflow": ("I(99, 64, 32, d=i8)", "return a0 * a0 < 0", N, N, 0),
    # what the program makes has a structure that a kernel may know
    "a row sum as a product with ones": (
        "R(64, 32)",
        "return a0 @ torch.ones(32, 48, device='cuda')",
        *(0, B * 64 * 48, 0),
    ),
    "a cosine transform": (
        "R(64, 32)",
        "i = torch.arange(32, device='cuda')\nreturn a0 @ torch.cos(i[:, None] * i * 0.1)",
        *(0, B * N, 0),
    ),
    "attention to equal values": (
        "R(1, 2, 64, 32); R(1, 2, 64, 32)",
        "return F.scaled_dot_product_attention(a0, a1, torch.ones_like(a0))",
        *(None, B * 2 * N, 0),
    ),
    # gates that take rows of what comes before
    "a gate behind the second of two products": (
        "R(64, 32); R(32, 48); R(48, 16); R(64, 1)",
        "return (a3 > 0) * (F.silu(a0 @ a1) @ a2)",
        *(B * 64, B * 64 * 16, 0),
    ),
    "experts by a sum of weights": (
        "R(64, 32); R(32, 48); R(48, 16); R(64, 2); I(8, 64, 2)",
        "gate = (a3 * (a4 == 3)).sum(-1, keepdim=True)\nreturn gate * (F.silu(a0 @ a1) @ a2)",
        *(None, B * 64 * 16, 0),
    ),
    "a ReLU of a column": (
        "R(64, 1); R(64, 32)",
        "return a0.relu() * a1",
        *(B * 64, B * N, 0),
    ),
    "a ReLU of elements": (  # one in two is zero, and none saves a sector
        "R(64, 32); R(64, 32)",
        "return a0.relu() * a1",
        *(2 * B * N, B * N, 0),
    ),
    "a clamp away from zero": (
        "R(64, 32); R(32)",
        "return a0 * a1.clamp(min=1e-6)",
        *(B * (N + 32), B * N, 0),
    ),
    "a clamp at zero": ("R(64, 32); R(64, 1)", "return a0 * a1.clamp(min=0)", B * 64, B * N, 0),
    "a mean of a ReLU": (  # of many, which are hardly all zero
        "R(64, 32); R(64, 32)",
        "return a1 * a0.relu().mean(-1, keepdim=True)",
        *(2 * B * N, B * N, 0),
    ),
    "a product that is left out": (
        "R(64, 32); R(64, 16); R(16, 32)",
        "return torch.add(a0, a1 @ a2, alpha=0)",
        *(None, B * N, 0),
    ),
    "bytes as an operand": (
        "R(64, 32); R(32, 48)",
        "return a0.sigmoid().to(torch.int8).float() @ a1",
        *(None, B * 3072, 0),
    ),
    "rows of a cache": (  # places are no values
        "R(64, 32); R(16, 32)",
        "a0[torch.arange(16, device='cuda')] = a1\nreturn a0, (a0 * a0).sum(-1)",
        *(None, B * (16 * 32 + 64), 0),
    ),
    # truths and integers of floats
    "a truth of a sigmoid": (
        "R(64, 32); R(32, 48)",
        "return (a0 @ a1).sigmoid().to(torch.bool)",
        *(None, 64 * 48, 0),
    ),
    "bytes of a sigmoid": (
        "R(64, 32); R(32, 48)",
        "return (a0 @ a1).sigmoid().to(torch.int8)",
        *(None, 64 * 48, 0),
    ),
    "halves of a sigmoid": (
        "R(64, 32); R(32, 48)",
        "return (a0 @ a1).sigmoid().to(torch.float16)",
        *(B * (N + 1536), 2 * 3072, N * 48),  # flat beyond its limits: a coarse product tells where
    ),
    # what algebra fixes
    "the mean of a layer norm": (
        "R(64, 32)",
        "return F.layer_norm(a0, (32,)).mean(-1)",
        *(0, B * 64, 0),
    ),
    "the mean of a layer norm with weights": (
        "R(64, 32); R(32)",
        "return F.layer_norm(a0, (32,), a1).mean(-1)",
        *(B * (N + 32), B * 64, 0),
    ),
    "the mean of a layer norm over rows": (
        "R(64, 32)",
        "return F.layer_norm(a0, (32,)).mean(0)",
        *(B * N, B * 32, 0),
    ),
    "the mean of a group norm": (
        "R(4, 8, 16)",
        "return F.group_norm(a0, 2).mean((1, 2))",
        *(0, B * 4, 0),
    ),
    "a term that is left out": (
        "R(64, 32); R(64, 32)",
        "return torch.add(a0, a1, alpha=0)",
        *(B * N, B * N, 0),
    ),
    "the end of a way that is not gone": (
        "R(64, 32); R(64, 32)",
        "return torch.lerp(a0, a1, 0.0)",
        *(B * N, B * N, 0),
    ),
    # writes that change nothing
    "a product that is not added in place": (
        "R(64, 32); R(64, 16); R(16, 32)",
        "return a0.addmm_(a1, a2, alpha=0)",
        *(None, 0, 0),
    ),
    "a scaled sum in place": (
        "R(64, 32); R(64, 16); R(16, 32)",
        "return a0.addmm_(a1, a2, beta=2, alpha=0)",
        *(None, B * N, 0),
    ),
    "no products are added in place": (
        "R(64, 32); R(64, 32); R(64, 32)",
        "return a0.addcmul_(a1, a2, value=0)",
        *(None, 0, 0),
    ),
    "a first power in place": ("R(64, 32)", "return a0.pow_(1)", None, 0, 0),
    "a second power in place": ("R(64, 32)", "return a0.pow_(2)", None, B * N, 0),
    "zeros are added in place": (
        "R(64, 32)",
        "return a0.add_(torch.zeros_like(a0))",
        *(None, 0, 0),
    ),
    "ones are added in place": (
        "R(64, 32)",
        "return a0.add_(torch.ones_like(a0))",
        *(None, B * N, 0),
    ),
    "a product with 1 in place": ("R(64, 32)", "return a0.mul_(1)", None, 0, 0),
    "a product with 2 in place": ("R(64, 32)", "return a0.mul_(2)", None, B * N, 0),
    # early exits
    "any": ("R(64, 32)", "return (a0 > 0).any(1)", 0, 64, 0),
    "all": ("R(64, 32)", "return (a0 > 0).all()", 0, 1, 0),
    "the largest sigmoid": ("R(64, 32)", "return a0.sigmoid().amax(1)", 0, B * 64, 0),
    "the least ReLU": ("R(64, 32)", "return a0.relu().amin(1)", 0, B * 64, 0),
    "the largest of a byte": ("I(200, 64, 32, d=u8)", "return a0.amax(1)", 0, 64, 0),
    "the place of the largest tanh": ("R(64, 32)", "return a0.tanh().argmax(1)", 0, 8 * 64, 0),
    "the largest number": ("R(64, 32)", "return a0.amax(1)", B * N, B * 64, 0),
    "the largest sigmoid of a product": (
        "R(64, 32); R(32, 48)",
        "return (a0 @ a1).sigmoid().amax(1)",
        *(0, B * 64, 0),
    ),
    # what stays
    "a product": ("R(64, 32); R(32, 48)", "return a0 @ a1", B * (N + 1536), B * 3072, 2 * N * 48),
    "a product of int8": (
        "I(99, 64, 32, d=i8); I(99, 32, 48, d=i8)",
        "return a0.int() @ a1.int() + 5",
        *(N + 1536, B * 3072, 2 * N * 48),
    ),
    "a product of int8 of which one bit is left": (
        "I(99, 64, 32, d=i8); I(99, 32, 48, d=i8)",
        "return (a0.int() @ a1.int()) * (1 << 31)",
        *(N + 1536, B * 3072, 0),
    ),
    "a product of int8 of which nothing is left": (
        "I(99, 64, 32, d=i8); I(99, 32, 48, d=i8)",
        "return (a0.int() @ a1.int()) * 0",
        *(0, B * 3072, 0),
    ),
    "scores of which a slope leaves few": (
        "R(64, 16); R(64, 16)",
        "return (a0 @ a1.mT + 400 * arange(64, d=f32)).softmax(-1)",
        *(None, B * 4096, 0),
    ),
    "a scaled product of int32": (
        "I(99, 64, 48, d=i32); I(99, 64, 32, d=i8); I(99, 32, 48, d=i8)",
        "return torch.addmm(a0, a1.int(), a2.int(), alpha=1 << 16)",
        *(B * 3072 + N + 1536, B * 3072, 0),
    ),
    "an elementwise product": ("R(64, 32); R(64, 32)", "return a0 * a1", 2 * B * N, B * N, 0),
    "a norm": ("R(64, 32); R(32)", "return F.rms_norm(a0, (32,), a1)", B * (N + 32), B * N, 0),
    "a softmax": ("R(64, 32)", "return a0.softmax(-1)", B * N, B * N, 0),
}


@pytest.fixture(scope="module")
def work_of(traced):
    return lambda name: traced(TABLE, name)


@pytest.mark.parametrize("name", TABLE)
def test_the_hard_bound_counts_what_no_data_saves(work_of, name):
    read, written, operations = TABLE[name][2:]
    work = work_of(name)
    if read is not None:
        assert work.hard_read_bytes == read
    if written is not None:
        assert work.hard_write_bytes == written
    assert sum(work.hard_operations.values()) == operations
