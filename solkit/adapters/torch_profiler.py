"""PyTorch's profiler: sessions that begin without its warning, or without its compiler."""

from __future__ import annotations

import warnings
from typing import Any

from torch.autograd import profiler

__all__ = ["cuda_session", "enter_session"]

_ONE_CYCLE = ".*Profiler clears events at the end of each cycle"


def cuda_session() -> Any:
    """Return a session that records what runs on the CPU and on the GPU, to be entered.

    `torch.profiler.profile` makes the same one, but imports Inductor before, which takes 3 to 5 s
    in a new process (``prepare_trace`` of torch/profiler/profiler.py). The events are those of its
    ``kineto_results``.
    """
    return profiler.profile(use_cpu=True, use_device="cuda", use_kineto=True)


def enter_session(session: Any) -> None:
    """Enter a session of `torch.profiler.profile`.

    torch 2.11 and 2.12 warn that a further cycle would drop events, though there is none. What they
    propose, ``acc_events=True``, parses all events where the session ends.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _ONE_CYCLE, UserWarning)
        session.__enter__()
