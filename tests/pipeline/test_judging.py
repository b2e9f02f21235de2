"""Reported times against needs that are derived by hand, on an H100 SXM at 1980 MHz.

A product of fp32 matrices of n = 4096 takes 2 n^3 = 137.4 G operations: 128.4 µs in one pass of
bf16 (1070.5 T/s), 64.2 µs in fp8, 2.05 ms on the scalar pipes (66.9 T/s). The hard bound grants one
16-bit pass. Adding 1 to 64 Mi floats moves 512 MiB: 160 µs at 3.35 TB/s; of the output 50 MiB may
stay in L2, and as much of the input may be there: the hard bound is 129 µs.
"""

from __future__ import annotations

import hashlib
import json

import pytest

from solkit.core.judging import Plausibility
from solkit.errors import InputError
from solkit.pipeline.judging import judge, judge_time

PRODUCT = """
import torch
N = 4096
class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.randn(N, N), torch.randn(N, N)]
def get_init_inputs():
    return []
"""
ADDITION = """
import torch
def reference(x):
    return x + 1
def inputs(M=65536, device="cuda"):
    return torch.randn(M, 1024, device=device)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("problems")
    (folder / "level1").mkdir()
    (folder / "level1" / "1_Product.py").write_text(PRODUCT)
    (folder / "addition.py").write_text(ADDITION)
    listed = folder / "01_listed"
    listed.mkdir()
    (listed / "reference.py").write_text(PRODUCT)
    (listed / "shapes.py").write_text('SHAPES = [{"n": 4096}, {"N": 512}]\n')
    return folder


def written(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.fixture(scope="module")
def table(folder, tmp_path_factory):
    """One file with a row of each kind; tracing both problems once serves all tests of it."""
    rows = [
        "problem,M,device,time,solution,l2",
        "level1/1,,h100-sxm,100us,too fast,",  # under 128.4
        "level1/1,,h100-sxm,128.3us,within margins,",  # the timer resolves 0.5 us
        "level1/1,,h100-sxm,200us,one pass,",
        "level1/1,,h100-sxm,1.5ms,tensor cores,",
        "level1/1,,h100-sxm,3ms,scalar,",
        "level1/1,,h100-pcie,130us,another card,",  # its highest clock is not known
        "level1/1,,h100-pcie,100us,no such clock,",
        "addition,65536,h100-pcie,180us,another memory,",  # whose clock is
        "addition,65536,h100-sxm,100us,cached,",
        "addition,65536,h100-sxm,140us,warm,",
        "addition,65536,h100-sxm,200us,cold,",
        "addition,65536,h100-sxm,140us,flushed,cold",
        "addition,65536,h100,115us,some H100,",
        "addition,65536,h100,100us,no H100,",
        "nowhere,,h100-sxm,1ms,lost,",
        "addition,65536,gtx-1,1ms,unknown card,",
    ]
    path = written(tmp_path_factory.mktemp("results") / "times.csv", "\n".join(rows))
    return {j.row.implementation: j for j in judge([path], problems=folder).judgements}


@pytest.mark.parametrize(
    ("solution", "verdict"),
    [
        ("too fast", Plausibility.IMPOSSIBLE),
        ("within margins", Plausibility.NEEDS_LOW_PRECISION),
        ("one pass", Plausibility.NEEDS_LOW_PRECISION),
        ("tensor cores", Plausibility.NEEDS_TENSOR_CORES),
        ("scalar", Plausibility.POSSIBLE),
        ("cached", Plausibility.IMPOSSIBLE),
        ("warm", Plausibility.BEATS_ALGORITHM),
        ("cold", Plausibility.POSSIBLE),
        ("flushed", Plausibility.IMPOSSIBLE),  # (256 + 256 - 50) MiB take 144.5 us
        # 168 us at the boost clock of 1755 MHz (114 SMs x 4096 FLOP), 112 at 1.5 times that
        ("another card", Plausibility.NEEDS_LOW_PRECISION),
        ("no such clock", Plausibility.IMPOSSIBLE),
        # 2 x 206 MiB at 2.039 TB/s take 212 us
        ("another memory", Plausibility.IMPOSSIBLE),
        # on an SXM 129 us; an H100 NVL keeps 60 MiB and moves 2 x 196 MiB at 3.94 TB/s in 104 us
        ("some H100", Plausibility.BEATS_ALGORITHM),
        ("no H100", Plausibility.IMPOSSIBLE),
    ],
)
def test_verdicts_follow_what_the_problem_needs(table, solution, verdict):
    assert table[solution].plausibility is verdict


def test_needs_are_those_derived_by_hand(table):
    product, addition = table["scalar"].problem, table["cold"].problem
    assert product.hard_ms == pytest.approx(0.1284, rel=2e-3)
    assert product.declared_ms == pytest.approx(2.05, rel=5e-3)
    assert addition.bound.time_ms == pytest.approx(0.1602, rel=2e-3)
    # reads 256 MiB less the 50 of L2, and writes as much
    assert addition.hard_ms == pytest.approx(2 * (256 - 50) * 2**20 / 3.352e12 * 1e3, rel=5e-3)
    assert table["cold"].sol_share == pytest.approx(0.801, rel=2e-3)
    assert table["too fast"].hard_slack == pytest.approx(100 / 128.4, rel=2e-3)


def test_an_impossible_time_names_the_resource_and_the_card(table):
    assert table["too fast"].limiter == "contractions"
    assert table["cached"].limiter == "dram"
    assert "NVIDIA H100 SXM5" in table["too fast"].reasons[0]


def test_an_unknown_highest_clock_is_told(table):
    for solution in ("another card", "no such clock"):
        assert any("highest clock" in reason for reason in table[solution].reasons)
    assert not any("highest clock" in reason for reason in table["another memory"].reasons)


def test_a_short_name_may_be_a_faster_gpu(table):
    assert "'h100' may also be: NVIDIA H100 PCIe, NVIDIA H100 NVL" in table["some H100"].reasons[1]


def test_what_cannot_be_judged_says_why(table):
    assert table["lost"].plausibility is Plausibility.NOT_JUDGED
    assert "no problem is called nowhere: not below" in table["lost"].reasons[0]
    assert "unknown device 'gtx-1'" in table["unknown card"].reasons[0]


def test_times_that_do_not_follow_the_sizes_are_suspicious(folder, tmp_path):
    rows = ["problem,M,device,time_us,solution"]
    rows += [f"addition,{m},h100-sxm,700.{m % 7},same" for m in (65536, 131072, 262144)]
    rows += ["addition,256,h100-sxm,0.2,nothing"]
    results = judge([written(tmp_path / "t.csv", "\n".join(rows))], problems=folder).judgements
    assert all("equal within 2%" in j.suspicions[0] for j in results[:3])
    assert "less than a launch" in results[3].suspicions[0]


def test_equal_times_among_others_are_suspicious(folder, tmp_path):
    times = {65536: "700", 131072: "700", 262144: "700", 524288: "2000"}
    times |= {32768: "650.12", 524289: "650.12", 16: "3", 32: "3"}
    rows = [f"addition,{m},h100-sxm,{time_us}" for m, time_us in times.items()]
    table = written(tmp_path / "t.csv", "\n".join(["problem,M,device,time_us", *rows]))
    suspicious = [bool(j.suspicions) for j in judge([table], problems=folder).judgements]
    # two shapes are enough where four digits agree
    assert suspicious == [True, True, True, False, True, True, False, False]


def test_a_shape_may_be_told_by_its_place(folder, tmp_path):
    run = {
        "run_id": "r1", "gpu": "h100", "problem": "01_listed", "correct": True,
        "shapes": [{"idx": 0, "ms": 3.0}, {"idx": 1, "ms": 0.1}, {"idx": 2, "ms": 0.1}],
    }  # fmt: skip
    first, second, third = judge([written(tmp_path / "run.json", run)], problems=folder).judgements
    assert first.problem.shape["N"] == 4096  # spelled n in the list
    assert second.problem.shape["N"] == 512
    assert "has no SHAPES[2]" in third.reasons[0]


def test_a_speed_up_becomes_a_time_by_a_baseline(tmp_path):
    line = {
        "level_id": 1, "task_id": 1, "ref_code": PRODUCT, "custom_code": "x = 1",
        "score_default": 40.0,
    }  # fmt: skip
    path = written(tmp_path / "l1.json", json.dumps(line))
    (alone,) = judge([path], device="h100").judgements
    assert "speed-up of 40" in alone.reasons[0]
    assert alone.plausibility is Plausibility.NOT_JUDGED
    assert "reference takes at least 5.14 ms" in alone.reasons[0]  # 40 x 128.4 us
    assert "--baseline" in alone.reasons[0]
    times = {"mean": 2.66, "std": 0.1, "min": 2.6, "max": 2.9, "hardware": "NVIDIA H100 80GB HBM3"}
    baseline = written(tmp_path / "base.json", {"level1": {"1_Product.py": times}})
    (judged,) = judge([path], device="h100", baseline=baseline).judgements
    assert judged.time_ms == pytest.approx(2.66 / 40)  # 66.5 us, under 128.4
    assert judged.plausibility is Plausibility.IMPOSSIBLE
    assert hashlib.sha256(PRODUCT.encode()).hexdigest() == judged.row.problem_sha256


def test_a_file_that_cannot_be_read_costs_no_other(folder, tmp_path):
    good = written(tmp_path / "t.csv", "problem,device,time_ms\naddition,h100-sxm,1\n")
    bad = written(tmp_path / "bad.txt", "no times")
    report = judge([bad, good], problems=folder)
    assert len(report.judgements) == 1
    assert "bad.txt has no known format" in report.faults[0]
    with pytest.raises(InputError, match=r"bad\.txt has no known format"):
        judge([bad], problems=folder)


def test_one_time_of_a_problem(folder):
    path = folder / "addition.py"
    (judged,) = judge_time(path, 0.1, shape={"M": 65536}, device="h100").judgements
    assert judged.plausibility is Plausibility.IMPOSSIBLE
    with pytest.raises(InputError, match="has no size 'K'"):
        judge_time(path, 0.1, shape={"K": 1}, device="h100")


def test_a_plan_that_ran_equal_refutes_impossible(tmp_path):
    """log(sum(exp)) - logsumexp is 0: of the 256 MiB that are read, none is needed."""
    path = written(
        tmp_path / "zero.py",
        "import torch\n"
        "def reference(x):\n"
        "    return torch.log(x.exp().sum(1)) - torch.logsumexp(x, 1)\n"
        "def inputs(n=8192, device='cuda'):\n"
        "    return torch.randn(n, n, device=device)\n",
    )
    (judgement,) = judge_time(path, 5e-3, device="H100 SXM").judgements
    assert judgement.plausibility is Plausibility.BEATS_ALGORITHM
    assert judgement.problem.hard_ms < 1e-4
    assert any("proven equal" in reason for reason in judgement.reasons)


def trace(definition, uuid, sizes, time_ms):
    return {
        "definition": definition, "solution": "mine",
        "workload": {"uuid": uuid, "axes": sizes, "inputs": {}},
        "evaluation": {
            "status": "PASSED", "log": "", "timestamp": "2026-01-01T00:00:00",
            "correctness": {"max_absolute_error": 0.0, "max_relative_error": 0.0},
            "performance": {"latency_ms": time_ms, "reference_latency_ms": 1.0},
            "environment": {"hardware": "NVIDIA H100 80GB HBM3", "libs": {}},
        },
    }  # fmt: skip


def test_traces_name_definitions_by_the_name_inside_and_may_have_workloads_of_their_own(tmp_path):
    """A column of 32 floats times a number: 2^22 rows move 2 x 512 MiB."""
    definition = {
        "name": "scale", "op_type": "scale", "reference": "def run(x):\n    return x * 3\n",
        "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 32}},
        "inputs": {"x": {"shape": ["M", "N"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["M", "N"], "dtype": "float32"}},
    }  # fmt: skip
    listed = {"uuid": "known", "axes": {"M": 1024}, "inputs": {"x": {"type": "random"}}}
    for place in ("a", "b"):  # two copies are one problem
        folder = tmp_path / "problems" / place
        folder.mkdir(parents=True)
        written(folder / "definition.json", definition)
        written(folder / "workload.jsonl", json.dumps(listed))
    (folder / "reference.py").write_text(definition["reference"])
    traces = [("scale", "known", {"M": 1024}, 0.01), ("scale", "other", {"M": 2**22}, 0.1)]
    lines = "\n".join(json.dumps(trace(*reported_trace)) for reported_trace in traces)
    report = judge([written(tmp_path / "t.jsonl", lines)], problems=tmp_path / "problems")
    assert [j.plausibility for j in report.judgements] == [
        Plausibility.POSSIBLE, Plausibility.IMPOSSIBLE,
    ]  # fmt: skip
    assert report.judgements[1].problem.shape["M"] == 2**22
