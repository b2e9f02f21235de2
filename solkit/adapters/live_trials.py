"""Two launchers of one compiled kernel, timed in turns where the program launches them.

What wins alone need not win in its program: the kernels around it decide what L2 holds, and its
data are not random. So a kernel of Inductor's that got a tuned configuration keeps both launchers
for its next launches. Each launch is made once, by one of them, between two events. A short wait of
the GPU before them hides how long the host takes to launch. Then the kernel has one launcher again,
and nothing of the trial stays.

Where lanes do something together, as in sums, the last bits may depend on the launcher. So those of
one launcher come first, then those of the other: a program sees other bits once, or twice where its
own launcher comes back, and not at every other launch.

While a CUDA graph is captured nothing is timed, and the tuned launcher is used.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from solkit.adapters.graph_captures import beside_captures, is_capturing

Judge = Callable[[Sequence[float], Sequence[float]], bool | None]
"""Tells from times in ms of pairs, Inductor's and tuned ones, whether the tuned launcher is faster;
``None`` if neither is shown."""

_LOOKS = (12, 24)
"""Pairs after which the times are looked at; six are the fewest with an interval of 95 %."""
_MOST_TIMED = 256
"""Launches that are timed where few are of equal sizes."""
_WAIT_CYCLES = 100_000
"""About 50 µs on an H100: longer than the host takes to launch a kernel."""
_TURNS = (False, True, True, False)
"""Which launches the tuned launcher makes. It is first in every other pair: drift favours none."""
_OWN_FIRST = 24
"""Launches of Inductor's launcher before the first tuned one, where they do not alternate."""


@dataclass
class LaunchTrial:
    """The two launchers of a kernel, until one of them is chosen.

    Attributes:
        own, tuned: Inductor's launcher and the tuned one.
        judge: looks at the times.
        settle: gets whether the tuned launcher stays, once; its errors are not the launch's.
        forget: called where a launch still comes here after the end.
        alternates: whether both launchers write the same bits, so that they may take turns.
    """

    own: Callable[..., Any]
    tuned: Callable[..., Any]
    judge: Judge
    settle: Callable[[bool], None]
    forget: Callable[[], None] = lambda: None
    alternates: bool = True
    _winner: Callable[..., Any] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ending: threading.Lock = field(default_factory=threading.Lock)
    _launches: list[tuple[tuple[int, ...], bool, Any, Any]] = field(default_factory=list)
    _launches_of: Counter[tuple[tuple[int, ...], bool]] = field(default_factory=Counter)
    _looks: list[int] = field(default_factory=lambda: list(_LOOKS))
    _due: int = 0

    def launcher(self) -> Callable[..., Any]:
        """Return what stands in for the kernel's launcher during the trial."""

        def launch(*args: Any, **kwargs: Any) -> Any:
            return self._launch(args, kwargs)

        vars(launch).update(vars(self.tuned))
        vars(launch).pop("_is_static", None)  # else torch launches the kernel past this
        return launch

    def _launch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._winner is not None:
            self.forget()
            return self._winner(*args, **kwargs)
        if not _can_time(kwargs.get("stream")):
            return self._tuned_or_own(args, kwargs)
        if not self._lock.acquire(blocking=False):
            return self.own(*args, **kwargs)
        try:
            self._look_if_due()
            if self._winner is not None or not self._looks:
                return (self._winner or self.own)(*args, **kwargs)
            return self._timed_launch(args, kwargs)
        finally:
            self._lock.release()

    def _timed_launch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        sizes = tuple(arg for arg in args if type(arg) is int)  # pairs do equal work
        is_tuned = self._is_tuned_next(sizes)
        begin = self._event_behind(_WAIT_CYCLES)
        result = self._tuned_or_own(args, kwargs) if is_tuned else self.own(*args, **kwargs)
        end = self._event_behind(0)
        if self._winner is None:
            self._note_launch(sizes, is_tuned, begin, end)
        return result

    def _is_tuned_next(self, sizes: tuple[int, ...]) -> bool:
        if not self.alternates:
            return len(self._launches) >= _OWN_FIRST
        count = self._launches_of[sizes, False] + self._launches_of[sizes, True]
        return _TURNS[count % len(_TURNS)]

    def _event_behind(self, cycles: int) -> Any:
        """Return an event that the GPU passes after a wait; if it refuses, the trial is over."""
        try:
            with beside_captures():
                event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
                if cycles:
                    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]
                event.record()
        except Exception:  # nothing is worth the user's launch
            self._end(is_faster=False)
            return None
        return event

    def _tuned_or_own(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Launch by the tuned launcher; if the GPU refuses that, by Inductor's from now on."""
        try:
            return self.tuned(*args, **kwargs)
        except Exception:
            self._end(is_faster=False)
            return self.own(*args, **kwargs)

    def _note_launch(self, sizes: tuple[int, ...], is_tuned: bool, begin: Any, end: Any) -> None:
        self._launches.append((sizes, is_tuned, begin, end))
        self._launches_of[sizes, is_tuned] += 1
        counts = self._launches_of
        pairs = sum(min(counts[key, False], counts[key, True]) for key in {k for k, _ in counts})
        is_last = len(self._launches) >= _MOST_TIMED
        if self._looks and (pairs >= self._looks[0] or is_last):
            self._looks = [] if is_last else self._looks[1:]
            self._due = len(self._launches)

    def _look_if_due(self) -> None:
        """Judge what is timed once the GPU has passed it: the host does not wait."""
        if not self._due:
            return
        try:
            with beside_captures():
                if not self._launches[self._due - 1][-1].query():
                    return
                times = self._paired_ms(self._launches[: self._due])
            is_faster = self.judge(*times)
        except Exception:  # nothing is worth the user's launch
            is_faster = False
        self._due = 0
        if is_faster is not None or not self._looks:
            self._end(bool(is_faster))

    def _paired_ms(
        self, launches: Sequence[tuple[Any, bool, Any, Any]]
    ) -> tuple[list[float], list[float]]:
        """Return times of both launchers in ms; launches of equal sizes are pairs, in order."""
        times: dict[tuple[int, ...], tuple[list[float], list[float]]] = {}
        for sizes, is_tuned, begin, end in launches:
            times.setdefault(sizes, ([], []))[is_tuned].append(begin.elapsed_time(end))
        pairs = [pair for own, tuned in times.values() for pair in zip(own, tuned)]
        return [own for own, _ in pairs], [tuned for _, tuned in pairs]

    def _end(self, is_faster: bool) -> None:
        with self._ending:  # a launch that is not timed may end it too, in another thread
            if self._winner is not None:
                return
            self._winner = self.tuned if is_faster else self.own
        self._launches = []
        with contextlib.suppress(Exception):  # nothing is worth the user's launch
            self.settle(is_faster)


def _can_time(stream: Any) -> bool:
    """Tell whether events of the current stream are around a launch on a stream."""
    if is_capturing():
        return False
    return stream is None or bool(torch.cuda.current_stream().cuda_stream == stream)
