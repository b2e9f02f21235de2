"""PyTorch's profiler: sessions that begin without its warning, or without its compiler."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any
from unittest import mock

from torch._C._profiler import RecordScope
from torch.autograd import profiler

__all__ = ["cuda_session", "enter_session"]

_ONE_CYCLE = ".*Profiler clears events at the end of each cycle"


def cuda_session() -> Any:
    """Return a session that records what runs on the GPU, launches and ranges, to be entered.

    Ranges are those of `torch.profiler.record_function`; torch's operators are left out: a
    reference of many ones takes longer to be read than to run. `torch.profiler.profile` makes a
    similar one, but imports Inductor before, which takes 3 to 5 s in a new process
    (``prepare_trace`` of torch/profiler/profiler.py). The events are those of its
    ``kineto_results``.
    """
    return _RangeSession(use_cpu=True, use_device="cuda", use_kineto=True)


class _RangeSession(profiler.profile):
    """A session without torch's operators."""

    def _start_trace(self) -> None:
        module: Any = profiler  # its annotations lack `scopes`
        enable = partial(module._enable_profiler, scopes={RecordScope.USER_SCOPE})
        with mock.patch.object(module, "_enable_profiler", enable):
            super()._start_trace()  # type: ignore[no-untyped-call]


def enter_session(session: Any) -> None:
    """Enter a session of `torch.profiler.profile`.

    torch 2.11 and 2.12 warn that a further cycle would drop events, though there is none. What they
    propose, ``acc_events=True``, parses all events where the session ends.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _ONE_CYCLE, UserWarning)
        session.__enter__()
