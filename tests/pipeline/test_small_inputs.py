"""The winner of a search leaves inputs to the original that are smaller than it was tried on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("libcst")

from solkit.core import (
    Analysis,
    AnalysisStatus,
    Binding,
    EvolveSettings,
    Facts,
    Finalist,
    KernelAnalysis,
    Launch,
    Practised,
    Problem,
    TensorLayout,
    Variant,
    Verdict,
)
from solkit.pipeline.evolve_original import Original
from solkit.pipeline.practice import Practice
from solkit.tuner.evolution.evolution_search import VariantOutcome
from solkit.tuner.evolution.population_archive import Archive

FILE = """
import torch


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def kernel(x):
    y = torch.empty_like(x)
    copy[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
    return y
"""
BEFORE, AFTER = FILE, FILE.replace("16", "4096")


class World:
    """Knows the tensors at each shape; measures what it was told."""

    def __init__(self, outcome, held_out=({"M": 3},)):
        problem = Problem("p", "k.py", "native", "reference", {}, ({"M": 1000},), tuple(held_out))
        file = SimpleNamespace(problem=problem, candidate=SimpleNamespace(name="kernel"))
        self.original = Original("k.py", "k.py", file, {"M": 1000}, {}, Variant("first", BEFORE))
        self.how, self.outcome = EvolveSettings(), outcome

    def prospect_of(self, configuration):
        layout = TensorLayout("fp32", 4, (configuration.shape["M"],), (1,))
        arguments = {"x_ptr": Binding("tensor", tensor=layout)}
        launch = Launch("copy", (1, 1, 1), 4, 3, arguments=arguments)
        analysis = Analysis(AnalysisStatus.COMPLETE, (KernelAnalysis(Facts(launch)),))
        return SimpleNamespace(
            result=SimpleNamespace(analysis=analysis, work=SimpleNamespace(needs=()))
        )

    def path(self, variant):
        return f"{variant.id}.py"

    def holds(self, *_):
        return True

    def measure(self, _point, _variant):
        return self.outcome


def winner(world, *trials):
    """What goes to the gate, and what was noted."""
    archive = Archive(world.original.variant)
    archive.add(Variant("second", AFTER, "first"))
    best = archive.note("second", time_ms=1.0, gap=2.0)
    finalist = Finalist("second", {}, 1.0, tuple(trials), taken=True)
    practice = Practice(world, 20.0)
    results = practice.leave_small_inputs(SimpleNamespace(archive=archive), best, [finalist])
    return results, practice.notes


def at(size, ratio):
    return Practised({"M": size}, Verdict.CORRECT, ratio)


RIGHT = VariantOutcome(Verdict.CORRECT, 1.01)


@pytest.mark.parametrize(
    ("trials", "least"),
    [
        ([], 1000),
        ([at(500, 0.5), at(700, 1.01)], 500),  # 1 % more is noise
        ([at(500, 1.5), at(700, 0.5)], 700),
        ([at(500, 0.5), at(700, 1.5)], 1000),  # what holds by chance below a loss says nothing
        ([at(500, 0.5), at(300, 1.5)], 500),
        ([at(500, None)], 1000),
        ([at(2000, 0.5)], 1000),
    ],
)
def test_the_original_stays_below_what_was_tried_and_not_slower(trials, least):
    result, notes = winner(World(RIGHT), *trials)
    assert f"if x.numel() < {least}:" in result.variant.source
    assert result.variant.parent == "second"
    assert (result.time_ms, result.gap) == (1.01, pytest.approx(2.02))
    assert notes == [f"The original's launches run where x.numel() < {least}."]


@pytest.mark.parametrize(
    "outcome", [VariantOutcome(Verdict.CORRECT, 1.2), VariantOutcome(Verdict.WRONG, why="It is.")]
)
def test_a_file_that_is_slower_or_wrong_does_not_replace_the_winner(outcome):
    result, notes = winner(World(outcome), at(500, 0.5))
    assert result.variant.id == "second"
    assert len(notes) == 1


def test_a_problem_of_one_shape_needs_no_such_file():
    world = World(RIGHT, held_out=())
    result, notes = winner(world)
    assert (result.variant.id, notes) == ("second", [])


def narrowed(world, *slower, trials=()):
    """The winner after it was slower at some shapes of the gate; and the winner before."""
    archive = Archive(world.original.variant)
    archive.add(Variant("second", AFTER, "first"))
    best = archive.note("second", time_ms=1.0, gap=2.0)
    breeding, practice = SimpleNamespace(archive=archive), Practice(world, 20.0)
    finalist = Finalist("second", {}, 1.0, tuple(trials), taken=True)
    before = practice.leave_small_inputs(breeding, best, [finalist])
    shapes = [{"M": size} for size in slower]
    return practice.leave_slower_shapes(breeding, before, [finalist], shapes), before


def test_a_larger_shape_at_which_the_winner_is_slower_is_left_to_the_original():
    result, before = narrowed(World(RIGHT), 4000, trials=[at(2000, 0.5), at(500, 0.7)])
    assert "if x.numel() < 500 or x.numel() > 2000:" in result.variant.source
    assert result.variant.source.count("def kernel_before") == 1  # made of the winner itself
    assert (result.variant.parent, result.time_ms) == ("second", before.time_ms)


def test_several_shapes_are_left_to_the_original_at_once():
    result, _ = narrowed(World(RIGHT), 4000, 600, trials=[at(500, 0.7)])
    assert "if x.numel() < 1000 or x.numel() > 1000:" in result.variant.source


@pytest.mark.parametrize("size", [3, 1000])
def test_nothing_changes_where_the_original_ran_or_nothing_tells_a_shape_apart(size):
    assert narrowed(World(RIGHT), size)[0] is None
