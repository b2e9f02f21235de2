"""``solkit standby``: keep measuring processes ready."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, Any

import typer

from solkit.cli import _options, exit_codes
from solkit.cli._commands import App
from solkit.errors import InputError

app = App(
    name="standby",
    help="Keep the processes that measure ready, so that commands start at once.",
    no_args_is_help=True,
)

_Minutes = Annotated[
    float, typer.Option(min=0.1, metavar="N", help="Minutes without any use, then it ends.")
]
_Memory = Annotated[
    float, typer.Option(min=1.0, metavar="GIB", help="Host memory of its processes at the most.")
]


@app.command()
def run(
    on: _options.On = None,
    idle_minutes: _Minutes = 30.0,
    memory: _Memory = 16.0,
    verbose: _options.Tracebacks = False,
) -> None:
    """Keep processes ready until stopped, idle for long, or interrupted (Ctrl-C).

    Commands of the same user, environment and versions find them: score, compare, tune, evolve,
    rank and others that analyse or measure. Those with --sandbox never do. A command that holds
    them is awaited at the end; a second Ctrl-C ends it too. After an upgrade it starts again.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        from solkit.core import MeasureSettings
        from solkit.measure.guarded.session import visible_gpu
        from solkit.measure.guarded.standby import Standby, StandbySettings
        from solkit.measure.timing.gpu_lock import gpu_uuid
        from solkit.processes.standby import socket_path

        path = socket_path()
        if path is None:
            raise InputError("SOLKIT_STANDBY is empty: unset it, or name a socket's path")
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpu = gpu_uuid(visible_gpu(visible, MeasureSettings(on=on).gpu_index))
        settings = StandbySettings(gpu, idle_s=60 * idle_minutes, memory_bytes=int(memory * 2**30))
        standby = Standby(settings)

        def stop_then_interrupt(*_: object) -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            standby.stop()

        signal.signal(signal.SIGINT, stop_then_interrupt)
        typer.echo(f"Keeping processes ready for {gpu}; Ctrl-C ends it.", err=True)
        reason = standby.serve(path)
        typer.echo(f"Ended: {_REASONS[reason]}.", err=True)
    if reason == "upgraded":
        os.execv(sys.executable, sys.orig_argv)


_REASONS = {
    "stopped": "it was stopped",
    "idle": "nobody used it",
    "memory": "its processes took too much memory",
    "upgraded": "SolKit or a library has changed; it starts again",
}


@app.command()
def status(verbose: _options.Tracebacks = False) -> None:
    """Show what is ready, and whether commands in this shell may use it.

    The exit code is 0 if they may, else 1.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        answer = _ask({"status": True})
    if answer is None:
        typer.echo("No standby runs: start one with `solkit standby run`.")
        raise typer.Exit(1)
    state = answer["status"]
    typer.echo(
        f"pid {state['pid']}, on {state['gpu']}, for {state['age_s'] / 60:.0f} min; "
        f"{state['resident_bytes'] / 2**30:.1f} GiB of host memory"
    )
    typer.echo(f"pair     {state['pair']}")
    typer.echo(f"servers  {', '.join(state['servers'])}")
    typer.echo(f"in use   by {state['users']} connections; idle for {state['idle_s']:.0f} s")
    if state["refusal"]:
        typer.echo(f"Commands here start processes of their own: {state['refusal']}.")
        raise typer.Exit(1)


@app.command()
def stop(verbose: _options.Tracebacks = False) -> None:
    """End it, once no command uses it."""
    with exit_codes.failures_as_exit_codes(verbose):
        answer = _ask({"stop": True})
    if answer is None:
        typer.echo("No standby runs.")
    elif answer["users"]:
        typer.echo("It ends when the commands that use it have ended.")


def _ask(request: dict[str, Any]) -> dict[str, Any] | None:
    from solkit.processes.channel import ClosedError
    from solkit.processes.standby import ask_daemon

    try:
        return ask_daemon(request)
    except (ClosedError, TimeoutError) as error:
        raise InputError(
            "the standby does not answer; end its process, and start it again"
        ) from error
