"""The child of `solkit.profiling.script`: runs a script under PyTorch's profiler.

Its arguments are the trace file, the number of the model's calls to record, the file for the flow
of tensors between ops (none if empty), the script and its arguments. Each such call begins a step,
so a training loop's step reaches from one forward pass to the next. The trace is written however
the script ends.

It is imported, not run as ``__main__``: that is the script, where dynamo would look up the hooks'
globals.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
import json
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function, supported_activities

from solkit.adapters import torch_profiler
from solkit.adapters.model_calls import ModelCalls


class _EnoughError(BaseException):
    """All requested calls are recorded; no handler of the script should catch this."""


class _Steps:
    """Marks each call of the model as the beginning of a step; ends the script after `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._mark: Any = None
        self._model = ModelCalls(self._begin_step)

    def install(self) -> None:
        """Watch the model's calls from now on."""
        self._model.install()

    def close(self) -> None:
        """End the open step."""
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None

    def _begin_step(self, _: int) -> None:
        self.close()
        if self._count == self._limit:
            raise _EnoughError
        self._count += 1
        self._mark = record_function(f"ProfilerStep#{self._count}")
        self._mark.__enter__()


def main(trace: str, limit: int, flow: str, script: str, *arguments: str) -> None:
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
        profile_memory=bool(flow),  # which numbers the allocations
        on_trace_ready=lambda profiler: _write(profiler, trace, flow),
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


def _write(profiler: profile, trace: str, flow: str) -> None:
    profiler.export_chrome_trace(trace)
    if flow:
        try:
            text = json.dumps(torch_profiler.tensor_flow(profiler))
            Path(flow).write_text(text, encoding="utf-8")
        except Exception as error:  # of the profiler's insides: the trace is written
            why = f"{type(error).__name__}: {error}"
            print(f"solkit: what flows between operators is not known: {why}", file=sys.stderr)
