"""The choice of configurations, the evaluation of recorded times, and the sweeps' kernels."""

from __future__ import annotations

import contextlib
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import sweeps

triton = pytest.importorskip("triton", reason="triton is there on Linux only")

import sweeps_gpu  # noqa: E402
import sweeps_jobs  # noqa: E402

from solkit import worker  # noqa: E402
from solkit.core import (  # noqa: E402
    Access,
    Analysis,
    AnalysisStatus,
    Bound,
    BoundTimes,
    Demand,
    KernelAnalysis,
    Launch,
    Occupancy,
)
from solkit.measure.activities import CallTime  # noqa: E402
from solkit.roofline import devices  # noqa: E402

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "bench/sweeps"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
DEVICE = replace(devices.find("h100-sxm"), calibrated={}, launch_us=0.0)

# ----------------------------------------------------------------------------------- the kernels


@pytest.fixture(scope="module")
def errors(interpreted):
    return interpreted(HERE, "interpreted_sweeps:errors", FOLDER)


def test_every_kernel_computes_its_reference(errors):
    assert {name.strip() for name in errors} == set(NAMES)
    assert {name: found for name, found in errors.items() if found} == {}


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_leaves_forty_to_choose_and_its_default_is_among_them(name):
    path = str(FOLDER / f"{name}.py")
    default = sweeps_jobs.kernelfiles.load(path).description.candidate.params
    for space in sweeps_jobs.space_of(path):
        assert len(space.valid) >= sweeps.COUNT
        assert space.valid[0] == default


# -------------------------------------------------------------------------------------- choosing


def test_configurations_are_drawn_once_each_and_always_alike():
    space = sweeps_jobs.Space({}, tuple({"BLOCK": n} for n in range(50)))
    chosen = sweeps_jobs.choose(space, 40, "seed")
    assert chosen[0] == {"BLOCK": 0}
    assert len({each["BLOCK"] for each in chosen}) == 40
    assert chosen == sweeps_jobs.choose(space, 40, "seed")
    assert chosen != sweeps_jobs.choose(space, 40, "other")
    assert len(sweeps_jobs.choose(space, 99, "seed")) == 50


def row(number, file="a.py", **changes):
    return {"kind": "time", "file": file, "shape": {"N": 8}, "params": {"B": number}, **changes}


def test_without_a_gpu_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert sweeps_gpu.collect([row(1)], DEVICE, tmp_path / "out", 1.0, 1) == 2
    assert "no CUDA device" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_each_problem_has_a_handful_before_any_has_a_second(monkeypatch):
    monkeypatch.setattr(sweeps_gpu, "_HANDFUL", 2)
    rows = [row(n) for n in range(3)] + [row(n, "b.py") for n in range(2)]
    taken = [[(r["file"], r["params"]["B"]) for r in rows] for rows in sweeps_gpu.handfuls(rows)]
    assert taken == [[("a.py", 0), ("a.py", 1)], [("b.py", 0), ("b.py", 1)], [("a.py", 2)]]


