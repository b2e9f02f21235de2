"""Scales that leave a product: whether variants are right, and what stays as it is."""

from __future__ import annotations

import pytest
from naive_kernels import MATMUL, QUANTISED_MATMUL
from rewriting import HEADER, rewritten, variants

from solkit.tuner.proposers.rewriter.operand_scales import Scales
from solkit.tuner.proposers.rewriter.tile_constants import Retile

SIDES = {"M": 24, "N": 20, "K": 24}
KIND = "(x.dtype if w_ptr.dtype.element_ty.primitive_bitwidth == 8 else tl.float32)"
PRODUCT = f"tl.dot(x.to({KIND}), wide.to({KIND}))"


def test_a_scale_of_columns_is_applied_to_the_sums(is_right):
    (variant,) = variants(Scales(), QUANTISED_MATMUL, **SIDES)
    assert f"wide = w\n        acc += {PRODUCT}\n    acc = acc * s[None, :]" in variant
    assert is_right(variant, QUANTISED_MATMUL, **SIDES)
    assert not variants(Scales(), variant.removeprefix(HEADER), **SIDES)


@pytest.mark.quick("in place", "wide scale", "cast")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "wide = w.to(tl.float32) * s[None, :]\n        acc += tl.dot(x.to(tl.float32), wide)",
            "acc = tl.dot(x.to(tl.float32), s[None, :] * w.to(tl.float32), acc=acc)",
            f"acc += tl.dot(x.to({KIND}), w.to({KIND}))\n    acc = acc * s[None, :]",
        ),
        (
            "acc += tl.dot(x.to(tl.float32), wide)",
            "xf = x.to(tl.float32)\n        acc += tl.dot(xf, wide)",
            f"xf = x.to({KIND})\n        acc += tl.dot(xf, wide.to({KIND}))\n    acc = acc * s",
        ),
        (
            "w.to(tl.float32) * s[None, :]",
            "w * s[None, :]",  # Triton widens it
            f"wide = w\n        acc += {PRODUCT}\n    acc = acc * s[None, :]",
        ),
        (
            "w.to(tl.float32) * s[None, :]",
            "w.to(tl.float32) * s[None, :].to(tl.float32)",
            f"wide = w\n        acc += {PRODUCT}\n    acc = acc * s[None, :].to(tl.float32)",
        ),
        (  # the scale is no plain one
            "w.to(tl.float32) * s[None, :]\n        acc += tl.dot(x.to(tl.float32), wide)",
            "w.to(tl.float16) * s[None, :].to(tl.float16)\n        acc += tl.dot(x, wide)",
            "",
        ),
    ],
    ids=["in place", "other name", "not widened", "wide scale", "cast"],
)
def test_operands_may_be_written_in_other_ways(old, new, expected, is_right):
    source = QUANTISED_MATMUL.replace(old, new)
    assert source != QUANTISED_MATMUL
    results = variants(Scales(), source, **SIDES)
    assert len(results) == bool(expected)
    if expected:
        assert expected in results[0]
        assert is_right(results[0], source, **SIDES)


def test_weights_less_zero_points_are_as_narrow_as_what_was_widened_ahead(is_right):
    changes = {
        "tl.zeros((BM, BN), tl.float32)": "tl.full((BM, BN), 0.0, tl.float32)",
        "x_ptr + m[:, None] * K + k[None, :],": "x_ptr + m[None, :] * K + k[:, None],",
        "(m[:, None] < M) & (k[None, :] < K), other=0.0)":
            "(m[None, :] < M) & (k[:, None] < K), other=0.0).to(tl.float32)",
        "w.to(tl.float32) * s": "(w.to(tl.float32) - 3.0) * s",
        "tl.dot(x.to(tl.float32), wide)": 'tl.dot(tl.trans(x), wide, input_precision="ieee")',
        "(w.float() * scale)": "((w.float() - 3) * scale)",
    }  # fmt: skip
    source = QUANTISED_MATMUL
    for old, new in changes.items():
        assert old in source
        source = source.replace(old, new)
    (variant,) = variants(Scales(), source, **SIDES)
    assert "other=0.0).to(tl.float32)" not in variant
    kind = KIND.replace(" else", " and w_ptr.dtype.element_ty.is_int() else")
    product = f'tl.dot(tl.trans(x.to({kind})), wide.to({kind}), input_precision="ieee")'
    assert f"{product}\n    acc = acc * s[None, :]" in variant
    assert is_right(variant, source, **SIDES)


