"""``solkit mcp``: SolKit as tools of a coding agent."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from solkit import extras
from solkit.cli import _base, _options, exit_codes
from solkit.cli.exit_codes import Exit
from solkit.cli.serve import service_settings

if TYPE_CHECKING:
    from solkit.service.queue import JobQueue
    from solkit.service.settings import ServiceSettings

_State = Annotated[
    str | None,
    typer.Option(metavar="FOLDER", help="Folder of the jobs. Default: one that ends with it."),
]


def mcp(
    device: _options.Device = None,
    on: _options.GpuQueues = None,
    recorded: _options.Recorded = None,
    state: _State = None,
    sandbox: _options.Sandbox = False,
    log: _options.Log = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Offer SolKit to a coding agent over the Model Context Protocol, on stdin and stdout.

    Its tools are bound, analyse, score, rank, evaluate, compare, profile, tune and evolve. Long
    ones give a job id, which the tool job takes.
    """
    with exit_codes.failures_as_exit_codes(verbose, "mcp"), _jobs_folder(state) as folder:
        extras.check("mcp")
        recorded = _base.find_recording(recorded)
        _base.check_readable(recorded)
        settings = service_settings(
            device=device,
            on=on,
            recorded=recorded,
            state=folder,
            limits=(1 << 20, 1000, 1000, None),
            sandbox=sandbox,
            log=log,
        )
        _run_server(settings, None if state is not None else folder)


@contextlib.contextmanager
def _jobs_folder(state: str | None) -> Iterator[str]:
    """Yield the folder of the jobs, made absolute; a temporary one by default."""
    if state is not None:
        yield str(Path(state).resolve())
        return
    with tempfile.TemporaryDirectory(prefix="solkit-mcp-", ignore_cleanup_errors=True) as folder:
        yield folder


def _run_server(settings: ServiceSettings, temporary: str | None) -> None:
    import anyio  # comes with the SDK

    from solkit.service.mcp import make_server
    from solkit.service.queue import JobQueue

    async def serve_tools() -> None:
        async with JobQueue(settings) as desk, anyio.create_task_group() as tasks:
            tasks.start_soon(_leave_when_told, desk, temporary)
            await make_server(desk).run_stdio_async()
            tasks.cancel_scope.cancel()

    anyio.run(serve_tools)


async def _leave_when_told(desk: JobQueue, temporary: str | None) -> NoReturn:
    """Tidy up and leave at SIGINT or SIGTERM: the thread that reads stdin would not notice."""
    import anyio

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            with anyio.CancelScope(shield=True):  # stdin may end meanwhile
                await desk.close()
            if temporary is not None:
                shutil.rmtree(temporary, ignore_errors=True)
            was_interrupted = number == signal.SIGINT
            os._exit(Exit.INTERRUPTED if was_interrupted else Exit.TERMINATED)
    raise AssertionError("a receiver of signals never ends")
