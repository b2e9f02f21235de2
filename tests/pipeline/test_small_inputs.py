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
from solkit.errors import WorkerError
from solkit.pipeline.compiled_parents import COMPILED
from solkit.pipeline.evolve_original import Original
from solkit.pipeline.evolve_selection import Selection
from solkit.pipeline.practice import Practice
from solkit.tuner.evolution.population_archive import Archive
from solkit.tuner.evolution.variant_evaluator import VariantOutcome

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

    is_same = False  # what a joined file launches, as what the winner does

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
        return SimpleNamespace(result=SimpleNamespace(analysis=analysis))

    def inputs_of(self, _configuration):
        return {}

    def path(self, variant):
        return f"{variant.id}.py"

    def holds(self, *_):
        return True

    def are_same(self, one, other):
        return self.is_same and one.path == "second.py" != other.path

    def fits_one_shape(self, variant):
        return variant.proposer == COMPILED

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


def test_a_file_that_is_slower_once_is_timed_again():
    world, times = World(RIGHT), iter([1.9, 1.01])
    world.measure = lambda *_: VariantOutcome(Verdict.CORRECT, next(times))
    result, _ = winner(world, at(500, 0.5))
    assert result.time_ms == 1.01


def test_a_file_that_launches_what_the_winner_does_is_not_measured():
    world = World(VariantOutcome(Verdict.WRONG, why="It was measured."))
    world.is_same = True
    result, notes = winner(world, at(500, 0.5))
    assert "if x.numel() < 500:" in result.variant.source
    assert (result.time_ms, result.gap, result.measured) == (1.0, 2.0, 0)
    assert len(notes) == 1


def test_a_references_program_leaves_all_other_sizes_to_the_original_already():
    world = World(RIGHT)
    archive = Archive(world.original.variant)
    archive.add(Variant("second", AFTER, "first", proposer=COMPILED))
    best = archive.note("second", time_ms=1.0)
    practice = Practice(world, 20.0)
    assert practice.leave_small_inputs(SimpleNamespace(archive=archive), best, []) is best
    assert practice.notes == []


def test_what_a_file_leaves_to_the_original_follows_from_its_sizes():
    world = World(RIGHT)
    world.inputs_of = lambda configuration: {"x": ((configuration.shape["M"],), (1,))}
    archive, practice = Archive(world.original.variant), Practice(world, 20.0)
    archive.add(Variant("second", AFTER, "first"))
    archive.add(Variant("program", AFTER + "\n", "first", proposer=COMPILED))
    best = archive.note("second", time_ms=1.0)
    joined = practice.leave_small_inputs(SimpleNamespace(archive=archive), best, [])
    winners = joined, best, archive["program"]
    is_left = [[practice.leaves_to_original(w, {"M": m}) for m in (999, 1000)] for w in winners]
    assert is_left == [[True, False], [False, False], [True, False]]


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
    assert "if x.numel() != 1000:" in result.variant.source


@pytest.mark.parametrize("size", [3, 1000])
def test_nothing_changes_where_the_original_ran_or_nothing_tells_a_shape_apart(size):
    assert narrowed(World(RIGHT), size)[0] is None


def chosen(outcome, *, loss=0.9):
    """Return the file for the gate: a far faster variant was to leave M = 2000 to the original.

    Its joined file has an outcome; that of the other finalist is right.
    """
    world = World(RIGHT)
    world.measure = lambda _, variant: outcome if "4096" in variant.source else RIGHT
    archive = Archive(world.original.variant)
    for name, source in (("second", AFTER), ("third", FILE.replace("16", "64"))):
        archive.add(Variant(name, source, "first", name))
        archive.note(name, verdict=Verdict.CORRECT, time_ms=1.0, gap=2.0)
    finalists = (
        Finalist("second", {}, 0.5, (at(500, 0.7), at(2000, 1.4)), taken=True),
        Finalist("third", {}, 1.0, (at(500, 0.7), at(2000, loss))),
    )
    practice = Practice(world, 20.0)
    practice.run = lambda _: finalists
    breeding = SimpleNamespace(archive=archive, settle_checks=lambda: False)
    selection = Selection(world, breeding, practice)
    selection.practise()
    return selection, selection.winner.variant


def test_a_far_faster_variant_is_taken_with_the_original_where_it_is_slower():
    run, variant = chosen(RIGHT)
    assert variant.parent == "second"
    assert "if x.numel() < 500 or x.numel() > 1000:" in variant.source
    assert [finalist.taken for finalist in run.finalists] == [True, False]


@pytest.mark.parametrize(
    "outcome", [VariantOutcome(Verdict.CORRECT, 1.2), VariantOutcome(Verdict.WRONG, why="It is.")]
)
def test_it_gives_way_to_the_one_that_holds_if_its_file_cannot_leave_that(outcome):
    run, variant = chosen(outcome)
    assert variant.parent == "third"
    assert "if x.numel() < 500:" in variant.source
    assert [finalist.taken for finalist in run.finalists] == [False, True]
    assert run.practice.notes[1] == (
        "second could not leave the sizes at which it is slower: third was taken."
    )


def test_it_gives_way_to_the_one_that_loses_least_where_none_holds():
    _, variant = chosen(VariantOutcome(Verdict.WRONG, why="It is."), loss=1.2)
    assert variant.parent == "third"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), WorkerError("lost")])
def test_one_that_holds_stays_if_a_far_faster_one_cannot_be_tried(error):
    world = World(RIGHT)

    def measure(_point, _variant):
        raise error

    world.measure, world.spent_s = measure, lambda: 0.0
    archive = Archive(world.original.variant)
    for name, source in (("second", AFTER), ("third", FILE.replace("16", "64"))):
        archive.add(Variant(name, source, "first", name))
        archive.note(name, verdict=Verdict.CORRECT, time_ms=1.0)
    practising = [archive["first"], archive["second"], archive["third"]]
    held = (
        Finalist("second", {}, 0.5, (at(2000, 1.4),)),
        Finalist("third", {}, 1.0, (at(2000, 0.9),), taken=True),
    )
    practice, shapes = Practice(world, 20.0), [{"M": 2000}]
    result = practice._take_far_faster(SimpleNamespace(archive=archive), practising, held, shapes)
    assert result == held
    (note,) = practice.notes
    assert "practice" in note
