"""A problem and its candidate at several shapes: what is put together of their two sides."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest

from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan, describe, files_of_problem, study
from solkit.core import AnalysisStatus, Candidate, KernelFile, Problem
from solkit.errors import InputError, ShapeError

TWO = """
SHAPES = [{"N": 8}, {"N": 16}]
def inputs(N=1000, device="cuda"):
    return torch.randn(N, device=device)
def reference(x):
    return x * 2, x[:2].half()
def kernel(x, *, GIVES=2):
    return (x * 2, x[:2].half())[:GIVES]
"""


@pytest.fixture
def analyser(tmp_path):
    with Analyser("h100", cache=tmp_path / "cache") as analyser:
        yield analyser


def test_outputs_unlike_the_references_are_told(analyser, write):
    path = write(TWO)
    (two, one) = (study(analyser, StudyPlan(path, params={"GIVES": n})).cases[0] for n in (2, 1))
    text = (
        "The kernel gives 1 output float32[8] where the reference gives "
        "2 outputs float32[8], float16[2]."
    )
    assert text in one.analysis.notes
    assert text not in two.analysis.notes
    assert (two.params, one.params) == ({"GIVES": 2}, {"GIVES": 1})


def test_a_case_each_for_the_files_own_shapes_or_those_asked_for(analyser, write):
    path = write(TWO)
    assert [case.shape for case in study(analyser, StudyPlan(path)).cases] == [{"N": 8}, {"N": 16}]
    requested_study = study(analyser, StudyPlan(path, shapes=[{"N": 4}]))
    assert [case.shape for case in requested_study.cases] == [{"N": 4}]
    with pytest.raises(InputError, match="shapes: expected at least one"):
        study(analyser, StudyPlan(path, shapes=[]))


@pytest.mark.slow
def test_a_shape_that_fails_is_told_and_costs_no_other(analyser, write):
    result = study(analyser, StudyPlan(write(TWO), shapes=[{"M": 4}, {"N": 4}]))
    assert [case.shape for case in result.cases] == [{"N": 4}]
    assert "has no size 'M'" in result.failed[0].error
    with pytest.raises(ShapeError, match="has no size 'M'"):
        study(analyser, StudyPlan(write(TWO), shapes=[{"M": 4}]))
    with pytest.raises(InputError, match=r"(?s)every shape failed:.*M=4: .*L=2: "):
        study(analyser, StudyPlan(write(TWO), shapes=[{"M": 4}, {"L": 2}]))


@pytest.mark.quick("os._exit(7)")
@pytest.mark.parametrize("end", ["os._exit(7)", "os.abort()"])
def test_a_candidate_that_ends_its_process_leaves_the_problems_side(analyser, write, end):
    path = write(
        "import os\n" + TWO.replace("    return (x * 2, x[:2].half())[:GIVES]", f"    {end}")
    )
    (case, _) = study(analyser, StudyPlan(path)).cases
    assert case.work.dram_read_bytes > 0
    assert case.analysis.status is AnalysisStatus.NOT_CAPTURED
    assert case.analysis.notes[0].startswith("The candidate could not be run on fake tensors: its")


def test_a_reference_alone_has_no_candidate_to_analyse(analyser, write):
    path = write(TWO[: TWO.index("def kernel")])
    assert describe(analyser, path).candidate is None
    statuses = {case.analysis.status for case in study(analyser, StudyPlan(path)).cases}
    assert statuses == {AnalysisStatus.NO_KERNEL}


PROBLEM = Problem("p", "p.py", "native", "reference", {"N": 3}, ({"N": 3},))
CANDIDATE = Candidate("kernel", "k.py", {})
ALONE = KernelFile(PROBLEM, None)


@pytest.mark.parametrize(
    ("alone", "kernel", "plan", "files"),
    [
        (ALONE, {}, {}, ("p.py", None)),
        (ALONE, {}, {"params": {"B": 2}}, ("p.py", None)),
        (ALONE, {}, {"params": {"B": 2}, "analysing": False}, ("k.py", "p.py")),
        (ALONE, {"problem": replace(PROBLEM, sizes={"N": 4})}, {}, ("k.py", "p.py")),
        (ALONE, {"candidate": replace(CANDIDATE, is_deployed=True)}, {}, ("k.py", "p.py")),
        (KernelFile(PROBLEM, replace(CANDIDATE, is_deployed=True)), {}, {}, ("k.py", "p.py")),
        (InputError("no problem by itself"), {}, {}, ("k.py", "p.py")),
        (ALONE, {}, {"reference": None}, ("k.py", None)),
    ],
)
def test_candidates_share_the_trace_of_a_problem_that_stands_alone(alone, kernel, plan, files):
    described = Future()
    if isinstance(alone, InputError):
        described.set_exception(alone)
    else:
        described.set_result(alone)
    analyser = SimpleNamespace(describe=lambda *_: described)
    own = replace(KernelFile(PROBLEM, CANDIDATE), **kernel)
    assert (
        files_of_problem(analyser, StudyPlan(**{"path": "k.py", "reference": "p.py", **plan}), own)
        == files
    )
