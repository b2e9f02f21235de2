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


def describe(result: micro_fuzz.Finding) -> str:
    program = f"{result.problem.inputs}\n{result.problem.body}"
    return (
        f"read {result.read} B, needed {result.needed}; "
        f"written {result.written} B, needed {result.changed}\n{program}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--programs", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--loose", action="store_true", help="print loose bounds too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    started, unsound, tight, failed = time.monotonic(), 0, 0, 0
    for result in findings(options.first, options.programs):
        if result.error:
            failed += 1
            print(f"failed:\n{result.problem.inputs}\n{result.problem.body}\n{result.error}")
        elif result.is_unsound:
            unsound += 1
            print(f"unsound: {describe(micro_fuzz.shrunk(result))}")
        elif result.is_tight:
            tight += 1
        elif options.loose:
            print(f"loose: {describe(result)}")
    seconds = time.monotonic() - started
    print(
        f"{options.programs} programs in {seconds:.0f} s: {unsound} unsound, {failed} failed, "
        f"{tight} tight ({100 * tight / options.programs:.1f} %)"
    )
    return 1 if unsound or failed else 0


if __name__ == "__main__":
    sys.exit(main())
