"""GPU MODE's form: a submission, and the problem beside or above."""

from __future__ import annotations

import pytest
import torch

import solkit
from solkit.errors import KernelFileError
from solkit.kernelfiles import load
from solkit.kernelfiles.seeding import seed_everything
from solkit.pipeline.starting import start

TASK = """
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "helpers_of_task.py", "source": "../helpers_of_task.py"}
tests:
  - {"rows": 3, "seed": 1}
benchmarks:
  - {"rows": 8, "seed": 2}
  # - {"rows": 9, "seed": 3}
  - {"rows": 8, "seed": 4}  # the same again
  - {"rows": 16, "seed": 4, "kind": "wide"}
ranking_by: "geom"
"""
PROBLEM = """
import torch
from helpers_of_task import says_nothing

def generate_input(rows: int, seed: int, kind: str = "usual"):
    torch.manual_seed(seed)
    return torch.randn(rows, 4), torch.empty(rows), torch.zeros(rows)

def ref_kernel(data):
    return data[0].double().sum(1)

def check_implementation(data, output):  # either sign will do
    assert output.dtype == torch.float32
    right = torch.allclose(output.abs(), data[0].sum(1).abs(), atol=1e-5)
    return says_nothing() if right else "of another size"
"""
SUBMISSION = """
def custom_kernel(data):
    x, out, _ = data
    out[:] = -x.sum(1)
    return out
"""


@pytest.fixture
def submission(tmp_path):
    folder = tmp_path / "row_sums"
    (folder / "submissions").mkdir(parents=True)
    (tmp_path / "helpers_of_task.py").write_text("def says_nothing():\n    return ''\n")
    (folder / "task.yml").write_text(TASK)
    (folder / "reference.py").write_text(PROBLEM)
    (folder / "submissions" / "mine.py").write_text(SUBMISSION)
    return folder / "submissions" / "mine.py"


def test_a_submission_finds_its_problem(submission):
    loaded = solkit.load(str(submission))
    problem = loaded.problem
    assert (problem.name, problem.format, loaded.candidate.name) == (
        "row_sums",
        "gpu-mode",
        "custom_kernel",
    )
    assert problem.sizes == {"rows": 8, "kind": "usual"}  # the seed is none
    assert problem.shapes == ({"rows": 8}, {"rows": 16, "kind": "wide"})
    assert problem.held_out_shapes == ({"rows": 3},)
    alone = solkit.load(problem.path)
    assert (alone.problem.shapes, alone.candidate) == (problem.shapes, None)


def test_outputs_have_memory_of_their_own_and_the_problems_check_judges(submission):
    loaded = load(str(submission))
    seed_everything(5)
    workload = loaded.workload({"rows": 8}, {}, "cpu")
    assert [tuple(t.shape) for t in workload.tensors()] == [(8, 4), (8,)]  # zeros may be read
    (want,), (got,) = workload.run_reference(), workload.run_kernel()
    assert want.dtype == torch.float32  # no answer needs the reference's float64
    workload.check(got, want)
    with pytest.raises(AssertionError, match="of another size"):
        workload.check(got + 1, want)
    seed_everything(6)
    other = loaded.drawn(workload, {"rows": 8}, "cpu")
    assert not torch.equal(other.args[0][0], workload.args[0][0])
    with pytest.raises(AssertionError, match="of another size"):
        other.check(got, want)  # these are of the first inputs
    other.check(*other.run_kernel(), *other.run_reference())


def test_a_submission_without_a_problem_is_told_what_it_lacks(submission):
    submission.parent.parent.joinpath("reference.py").rename(submission.parent.parent / "r.py")
    with pytest.raises(KernelFileError, match="--reference"):
        solkit.load(str(submission))
    started = start(str(submission), "out.py")
    assert (started.text, "--reference" in started.command) == ("", True)
