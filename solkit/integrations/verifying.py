"""Tuned folders against whole programs: what does not make the program faster is removed.

A program runs with and without the folder's entries, alternating. If all of them together gain,
they stay. If not, they are halved by kernel, the ones with the largest expected savings first, and
each half is tried on its own: a group that gains stays, a kernel that alone does not gain goes. So
one entry that slows the program down costs the others nothing. Kernels of a few calls each, none of
which would show 1 % alone, stay together; one that costs less than its group gains stays too.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from solkit.core.tuned import TunedEntry, TunedFolder, VerifiedKernels
from solkit.datasets.tuned_folder import write_tuned_folder
from solkit.errors import InputError
from solkit.integrations.applying import VARIABLE
from solkit.measure.timing.comparison_statistics import compute_ratio
from solkit.processes.startup import command_words, shim_environment

GAIN = 0.99
"""The interval of the ratio with / without must end below: 1 % faster, at 95 %."""
ROUNDS = 8
"""Runs of each side: six are the fewest for which an interval of 95 % exists."""

_CLOCK = "events"  # whose step, half a microsecond, is coarser than that of the host's clock
_MOST_SHOWN = 500


class ProgramError(InputError):
    """The program failed, or did not print its time."""


@dataclass(frozen=True)
class Program:
    """A command and how its time is taken.

    Attributes:
        command: its words.
        time_from: a regular expression with one group, a number that the program prints: the
            median of all is its time, in any unit. Without one it is the wall time of the process.
    """

    command: Sequence[str]
    time_from: str = ""

    def time(self, folder: str | None) -> float:
        """Run the program with a folder applied, or without; return its time.

        Raises:
            ProgramError: it cannot be run, ends with another exit code than 0, or prints no time.
        """
        variables = (
            shim_environment(**{VARIABLE: folder}) if folder else {**os.environ, VARIABLE: "0"}
        )
        begun = time.monotonic()
        try:
            ran = subprocess.run(
                command_words(self.command),
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise ProgramError(f"cannot run {self.command[0]}: {error.strerror}") from error
        wall_s = time.monotonic() - begun
        if ran.returncode:
            tail = ran.stdout.strip()[-_MOST_SHOWN:]
            raise ProgramError(f"{self.command[0]} ended with exit code {ran.returncode}: {tail}")
        return self._printed_time(ran.stdout) if self.time_from else wall_s

    def _printed_time(self, text: str) -> float:
        try:
            times = [float(match[1]) for match in re.finditer(self.time_from, text)]
        except (re.error, IndexError, ValueError) as error:
            raise ProgramError(
                f"--time-from {self.time_from!r}: {error}; expected an expression with one group, "
                r"a number, as in 'step: ([\d.]+) ms'"
            ) from error
        if not times or min(times) <= 0:
            tail = text.strip()[-_MOST_SHOWN:]
            raise ProgramError(f"no time above 0 matches {self.time_from!r} in: {tail}")
        return median(times)


def remove_what_gains_nothing(
    tuned: TunedFolder,
    program_time: Callable[[str | None], float],
    rounds: int = ROUNDS,
    noted: Callable[[VerifiedKernels], None] = lambda _: None,
) -> tuple[TunedFolder, tuple[VerifiedKernels, ...]]:
    """Return the folder with the entries that make the program faster, and what was tried.

    Args:
        tuned: the folder.
        program_time: runs the program with a folder, or without; see `Program.time`.
        rounds: runs of each side, at least 6.
        noted: called after each group.

    Raises:
        ProgramError: the program fails without any entry.
    """
    program_time(None)  # fills caches, and fails before anything is tried
    groups: list[VerifiedKernels] = []
    for group in _tried(tuned, _by_saving(tuned.entries), program_time, rounds):
        groups.append(group)
        noted(group)
    kept = {name for group in groups if group.kept for name in group.kernels}
    entries = tuple(entry for entry in tuned.entries if entry.kernel in kept)
    return replace(tuned, entries=entries), tuple(groups)


def _tried(
    tuned: TunedFolder,
    kernels: Sequence[str],
    program_time: Callable[[str | None], float],
    rounds: int,
) -> Iterator[VerifiedKernels]:
    if not kernels:
        return
    group = _compare(tuned, kernels, program_time, rounds)
    yield group
    if group.kept or len(kernels) == 1:
        return
    half = (len(kernels) + 1) // 2
    yield from _tried(tuned, kernels[:half], program_time, rounds)
    yield from _tried(tuned, kernels[half:], program_time, rounds)


def _compare(
    tuned: TunedFolder,
    kernels: Sequence[str],
    program_time: Callable[[str | None], float],
    rounds: int,
) -> VerifiedKernels:
    """Run the program with entries of some kernels and without any, alternating."""
    entries = tuple(entry for entry in tuned.entries if entry.kernel in kernels)
    with tempfile.TemporaryDirectory(prefix="solkit-") as folder:
        write_tuned_folder(folder, replace(tuned, entries=entries))
        try:
            program_time(folder)  # compiles
            pairs = [_pair(program_time, folder, turn) for turn in range(rounds)]
        except ProgramError as error:
            return VerifiedKernels(tuple(kernels), None, kept=False, why=str(error))
    without, with_it = zip(*pairs, strict=True)
    ratio = compute_ratio([1e3 * t for t in without], [1e3 * t for t in with_it], _CLOCK)
    return VerifiedKernels(tuple(kernels), ratio, kept=ratio.high < GAIN)


def _pair(
    program_time: Callable[[str | None], float], folder: str, turn: int
) -> tuple[float, float]:
    """Return the times without and with it; which one runs first alternates."""
    if turn % 2:
        with_it = program_time(folder)
        return program_time(None), with_it
    return program_time(None), program_time(folder)


def _by_saving(entries: Sequence[TunedEntry]) -> list[str]:
    """Return the kernels, the one with the largest expected share of saved calls first."""
    savings: dict[str, float] = {}
    for entry in entries:
        share = 0.0 if entry.speedup is None else 1 - 1 / entry.speedup.value
        savings[entry.kernel] = savings.get(entry.kernel, 0.0) + share * entry.calls
    return sorted(savings, key=lambda kernel: (-savings[kernel], kernel))
