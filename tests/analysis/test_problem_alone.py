"""A candidate's code does not change its problem's bound."""

from __future__ import annotations

import pytest

from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan, study

PROBLEM = """
import torch
SIZE = 64
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(SIZE, SIZE))
    def forward(self, x):
        return x @ self.weight
def get_inputs():
    return [torch.randn(SIZE, SIZE)]
def get_init_inputs():
    return []
"""

NEW = """
import torch
{before}
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(64, 64))
        {inside}
    def forward(self, x):
        return x @ self.weight
"""

MEDDLING = {
    "compiles itself": ("", "self.run = torch.compile(torch.relu)"),
    "reads a number that is not known": ("", "self.scale = self.weight.sum().item()"),
    "changes the default dtype": ("", "torch.set_default_dtype(torch.float64)"),
    "changes an operator when it is built": ("", "torch.Tensor.__matmul__ = lambda a, b: a"),
    "changes an operator when it is imported": ("torch.Tensor.__matmul__ = lambda a, b: a", "pass"),
    "compiles when it is imported": ("run = torch.compile(torch.relu)", "pass"),
}


def work_of(path, reference=None):
    with Analyser("h100", cache=False, workers=2) as analyser:
        return study(analyser, StudyPlan(path, reference)).cases[0].work


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    path = tmp_path_factory.mktemp("alone") / "problem.py"
    path.write_text(PROBLEM)
    return str(path), work_of(str(path))


@pytest.mark.quick("compiles itself")
@pytest.mark.parametrize("name", MEDDLING)
def test_a_candidate_in_a_file_of_its_own(alone, tmp_path, name):
    problem, expected = alone
    before, inside = MEDDLING[name]
    new = tmp_path / "new.py"
    new.write_text(NEW.format(before=before, inside=inside))
    assert work_of(str(new), problem) == expected


@pytest.mark.quick("compiles itself", "changes an operator when it is built")
@pytest.mark.parametrize("name", [name for name, (before, _) in MEDDLING.items() if not before])
def test_a_candidate_in_the_same_file(alone, tmp_path, name):
    _, expected = alone
    both = tmp_path / "both.py"
    both.write_text(PROBLEM + NEW.format(before="", inside=MEDDLING[name][1]))
    work = work_of(str(both))
    assert work.hard_operations == expected.hard_operations
    assert (work.hard_read_bytes, work.guesses) == (expected.hard_read_bytes, ())


def test_a_product_of_weights_is_folded(tmp_path):
    path = tmp_path / "folded.py"
    path.write_text(PROBLEM.replace("x @ self.weight", "x + self.weight @ self.weight.exp()"))
    work = work_of(str(path))
    assert sum(work.hard_operations.values()) == 0
    assert sum(work.operations.values()) > 0


def test_weights_are_known_before_the_call(alone):
    _, work = alone
    assert work.hard_read_bytes == 4 * 64 * 64  # of x
    assert work.dram_read_bytes == 2 * 4 * 64 * 64
