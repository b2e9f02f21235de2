"""Choice among configurations that are equally fast, so that two runs choose the same one.

The search's fastest is partly luck: of several that take the same time, another one wins in each
run. So among those whose times are alike, the choice does not look at times:

1. the fewest resources of an SM: spilled words, then shared memory, then registers of a block;
2. the fastest at the nearest shapes that were tuned in the same run;
3. the fastest by what was believed before measuring, e.g. from other shapes in a database;
4. the smallest values of parameters.

What is not known of all of them decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from solkit.core import Outcome, Params, canonical

if TYPE_CHECKING:
    from solkit.tuner.search import Prior
    from solkit.tuner.tuning_problem import TrialSummary

_LIKE = 0.007  # by so much a kernel's times differ from its own in another process
_LIKE_SHORT, _SHORT_MS = 0.02, 0.01  # the same of short calls
_WARP = 32


def are_times_alike(time_ms: float, best_ms: float) -> bool:
    """Tell whether a time is as good as the best one: two runs of one kernel differ as much."""
    return time_ms <= best_ms * (1 + (_LIKE_SHORT if best_ms < _SHORT_MS else _LIKE))


def choose_among_equals(
    equals: Sequence[TrialSummary],
    neighbours: Sequence[Mapping[str, float]] = (),
    prior: Prior | None = None,
) -> TrialSummary:
    """Return the one to use of some that are equally fast; at least one.

    Args:
        equals: the fastest first.
        neighbours: times in ms at other shapes by canonical parameters, the nearest shape first.
        prior: what was believed before measuring.
    """
    params = [trial.configuration.params for trial in equals]
    criteria: list[Sequence[object] | None] = [
        _if_all_known([_resources(trial.outcomes) for trial in equals]),
        *(_if_all_known([times.get(canonical(point)) for point in params]) for times in neighbours),
        None if prior is None else _believed_ms(prior, params),
        [tuple(map(_sort_key, point.values())) for point in params],
    ]
    decisive = [values for values in criteria if values is not None]
    return min(
        zip(zip(*decisive), range(len(equals)), equals, strict=True), key=lambda row: row[:2]
    )[2]


def _if_all_known(values: Sequence[object | None]) -> list[object] | None:
    return None if any(value is None for value in values) else list(values)


def _resources(outcomes: Sequence[Outcome]) -> tuple[int, int, int] | None:
    """Return spilled words, shared bytes and registers of all launches' blocks, if known."""
    launches = next((row.live_launches for row in outcomes if row.live_launches), ())
    if not launches or any(launch.registers is None for launch in launches):
        return None
    threads = [_WARP * (launch.num_warps or 1) for launch in launches]
    return (
        sum(n * (launch.spills or 0) for n, launch in zip(threads, launches)),
        sum(launch.shared_bytes or 0 for launch in launches),
        sum(n * (launch.registers or 0) for n, launch in zip(threads, launches)),
    )


def _believed_ms(prior: Prior, params: Sequence[Params]) -> list[object] | None:
    believed = np.asarray(prior.log2_ms(list(params))[0], float)
    return [float(value) for value in believed] if np.isfinite(believed).all() else None


def _sort_key(value: object) -> tuple[int, float, str]:
    if isinstance(value, (int, float)) and math.isfinite(value):
        return 0, float(value), ""
    return 1, 0.0, str(value)
