"""Which variants are kept, and which are built on."""

from __future__ import annotations

from collections import Counter

import pytest

from solkit.core import Analysis, AnalysisStatus, Variant, Verdict
from solkit.errors import InputError
from solkit.roofline.devices import find
from solkit.tuner.evolution import Archive
from solkit.tuner.evolution.population_archive import behaviour_of

ORIGINAL = Variant("0", "original")


def archive_of(**times):
    """One of variants, all made from the original; each behaves like its name's first letter."""
    archive = Archive(ORIGINAL, seed=1)
    archive.note("0", time_ms=1.0, verdict=Verdict.CORRECT, behaviour=("0",))
    for name, time_ms in times.items():
        archive.add(Variant(name, name, parent="0"))
        archive.note(name, time_ms=time_ms, behaviour=(name[0],))
    return archive


def test_the_original_is_the_best_before_anything_was_timed():
    archive = Archive(ORIGINAL)
    assert archive.best.variant is ORIGINAL
    assert archive.parent().variant is ORIGINAL


def test_elites_are_the_fastest_of_each_behaviour_and_what_failed_is_none():
    archive = archive_of(a1=0.9, a2=0.5, b1=0.7, c1=None)
    assert [behaviour_elite.variant.id for behaviour_elite in archive.behaviour_elites()] == [
        "a2",
        "b1",
        "0",
    ]
    assert archive.best.variant.id == "a2"


def test_fast_ones_are_parents_more_often_and_used_ones_less():
    counts = Counter(archive_of(a=0.5, b=0.9).parent().variant.id for _ in range(1))
    archive = archive_of(a=0.5, b=0.9)
    counts = Counter(archive.parent().variant.id for _ in range(12))
    assert counts["a"] > counts["b"]
    assert counts["b"] > 0  # each round halves the weight of the one that was used


def test_a_parent_that_gives_nothing_new_is_not_chosen_again():
    archive = archive_of(a=0.5)
    archive.mark_barren("a")
    assert {archive.parent().variant.id for _ in range(5)} == {"0"}
    archive.mark_barren("0")
    assert archive.parent() is None
    assert not archive.parent_is_open


def test_what_is_as_fast_by_other_rewrites_is_built_on_too():
    archive = archive_of(a1=0.5)
    changes = [
        ("a2", "rows", 0.51),
        ("a3", "rows", 0.512),
        ("a4", "lanes", 0.6),
        ("a5", ORIGINAL.kind, 0.51),
    ]
    for name, kind, time_ms in changes:
        archive.add(Variant(name, name, parent="0", kind=kind))
        archive.note(name, time_ms=time_ms, behaviour=("a",))
    chosen = {archive.parent().variant.id for _ in range(60)}
    assert (
        {"a1", "a2"} <= chosen <= {"a1", "a2", "0"}
    )  # a3 is of a2's kinds, a4 is slower, a5 is of a1's kinds
    for name in ("a1", "0"):
        archive.mark_barren(name)
    assert archive.parent_is_open
    assert archive.parent().variant.id == "a2"


def test_a_gain_is_the_parents_time_over_its_own():
    archive = archive_of(a=0.5, b=None)
    assert archive.gain(archive["a"]) == 2.0
    assert archive.gain(archive["b"]) is None
    assert archive.gain(archive["0"]) is None


def test_a_variant_of_an_unknown_parent_is_refused():
    with pytest.raises(InputError, match="unknown parent: nobody"):
        Archive(ORIGINAL).add(Variant("x", "x", parent="nobody"))


def test_children_are_told_oldest_first():
    archive = archive_of(b=0.5, a=0.4)
    archive.add(Variant("c", "c", parent="a"))
    assert [item.variant.id for item in archive.children("0")] == ["b", "a"]


def test_nothing_is_known_of_the_behaviour_of_what_failed_or_was_not_captured():
    nothing = Analysis(AnalysisStatus.NOT_CAPTURED)
    assert behaviour_of(nothing, find("h100"), Verdict.CORRECT) == ()