def test_the_last_line_of_a_configuration_counts(tmp_path):
    file = tmp_path / "out.jsonl"
    lines = [{"kind": "run"}, row(1, median_ms=1.0), row(2), row(1, median_ms=3.0)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [(r["params"]["B"], r.get("median_ms")) for r in sweeps.read(file)] == [
        (1, 3.0),
        (2, None),
    ]


# ------------------------------------------------------------------------------------ evaluating


def test_equal_values_share_a_rank():
    assert sweeps.ranks([10.0, 30.0, 10.0, 20.0]) == [1.5, 4.0, 1.5, 3.0]


def test_spearman():
    # without ties 1 - 6 sum(d^2) / (n (n^2 - 1)): d = 0, 1, 1, 1, 1 over five
    assert sweeps.spearman([1, 2, 3, 4, 5], [10, 30, 20, 50, 40]) == pytest.approx(1 - 24 / 120)
    assert sweeps.spearman([1, 2, 3], [9, 5, 1]) == pytest.approx(-1)
    # ranks 1.5 1.5 3 against 1 2 3: deviations -.5 -.5 1 and -1 0 1, 1.5 / sqrt(1.5 * 2)
    assert sweeps.spearman([7, 7, 8], [1, 2, 3]) == pytest.approx(1.5 / math.sqrt(3))
    assert sweeps.spearman([7, 7, 7], [1, 2, 3]) == 0


def test_regret_is_of_the_worst_among_equal_choices():
    assert sweeps.regret([1, 1, 2], [4.0, 6.0, 2.0]) == 3.0
    assert sweeps.regret([1, 1, 2], [4.0, 6.0, 2.0], picks=2) == 2.0
    assert sweeps.regret([3, 2, 1], [4.0, 6.0, 2.0]) == 1.0


def analysis(time_ms, occupancy):
    """Of a kernel that does nothing but write what takes that long."""
    amount = round(time_ms * 1e-3 * 0.92 * DEVICE.ceilings["dram"].value)
    access = Access("store", "global", "x", "", 1, 1, 1, amount, amount, 16)
    kernel = KernelAnalysis(
        Launch("kernel", (1320, 1, 1), 4, 1),
        occupancy=Occupancy(occupancy, "registers", 10, 1.0, 1.0),
        demand=Demand((access,), {}, 0, 0, amount, 0, amount),
    )
    return Analysis(AnalysisStatus.COMPLETE, (kernel,))


def problem(measured, modelled, hard_ms=0.0):
    bound = Bound(hard_ms, "dram", (), {}, "", (), BoundTimes(hard_ms, hard_ms, hard_ms))
    rows = [
        row(n, status="correct", median_ms=time_ms) if time_ms else row(n, status="crashed")
        for n, time_ms in enumerate(measured)
    ]
    analyses = tuple(analysis(ms, 0.9 - 0.1 * n) for n, ms in enumerate(modelled))
    found = sweeps_jobs.Analysed(bound, analyses, (0.1,) * len(analyses))
    return sweeps.Problem("kernel", "N=8", rows, found)


def test_an_evaluation_by_hand():
    # what failed does not count; of the others the ranks are 1 2 3 4 and 1 2 4 3
    found = sweeps.evaluate(problem([1.0, None, 2.0, 4.0, 10.0], [1.1, 9.0, 2.2, 8.8, 4.4]), DEVICE)
    assert found.count == 4
    assert found.spread == 10.0
    assert found.spearman == pytest.approx(1 - 6 * 2 / 60)
    # the latency of one wave, in the shadow of the longest term, adds some 1e-4 ms
    ratios = [1.1, 1.1, 2.2, 0.44]
    assert found.ratio == pytest.approx(1.1, rel=1e-2)
    assert found.within_two == sum(0.5 <= r <= 2 for r in ratios) / 4
    assert (found.regret, found.default_regret) == (1.0, 1.0)
    assert found.below_hard == 0
    assert found.others["L2 bytes"] == pytest.approx(found.spearman)
    assert found.others["occupancy"] == pytest.approx(1.0)  # it falls from one to the next
    assert found.others["tail"] == 0  # alike everywhere


def test_times_below_the_hard_bound_are_counted_and_raised():
    found = sweeps.evaluate(problem([4.0, 5.0, 6.0], [1.0, 1.5, 5.0], hard_ms=3.0), DEVICE)
    assert found.below_hard == 2
    assert found.within_two == 1.0


def test_targets(capsys):
    good = sweeps.evaluate(problem([1.0, 2.0, 4.0], [1.0, 2.0, 4.0]), DEVICE)
    assert sweeps.print_targets([good]) == 0
    assert sweeps.print_targets([replace(good, spearman=0.5)]) == 1
    assert sweeps.print_targets([replace(good, within_two=0.7)]) == 1
    assert "within a factor of 2: 70% of all times (target 80%)" in capsys.readouterr().out


def test_the_table_names_what_was_not_modelled(capsys):
    sound = problem([1.0, 2.0, 4.0], [1.0, 2.0, 4.0])
    kernel = replace(sound.kernels[0][0], demand=None)
    unread = Analysis(AnalysisStatus.PARTIAL, (kernel,))
    analyses = (*sound.found.analyses, unread)
    found = replace(sound.found, analyses=analyses, seconds=(0.1,) * 4)
    partial = replace(
        sound, rows=[*sound.rows, row(9, status="correct", median_ms=1.0)], found=found
    )
    assert sweeps.print_evaluation([partial], DEVICE) == 0
    page = capsys.readouterr().out
    assert "| kernel | N=8 | 3 | 4.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 0 |" in page
    assert "not modelled: 1 configurations ['kernel N=8']" in page


# ---------------------------------------------------------------------------------------- timing

SCALE = """
import torch

SHAPES = [{"N": 8}]
SPACE = {"HOW": ["right", "wrong", "raises"], "TIMES": [1, 2]}

def reference(x):
    return x * 2

def inputs(N=8, device="cuda"):
    return torch.ones(N, device=device)

def kernel(x, *, HOW="right", TIMES=1):
    if HOW == "raises":
        raise ValueError("no such way")
    return x * (2 if HOW == "right" else 3)
"""


class OneCpu:
    """Times nothing: the n-th call takes n ms."""

    device, method = "cpu", "cupti"

    def timers(self):
        return (self,), "nothing is flushed"

    def synchronize(self):
        pass

    def conditions(self):
        told = SimpleNamespace(sm_clock_mhz=1980.0)
        return contextlib.nullcontext(SimpleNamespace(since=lambda: told))

    def start(self):
        self.calls = 0

    def time(self, subject):
        subject.prepare()()
        self.calls += 1

    def stop(self):
        return [CallTime(float(call), float(call)) for call in range(1, self.calls + 1)]


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "scale.py"
    path.write_text(SCALE)
    ways = ("right", "wrong", "raises", "right")
    return [
        {"file": str(path), "shape": {"N": 8}, "params": {"HOW": how, "TIMES": 1 + n // 3}}
        for n, how in enumerate(ways)
    ]


def test_what_is_right_is_timed_and_what_fails_says_why(rows):
    bench = sweeps_gpu.Bench(OneCpu(), lambda _: "")
    found = {sweeps.key_of(r): r for r in bench.time(rows)}
    first, wrong, raises, last = (found[sweeps.key_of(r)] for r in rows)
    assert (first["status"], last["status"]) == ("correct", "correct")
    assert first["samples"] == last["samples"] == 9
    # two sides in turns, 11 calls each, of which the first two do not count
    assert first["median_ms"] + last["median_ms"] == pytest.approx(2 * (5 + 22) / 2, abs=4)
    assert (first["sm_clock_mhz"], first["max_error"]) == (1980.0, 0.0)
    assert wrong["status"] == "wrong"
    assert "median_ms" not in wrong
    assert raises["status"] == "crashed"
    assert "no such way" in raises["message"]
    assert len({r["sha256"] for r in found.values()}) == 1


def test_a_problem_that_fails_costs_its_own_rows(rows):
    path = Path(rows[0]["file"])
    path.write_text(path.read_text() + "\ndef reference(x):\n    raise ValueError('no such op')\n")
    found = sweeps_gpu.Bench(OneCpu(), lambda _: "").time(rows)
    assert [sweeps.key_of(r) for r in found] == [sweeps.key_of(r) for r in rows]
    assert {r["status"] for r in found} == {"crashed"}
    assert all("no such op" in r["message"] for r in found)


def test_what_does_not_compile_is_not_run(rows):
    bench = sweeps_gpu.Bench(OneCpu(), lambda _: "ptxas said no")
    assert [(r["status"], r["message"]) for r in bench.time(rows[2:3])] == [
        ("does_not_compile", "ptxas said no")
    ]


def test_with_the_gpu_lost_the_rest_is_left_for_the_next_run(rows, monkeypatch):
    machine = OneCpu()
    bench = sweeps_gpu.Bench(machine, lambda _: "")
    broken = rows[2]["params"]

    def lost():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def reason(row):
        if row["params"] == broken:
            monkeypatch.setattr(machine, "synchronize", lost)
        return ""

    bench = sweeps_gpu.Bench(machine, reason)
    found = bench.time(rows)
    assert bench.is_lost
    assert [r["status"] for r in found] == ["wrong", "crashed"]


def test_compiling_ahead_fills_tritons_cache(tmp_path, monkeypatch):
    path = FOLDER / "transpose.py"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    params = {"BLOCK_M": 16, "BLOCK_N": 16, "num_warps": 1}
    worker.call("sweeps_jobs:compile_ahead", str(path), {"M": 64, "N": 64}, params, DEVICE)
    assert list(tmp_path.glob("*/transpose_kernel.cubin"))


class Fork:
    def __init__(self, ended):
        self.wait, self.end = lambda _: ended, lambda: None


@pytest.fixture
def on_one_cpu(monkeypatch):
    compilers = SimpleNamespace(reason=lambda _: "")
    monkeypatch.setattr(sweeps_gpu, "CudaMachine", OneCpu)
    monkeypatch.setattr(sweeps_gpu, "Compilers", lambda *_: contextlib.nullcontext(compilers))
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "a CPU")


@pytest.mark.usefixtures("on_one_cpu")
def test_the_next_run_goes_on_where_one_was_cut(rows, tmp_path):
    out = tmp_path / "out.jsonl"

    def collect(wanted):
        assert sweeps_gpu.collect(wanted, DEVICE, out, 60.0, 1) == 0
        return [json.loads(line) for line in out.read_text().splitlines()]

    assert [line["kind"] for line in collect(rows[:1])] == ["run", "time"]
    with out.open("a") as file:
        file.write('{"kind": "time", "fi')  # cut
    lines = collect(rows)
    assert [line["kind"] for line in lines] == ["run", "time", "run", "time", "time", "time"]
    assert len({sweeps.key_of(line) for line in lines if line["kind"] == "time"}) == 4
    assert len(sweeps.read(out)) == 4


def test_why_something_does_not_compile_is_what_its_process_printed(monkeypatch):
    def fork(function, given, *, env, output):
        assert (function, env["CUDA_VISIBLE_DEVICES"]) == ("sweeps_jobs:compile_ahead", "")
        os.write(output, b"no power of 2" if given[2]["B"] == 1 else b"")
        return Fork({0: 0, 1: 1, 2: -11, 3: None}[given[2]["B"]])

    server = SimpleNamespace(fork=fork, close=lambda: None)
    monkeypatch.setattr(sweeps_gpu, "ForkServer", lambda *_: server)
    rows = [row(n) for n in range(4)]
    with sweeps_gpu.Compilers(rows, DEVICE, 2) as compilers:
        assert [compilers.reason(each) for each in rows] == [
            *("", "no power of 2", "ended with -11", "compiling took over 60 s")
        ]
