"""A pool of processes that Ctrl-C ends without a word from any of them."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

__all__ = ["pool"]


@contextlib.contextmanager
def pool(
    number: int, initializer: Callable[..., object] | None = None, args: tuple[Any, ...] = ()
) -> Iterator[Executor]:
    """So many new Python processes; whatever ends the block early ends them at once.

    Args:
        number: of processes.
        initializer: runs first in each of them.
        args: for it.
    """
    before = {process.pid for process in multiprocessing.active_children()}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(number, context, initializer, args) as executor:
        try:
            with _interrupts_held():  # each is started by the first calls, and inherits the mask
                for _ in range(number):
                    executor.submit(_nothing)
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            mine = [e for e in multiprocessing.active_children() if e.pid not in before]
            for process in mine:
                process.kill()
            for process in mine:
                process.join()
            raise


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait. Processes that start meanwhile never see it."""
    signals = {signal.SIGINT}
    was = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, was)


def _nothing() -> None:
    """Do nothing: a call that starts a process."""
