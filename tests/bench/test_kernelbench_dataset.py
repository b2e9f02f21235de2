from __future__ import annotations

from dataclasses import replace

import kernelbench_dataset as dataset
import pytest

from solkit.core import Bound, BoundTimes, OpWork, Resource, Work
from solkit.datasets.kernelbench import TimedReference

RUN = {
    "kind": "run",
    "run": "2026-11-21T12:00:00+00:00",
    "device": "NVIDIA H100 80GB HBM3",
    "driver": "580.159.04",
    "torch": "2.11.0+cu130",
    "triton": "3.6.0",
    "flush": "a 256 MiB buffer read before each call: clean lines are left in L2",
    "warmup": 3,
}
ROW = {
    "kind": "time",
    "run": RUN["run"],
    "device": RUN["device"],
    "level": 1,
    "number": 50,
    "name": "50_conv_standard_2D",
    "sha256": "h",
    "variant": "eager",
    "status": "ok",
    "median_ms": 3.0,
    "low_ms": 2.9,
    "high_ms": 3.1,
    "samples": 20,
    "method": "cupti",
    "matmul_tf32": False,
    "conv_tf32": True,
    "degenerate": False,
}


def bound(roofline_ms, hard_ms, limiter):
    resource = Resource(limiter, 1, "FLOP", 1.0, "test", roofline_ms)
    times = BoundTimes(roofline_ms, hard_ms, roofline_ms)
    return Bound(roofline_ms, limiter, (resource,), {}, "", (), times)


def bounds(*ops):
    work = Work({}, {}, 1, 1, 1, 1, unmodelled=("aten.a",), ops=ops)
    by_precision = {
        "tolerance": bound(4.0, 2.0, "tensor.tf32"),
        "tf32": bound(2.0, 1.0, "dram"),
    }
    return dataset.Bounds(work, by_precision, {"tolerance": 6.0, "tf32": 2.5})


CONVOLUTION = bounds(OpWork("aten.convolution", {"contraction.fp32": 1}))
PRODUCT = bounds(OpWork("aten.mm", {"contraction.fp32": 1}))


def reference(result=CONVOLUTION, **changes):
    return dataset.timed_reference({**ROW, **changes}, result, "h100-sxm")


def test_a_convolution_is_held_against_tf32_which_it_may_use_by_default():
    row = reference()
    assert (row.precision, row.roofline_ms, row.hard_ms, row.limiter) == ("tf32", 2.0, 1.0, "dram")
    assert (row.ratio, row.verdict, row.category) == (1.5, "correct", "convolution")
    assert row.unfused_ms == 2.5
    assert (row.resource_ms, row.unmodelled) == ('{"dram": 2.0}', "aten.a")


def test_a_product_is_held_against_tf32_where_it_is_allowed():
    default = reference(PRODUCT)
    assert (default.precision, default.ratio) == ("tolerance", 0.75)
    assert default.verdict == "beats_algorithm"
    assert reference(PRODUCT, median_ms=1.9).verdict == "impossible"
    allowed = reference(PRODUCT, variant="eager_tf32", matmul_tf32=True)
    assert (allowed.precision, allowed.ratio) == ("tf32", 1.5)


def test_a_failure_has_bounds_and_no_ratio():
    row = reference(status="crashed", median_ms=None, matmul_tf32=None, conv_tf32=None)
    assert (row.roofline_ms, row.ratio, row.verdict) == (2.0, None, None)
    assert dataset.timed_reference(ROW, None, "h100-sxm").roofline_ms is None


def test_without_a_matrix_product_tf32_is_the_same_as_the_default():
    eager = dict(ROW)
    (one, other) = dataset.alike([eager], "h", CONVOLUTION.work)
    assert [item["variant"] for item in (one, other)] == ["eager_tf32", "compiled_tf32"]
    assert {item["status"] for item in (one, other)} == {"same_as_default"}
    assert (one["sha256"], one["number"]) == ("h", 50)
    assert dataset.alike([eager], "h", PRODUCT.work) == []


def test_the_last_time_counts_and_no_failure_replaces_it():
    lines = [
        RUN,
        {**ROW, "status": "crashed"},
        {**ROW, "median_ms": 1.0},
        {**ROW, "median_ms": 2.0},
        {**ROW, "status": "crashed"},
        {**ROW, "variant": "compiled", "status": "crashed", "message": "a"},
        {**ROW, "variant": "compiled", "status": "crashed", "message": "b"},
        {**ROW, "sha256": "other", "number": 4},
    ]
    kept = dataset.newest(lines)
    assert [(r["number"], r["variant"]) for r in kept] == [
        (4, "eager"),
        (50, "eager"),
        (50, "compiled"),
    ]
    assert kept[1]["median_ms"] == 2.0
    assert kept[2]["message"] == "b"


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("13_Matmul_for_symmetric_matrices", "matrix product"),
        ("87_conv_pointwise_2D", "convolution"),
        ("10_ConvTranspose2d_MaxPool_Hardtanh_Mean_Tanh", "convolution"),
        ("97_ScaledDotProductAttention", "attention"),
        ("46_Average_Pooling_3D", "pooling"),
        ("92_cumsum_exclusive", "scan"),
        ("95_CrossEntropyLoss", "loss"),
        ("36_RMSNorm_", "norm"),
        ("24_LogSoftmax", "softmax"),
        ("51_Argmax_over_a_dimension", "reduction"),
        ("25_Swish", "pointwise"),
    ],
)
def test_categories(name, category):
    assert dataset.category(name) == category


def test_findings_name_what_lies_below_a_bound(capsys):
    table = [
        replace(reference(), name=f"{n}_conv", sha256=str(n), ratio=float(n)) for n in range(1, 12)
    ]
    table.append(replace(reference(median_ms=0.9), name="99_conv", sha256="x"))
    table.append(replace(reference(median_ms=0.9, degenerate=True), name="98_conv", sha256="y"))
    dataset.print_findings(table)
    page = capsys.readouterr().out
    # 12 sound ratios, 0.45 and 1 to 11: the 2nd, between 6th and 7th, the 11th
    assert "| all | eager | 12 | 1.00 | 5.50 | 10.00 |" in page
    widest = page.partition("## The ten widest")[2].partition("##")[0]
    assert "| 1/11_conv | eager | 3 | 2 | 11 | 1.25 | 1.2 | dram |" in widest
    assert [f"/{n}_conv " in widest for n in (11, 2, 1)] == [True, True, False]
    assert "## Below the hard bound: 1\n" in page
    assert "| 1/99_conv | eager | 0.9 | 2 | 1 | 0.45 | dram | tf32 |" in page
    degenerate = page.partition("do not depend on inputs: 1")[2]
    assert "98_conv" in degenerate


def test_of_eager_and_compiled_the_faster_is_taken():
    slow = replace(reference(), ratio=3.0)
    fast = replace(slow, variant="compiled", ratio=2.0)
    other = replace(slow, variant="compiled_tf32", ratio=1.0)
    assert dataset.fastest([slow, fast, other]) == [fast]


def test_the_card_explains_every_column():
    page = dataset.card([reference()], [RUN], "h100", "h100-sxm")
    for name in TimedReference.__dataclass_fields__:
        assert f"| `{name}` |" in page
    assert "driver 580.159.04, torch 2.11.0+cu130" in page
    assert "1 rows, 1 of them timed" in page
