"""How much of the gap of plain kernels `solkit evolve` closes, on this machine's GPU.

    python bench/evolve_naive.py bench/naive/*.py --out found                   # the rewriter alone
    python bench/evolve_naive.py K.py --order random --seeds 5 --gpu-seconds 30 # at random

For each kernel: the gap before and after the gate, and whether it held at held-out shapes. Then
the share of the summed log gaps that was closed. With several seeds each kernel is searched once a
seed. A result is in the folder of `--out`, as ``NAME-ORDER-SEED.json``, before the next one starts.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from solkit.core import Evolved, EvolveSettings, Order, TuneVerdict
from solkit.errors import SolkitError
from solkit.pipeline.evolving import EvolveParts, evolve
from solkit.report import evolution
from solkit.report.advice import advise


@dataclass(frozen=True)
class Closed:
    """The gap of one kernel before and after."""

    before: float
    after: float


def closed(found: Evolved) -> Closed | None:
    """The gaps; what was not shown at the gate does not count."""
    if found.original.time_ms is None or not found.sol_ms:
        return None
    before = found.original.time_ms / found.sol_ms
    ratio = found.gate.ratio if found.gate is not None and found.gate.passed else None
    return Closed(before, before if ratio is None else before * ratio.value)


def line(path: str, found: Evolved, gaps: Closed | None) -> str:
    told = "no gap" if gaps is None else f"gap {gaps.before:7.2f} to {gaps.after:6.2f}"
    held = "" if found.gate is None else f"{len(found.gate.held_out)} held out"
    kind = found.winner.variant.kind if found.verdict is TuneVerdict.FASTER else "kept"
    counts = f"{found.measured} measured ({found.failed} failed) in {found.gpu_s:.0f} s"
    return f"{Path(path).stem:28} {told}  {held:11} {counts}  {kind}"


def searched(asked: argparse.Namespace) -> Iterator[tuple[str, Evolved]]:
    for path in asked.kernels:
        for seed in range(asked.seeds):
            how = EvolveSettings(seed=seed, order=asked.order, stop_at=asked.stop_at)
            parts = EvolveParts(
                advise=advise, show=lambda told: print(evolution.line(told), file=sys.stderr)
            )
            try:
                found = evolve(path, gpu_seconds=asked.gpu_seconds, settings=how, parts=parts)
            except SolkitError as error:
                print(f"{Path(path).stem:28} {error}", flush=True)
                continue
            if asked.out is not None:
                name = f"{Path(path).stem}-{asked.order}-{seed}.json"
                (asked.out / name).write_text(evolution.dumps(found))
            yield path, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernels", nargs="+", help="kernel files")
    parser.add_argument("--gpu-seconds", type=float, default=120.0)
    parser.add_argument("--order", choices=[each.value for each in Order], default="surrogate")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--stop-at", type=float, default=0.95)
    parser.add_argument("--out", type=Path, default=None, help="a folder for the results")
    asked = parser.parse_args()
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
    all_gaps = []
    for path, found in searched(asked):
        gaps = closed(found)
        print(line(path, found, gaps), flush=True)
        all_gaps += [] if gaps is None else [gaps]
    whole = sum(math.log(each.before) for each in all_gaps)
    if whole > 0:
        won = sum(math.log(each.before / each.after) for each in all_gaps)
        print(f"closed {won / whole:.2f} of the summed log gaps of {len(all_gaps)} searches")
    return 0


if __name__ == "__main__":
    sys.exit(main())
