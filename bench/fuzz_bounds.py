"""Thousands of random programs: is any bound above what brute force finds, and how many equal it?

    python bench/fuzz_bounds.py --programs 2000 --first 150

Each program runs for real on the CPU with its inputs perturbed; see
tests/roofline/micro/micro_oracle.py. Prints every unsound bound with a minimal program, and how
many bounds are tight. Exits with 1 where one is unsound.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "roofline" / "micro"))

import micro_fuzz

BATCH = 100


def findings(first: int, programs: int) -> Iterator[micro_fuzz.Finding]:
    for start in range(first, first + programs, BATCH):
        seeds = range(start, min(start + BATCH, first + programs))
        yield from micro_fuzz.examine([micro_fuzz.program(seed) for seed in seeds])


def describe(found: micro_fuzz.Finding) -> str:
    program = f"{found.problem.inputs}\n{found.problem.body}"
    return (
        f"read {found.read} B, needed {found.needed}; "
        f"written {found.written} B, needed {found.changed}\n{program}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--programs", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--loose", action="store_true", help="print loose bounds too")
    given = parser.parse_args()
    torch.set_num_threads(1)
    started, unsound, tight, failed = time.monotonic(), 0, 0, 0
    for found in findings(given.first, given.programs):
        if found.error:
            failed += 1
            print(f"failed:\n{found.problem.inputs}\n{found.problem.body}\n{found.error}")
        elif found.is_unsound:
            unsound += 1
            print(f"unsound: {describe(micro_fuzz.shrunk(found))}")
        elif found.is_tight:
            tight += 1
        elif given.loose:
            print(f"loose: {describe(found)}")
    seconds = time.monotonic() - started
    print(
        f"{given.programs} programs in {seconds:.0f} s: {unsound} unsound, {failed} failed, "
        f"{tight} tight ({100 * tight / given.programs:.1f} %)"
    )
    return 1 if unsound or failed else 0


if __name__ == "__main__":
    sys.exit(main())
