"""Profile a script: run it in a child under PyTorch's profiler and keep its trace."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from solkit.errors import InputError
from solkit.processes.host import Program, describe_ending
from solkit.processes.startup import program_environment

_RUNNER = """
import sys
from solkit.profiling._profiler_runner import main
main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
"""
_GRACE_S = 60.0
"""Time to write the trace after the script was interrupted."""


def record_trace(
    script: str,
    arguments: Sequence[str],
    trace: str,
    *,
    calls: int,
    time_limit_s: float,
    flow: str | None = None,
) -> str:
    """Run a script and write its trace.

    It is ended after `calls` calls of its model, each recorded as a step, or interrupted after
    `time_limit_s`, as by Ctrl-C; a script that calls no model twice is recorded as a whole. What
    flows between its ops is written to `flow`, if that is given.

    Returns:
        How the script failed; empty if it did not. Its own message is on standard error.

    Raises:
        InputError: there is no such file, the trace cannot be written, or the script ended without
            a trace.
    """
    if not Path(script).is_file():
        raise InputError(f"{script}: no such file")
    try:
        Path(trace).write_bytes(b"")  # an older file must not count as this run's
    except OSError as error:
        raise InputError(f"cannot write {trace}: {error.strerror}") from error
    failure = _run_script(_command(script, arguments, trace, calls, flow), script, time_limit_s)
    if not Path(trace).stat().st_size:
        Path(trace).unlink()
        raise InputError(failure or f"{script}: ended without a trace")
    return failure


def _command(
    script: str, arguments: Sequence[str], trace: str, calls: int, flow: str | None
) -> list[str]:
    runner = [sys.executable, "-c", _RUNNER]
    flow = str(Path(flow).absolute()) if flow else ""
    return [*runner, str(Path(trace).absolute()), str(calls), flow, script, *arguments]


def _run_script(command: Sequence[str], script: str, time_limit_s: float) -> str:
    process = Program(command, env=program_environment())
    try:
        code = process.wait(time_limit_s)
        if code is None:
            process.signal(signal.SIGINT)
            process.wait(_GRACE_S)
    finally:
        process.end()
    if code is None:
        return f"{script}: ran for over {time_limit_s:g} s and was interrupted"
    return f"{script}: {describe_ending(code)}" if code else ""
