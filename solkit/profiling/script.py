"""Profile a script: run it in a child under PyTorch's profiler and keep its trace."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from solkit.errors import InputError

__all__ = ["record"]

_RUNNER = """
import sys
from solkit.profiling._runner import main
main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
"""
_GRACE_S = 60.0
"""For writing the trace after the script was interrupted."""


def record(
    script: str, arguments: Sequence[str], trace: str, *, calls: int, time_limit_s: float
) -> str:
    """Run a script and write the trace of it.

    It is ended after `calls` calls of its model, each recorded as a step, or after `time_limit_s`;
    a script that calls none twice is recorded as a whole.

    Args:
        script: a Python file.
        arguments: its own.
        trace: the file to write.
        calls: how many calls to record.
        time_limit_s: seconds after which it is interrupted, as by Ctrl-C.

    Returns:
        How the script failed; empty if not. Its own message is on standard error.

    Raises:
        InputError: there is no such file, the trace cannot be written, or the script ended without
            leaving one.
    """
    if not Path(script).is_file():
        raise InputError(f"{script}: no such file")
    try:
        Path(trace).write_bytes(b"")  # an older file must not pass for this run's
    except OSError as error:
        raise InputError(f"cannot write {trace}: {error.strerror}") from error
    failure = _run(_command(script, arguments, trace, calls), script, time_limit_s)
    if not Path(trace).stat().st_size:
        Path(trace).unlink()
        raise InputError(failure or f"{script}: ended without leaving a trace")
    return failure


def _command(script: str, arguments: Sequence[str], trace: str, calls: int) -> list[str]:
    runner = [sys.executable, "-c", _RUNNER]
    return [*runner, str(Path(trace).absolute()), str(calls), script, *arguments]


def _run(command: Sequence[str], script: str, time_limit_s: float) -> str:
    process = subprocess.Popen(command, env=_environment(), stdin=subprocess.DEVNULL)
    try:
        code = process.wait(time_limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        return f"{script}: ran for over {time_limit_s:g} s and was interrupted"
    finally:
        process.kill()
        process.wait()
    if code < 0:
        return f"{script}: died of {signal.Signals(-code).name}"
    return f"{script}: failed with exit code {code}" if code else ""


def _environment() -> dict[str, str]:
    """The caller's, with this copy of SolKit on the module path."""
    root = str(Path(__file__).absolute().parent.parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, *filter(None, [inherited])])}
