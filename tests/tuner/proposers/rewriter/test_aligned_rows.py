"""Rows that begin anywhere, and are of any length, in whole vectors and the odd ends apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from rewriting import HEADER, brief, variants

from solkit.core import TensorLayout
from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.aligned_rows import AlignedRows

HERE = Path(__file__).parent
KERNEL = """
@triton.jit
def rows(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
{body}

def kernel(x):
    y = {out}
    rows[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=32)
    return y
"""
ONE = "torch.empty(x.shape[0], dtype=torch.float32, device=x.device)"
LOAD = "tl.load(x_ptr + row * stride + cols, mask=cols < n, other={fill})"


def of_one(start: str, body: str, result: str = "r", fill: str = "0.0", loop: str = "") -> str:
    """A kernel that reduces each row to a number."""
    loop = loop or "for i in range(0, n, BLOCK):"
    lines = [*start.split("; "), loop, "    cols = i + tl.arange(0, BLOCK)"]
    lines += [f"    x = {LOAD.format(fill=fill)}", *(f"    {line}" for line in body.split("; "))]
    lines += [f"tl.store(y_ptr + row, {result})"]
    return KERNEL.format(body="".join(f"    {line}\n" for line in lines), out=ONE)


INFINITY = '-float("inf")'
SUM = of_one("r = 0.0", "r += tl.sum(x, axis=0)")
MAXIMUM = of_one(f"r = {INFINITY}", "r = tl.maximum(r, tl.max(x, axis=0))", fill=INFINITY)
MEAN_OF_SQUARES = of_one("r = 0.0", "r += tl.sum(x * x, axis=0) / n")
LANES = of_one("a = tl.zeros([BLOCK], dtype=tl.float32)", "a += x", "tl.sum(a, axis=0)")
ONLINE = of_one(
    f"m = {INFINITY}; s = 0.0",
    "k = tl.maximum(m, tl.max(x, axis=0)); "
    "s = s * tl.exp(m - k) + tl.sum(tl.exp(x - k), axis=0); m = k",
    "m + tl.log(s)",
    INFINITY,
)
PLACE = of_one(
    f"m = {INFINITY}; r = 0",
    "k = tl.max(x, axis=0); r = tl.where(k > m, i + tl.argmax(x, axis=0), r); "
    "m = tl.where(k > m, k, m)",
    fill=INFINITY,
)
LEAST_PLACE = of_one(
    f"m = {INFINITY}; r = 0",
    "k = tl.max(x, axis=0); "
    "r = tl.where(k > m, tl.min(tl.where(x == k, cols, 2147483647), axis=0), r); "
    "m = tl.maximum(m, k)",
    fill=INFINITY,
)
COUNTED = SUM.replace("range(0, n, BLOCK)", "range(tl.cdiv(n, BLOCK))").replace(
    "i + ", "i * BLOCK + "
)
POINTER = SUM.replace("    r = 0.0\n", "    r = 0.0\n    p = x_ptr + row * stride\n").replace(
    "tl.load(x_ptr + row * stride + cols", "tl.load(p + cols"
)
MOVING = POINTER.replace("p + cols", "p + tl.arange(0, BLOCK)").replace(
    "r += tl.sum(x, axis=0)\n", "r += tl.sum(x, axis=0)\n        p += BLOCK\n"
)
SELECTED = SUM.replace("tl.sum(x, axis=0)", "tl.sum(tl.where(cols == n // 2, x, 0.0), axis=0)")
PARTS = SUM.replace("range(0, n, BLOCK)", "range(n // 3, n, BLOCK)")
ELEMENTS = KERNEL.format(
    body="    for i in range(0, n, BLOCK):\n"
    "        cols = i + tl.arange(0, BLOCK)\n"
    f"        x = {LOAD.format(fill='0.0')}\n"
    "        tl.store(y_ptr + row * stride + cols, x * 2.0 + cols, mask=cols < n)\n",
    out="x",
)
WHOLE = KERNEL.format(
    body="    cols = tl.arange(0, BLOCK)\n"
    f"    x = {LOAD.format(fill=INFINITY)}\n"
    "    x = x.to(tl.float32)\n"
    "    e = tl.exp(x - tl.max(x, axis=0))\n"
    "    tl.store(y_ptr + row * n + cols, e / tl.sum(e, axis=0), mask=cols < n)\n",
    out="torch.empty(x.shape, device=x.device)",
).replace("BLOCK=32", "BLOCK=128")
BODY = WHOLE[WHOLE.index("    cols =") : WHOLE.index("\ndef kernel")]
FOR_ROWS = "    lanes = tl.arange(0, BLOCK)\n    for row in range(tl.program_id(0), 3, 2):"
ROWS_AFTER_ROWS = (
    WHOLE.replace(BODY, "".join(f"    {line}\n" for line in BODY.splitlines() if line))
    .replace(
        "    row = tl.program_id(0)",
        "    lanes = tl.arange(0, BLOCK)\n    for row in range(tl.program_id(0), 3, 2):",
    )
    .replace("cols = tl.arange(0, BLOCK)", "cols = lanes")
    .replace("[(x.shape[0],)]", "[(2,)]")
)
GRID = (
    ELEMENTS.replace("    for i in range(0, n, BLOCK):\n", "    part = tl.program_id(1)\n")
    .replace("        cols = i +", "    cols = part * BLOCK +")
    .replace("        x =", "    x =")
    .replace("        tl.store", "    tl.store")
    .replace("[(x.shape[0],)]", "[(x.shape[0], triton.cdiv(x.shape[1], 32))]")
)
CASES = {
    "whole row": (WHOLE, "lambda x: torch.softmax(x, 1)"),
    "rows after rows": (ROWS_AFTER_ROWS, "lambda x: torch.softmax(x, 1)"),
    "grid": (GRID, "lambda x: x * 2 + torch.arange(x.shape[1])"),
    "sum": (SUM, "lambda x: x.sum(1)"),
    "maximum": (MAXIMUM, "lambda x: x.amax(1)"),
    "mean of squares": (MEAN_OF_SQUARES, "lambda x: (x * x).mean(1)"),
    "lanes": (LANES, "lambda x: x.sum(1)"),
    "online": (ONLINE, "lambda x: torch.logsumexp(x, 1)"),
    "place": (PLACE, "lambda x: x.argmax(1)"),
    "least place": (
        LEAST_PLACE,
        "lambda x: torch.stack([(r == r.max()).nonzero()[0, 0] for r in x])",
    ),
    "counted": (COUNTED, "lambda x: x.sum(1)"),
    "pointer": (POINTER, "lambda x: x.sum(1)"),
    "moving pointer": (MOVING, "lambda x: x.sum(1)"),
    "selected": (SELECTED, "lambda x: x[:, x.shape[1] // 2]"),
    "from the middle": (PARTS, "lambda x: x[:, x.shape[1] // 3 :].sum(1)"),
    "elements": (ELEMENTS, "lambda x: x * 2 + torch.arange(x.shape[1])"),
}


def aligned(source: str) -> str:
    (variant,) = variants(AlignedRows(), source)
    return variant


@pytest.mark.parametrize("case", [pytest.param(name, id=name) for name in CASES])
@pytest.mark.quick("online", "elements", "whole row")
def test_rows_of_any_length_that_begin_anywhere_are_right(case, tmp_path, interpreted):
    source, oracle = CASES[case]
    path = tmp_path / "variant.py"
    path.write_text(aligned(source))
    assert interpreted(HERE, "row_trial:wrong", str(path), oracle) == []


@pytest.mark.gpu
@pytest.mark.parametrize("case", list(CASES))
def test_rows_of_any_length_are_right_on_a_gpu(case, tmp_path):
    import torch
    from row_trial import wrong

    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    source, oracle = CASES[case]
    path = tmp_path / "variant.py"
    path.write_text(aligned(source))
    assert wrong(str(path), oracle, "cuda") == []


SIGNATURE = {"x_ptr": "*bf16", "y_ptr": "*bf16", "stride": "i32", "n": "i32", "BLOCK": "constexpr"}


def test_the_middle_of_a_row_is_accessed_in_vectors(tmp_path):
    from row_trial import vector_loads

    path = tmp_path / "kernel.py"
    path.write_text(HEADER + ELEMENTS)
    before = vector_loads(str(path), "rows", SIGNATURE)
    assert set(before) == {"ld.global.b16", "st.global.b16"}
    path.write_text(aligned(ELEMENTS))
    after = vector_loads(str(path), "rows", SIGNATURE)
    # 1024 elements of 2 bytes by 128 threads: one vector of 16 bytes each
    assert after["ld.global.v4.b32"] == after["st.global.v4.b32"] == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("r += tl.sum(x, axis=0)", "r += tl.sum(x, axis=0) * i"),
        ("r += tl.sum(x, axis=0)", "r += tl.sum(x / (tl.sum(x, axis=0) + 1), axis=0)"),
        ("r += tl.sum(x, axis=0)", "r += tl.sum(x, axis=0) * tl.sum(x, axis=0)"),
        ("r += tl.sum(x, axis=0)", "r += tl.sum(x * tl.arange(0, BLOCK), axis=0)"),
        ("r += tl.sum(x, axis=0)", "r += tl.sum(x, axis=0) / BLOCK"),
        ("r += tl.sum(x, axis=0)", "r += 1"),
        ("r += tl.sum(x, axis=0)", "r = r * 0.5 + tl.sum(x, axis=0)"),
        ("r += tl.sum(x, axis=0)", "r += tl.sum(tl.cumsum(x, axis=0), axis=0)"),
        ("mask=cols < n, other=0.0", "mask=cols < n + 1, other=0.0"),
        ("tl.load(x_ptr + row * stride + cols, mask=cols < n, other=0.0)", "tl.load(x_ptr + cols)"),
        ("row * stride + cols", "row * stride + cols * 2"),
        ("row * stride + cols", "row + cols * n"),
        ("tl.store(y_ptr + row, r)", "tl.store(y_ptr + row, r + tl.max(x, axis=0))"),
    ],
)
def test_what_depends_on_the_blocks_stays(old, new):
    source = SUM.replace(old, new)
    assert source != SUM
    if "n + 1" in new:  # another bound is only another bound
        assert variants(AlignedRows(), source)
    else:
        assert not variants(AlignedRows(), source)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (MAXIMUM, f"other={INFINITY}", "other=0.0"),  # right for rows with a value above 0
        (MAXIMUM, "tl.max(x, axis=0)", "tl.max(x * x, axis=0)"),
        (WHOLE, f"other={INFINITY}", "other=0.0"),
        (PLACE, f"other={INFINITY}", "other=0.0"),
        (SUM, "tl.sum(x, axis=0)", "tl.sum((x - stride) * (x - stride), axis=0)"),
        (SUM, "tl.sum(x, axis=0)", "tl.sum(tl.exp(x), axis=0)"),
        (SUM, "other=0.0", "other=1.0"),
        (LANES, "a += x", "a += x + 1.0"),
    ],
)
def test_reductions_that_lanes_beyond_a_row_would_change_stay(source, old, new):
    changed = source.replace(old, new)
    assert changed != source
    assert not variants(AlignedRows(), changed)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (SUM, "tl.sum(x, axis=0)", "tl.sum(tl.where(cols < n, tl.exp(x), 0.0), axis=0)"),
        (SUM, "tl.sum(x, axis=0)", "tl.sum(tl.maximum(x, 0.0) * tl.exp(x), axis=0)"),
        (SUM, "tl.sum(x, axis=0)", "tl.sum((cols < n).to(tl.int32), axis=0)"),
        (MAXIMUM, f"other={INFINITY}", "other=-1e30"),
        (MAXIMUM, "tl.max(x, axis=0)", "tl.max(x * 0.5 - row, axis=0)"),
        (ONLINE, "tl.exp(x - k), axis=0)", "tl.exp(x - k) * cols, axis=0)"),
    ],
)
def test_lanes_beyond_a_row_that_are_neutral_are_seen(source, old, new):
    changed = source.replace(old, new)
    assert changed != source
    assert variants(AlignedRows(), changed)


def test_a_block_of_sums_may_only_be_summed_up_later():
    stored = "tl.store(y_ptr + row * BLOCK + tl.arange(0, BLOCK), a)"
    source = LANES.replace("tl.store(y_ptr + row, tl.sum(a, axis=0))", stored)
    assert source != LANES
    assert not variants(AlignedRows(), source)


def test_an_element_that_is_written_elsewhere_is_not_moved():
    shifted = ELEMENTS.replace(
        "tl.store(y_ptr + row * stride + cols", "tl.store(x_ptr + row * stride + cols + 1"
    )
    assert shifted != ELEMENTS
    assert not variants(AlignedRows(), shifted)


def tuned(source: str, alignment: int = 128, **sizes: int) -> list[str]:
    """Variants at a tuned shape, where these expressions of the launcher have these values.

    The address of the input is a multiple of `alignment` bytes.
    """
    text, facts = parse_kernel(HEADER + source), Facts(brief(source))
    assert text is not None
    names = {"stride": "x.stride(0)", "n": "x.shape[1]", "stride_y": "y.stride(0)"}
    facts.__dict__["_launch_values"] = {names[name]: size for name, size in sizes.items()}
    x = TensorLayout("fp32", 4, (), (), alignment_bytes=alignment)
    facts.__dict__["_tensors"] = {"x": x, "y": TensorLayout("fp32", 4, (), ())}
    return [variant.source for variant in AlignedRows().variants(text, facts)]


@pytest.mark.parametrize(
    ("stride_y", "alignment", "vectors"),
    [(63, 2, ["y"]), (64, 2, []), (64, 128, []), (63, 128, ["x", "y"])],
)
def test_a_tensor_that_begins_elsewhere_gets_no_vectors(stride_y, alignment, vectors):
    source = two_strides(ELEMENTS)
    results = tuned(source, alignment, stride=63, stride_y=stride_y, n=48)
    names = [name for name in ("x", "y") if any(f"{name}_ptr_first" in r for r in results)]
    assert names == vectors


@pytest.mark.parametrize(("stride", "n", "gains"), [(64, 64, 0), (64, 63, 1), (63, 48, 1)])
def test_rows_that_are_aligned_at_the_tuned_shape_stay(stride, n, gains):
    assert len(tuned(SUM, stride=stride, n=n)) == gains


def two_strides(kernel: str) -> str:
    """A kernel whose result has a stride of its own, larger by PAD."""
    other = kernel.replace("stride, n, BLOCK: tl", "stride, stride_y, n, BLOCK: tl")
    for old in ("y_ptr + row * stride", "y_ptr + row * n"):
        other = other.replace(f"{old} + cols", "y_ptr + row * stride_y + cols")
    start = other.index("    y = ")
    out = "torch.empty_strided(x.shape, (x.stride(0) + PAD, 1), dtype=x.dtype, device=x.device)"
    return f"{other[:start]}    y = {out}\n" + other[other.index("    rows[") :].replace(
        "x.stride(0), x.shape", "x.stride(0), y.stride(0), x.shape"
    )


@pytest.mark.slow
@pytest.mark.parametrize("pad", [0, 1, 16])
@pytest.mark.parametrize("case", ["elements", "whole row"])
def test_a_tensor_whose_rows_begin_elsewhere_is_right(case, pad, tmp_path, interpreted):
    kernel, oracle = CASES[case]
    source = two_strides(kernel).replace("PAD", str(pad))
    (variant,) = tuned(source, stride=101, stride_y=101, n=101)
    assert "y_ptr_first" in variant
    path = tmp_path / "variant.py"
    path.write_text(variant)
    assert interpreted(HERE, "row_trial:wrong", str(path), oracle) == []


def test_a_tensor_with_another_stride_at_the_tuned_shape_is_accessed_as_before():
    (variant,) = tuned(two_strides(ELEMENTS), stride=101, stride_y=112, n=101)
    assert "x_ptr_first" in variant
    assert "y_ptr_first" not in variant


def test_a_block_that_a_loop_carries_is_not_cut():
    carried = WHOLE.replace(
        "    row = tl.program_id(0)\n", "    total = tl.zeros([BLOCK], tl.float32)\n"
    )
    body = "".join(f"    {line}\n" for line in BODY.splitlines() if line)
    carried = carried.replace(BODY, "    for row in range(3):\n" + body)
    assert variants(AlignedRows(), carried)
    assert not variants(
        AlignedRows(),
        carried.replace("x - tl.max", "total + x - tl.max").replace(
            "        tl.store", "        total += x\n        tl.store"
        ),
    )
