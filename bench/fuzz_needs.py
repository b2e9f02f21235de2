"""Thousands of random problems: is any hard bound above what a kernel needs that skips all it may?

    python bench/fuzz_needs.py --problems 2000

Each problem has masks, zeros, bounded values, lookups or writes in place, and a skipper written by
hand that marks what it touches: see tests/measure/sensitivity/skipping.py. The hard bound is that
of the traced program with what is measured on the inputs, as a referee does it, on the CPU. Prints
every problem whose hard bound is above, then what dense problems keep. Exits with 1 where one is
above, or a dense problem keeps less than 90 %.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "measure" / "sensitivity"))

import proof
import skipping

BATCH = 100
KEPT = 0.9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--problems", type=int, default=2000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--samples", type=int, default=32, help="sectors of each tensor")
    options = parser.parse_args()
    torch.set_num_threads(1)
    started, bad, static = time.monotonic(), 0, 0
    for first in range(options.first, options.first + options.problems, BATCH):
        seeds = range(first, min(first + BATCH, options.first + options.problems))
        for result in proof.examine([skipping.problem(seed) for seed in seeds], options.samples):
            static += result.static > result.touched
            if result.error or result.is_unsound:
                bad += 1
                print(f"{'failed' if result.error else 'unsound'}: {result}\n{result.source}")
        done = seeds[-1] + 1 - options.first
        print(f"{done} problems, {time.monotonic() - started:.0f} s, {bad} bad", flush=True)
    seconds = time.monotonic() - started
    print(
        f"{options.problems} problems in {seconds:.0f} s: {bad} unsound or failed; {static} where "
        "the static hard bound alone is above what the skipper touches"
    )
    least = 1.0
    for name, result in zip(
        skipping.WHOLE, proof.dense([*skipping.WHOLE], samples=256), strict=True
    ):
        kept = result.read / result.static
        multiplied = result.flops / result.multiplied if result.multiplied else 1.0
        least = min(least, kept, multiplied)
        print(f"{name}: keeps {kept:.3f} of the bytes, {multiplied:.3f} of the products")
    return 1 if bad or least < KEPT else 0


if __name__ == "__main__":
    sys.exit(main())
