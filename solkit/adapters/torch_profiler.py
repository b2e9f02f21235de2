"""PyTorch's profiler: sessions that begin without its warning."""

from __future__ import annotations

import warnings
from typing import Any

__all__ = ["enter_session"]

_ONE_CYCLE = ".*Profiler clears events at the end of each cycle"


def enter_session(session: Any) -> None:
    """Enter a session of `torch.profiler.profile`.

    torch 2.11 and 2.12 warn that a further cycle would drop events, though there is none. What they
    propose, ``acc_events=True``, parses all events where the session ends.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _ONE_CYCLE, UserWarning)
        session.__enter__()
