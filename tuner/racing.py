"""Racing: the contenders for the best of a search are timed against each other until one is left.

The search times each configuration once, so those whose intervals meet cannot be told apart. A race
gives all of them more samples in alternating order, and drops those that fall behind (O. Maron
and A. W. Moore, "Hoeffding Races", NIPS 1993, here with intervals of medians).
"""

from __future__ import annotations

import math
from dataclasses import replace

from solkit.measure.benches import Bench
from solkit.tuner.bench_driver import GpuSeconds, Heard, gpu_count
from solkit.tuner.tuning_problem import REPEAT, TuningProblem

_ROUNDS = 3


def race_contenders(
    bench: Bench,
    task: TuningProblem,
    budget_s: float = math.inf,
    heard: Heard = lambda *_: None,
    spent_s: float = 0.0,
) -> None:
    """Time the contenders for the best in turns with each other, until one is left.

    Each round adds samples to all of them; those whose interval no longer meets the best's drop
    out. A recording that holds no repeats ends it.

    Args:
        bench: measures; nothing may be pending.
        task: whose contenders race.
        budget_s: GPU seconds, from now on.
        heard: receives each outcome.
        spent_s: GPU seconds that were spent before.

    Raises:
        SolkitError: the bench failed.
    """
    spent = GpuSeconds(bench, spent_s)
    budget_s += spent_s
    for _ in range(_ROUNDS):
        rivals = task.contenders()
        before = sum(rival.samples for rival in rivals)
        if len(rivals) < 2 or spent.gpu_s >= budget_s:
            return
        left_s = budget_s - spent.gpu_s
        until_s = bench.clock.now_s() + left_s / gpu_count(bench) if math.isfinite(left_s) else None
        ours = [replace(rival.configuration, chosen_by=REPEAT) for rival in rivals]
        bench.submit(ours)
        for configuration, outcome in bench.outcomes(until_s):
            if not any(configuration is own for own in ours):
                continue  # left from before the bench failed
            task.tell(configuration, outcome, spent.gpu_s)
            heard(task, configuration, outcome, spent.gpu_s)
        bench.discard()
        if sum(rival.samples for rival in rivals) == before:
            return
