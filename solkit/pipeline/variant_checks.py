"""Checks of variants without a GPU, begun before anything waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from solkit.analysis.pool import usable_cores
from solkit.core import Checked, Variant
from solkit.spans import span

_MOST_AT_A_TIME = 8
"""Variants that are checked at a time, on as many cores."""
_PATIENCE_S, _SETTLING_S = 6.0, 8.0
"""Seconds for which a candidate waits for its variant's check, some of which take a minute: the
bench refuses what is wrong. And seconds for which those of the finalists are awaited, behind the
practice."""


@dataclass(frozen=True)
class _Check:
    """A check that began at a time of the clock, in seconds."""

    result: Future[tuple[Checked, str]]
    begun_s: float


class VariantChecks:
    """Checks variants in threads, each variant once.

    Args:
        clock_s: tells seconds.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._threads = ThreadPoolExecutor(min(max(usable_cores() - 1, 1), _MOST_AT_A_TIME))
        self._checks: dict[str, _Check] = {}
        self._late: dict[str, Variant] = {}

    def prepare(self, work: Callable[[], None]) -> None:
        """Begin to run what variants are compared with, in a thread that checks them later."""
        self._threads.submit(work)

    def begin(self, variant: Variant, check: Callable[[], tuple[Checked, str]]) -> None:
        """Begin to check a variant, unless that was begun."""
        if variant.id not in self._checks:
            begun_s = self._clock_s()
            self._checks[variant.id] = _Check(self._threads.submit(check), begun_s)

    def is_awaited(self, variant_id: str) -> bool:
        """Tell whether measuring a variant should wait for its check, which was begun."""
        check = self._checks.get(variant_id)
        return check is not None and not check.result.done() and self._patience_s(check) > 0

    def _patience_s(self, check: _Check) -> float:
        """Return the seconds for which a check is awaited from now on."""
        return check.begun_s + _PATIENCE_S - self._clock_s()

    def running(self) -> list[Future[tuple[Checked, str]]]:
        """Return the checks that have not ended."""
        return [check.result for check in self._checks.values() if not check.result.done()]

    def checked(self, variant: Variant, is_patient: bool) -> Variant:
        """Return a variant with the result of its check, which was begun.

        It stays unchecked if that takes long, and `checked_late` returns it once it is checked.

        Args:
            variant: unchecked so far.
            is_patient: whether to wait however long it takes.
        """
        check = self._checks[variant.id]
        if not is_patient:
            with span("waiting for a check"):
                wait([check.result], max(self._patience_s(check), 0.0))
            if not check.result.done():
                self._late[variant.id] = variant
                return variant
        return self._with_result(variant)

    def _with_result(self, variant: Variant) -> Variant:
        checked, why = self._checks[variant.id].result.result()
        return replace(variant, checked=checked, why=f"{variant.why} {why}".strip())

    def checked_late(self) -> Sequence[Variant]:
        """Return the variants whose checks took long and have ended since the last call."""
        ended = [name for name in self._late if self._checks[name].result.done()]
        return [self._with_result(self._late.pop(name)) for name in ended]

    def late(self, variant_ids: Collection[str]) -> list[Future[tuple[Checked, str]]]:
        """Return the checks of some variants that took long and were not asked for since."""
        return [self._checks[name].result for name in variant_ids if name in self._late]

    def await_late(self, variant_ids: Collection[str]) -> None:
        """Wait a while for the checks of some variants that took long."""
        with span("waiting for a check"):
            wait(self.late(variant_ids), _SETTLING_S)

    def close(self) -> None:
        """Begin no further check; what runs is not awaited."""
        self._threads.shutdown(wait=False, cancel_futures=True)
