"""Random programs: no bound is above what brute force finds, and most are equal to it."""

from __future__ import annotations

import micro_fuzz
import pytest

TIGHT = 0.9  # of the programs


@pytest.mark.parametrize("programs", [24, pytest.param(150, marks=pytest.mark.slow)])
def test_no_bound_of_a_random_program_is_above_brute_force(programs):
    problems = [micro_fuzz.program(seed) for seed in range(programs)]
    findings = list(micro_fuzz.examine(problems))
    assert [f.problem.body + f.error for f in findings if f.error] == []
    assert [f for f in findings if f.is_unsound] == []
    assert sum(f.is_tight for f in findings) >= TIGHT * programs
