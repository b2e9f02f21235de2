"""Work that loaded numbers decide: the real numbers where they are known, else all of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("decided.py")
SPEC = importlib.util.spec_from_file_location("decided", SOURCE)
decided = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(decided)


@pytest.fixture(scope="module")
def counted(interpreted):
    """Bytes that each case asks for, counted as it runs on the CPU."""
    return interpreted(SOURCE.parent, "decided:interpreted")


def requested_bytes(demand, kind):
    return sum(a.requested_bytes for a in demand.accesses if a.kind == kind)


@pytest.mark.slow
@pytest.mark.parametrize("name", decided.CASES)
def test_bytes_asked_for_are_those_that_the_interpreter_sees(name, launched, counted):
    demand = launched(decided.CASES[name]).demand
    for kind, expected in counted[name].items():
        # programs that were not followed lane by lane are scaled: within 2 %
        assert requested_bytes(demand, kind) == pytest.approx(expected, rel=0.02), kind


def test_where_a_guard_is_not_known_the_work_is_done(launched):
    demand = launched(decided.hidden_experts).demand
    # 20 x 2 programs multiply (16, 64) by (64, 32), whether or not a token is behind them
    assert demand.operations["tensor.fp16"] == 40 * 2 * 16 * 64 * 32
    loads = [a for a in demand.accesses if (a.kind, a.argument) == ("load", "w")]
    assert sum(a.requested_bytes for a in loads) == 40 * 64 * 32 * 2
    assert any(
        "a branch that depends on data is assumed to do the work" in g for g in demand.guesses
    )


def test_a_branch_for_data_that_are_not_finite_is_not_taken(launched):
    demand = launched(decided.finite_data).demand
    assert requested_bytes(demand, "load") == 64 * 128 * 4  # once
    assert requested_bytes(demand, "store") == 128 * 4
    assert any("assumed to be finite" in guess for guess in demand.guesses)


def test_a_loop_that_waits_for_another_program_ends(launched):
    demand = launched(decided.waiting).demand
    assert requested_bytes(demand, "store") == 512 * 4 + 4 * 4
    assert any("is followed for" in guess for guess in demand.guesses)


@pytest.mark.slow
def test_an_early_return_that_is_not_known_is_not_taken(launched):
    assert requested_bytes(launched(decided.hidden_flag).demand, "store") == 900 * 4
    assert requested_bytes(launched(decided.hidden_lengths).demand, "store") == 10 * 8 * 16 * 32 * 4


def test_what_programs_change_by_atomics_decides_nothing(launched):
    kernel = launched(decided.locked)
    # 40 rows of 1,000 floats; at the lock's numbers, all but the first read the sum so far
    asked_bytes = {
        name: sum(a.requested_bytes for a in kernel.demand.accesses if a.argument == name)
        for name in ("x", "out")
    }
    assert asked_bytes == {"x": 40 * 4000, "out": 2 * 40 * 4000}


def test_places_that_are_not_known_lie_in_the_tensor_behind_the_pointer(launched):
    demand = launched(decided.sorted_places).demand
    (stored,) = [access for access in demand.accesses if access.kind == "store"]
    assert (stored.argument, stored.unique_bytes) == ("out", 2 * 4096)
    assert demand.dram_write_bytes == 2 * 4096


@pytest.mark.slow
@pytest.mark.parametrize("case", [decided.hidden_rows, decided.hidden_walk])
def test_loops_of_unknown_lengths_share_the_tensor_that_they_walk_along(launched, case):
    demand = launched(case).demand
    values = [a for a in demand.accesses if (a.kind, a.argument) == ("load", "values")]
    assert sum(a.requested_bytes for a in values) == 1024 * 4  # once all of it, by all rows
    text = "8 loops whose lengths depend on data are assumed to share their tensors"
    assert any(text in guess for guess in demand.guesses)


def test_a_loop_of_unknown_length_runs_to_the_end_of_the_axis_that_it_walks_along(launched):
    demand = launched(decided.hidden_pages).demand
    cache = [a for a in demand.accesses if a.argument == "cache"]
    assert sum(a.requested_bytes for a in cache) == 3 * 8 * 16 * 32 * 4  # eight pages of each table
    assert any("assumed to run to the end of its tensors" in guess for guess in demand.guesses)


def test_tiles_counted_by_unknown_offsets_are_tiles(launched):
    demand = launched(decided.hidden_groups).demand
    (load,) = (a for a in demand.accesses if a.argument == "x")
    # 40 tiles of 16 rows of 32 floats, in whole lines; not a sector for each element
    assert (load.requested_bytes, load.sectors) == (40 * 2048, 40 * 64)


def test_where_atomics_meet(launched):
    (atomic,) = (a for a in launched(decided.bins).demand.accesses if a.kind == "atomic")
    result = atomic.contention
    # of 0 to 3,999 the 2,000 even numbers go to bin 3; so do, of the odd ones, those that are 3
    # modulo 16: 250. Each odd number's bin gets 250.
    assert (result.operations, result.addresses) == (4000, 8)
    assert (result.busiest_address, result.busiest_sector) == (2250, 2250 + 3 * 250)
    # a warp holds 32 numbers in a row: half of them in one bin, the others over all eight
    assert result.warp_addresses == 125 * 8
    assert (atomic.operation, atomic.semantics, atomic.scope) == ("add", "relaxed", "gpu")
    assert not atomic.is_returned
    assert not result.is_assumed


def test_a_counter_that_all_programs_share(launched):
    first, second = (a for a in launched(decided.serving).demand.accesses if a.kind == "atomic")
    # 8 programs, which then ask once for each of 37 tiles
    assert (first.contention.operations, first.contention.busiest_address) == (8, 8)
    assert (second.contention.operations, second.contention.busiest_address) == (37, 37)
    assert first.contention.addresses == second.contention.addresses == 1
    assert first.is_returned


def test_counters_that_some_programs_share(launched):
    accesses = launched(decided.serving_in_halves).demand.accesses
    first, second = (a for a in accesses if a.kind == "atomic")
    # 4 programs at each, which then ask once for each of its tiles: 19 even ones, 18 odd ones
    assert (first.contention.operations, first.contention.busiest_address) == (8, 4)
    assert (second.contention.operations, second.contention.busiest_address) == (37, 19)
    assert first.contention.addresses == second.contention.addresses == 2


def test_the_manner_of_each_access(launched):
    accesses = launched(decided.manners).demand.accesses
    by_line = [a for a in accesses if a.kind == "load"]
    assert [(a.cache, a.eviction, a.is_volatile) for a in by_line] == [
        ("cg", "", False),
        ("", "evict_last", False),
        ("", "", True),
    ]
    assert next(a.cache for a in accesses if a.kind == "store") == "wt"
    (atomic,) = (a for a in accesses if a.kind == "atomic")
    manner = atomic.operation, atomic.semantics, atomic.scope, atomic.is_returned
    assert manner == ("max", "release", "cta", True)
