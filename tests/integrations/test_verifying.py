"""Verifying a tuned folder against a program: groups that gain stay, kernels that do not go."""

from __future__ import annotations

import itertools
import math
import random
import sys
from dataclasses import replace

import pytest

from solkit.core.tuned import LaunchBucket, Speedup, TunedEntry, TunedFolder
from solkit.datasets.tuned_folder import read_tuned_folder
from solkit.integrations.verifying import Program, ProgramError, remove_what_gains_nothing

BASE_S = 10.0
JITTER = (1.0, 1.001, 0.999, 1.0005)


def entry(kernel, calls=1):
    bucket, warps = LaunchBucket(), {"num_warps": 4}
    speedup = Speedup(1.5, 1.4, 1.6)
    return TunedEntry(kernel, "0", "jit", bucket, warps, {"num_warps": 8}, speedup, True, calls)


def program(savings, fails=()):
    """A program whose kernels save seconds, and the kernels that each of its runs had."""
    runs = []

    def time(folder):
        names = [] if folder is None else [e.kernel for e in read_tuned_folder(folder).entries]
        runs.append(names)
        if set(names) & set(fails):
            raise ProgramError("it ended with exit code 1")
        return (BASE_S - sum(savings[name] for name in names)) * JITTER[len(runs) % len(JITTER)]

    return time, runs


def kept_of(savings, fails=(), calls=None):
    entries = tuple(entry(name, (calls or {}).get(name, 1)) for name in savings)
    time, runs = program(savings, fails)
    tuned, groups = remove_what_gains_nothing(TunedFolder("h200", entries=entries), time)
    return [e.kernel for e in tuned.entries], groups, runs


def test_all_stay_if_all_together_gain_and_sides_alternate():
    kept, groups, runs = kept_of({"a": 1.0, "b": 0.5})
    assert kept == ["a", "b"]
    assert [group.kept for group in groups] == [True]
    assert groups[0].ratio.value == pytest.approx(0.85, abs=0.005)
    both = ["a", "b"]
    assert runs == [[], both, *([[], both, both, []] * 4)]


def test_a_kernel_that_slows_the_program_down_goes_and_costs_others_nothing():
    kept, groups, _ = kept_of({"a": 1.0, "b": 0.0, "c": 0.5, "d": -2.0})
    assert sorted(kept) == ["a", "b", "c"]  # "b" costs nothing in a half that gains
    assert all(group.ratio is not None for group in groups)


def test_less_than_a_percent_is_no_gain():
    assert kept_of({"a": 0.05})[0] == []


def test_the_largest_expected_savings_are_tried_first():
    _, groups, _ = kept_of({"a": 0.0, "b": 0.0, "c": 0.0}, calls={"c": 9, "b": 3})
    assert [group.kernels for group in groups] == [
        ("c", "b", "a"), ("c", "b"), ("c",), ("b",), ("a",),
    ]  # fmt: skip


def test_kernels_with_which_the_program_fails_go():
    kept, groups, _ = kept_of({"a": 1.0, "b": 1.0}, fails=["b"])
    assert kept == ["a"]
    assert groups[0].ratio is None
    assert groups[0].why == "it ended with exit code 1"


def test_a_program_that_fails_without_any_entry_is_an_error():
    def time(_):
        raise ProgramError("broken")

    with pytest.raises(ProgramError, match="broken"):
        remove_what_gains_nothing(TunedFolder("h200", entries=(entry("a"),)), time)


def test_nothing_is_tried_of_an_empty_folder():
    tuned, groups = remove_what_gains_nothing(TunedFolder("h200"), lambda _: 1.0)
    assert (tuned.entries, groups) == ((), ())


PRINTS = "import os; print('step: 3 ms'); print('step: 5 ms'); print(os.environ['SOLKIT_APPLY'])"


def test_a_program_is_timed_by_what_it_prints_or_by_its_wall_time():
    command = (sys.executable, "-c", PRINTS)
    assert Program(command, r"step: ([\d.]+) ms").time("/folder") == 4.0
    assert Program(command, r"^([01])$|^(/folder)$").time_from
    assert 0 < Program(command).time(None) < 60


@pytest.mark.parametrize(
    ("command", "time_from", "message"),
    [
        ((sys.executable, "-c", "print('bad'); exit(3)"), "", "ended with exit code 3: bad"),
        (("no-such-program",), "", "cannot run no-such-program: No such file"),
        ((sys.executable, "-c", "print('x')"), "t=([0-9]+)", "no time above 0 matches"),
        ((sys.executable, "-c", "print('t=0')"), "t=([0-9]+)", "no time above 0 matches"),
        (
            (sys.executable, "-c", "print('t=x')"),
            "t=(.)",
            "not convert .*one group, a number",
        ),
        ((sys.executable, "-c", "print('t=1')"), "t=1", "no such group.*one group, a number"),
        ((sys.executable, "-c", "pass"), "(", "one group, a number"),
    ],
)
def test_a_program_that_tells_no_time_is_an_error(command, time_from, message):
    with pytest.raises(ProgramError, match=message):
        Program(command, time_from).time(None)


def test_only_entries_of_kept_kernels_remain():
    time, _ = program({"a": 1.0, "b": -3.0})
    twice = (entry("a"), replace(entry("a"), program="1"), entry("b"))
    tuned, _ = remove_what_gains_nothing(TunedFolder("h200", entries=twice), time)
    assert tuned.entries == twice[:2]


def test_noise_keeps_nothing_that_gains_nothing_and_finds_what_gains_five_percent():
    """Times as a busy machine has them: 1 % of noise, and a drift; 40 programs of each kind."""
    draw = random.Random(0)

    def kept(saving):
        clock = itertools.count()

        def time(folder):
            drift = 1 + 0.01 * math.sin(next(clock) / 5)
            return (BASE_S - (0.0 if folder is None else saving)) * drift * draw.gauss(1, 0.01)

        tuned, _ = remove_what_gains_nothing(TunedFolder("h200", entries=(entry("a"),)), time)
        return bool(tuned.entries)

    assert sum(kept(0.0) for _ in range(40)) == 0
    assert sum(kept(0.1) for _ in range(40)) <= 1  # 1 %: the limit itself
    assert sum(kept(0.5) for _ in range(40)) >= 38
