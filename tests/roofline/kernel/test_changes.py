"""Named changes between two analyses, from facts that are written by hand."""

from __future__ import annotations

import math
from dataclasses import replace

from solkit.core import (
    Access,
    Analysis,
    AnalysisStatus,
    Facts,
    InstructionCount,
    InstructionMix,
    KernelAnalysis,
    Launch,
    Pace,
    Requests,
    SharedAccess,
    WarpRole,
)
from solkit.roofline import devices
from solkit.roofline.kernel.changes import changes_between, guessed_alone
from solkit.roofline.kernel.evaluate import described

LAUNCH = Launch("copy", (1024, 1, 1), 4, 3)
LOAD = Access("load", "async", "x", "a.py:3", 100, 800, 800, 25600, 25600, 16)
STORE = Access("store", "global", "y", "a.py:4", 100, 800, 800, 25600, 25600, 16)
MIX = InstructionMix(
    (InstructionCount("tensor", "HGMMA.64x128x16", 1, 4, 0, 0, 65536),),
    1,
    paces=(Pace(1, 100.0, 0.0, 0.0),),
)
REQUESTS = Requests(
    accesses=(LOAD, STORE),
    operations={},
    l1_wavefronts=1600,
    l2_read_bytes=25600,
    l2_write_bytes=25600,
    shared=(SharedAccess("load", "a.py:3", 100, 400, 400),),
)
FACTS = Facts(
    LAUNCH, registers=64, spills=0, shared_bytes=1024, instructions=MIX, requests=REQUESTS
)


def analysis(facts=FACTS, **changed):
    facts = replace(facts, **changed)
    return Analysis(AnalysisStatus.COMPLETE, (described(facts, devices.find("h100")),))


def named(after, before=None):
    return {change.name: change for change in changes_between(before or analysis(), after)}


def with_accesses(*accesses, **changed):
    return analysis(requests=replace(REQUESTS, accesses=accesses, **changed))


def test_equal_analyses_have_no_changes():
    assert changes_between(analysis(), analysis()) == ()


def test_spills_out_of_nothing_are_infinitely_worse():
    change = named(analysis(spills=12))["spills"]
    assert (change.before, change.after, change.factor) == (0, 12, math.inf)
    assert change.exceeds(1e9)


def test_fewer_registers_are_better():
    change = named(analysis(registers=32))["registers"]
    assert (change.is_worse, change.factor) == (False, 0.5)


def test_loads_that_are_no_longer_copied_ahead_lose_their_pipeline():
    change = named(with_accesses(replace(LOAD, path="global"), STORE))["pipeline"]
    assert (change.place, change.factor, change.is_worse) == ("load of x (a.py:3)", None, True)


def test_copies_that_each_trip_waits_for_are_no_pipeline_either():
    waiting = replace(MIX, paces=(Pace(1, 100.0, 2.0, 0.0),))
    changes = named(analysis(instructions=waiting))
    assert changes["pipeline"].is_worse
    assert changes["waits"].after == 2.0


def test_a_narrower_instruction_is_named_with_its_argument():
    narrow = replace(STORE, vector_bytes=4, requests=400)
    change = named(with_accesses(LOAD, narrow))["vector_width"]
    assert (change.place, change.factor) == ("store of y (a.py:4)", 4.0)


def test_one_access_that_became_two_of_the_same_kind_did_not_change():
    half = replace(STORE, requests=50, sectors=400, block_sectors=400, requested_bytes=12800)
    assert "sectors" not in named(with_accesses(LOAD, half, replace(half, line="a.py:9")))


def test_sectors_of_an_address_that_one_side_guesses_are_not_compared():
    guess = "a.py:4: an address that is not known counts a sector for each element."
    after = with_accesses(LOAD, replace(STORE, sectors=9000), guesses=(guess,))
    assert "sectors" not in named(after)
    assert guessed_alone(analysis(), after) == (guess,)


