"""Tune twelve kernels of Liger-Kernel at four shapes each under one budget, with `solkit.batch`.

    python bench/liger_batch.py --triage                                # needs no GPU
    python bench/liger_batch.py --gpu-minutes 10 --json liger_h100.json # needs a GPU
    python bench/liger_batch.py --gpus all     # half the wall time on two GPUs: both count

Needs ``pip install liger-kernel``. The files in bench/liger call the library's own kernels. Prints
the geometric mean speed-up over the library's choices with its interval (those that are kept count
as 1), the share that was kept, and whether any winner was slower in its final.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

import solkit
from solkit.core import Batch, BatchItem, BatchSettings, TuneVerdict
from solkit.report import batch as page

MANIFEST = Path(__file__).parent / "liger" / "batch.toml"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gpu-minutes", type=float, default=10.0)
    parser.add_argument("--triage", action="store_true", help="spend no GPU time")
    parser.add_argument("--device", help="for the triage")
    parser.add_argument("--gpus", help="of this machine: all, a number, or places")
    parser.add_argument("--workers", type=int, default=0, help="processes that compile")
    parser.add_argument("--no-prior", action="store_true", help="rank nothing before measuring")
    parser.add_argument("--log", help="run file; resumed if it exists")
    parser.add_argument("--json", type=Path, help="write solkit.batch/1 to this file")
    options = parser.parse_args()
    resume = options.log is not None and Path(options.log).exists()
    result = solkit.batch(
        MANIFEST,
        gpu_minutes=options.gpu_minutes,
        device=options.device,
        triage=options.triage,
        settings=BatchSettings(
            log=options.log,
            resume=resume,
            use_database=False,
            prior=not options.no_prior,
            gpus=options.gpus,
            workers=options.workers,
        ),
        show=_shown(),
    )
    page.render(result, Console(width=160, highlight=False, markup=False))
    if options.json is not None:
        options.json.write_text(page.dumps(result) + "\n", encoding="utf-8")
    if result.items:
        print("\n".join(summary(result)))
    return 0


def _shown():
    """A line on stderr for each stage, and for each 50th outcome."""
    last = {"stage": "", "measured": 0}

    def show(status):
        if status.stage != last["stage"] or status.measured >= last["measured"] + 50:
            last.update(stage=status.stage, measured=status.measured)
            print(page.status_line(status), file=sys.stderr, flush=True)

    return show


def summary(batch: Batch) -> list[str]:
    """The figures that the batch is judged by."""
    value, low, high = speedup(batch.items)
    kept = [item for item in batch.items if item.tuned.verdict is TuneVerdict.KEEP]
    slower = [item for item in batch.items if _is_slower(item)]
    return [
        f"geometric mean speed-up {value:.3f} (95 %: {low:.3f} to {high:.3f}) over "
        f"{len(batch.items)} kernels and shapes",
        f"{len(kept)} kept ({len(kept) / len(batch.items):.0%}), "
        f"{len(batch.items) - len(kept)} changed, {len(slower)} of these slower",
        f"{sum(item.tuned.measured for item in batch.items)} configurations in "
        f"{batch.gpu_s:.0f} of {batch.budget_s:.0f} GPU s",
    ]


def speedup(items: Sequence[BatchItem]) -> tuple[float, float, float]:
    """The geometric mean of the speed-ups, and its interval from those of the finals.

    The finals are independent, so the variances of their logarithms add up.
    """
    logs, variance = [], 0.0
    for item in items:
        ratio = item.tuned.final.ratio if item.tuned.final is not None else None
        if item.tuned.verdict is not TuneVerdict.FASTER or ratio is None:
            logs.append(0.0)
            continue
        logs.append(-math.log(ratio.value))
        variance += (math.log(ratio.high / ratio.low) / (2 * 1.96)) ** 2
    mean, wide = sum(logs) / len(logs), 1.96 * math.sqrt(variance) / len(logs)
    return math.exp(mean), math.exp(mean - wide), math.exp(mean + wide)


def _is_slower(item: BatchItem) -> bool:
    final = item.tuned.final
    changed = item.tuned.verdict is TuneVerdict.FASTER
    return changed and final is not None and final.ratio is not None and final.ratio.value > 1


if __name__ == "__main__":
    sys.exit(main())