LOADED = QUANTISED_MATMUL.replace("wide = w", "s = tl.load(s_ptr + n)\n        wide = w")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (QUANTISED_MATMUL.replace("wide = w", "s = s + 1 - 1\n        wide = w"),
         f"acc += {PRODUCT} * s[None, :]"),
        (LOADED.replace("s_ptr + n)", "s_ptr + k0 // K * N + n, mask=n < N, other=0.0)"),
         f"acc += {PRODUCT} * s[None, :]"),
        (QUANTISED_MATMUL.replace("* s[None, :]", "* s[None, :] * 0.5").replace(
            "(w.float() * scale)", "(w.float() * scale * 0.5)"),
         "acc = acc * 0.5\n    acc = acc * s[None, :]"),
        (QUANTISED_MATMUL.replace("wide = w.to(tl.float32)",
                                  "w = w.to(tl.float32)\n        wide = w"),
         "acc = acc * s[None, :]"),
    ],
    ids=["changing", "of a group", "scalar", "name used again"],
)  # fmt: skip
def test_scales_that_change_are_applied_to_products_of_trips(source, expected, is_right):
    (variant,) = variants(Scales(), source, **SIDES)
    assert expected in variant
    assert is_right(variant, source, **SIDES)


BLOCKS_OF_GROUPS = (
    QUANTISED_MATMUL.replace(
        "wide = w",
        "s = tl.load(s_ptr + ((k0 + tl.arange(0, BK)) // 32)[:, None] * N + n[None, :],"
        " mask=n[None, :] < N, other=0.0)\n        wide = w",
    )
    .replace("    s = tl.load(s_ptr + n, mask=n < N, other=0.0)\n", "")
    .replace("* s[None, :]", "* s")
    .replace("(w.float() * scale)", "(w.float() * scale.repeat_interleave(32, 0)[: w.shape[0]])")
    .replace("torch.rand(N, device", "torch.rand((K + 31) // 32, N, device")
)


def test_a_block_within_a_group_has_one_scale(is_right):
    (variant,) = variants(Scales(), BLOCKS_OF_GROUPS, **SIDES)
    assert "s_ptr + (k0 // 32) * N + n[None, :]" in variant
    assert f"acc += {PRODUCT} * s\n" in variant
    assert is_right(variant, BLOCKS_OF_GROUPS, **SIDES)
    wider = BLOCKS_OF_GROUPS.replace("// 32", "// 24")  # 16 does not divide it
    assert not variants(Scales(), wider, **SIDES)


def test_a_name_that_stands_for_rows_hides_no_axis(is_right):
    named = BLOCKS_OF_GROUPS.replace(
        "s = tl.load(s_ptr + ((k0 + tl.arange(0, BK)) // 32)[:, None]",
        "g = (k0 + tl.arange(0, BK))[:, None] // 32\n        s = tl.load(s_ptr + g",
    )
    (variant,) = variants(Scales(), named, **SIDES)
    assert "g = (k0 // 32)" in variant
    assert is_right(variant, named, **SIDES)
    assert not variants(Scales(), named.replace("// 32", "// 24"), **SIDES)


def test_rows_of_scales_that_are_summed_stay():
    summed = BLOCKS_OF_GROUPS.replace("wide = w", "sums += tl.sum(s, axis=0)\n        wide = w")
    summed = summed.replace("    acc =", "    sums = tl.zeros((BN,), tl.float32)\n    acc =")
    summed = summed.replace("acc.to(y_ptr", "(acc + sums[None, :]).to(y_ptr")
    assert not variants(Scales(), summed, **SIDES)


def test_blocks_of_one_group_do_not_grow_beyond_it():
    source = rewritten(Scales(), BLOCKS_OF_GROUPS, **SIDES)
    (variant,) = variants(Retile(), source, **SIDES)
    assert '"BK": [16, 32]' in variant
    assert "BK=32" in variant


