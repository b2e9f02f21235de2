"""The dtype that a product counts in: what held its factors before they were widened and scaled."""

from __future__ import annotations

import pytest

A, B = "R(64, 64, d=bf16)", "R(64, 64, d=bf16)"

KINDS = {
    # widened
    "two bf16 factors": (f"{A}; {B}", "return a0.float() @ a1.float()", "bf16"),
    "through fp64": (f"{A}; {B}", "return a0.double() @ a1.double()", "bf16"),
    "bf16 and fp16": (f"{A}; R(64, 64, d=f16)", "return a0.float() @ a1.float()", "fp16"),
    "one wide factor": (f"R(64, 64); {B}", "return a0 @ a1.float()", "fp32*half"),
    "rounded on the way": (
        "R(64, 64); R(64, 64)",
        "return a0.to(bf16).float() @ a1.to(bf16).float()",
        "bf16",
    ),
    "halves rounded to fp8": (
        f"{A}; {B}",
        "return a0.to(fp8).float() @ a1.to(fp8).float()",
        "fp8",
    ),
    "scaled halves rounded to fp8": (
        f"{A}; {B}",
        "s, t = (448 / a.abs().max() for a in (a0, a1))\n"
        "a, b = (a0 * s).clamp(-448, 448).to(fp8), (a1 * t).clamp(-448, 448).to(fp8)\n"
        "return a.float() @ b.float() / s / t",
        "fp8",
    ),
    "halves copied into fp8": (
        f"{A}; {B}",
        "a = torch.empty_like(a0, dtype=fp8).copy_(a0)\nreturn a.float() @ a1.to(fp8).float()",
        "fp8",
    ),
    "fp8 scaled along the sum, rounded to fp8": (
        "R(64, 64).to(fp8); R(64, 64).to(fp8); R(64)",
        "return (a0.float() * a2).to(fp8).float() @ a1.float()",
        "fp8",
    ),
    "scaled codes rounded to fp8": (
        "I(127, 64, 64, d=i8); R(64, 64).to(fp8); R(64, 1)",
        "return (a0.float() * a2).to(fp8).float() @ a1.float()",
        "fp8",
    ),
    "halves scaled along the sum, rounded to halves": (
        f"{A}; {B}; R(64)",
        "return (a0.float() * a2).to(bf16).float() @ a1.float()",
        "bf16",
    ),
    "fp8 limited to numbers that it holds": (
        "R(64, 64).to(fp8); R(64, 64).to(fp8)",
        "return a0.float().clamp(-448, 448) @ F.relu6(a1.float())",
        "fp8",
    ),
    "fp8 of the other kind, limited": (
        "R(64, 64).to(torch.float8_e5m2); R(64, 64).to(fp8)",
        "return F.relu6(a0.float()) @ a1.float()",
        "fp8",
    ),
    "codes limited to codes": (
        "I(100, 64, 64, d=i8); I(100, 64, 64, d=i8)",
        "return a0.float().clamp(-127, 127) @ a1.float().masked_fill(a1 > 90, 90)",
        "int8",
    ),
    "codes limited to a fraction": (
        "I(100, 64, 64, d=i8); I(100, 64, 64, d=i8)",
        "return a0.float().clamp(-1.5, 1.5) @ a1.float()",
        "bf16",
    ),
    "scaled fp8, some replaced by a number": (
        "R(64, 64).to(fp8); R(64, 64).to(fp8); R(64, 1)",
        "return (a0.float() * a2).masked_fill(a0.float() > 1, 2.) @ a1.float()",
        "bf16",
    ),
    "fp8 written over a part of other numbers": (
        f"{A}; {B}; R(64, 64)",
        "a = a2 * 1.1 + a0\na[:32] = a0[:32].to(fp8).float()\nreturn a @ a1.to(fp8).float()",
        "fp32*half",
    ),
    "fp16 rounded to bf16": (
        f"R(64, 64, d=f16); {B}",
        "return a0.to(bf16).float() @ a1.float()",
        "bf16",
    ),
    "fp8 widened, then scaled": (
        "R(64, 64).to(fp8); R(64, 64).to(fp8)",
        "return (a0.to(bf16) * 3) @ a1.to(bf16)",
        "fp8",
    ),
    "a linear layer": (f"{A}; {B}", "return F.linear(a0.float(), a1.float())", "bf16"),
    "a convolution": (
        "R(2, 16, 8, 8, d=bf16); R(16, 16, 1, 1, d=bf16)",
        "return F.conv2d(a0.float(), a1.float())",
        "bf16",
    ),
    "through an einsum": (
        f"{A}; {B}",
        "return torch.einsum('ik,jk->ij', a0.float(), a1.float())",
        "bf16",
    ),
    # limited and rounded
    "no less than zero": (f"{A}; {B}", "return a0.float().clamp(min=0) @ a1.float()", "bf16"),
    "between narrow limits": (f"{A}; {B}", "return F.relu6(a0.float()) @ a1.float()", "bf16"),
    "a limit of scaled rows": (
        f"{A}; {B}; R(64, 1)",
        "return (a0.float() * a2).clamp(max=1.7) @ a1.float()",
        "fp32*half",
    ),
    "rounded between limits": (
        f"R(64, 64); {B}",
        "return a0.round().clamp(min=-8).clamp(max=7) @ a1.float()",
        "bf16",
    ),
    "codes of 8 bits": (
        "R(64, 64); R(64, 64, d=bf16).to(torch.int8)",
        "return (a0 / 0.1).round().clamp(-128, 127) @ a1.float()",
        "int8",
    ),
    "rounded without limits": (f"R(64, 64); {B}", "return a0.round() @ a1.float()", "fp32*half"),
    "signs": (f"R(64, 64); {B}", "return a0.sign() @ a1.float()", "bf16"),
    "powers of two of groups": (
        f"{A}; {B}; I(4, 64, 4)",
        "x = torch.ldexp(a0.float().view(64, 4, 16), a2[..., None])\n"
        "return x.view(64, 64) @ a1.float()",
        "bf16",
    ),
    # moved
    "transposed and copied": (
        f"{A}; {B}",
        "return a0.float().t().contiguous() @ a1.float()",
        "bf16",
    ),
    "joined": (
        f"{A}; {B}",
        "x = a0.float()\nreturn torch.cat([x, x], 1) @ torch.cat([a1.float()] * 2)",
        "bf16",
    ),
    "rows by an index": (
        f"{A}; {B}; I(64, 64)",
        "return a0.float()[a2] @ a1.float()",
        "bf16",
    ),
    "written into zeros": (
        f"{A}; {B}",
        "x = zeros(64, 64)\nx[:, :32] = a0.float()[:, :32]\nreturn x @ a1.float()",
        "bf16",
    ),
    "zeros where a mask says": (
        f"{A}; {B}; R(64, 64)",
        "return a0.float().masked_fill(a2 > 0, 0.) @ a1.float()",
        "bf16",
    ),
    "times a mask": (
        f"{A}; {B}; R(64, 64)",
        "return (a0.float() * (a2 > 0).float()) @ a1.float()",
        "bf16",
    ),
    "rectified": (f"{A}; {B}", "return a0.float().relu() @ a1.float().abs()", "bf16"),
    "computed with": (f"{A}; {B}", "return a0.float().exp() @ a1.float()", "fp32*half"),
    # scaled
    "by numbers": (f"{A}; {B}", "return (a0.float() * .125) @ (a1.float() / 3)", "bf16"),
    "by rows": (f"{A}; {B}; R(64, 1)", "return (a0.float() * a2) @ a1.float()", "bf16"),
    "by columns of the other": (
        f"{A}; {B}; R(64)",
        "return a0.float() @ (a1.float() * a2)",
        "bf16",
    ),
    "along the summed dimension": (
        f"{A}; {B}; R(64)",
        "return (a0.float() * a2) @ a1.float()",
        "fp32*half",
    ),
    "the same of the other": (
        f"{A}; {B}; R(64, 1)",
        "return a0.float() @ (a1.float() * a2)",
        "fp32*half",
    ),
    "then transposed": (f"{A}; {B}; R(64)", "return (a0.float() * a2).t() @ a1.float()", "bf16"),
    "then copied transposed": (
        f"{A}; {B}; R(64, 1)",
        "return (a0.float() * a2).t().contiguous() @ a1.float()",
        "fp32*half",
    ),
    "codes of scales in groups of 16, copied before they are decoded": (
        "R(64, 64).to(fp8); R(64, 64).to(fp8); I(255, 64, 4, d=u8)",
        "s = torch.exp2(a2.repeat_interleave(16, 1).float() - 127)\n"
        "return (a0.float() * s) @ a1.float()",
        "fp8",
    ),
    "scales of which only some are in a group": (
        "R(64, 64).to(fp8); R(64, 64).to(fp8); R(64, 64); R(64, 1)",
        "s = a2.clone()\ns[:, :16] = a3\nreturn (a0.float() * s) @ a1.float()",
        "fp32*half",
    ),
    "in groups of 16": (
        f"{A}; {B}; R(64, 4)",
        "return (a0.float().view(64, 4, 16) * a2[..., None]).reshape(64, 64) @ a1.float()",
        "bf16",
    ),
    "in groups of 8": (
        f"{A}; {B}; R(64, 8)",
        "return (a0.float().view(64, 8, 8) * a2[..., None]).reshape(64, 64) @ a1.float()",
        "fp32*half",
    ),
    "repeated scales": (
        f"{A}; {B}; R(4, 64)",
        "return a0.float() @ (a1.float() * a2.repeat_interleave(16, 0))",
        "bf16",
    ),
    # integers
    "bytes by bf16": (f"{A}; I(9, 64, 64, d=u8)", "return a0.float() @ a1.float()", "bf16"),
    "less a zero point": (
        f"{A}; I(9, 64, 64, d=u8); R(64)",
        "return a0.float() @ ((a1.float() - 128) * a2)",
        "fp16",
    ),
    "two of int8": (
        "ones(64, 64, d=i8); ones(64, 64, d=i8)",
        "return a0.float() @ a1.float()",
        "int8",
    ),
    "two of int8 as int32": (
        "I(99, 64, 64, d=i8); I(99, 64, 64, d=i8)",
        "return a0.int() @ a1.int()",
        "int8",
    ),
    # what the result needs
    "a result of bf16": ("R(64, 64); R(64, 64)", "return (a0 @ a1).to(bf16)", "fp32~half"),
    "a result of bf16 and one of fp32": (
        "R(64, 64); R(64, 64)",
        "x = a0 @ a1\nreturn x.to(bf16), x",
        "fp32",
    ),
    "rounded in between": (
        "R(64, 64); R(64, 64)",
        "return (a0 @ a1).to(bf16).float() * 2",
        "fp32~half",
    ),
    "before a softmax": (
        "R(64, 64); R(64, 64)",
        "return (a0 @ a1).softmax(-1).to(bf16)",
        "fp32>exp",
    ),
    "before exponentials": (
        "R(64, 64); R(64, 64)",
        "x = a0 @ a1\nreturn (x - x.amax(-1, keepdim=True)).exp()",
        "fp32>exp",
    ),
    "fp64 that becomes fp32": (
        "R(64, 64); R(64, 64)",
        "return (a0.double() @ a1.double()).float()",
        "fp32",
    ),
    "fp64 that stays": ("R(64, 64); R(64, 64)", "return a0.double() @ a1.double()", "fp64"),
}


@pytest.mark.parametrize("name", KINDS)
def test_products_count_in_what_held_their_factors(traced, name):
    operations = traced(KINDS, name).operations
    kinds = {key.removeprefix("contraction.") for key in operations if "contraction" in key}
    assert kinds == {KINDS[name][2]}
