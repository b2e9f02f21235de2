"""``solkit serve``: SolKit as an HTTP service."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solkit import extras
from solkit.cli import _base, _options, _project, exit_codes
from solkit.errors import InputError

if TYPE_CHECKING:
    from solkit.service.settings import ServiceSettings

_BACKLOG = 2048  # as uvicorn's

_Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")]
_Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")]
_TokenFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="File of access tokens, one a line. Default: a new token, printed once.",
    ),
]
_TokenEnv = Annotated[
    str | None, typer.Option(metavar="NAME", help="Environment variable with an access token.")
]
_State = Annotated[
    str | None,
    typer.Option(metavar="FOLDER", help="Folder of the jobs. Default: in your data folder."),
]
_MaxBody = Annotated[int, _options.advanced(min=1, metavar="BYTES", help="Largest request.")]
_MaxQueue = Annotated[
    int, _options.advanced(min=1, metavar="N", help="Unfinished jobs at the most.")
]
_MaxQueueEach = Annotated[
    int | None,
    _options.advanced(
        min=1, metavar="N", help="Unfinished jobs of one token. Default: --max-queue."
    ),
]
_Rate = Annotated[
    float | None,
    _options.advanced(
        min=0.01, metavar="N", help="Requests a second and token. Default: no limit."
    ),
]


def serve(
    host: _Host = "127.0.0.1",
    port: _Port = 8000,
    token_file: _TokenFile = None,
    token_env: _TokenEnv = None,
    device: _options.Device = None,
    on: _options.GpuQueues = None,
    recorded: _options.Recorded = None,
    state: _State = None,
    max_body: _MaxBody = 1 << 20,
    max_queue: _MaxQueue = 1000,
    max_queue_each: _MaxQueueEach = None,
    rate: _Rate = None,
    sandbox: _options.Sandbox = False,
    log: _options.Log = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Serve bounds, analyses, scores, rankings and searches over HTTP, with a web page.

    Every request is a job on disk, so a killed server loses none: docs/service.md. Candidates run
    in child processes, with --sandbox under bubblewrap.
    """
    with exit_codes.failures_as_exit_codes(verbose, "serve"):
        extras.check("uvicorn")
        extras.check("fastapi")
        recorded = _base.find_recording(recorded)
        _base.check_readable(recorded, token_file)
        settings = service_settings(
            device=device,
            on=on,
            recorded=recorded,
            state=state,
            limits=(max_body, max_queue, max_queue_each or max_queue, rate),
            sandbox=sandbox,
            log=log,
        )
        tokens, is_new = _read_tokens(token_file, token_env)
        if not _is_local_host(host):
            _base.print_complaint(
                f"{host} can be reached from other machines, and the connection is not encrypted: "
                "put a proxy with TLS in front of it, and use --sandbox"
            )
        _run_service(settings, tokens, host, port, is_new)


def service_settings(
    *,
    device: str | None,
    on: list[str] | None,
    recorded: str | None,
    state: str | None,
    limits: tuple[int, int, int, float | None],
    sandbox: bool,
    log: str | None,
) -> ServiceSettings:
    """Return the settings of a service on this machine.

    Raises:
        InputError: an option is invalid.
    """
    from solkit import userdata
    from solkit.service.settings import ServiceSettings

    gpus = tuple(on or ()) or (() if recorded else _first_gpu_name())
    max_body, max_queue, max_queue_each, rate = limits
    return ServiceSettings(
        state=Path(state) if state else userdata.folder("service"),
        device=_project.device_setting(device)
        if recorded is None
        else _recorded_device(recorded, device),
        gpus=gpus,
        recorded=None if recorded is None else str(Path(recorded).resolve()),
        sandbox=sandbox,
        log=None if log is None else str(Path(log).resolve()),
        max_body=max_body,
        max_queue=max_queue,
        max_queue_each=max_queue_each,
        rate=rate,
    )


def _first_gpu_name() -> tuple[str, ...]:
    from solkit.errors import UnknownDeviceError
    from solkit.roofline import nvml

    try:
        return ("cuda:0",) if nvml.live_devices() else ()
    except UnknownDeviceError:
        return ()


def _recorded_device(path: str, device: str | None) -> str:
    """Return the GPU of a recording.

    Raises:
        InputError: it has several, and none is chosen; or not the chosen one.
    """
    from solkit.measure.benches import RecordedBench
    from solkit.roofline.devices import find

    if not Path(path).is_dir():
        return RecordedBench.read(path, device=device).device.key
    from solkit.datasets.store import Store

    devices = sorted(Store(path).scan().select("device").unique().collect()["device"].to_list())
    if device is not None and find(device).key in devices:
        return find(device).key
    if device is None and len(devices) == 1:
        return str(devices[0])
    why = f"{device} is not recorded" if device else "several GPUs are recorded"
    raise InputError(f"{path}: {why}; choose one with --device: {', '.join(map(str, devices))}")


def _read_tokens(file: str | None, variable: str | None) -> tuple[list[str], bool]:
    """Return the access tokens, and whether they are new.

    Raises:
        InputError: a source of tokens has none.
    """
    tokens = []
    if file is not None:
        tokens += Path(file).read_text(encoding="utf-8").split()
        if not tokens:
            raise InputError(f"--token-file: {file} holds no token")
    if variable is not None:
        if not (value := os.environ.pop(variable, "").strip()):  # children need not know it
            raise InputError(f"--token-env: {variable} is not set")
        tokens.append(value)
    if weak := [token for token in tokens if len(token) < 16]:
        raise InputError(f"{len(weak)} access tokens have fewer than 16 characters: lengthen them")
    return (tokens, False) if tokens else ([secrets.token_urlsafe(24)], True)


def _is_local_host(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    It names TCP as its protocol, without which asyncio lets each answer wait for 40 ms (Nagle).

    Raises:
        InputError: the address is unknown or in use.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)  # who connects before the service is ready waits
    except OSError as error:
        raise InputError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listening


def _run_service(
    settings: ServiceSettings, tokens: list[str], host: str, port: int, is_new: bool
) -> None:
    import uvicorn

    from solkit.service.app import make_app
    from solkit.service.queue import hold_folder

    app = make_app(settings, tokens)
    hold_folder(settings.state).close()  # its errors are clearer here than in the server
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    bound = _bind_socket(host, port)
    address = f"http://{host}:{bound.getsockname()[1]}"
    queues = ", ".join(queue.name for queue in settings.queues)
    typer.echo(f"SolKit serves {address} (queues: {queues}; jobs in {settings.state})")
    if is_new:
        typer.echo(f"Access token, shown once: {tokens[0]}")
        typer.echo(f"In a browser: {address}/?token={tokens[0]}")
    server = uvicorn.Server(config)
    server.run(sockets=[bound])
    if not server.started:
        raise InputError("the service did not start: its reason is above")