@pytest.mark.slow
def test_a_scale_of_rows_too(is_right):
    changes = {
        "x.float() @ (w.float() * scale)": "(x.float() * scale[:, None]) @ w.float()",
        ".to(x.dtype)\n": ".to(w.dtype)\n",
        "x = torch.randn(M, K": "w = torch.randn(K, N",
        "w = torch.randint(-127, 127, (K, N)": "x = torch.randint(-127, 127, (M, K)",
        "torch.rand(N, device": "torch.rand(M, device",
        "y = torch.empty(M, N, dtype=x.dtype": "y = torch.empty(M, N, dtype=w.dtype",
        "s = tl.load(s_ptr + n, mask=n < N": "s = tl.load(s_ptr + m, mask=m < M",
        "wide = w.to(tl.float32) * s[None, :]": "wide = x.to(tl.float32) * s[:, None]",
        "tl.dot(x.to(tl.float32), wide)": "tl.dot(wide, w.to(tl.float32))",
    }
    source = QUANTISED_MATMUL
    for old, new in changes.items():
        assert old in source
        source = source.replace(old, new)
    kind = KIND.replace("w_ptr", "x_ptr").replace("x.dtype", "w.dtype")
    (variant,) = variants(Scales(), source, **SIDES)
    assert f"wide = x\n        acc += tl.dot(wide.to({kind}), w.to({kind}))\n" in variant
    assert "    acc = acc * s[:, None]\n" in variant
    assert is_right(variant, source, **SIDES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* s[None, :]", "* s[:, None]"),  # of what is summed over
        ("acc += tl.dot", "s = s + 1\n        acc += tl.dot"),  # another one at the product
        ("* s[None, :]", "+ s[None, :]"),
        ("acc += tl.dot", "acc = acc * 0.5 + tl.dot"),
        ("acc = tl.zeros((BM, BN), tl.float32)", "acc = tl.zeros((BM, BN), tl.float32) + 1"),
        ("    for k0 in", "    if M > 1000:\n        acc += 1\n    for k0 in"),
        ("acc += tl.dot", "tl.device_print('sums', acc)\n        acc += tl.dot"),
        ("acc += tl.dot(x.to(tl.float32), wide)",
         "acc += tl.dot(x.to(tl.float32), wide)\n        acc += tl.dot(x.to(tl.float32), wide)"),
    ],
    ids=["summed over", "changing", "no factor", "decaying", "from one", "added before", "read",
         "two products"],
)  # fmt: skip
def test_other_products_stay(old, new):
    source = QUANTISED_MATMUL.replace(old, new)
    assert source != QUANTISED_MATMUL
    assert not variants(Scales(), source, **SIDES)


@pytest.mark.slow
def test_the_scaled_operand_may_be_loaded_first(is_right):
    load = QUANTISED_MATMUL[QUANTISED_MATMUL.index("        x = tl.load") :]
    load = load[: load.index("        w = tl.load")]
    source = QUANTISED_MATMUL.replace(load, "").replace("        acc +=", f"{load}        acc +=")
    assert source.index("wide = ") < source.index("x = tl.load")
    (variant,) = variants(Scales(), source, **SIDES)
    assert is_right(variant, source, **SIDES)


def test_a_product_without_scales_stays():
    assert not variants(Scales(), MATMUL, **SIDES)


@pytest.mark.slow
def test_tiles_can_grow_afterwards(is_right):
    source = rewritten(Scales(), QUANTISED_MATMUL, **SIDES)
    (variant,) = variants(Retile(), source, **SIDES)
    assert is_right(variant, QUANTISED_MATMUL, **SIDES)


ROUNDED = QUANTISED_MATMUL.replace(
    "wide = w.to(tl.float32) * s[None, :]\n        acc += tl.dot(x.to(tl.float32), wide)",
    "wide = (w.to(tl.float32) * s[None, :]).to(x.dtype)\n        acc += tl.dot(x, wide)",
)


def test_weights_that_fit_16_bits_are_scaled_after_the_product(is_right):
    (variant,) = variants(Scales(), ROUNDED, **SIDES)
    assert "wide = w.to(x.dtype)\n        acc += tl.dot(x, wide)\n" in variant
    assert "    acc = acc * s[None, :]\n" in variant
    condition = "x.element_size() == 2 and x.is_floating_point() and w.element_size() == 1"
    assert f"    if {condition}:\n        quantised_kernel[grid](" in variant
    assert is_right(variant, ROUNDED, **SIDES)


@pytest.mark.parametrize(
    ("weights", "condition"),
    [
        ("(w & 0xF).to(tl.float32)", "if x.element_size() == 2 and x.is_floating_point():"),
        ("(w - (w >> 4)).to(tl.float32)", "not w.is_floating_point()"),
        ("tl.exp(w.to(tl.float32))", None),  # it may be infinite in 16 bits
    ],
)
def test_what_may_overflow_stays_scaled(weights, condition):
    source = ROUNDED.replace("w.to(tl.float32)", weights)
    results = variants(Scales(), source, **SIDES)
    assert len(results) == (condition is not None)
    assert condition is None or condition in results[0]


@pytest.mark.parametrize("weights", ["w.to(tl.float32) * w * w", "(w << 9).to(tl.float32)"])
def test_products_of_weights_that_may_overflow_stay_wide(weights):
    source = QUANTISED_MATMUL.replace("w.to(tl.float32)", weights)
    (variant,) = variants(Scales(), source, **SIDES)
    assert "tl.dot(x.to(tl.float32), wide)\n    acc = acc * s[None, :]" in variant


def test_scaled_values_that_become_integers_stay():
    assert not variants(Scales(), ROUNDED.replace("to(x.dtype)", "to(tl.int8)"), **SIDES)
