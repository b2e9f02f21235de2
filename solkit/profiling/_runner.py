"""The child of `solkit.profiling.script`: runs a script under PyTorch's profiler.

Called with the trace to write, how many outermost module calls to record, the script and its
arguments. Each such call begins a step, so that a training loop's step reaches from one forward
pass to the next. The trace is written however the script ends.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import runpy
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules import module as hooks
from torch.profiler import ProfilerActivity, profile, record_function, supported_activities

__all__ = ["main"]


class _EnoughError(BaseException):
    """All calls that were asked for are recorded; no handler of the script's should catch it."""


class _Steps:
    """Marks each outermost call of a module as the beginning of a step.

    Args:
        limit: so many are recorded; the next one ends the script.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._depth = threading.local()
        self._mark: Any = None

    def install(self) -> None:
        """Watch all modules from now on; a compiled one once, since its inside is skipped."""
        warnings.filterwarnings("ignore", "Using `torch.compile.* when there are global hooks")
        hooks.register_module_forward_pre_hook(self._begin)
        hooks.register_module_forward_hook(self._end, always_call=True)

    def close(self) -> None:
        """End the step that is open."""
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None

    def _begin(self, *_: Any) -> None:
        if torch.compiler.is_compiling() or threading.current_thread() != threading.main_thread():
            return
        depth = getattr(self._depth, "value", 0)
        if depth == 0:
            self.close()
            if self._count == self._limit:
                raise _EnoughError
            self._count += 1
            self._mark = record_function(f"ProfilerStep#{self._count}")
            self._mark.__enter__()
        self._depth.value = depth + 1

    def _end(self, *_: Any) -> None:
        if not torch.compiler.is_compiling():
            self._depth.value = getattr(self._depth, "value", 1) - 1


def main(trace: str, limit: int, script: str, *arguments: str) -> None:
    """Run a script as ``python script arguments`` would, and write what was profiled."""
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    steps = _Steps(limit)
    wanted = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    activities = [each for each in wanted if each in supported_activities()]
    with profile(
        activities=activities,
        record_shapes=True,
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(trace),
    ):
        steps.install()
        try:
            runpy.run_path(script, run_name="__main__")
        except _EnoughError:
            pass
        finally:
            steps.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
