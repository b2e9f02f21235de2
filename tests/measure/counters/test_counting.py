"""Counters of a result's launches; Nsight Compute itself is stood in for."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import solkit
from solkit.adapters import nsight
from solkit.core import (
    Analysis,
    AnalysisStatus,
    Candidate,
    Counters,
    Facts,
    KernelAnalysis,
    KernelFile,
    Launch,
    Problem,
    Verdict,
)  # fmt: skip
from solkit.errors import CountersError, InputError
from solkit.kernelfiles import Workload
from solkit.measure.counters import counting
from solkit.measure.counters import program as _counted
from solkit.roofline import devices
from solkit.roofline.bound import bound
from solkit.roofline.work import work_of

FILE = KernelFile(
    Problem("p", "p.py", "native", "reference", {}, ({},)), Candidate("kernel", "k.py", {})
)
H100 = replace(devices.find("h100"), uuid="GPU-none")


def kernel(name="scale_kernel", grid=(8, 1, 1), **launch):
    return KernelAnalysis(Facts(Launch(name, grid, 4, 3, **launch)))


def counters(name="scale_kernel", grid=(8, 1, 1), sectors=1):
    return Counters(name, grid, load_sectors=sectors)


@pytest.fixture
def result():
    work = work_of(lambda: [torch.zeros(8) + 1])
    analysis = Analysis(AnalysisStatus.COMPLETE, (kernel(),))
    result = bound(work, H100)
    return solkit.core.Result({"N": 8}, {"BLOCK": 4}, Verdict.CORRECT, work, result, analysis)


@pytest.fixture
def counts(monkeypatch):
    """What Nsight Compute answers, and what it was asked."""
    requests = []

    def answer(result):
        def count(program, kernels, capability, **how):
            requests.append((program, kernels, capability, how))
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(nsight, "count_kernels", count)
        return requests

    return answer


def test_each_launch_gets_its_counters(result, counts):
    requested_counts = counts((counters(sectors=640),))
    launch_count = counting.count_launches(FILE, result, H100, 60.0)
    assert launch_count.analysis.kernels[0].counters.load_sectors == 640
    assert launch_count.analysis.notes == ()
    ((program, kernels, capability, how),) = requested_counts
    job = json.loads(program[-1])
    assert (job["path"], job["reference"]) == ("k.py", "p.py")
    assert (job["shape"], job["params"]) == ({"N": 8}, {"BLOCK": 4})
    assert (kernels, capability, how["cold"]) == (["scale_kernel"], (9, 0), True)
    assert how["env"]["CUDA_VISIBLE_DEVICES"] == "GPU-none"


def test_a_refusal_is_a_note_and_the_run_goes_on(result, counts):
    counts(CountersError("ncu is not on PATH"))
    launch_count = counting.count_launches(FILE, result, H100, 60.0)
    assert launch_count.analysis.notes == ("Not counted: ncu is not on PATH.",)
    assert launch_count.analysis.kernels[0].counters is None
    assert launch_count.verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("change", "device", "words"),
    [
        ({}, replace(H100, uuid=None), "not in this machine"),
        ({"verdict": Verdict.WRONG}, H100, "the candidate fails"),
        ({"analysis": Analysis(AnalysisStatus.NO_KERNEL)}, H100, "no launch"),
    ],
)
def test_nothing_to_count(result, counts, change, device, words):
    requested_counts = counts(())
    launch_count = counting.count_launches(FILE, replace(result, **change), device, 60.0)
    assert words in launch_count.analysis.notes[-1]
    assert not requested_counts


def test_none_of_the_launches_is_known(result, counts):
    counts((counters("another"), counters(grid=(9, 1, 1))))
    launch_count = counting.count_launches(FILE, result, H100, 60.0)
    assert "none of 2 launches" in launch_count.analysis.notes[0]


def test_launches_are_told_apart_by_name_grid_and_order():
    launches = (
        kernel("a", count=2), kernel("b"), kernel("a", constants={"BLOCK": 2}),
        kernel("ns::c<float, ns::d>", (2, 2, 1)), kernel("a", (4, 1, 1), num_ctas=2), kernel("e"),
    )  # fmt: skip
    results = [counters("a", sectors=n) for n in (1, 2, 3)]
    results[1:1] = [counters("b", sectors=9), counters("c", (2, 2, 1), sectors=7)]
    reported_counters = counting.match_counters(launches, (*results, counters("a", sectors=5)))
    assert [k.counters and k.counters.load_sectors for k in reported_counters] == [
        1,
        9,
        3,
        7,
        5,
        None,
    ]


def test_only_the_second_call_is_counted(monkeypatch):
    calls = []

    class Loaded:
        description = SimpleNamespace(problem=SimpleNamespace(allows_tf32=True))

        def workload(self, shape, params):
            calls.append((shape, params))
            run = lambda: calls.append("run")  # noqa: E731
            return Workload((), {}, None, run)

    monkeypatch.setattr(_counted, "load", lambda *_, **__: Loaded())
    for name in ("start", "stop"):
        monkeypatch.setattr(torch.cuda.profiler, name, lambda name=name: calls.append(name))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: calls.append("wait"))
    job = {"path": "k.py", "reference": None, "shape": {"N": 8}, "params": {}, "seed": 0}
    _counted.main(json.dumps(job))
    assert calls == [({"N": 8}, {}), "run", "wait", "start", "run", "wait", "stop"]


def test_what_fails_while_counted_ends_the_counting(monkeypatch):
    calls = []
    for name in ("start", "stop"):
        monkeypatch.setattr(torch.cuda.profiler, name, lambda name=name: calls.append(name))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    with contextlib.suppress(ValueError), _counted.counting_launches():
        raise ValueError
    assert calls == ["start", "stop"]


def test_nothing_is_counted_in_a_sandbox():
    with pytest.raises(InputError, match="sandbox"):
        solkit.score("k.py", settings=solkit.MeasureSettings(counters=True, sandbox=True))
