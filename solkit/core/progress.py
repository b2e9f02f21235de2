"""Progress of a long call: what it does and how far it is, for whoever shows it.

The command line shows it on a terminal (`solkit.cli._base.working`). Without a listener nothing
happens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

Listener = Callable[[str], None]

_listeners: list[Listener] = []


@contextlib.contextmanager
def reported_to(listener: Listener) -> Iterator[None]:
    """Call `listener` with what `tell` is given, from any thread, within the ``with`` block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(what: str, done: int | None = None, total: int | None = None) -> None:
    """Report progress.

    Args:
        what: e.g. ``"shapes analysed"``.
        done: how many, if they are counted.
        total: of how many, if that is known.
    """
    text = what if done is None else f"{done} of {total} {what}" if total else f"{done} {what}"
    for listener in tuple(_listeners):
        listener(text)