def test_bank_conflicts_count_passes_beyond_the_least():
    shared = (SharedAccess("load", "a.py:3", 100, 500, 400),)
    change = named(with_accesses(LOAD, STORE, shared=shared))["bank_conflicts"]
    assert (change.before, change.after) == (0, 100)


def test_products_of_an_older_generation_are_worse_and_newer_ones_better():
    older = replace(MIX, counts=(InstructionCount("tensor", "HMMA.16816", 1, 4, 0, 0, 4096),))
    assert named(analysis(instructions=older))["tensor_cores"].is_worse
    assert not named(analysis(), analysis(instructions=older))["tensor_cores"].is_worse


AMDS_MIX = InstructionMix(
    (
        InstructionCount("tensor", "v_mfma_f32_32x32x8_bf16", 1, 16, 0, 0, 65536),
        InstructionCount("int32", "v_add_u32", 1, 900, 0, 0, 0),
    ),
    1,
)
"""Of a loop of many instructions, without paces: nobody computes those of AMD's waves."""


def test_instructions_of_two_vendors_are_not_compared_but_whether_products_have_their_cores():
    waiting = replace(MIX, paces=(Pace(1, 100.0, 2.0, 0.0),))
    assert set(named(analysis(instructions=AMDS_MIX), analysis(instructions=waiting))) == {"time"}
    without = replace(AMDS_MIX, counts=AMDS_MIX.counts[1:])
    assert "tensor_cores" in named(analysis(instructions=without))


def test_figures_that_one_side_estimates_are_not_compared():
    estimated = analysis(requests=replace(REQUESTS, barriers=7.0), estimated=("shared", "barriers"))
    assert named(estimated) == {}
    assert set(named(analysis(requests=replace(REQUESTS, barriers=7.0)))) == {"barriers"}


def test_waits_are_compared_where_both_sides_say_them():
    waiting = analysis(instructions=replace(MIX, paces=(Pace(1, 100.0, 2.0, 0.0),)))
    assert "waits" in named(waiting)
    assert "waits" not in named(waiting, analysis(instructions=replace(MIX, paces=())))


def test_warps_that_lose_their_roles_lost_their_specialisation():
    roles = WarpRole("loads", 10, bulk_copies=2), WarpRole("products", 20, tensor=4)
    before = analysis(instructions=replace(MIX, roles=roles))
    assert named(analysis(), before)["warp_specialisation"].is_worse


def test_a_kernel_that_no_longer_compiles_says_why_and_nothing_else():
    after = Analysis(
        AnalysisStatus.PARTIAL, (KernelAnalysis(Facts(LAUNCH, error="no"), error="no"),)
    )
    (change,) = changes_between(analysis(), after)
    assert (change.name, change.words) == ("does_not_run", "it no longer runs: no")


def test_launches_are_paired_by_name_and_renamed_ones_by_order():
    other = replace(FACTS, launch=replace(LAUNCH, name="copy2"))
    assert "launches" not in named(analysis(other))
    two = Analysis(AnalysisStatus.COMPLETE, (*analysis().own, *analysis(other).own))
    change = named(two)["launches"]
    assert (change.before, change.after, change.is_worse) == (1, 2, True)


CRASHED = Analysis(AnalysisStatus.NOT_CAPTURED, notes=("it asserts",), failure="crashed")


def test_a_candidate_that_crashes_on_one_side_no_longer_runs_there():
    (change,) = changes_between(analysis(), CRASHED)
    assert (change.name, change.words) == ("does_not_run", "it no longer runs: it asserts")
    assert change.exceeds(10.0)
    (change,) = changes_between(CRASHED, analysis())
    assert (change.name, change.is_worse, change.words) == ("does_not_run", False, "it runs now")
    assert changes_between(CRASHED, CRASHED) == ()


def test_what_cannot_be_analysed_on_one_side_has_no_changes():
    for status in (AnalysisStatus.NOT_ANALYSED, AnalysisStatus.UNSUPPORTED_DEVICE):
        for other in (analysis(), CRASHED):
            assert changes_between(Analysis(status), other) == ()
            assert changes_between(other, Analysis(status)) == ()
