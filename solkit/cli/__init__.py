"""The command line: one module for each command, in the order of ``solkit --help``.

Heavy packages (torch, pydantic, rich) are imported inside a command, so that ``solkit --help``
answers at once. The report goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer

from solkit.cli._commands import App
from solkit.cli._options import parse_settings
from solkit.cli.apply import EPILOG as APPLY_EPILOG
from solkit.cli.apply import apply
from solkit.cli.batch import EPILOG as BATCH_EPILOG
from solkit.cli.batch import batch
from solkit.cli.bound import bound
from solkit.cli.calibrate import calibrate
from solkit.cli.compare import EPILOG as COMPARE_EPILOG
from solkit.cli.compare import compare
from solkit.cli.data import app as data
from solkit.cli.devices import devices
from solkit.cli.diff import EPILOG as DIFF_EPILOG
from solkit.cli.diff import diff
from solkit.cli.emit import EPILOG as EMIT_EPILOG
from solkit.cli.emit import emit
from solkit.cli.evaluate import evaluate
from solkit.cli.evolve import EPILOG as EVOLVE_EPILOG
from solkit.cli.evolve import evolve
from solkit.cli.exit_codes import Exit
from solkit.cli.inductor import inductor
from solkit.cli.init import init
from solkit.cli.judge import EPILOG as JUDGE_EPILOG
from solkit.cli.judge import judge
from solkit.cli.mcp import mcp
from solkit.cli.precompile import EPILOG as PRECOMPILE_EPILOG
from solkit.cli.precompile import precompile
from solkit.cli.profile import profile
from solkit.cli.rank import rank
from solkit.cli.record import EPILOG as RECORD_EPILOG
from solkit.cli.record import record
from solkit.cli.replay import replay
from solkit.cli.report import report
from solkit.cli.run import run
from solkit.cli.score import EPILOG, score
from solkit.cli.serve import serve
from solkit.cli.standby import app as standby
from solkit.cli.train import train
from solkit.cli.tune import EPILOG as TUNE_EPILOG
from solkit.cli.tune import tune
from solkit.cli.watch import watch

__all__ = ["Exit", "app", "main", "parse_settings"]

_LEARNING = "Learning from measured rows"
_RUNS_PROGRAM = {"allow_interspersed_args": False}
"""Settings of commands that start a program, whose arguments follow its name."""
app = App(
    name="solkit",
    help="How fast a GPU kernel could run, how far it is from that, and why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command(epilog=EPILOG)(score)
app.command()(init)
app.command()(watch)
app.command(epilog=COMPARE_EPILOG)(compare)
app.command(epilog=DIFF_EPILOG)(diff)
app.command()(report)
app.command()(bound)
app.command(epilog=JUDGE_EPILOG)(judge)
app.command()(profile)
app.command()(rank)
app.command(epilog=RECORD_EPILOG, context_settings=_RUNS_PROGRAM)(record)
app.command(epilog=TUNE_EPILOG)(tune)
app.command(epilog=EVOLVE_EPILOG)(evolve)
app.command()(inductor)
app.command(rich_help_panel=_LEARNING)(replay)
app.command(epilog=EMIT_EPILOG)(emit)
app.command(epilog=BATCH_EPILOG)(batch)
app.command(epilog=PRECOMPILE_EPILOG)(precompile)
app.command(epilog=APPLY_EPILOG)(apply)
app.command(context_settings=_RUNS_PROGRAM)(run)
app.command()(serve)
app.command()(mcp)
app.command(rich_help_panel=_LEARNING)(train)
app.command(rich_help_panel=_LEARNING)(evaluate)
app.command()(devices)
app.command()(calibrate)
app.add_typer(data)
app.add_typer(standby)


def main() -> None:
    """Run a command from the console, and leave with its exit code.

    SIGTERM, which `timeout` sends, ends it as Ctrl-C does: a search reports what was found, what it
    started ends, and its temporary folders are removed.
    """
    own, code = os.getpid(), Exit.INTERRUPTED

    def interrupt(number: int, _: object) -> None:
        nonlocal code
        if os.getpid() != own:  # a fork of this process has nothing of it to tidy
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        code = Exit.TERMINATED
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        app(prog_name="solkit")  # by which shells ask for completions
    except KeyboardInterrupt:
        sys.exit(code)
    except SystemExit as ending:
        sys.exit(code if ending.code == Exit.INTERRUPTED else ending.code)


def _print_version(requested: bool) -> None:
    if requested:
        import solkit

        typer.echo(f"solkit {solkit.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    del version  # its callback has answered
