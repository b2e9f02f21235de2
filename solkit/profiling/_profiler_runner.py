"""The child of `solkit.profiling.script`: runs a script under PyTorch's profiler.

Its arguments are the trace file, the number of the model's calls to record, the script and its
arguments. Each such call begins a step, so a training loop's step reaches from one forward pass to
the next. The trace is written however the script ends.

It is imported, not run as ``__main__``: that is the script, where dynamo would look up the hooks'
globals.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
import runpy
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules import module as hooks
from torch.profiler import ProfilerActivity, profile, record_function, supported_activities

from solkit.adapters import torch_profiler

__all__ = ["main"]


class _EnoughError(BaseException):
    """All requested calls are recorded; no handler of the script should catch this."""


class _Steps:
    """Marks each call of the model as the beginning of a step; ends the script after `limit` steps.

    The model is the first module that is called twice from outside any other module, since a loss
    function is a module too.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._depth = 0
        self._called: set[int] = set()
        self._model: int | None = None
        self._mark: Any = None

    def install(self) -> None:
        """Watch all modules from now on; a compiled one once, without its inner modules."""
        warnings.filterwarnings("ignore", "Using `torch.compile.* when there are global hooks")
        hooks.register_module_forward_pre_hook(self._begin_step)
        hooks.register_module_forward_hook(self._end_step, always_call=True)

    def close(self) -> None:
        """End the open step."""
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None

    # dynamo inspects both hooks and leaves them out: they break no graph

    def _begin_step(self, module: torch.nn.Module, *_: Any) -> None:
        if torch.compiler.is_compiling() or not _is_main():
            return
        if self._depth == 0:
            self._watch_outermost(id(module))
        self._depth += 1

    def _end_step(self, *_: Any) -> None:
        if not torch.compiler.is_compiling() and _is_main():
            self._depth -= 1

    def _watch_outermost(self, module: int) -> None:
        if self._model is None and module in self._called:
            self._model = module
        self._called.add(module)
        if module != self._model:
            return
        self.close()
        if self._count == self._limit:
            raise _EnoughError
        self._count += 1
        self._mark = record_function(f"ProfilerStep#{self._count}")
        self._mark.__enter__()


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def main(trace: str, limit: int, script: str, *arguments: str) -> None:
    """Run a script like ``python script arguments``, and write its profile."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    steps = _Steps(limit)
    kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    activities = [kind for kind in kinds if kind in supported_activities()]
    session = profile(
        activities=activities,
        record_shapes=True,
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(trace),
    )
    with contextlib.ExitStack() as stack:
        torch_profiler.enter_session(session)
        stack.push(session)
        steps.install()
        try:
            runpy.run_path(script, run_name="__main__")
        except _EnoughError:
            pass
        finally:
            steps.close()
