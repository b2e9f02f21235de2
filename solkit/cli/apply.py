"""``solkit apply``: what a tuned folder would change here, and whether a program gains by it."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solkit.cli import _base, _options, _project, exit_codes
from solkit.errors import InputError

if TYPE_CHECKING:
    from solkit.core.tuned import TunedEntry, TunedFolder, VerifiedKernels

EPILOG = (
    "In a program: solkit.apply(FOLDER) at its start. Without an edit: `solkit run --apply FOLDER "
    "-- COMMAND`."
)

_Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="A tuned folder, as `solkit batch` writes it.")
]
_Command = Annotated[
    list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="With --verify: the program.")
]
_Check = Annotated[
    bool,
    typer.Option(
        "--check", help="Say what would be applied: the default. Without a GPU: on the folder's."
    ),
]
_Triton = Annotated[
    str | None,
    typer.Option(metavar="VERSION", help="Triton's version. Default: the one installed here."),
]
_Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Run COMMAND with and without, alternating, and remove entries that do not gain 1 %.",
    ),
]
_TimeFrom = Annotated[
    str,
    typer.Option(
        metavar="REGEX",
        help="A time that COMMAND prints, as in 'step: ([0-9.]+) ms'; the median of all counts. "
        "Default: the wall time of the process.",
    ),
]
_Rounds = Annotated[int, typer.Option(min=6, help="Runs of each side.")]
_Emit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FORMAT:PATH", help="Also write a file of another project, as `solkit emit` does."
    ),
]


def apply(
    folder: _Folder,
    command: _Command = None,
    check: _Check = False,
    device: _options.Device = None,
    triton: _Triton = None,
    verify: _Verify = False,
    time_from: _TimeFrom = "",
    rounds: _Rounds = 8,
    emit: _Emit = None,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Show which tuned configurations launches of a program would get here, and verify them."""
    with exit_codes.failures_as_exit_codes(verbose, "apply"):
        _check_options(check, verify, command)
        _base.check_writable(json)
        from solkit.datasets.tuned_folder import read_tuned_folder
        from solkit.integrations.verifying import Program

        tuned = read_tuned_folder(folder)
        for target in emit or ():
            _emit(folder, target)
        if verify:
            tried = _verify(folder, tuned, Program(command or [], time_from), rounds)
            document = _verified_json(tried)
        else:
            document = _checked(tuned, device, triton or _installed_triton(), json != "-")
        _base.write_destination(json, lambda: jsonlib.dumps(document, indent=2))


def _check_options(check: bool, verify: bool, command: list[str] | None) -> None:
    if check and verify:
        raise InputError("--check runs nothing, and --verify runs a program: give one of them")
    if verify and not command:
        raise InputError("--verify needs a program: solkit apply FOLDER --verify -- python step.py")
    if command and not verify:
        raise InputError(
            f"{command[0]} is not run: to run it with the folder, use `solkit run --apply FOLDER "
            "-- COMMAND`; to compare it with and without, add --verify"
        )


def _installed_triton() -> str:
    try:
        return version("triton")
    except PackageNotFoundError as error:
        raise InputError("Triton is not installed here: name a version with --triton") from error


# ------------------------------------------------------------------------------ --check


def _checked(tuned: TunedFolder, device: str | None, triton: str, prints: bool) -> dict[str, Any]:
    from solkit.integrations.applying import obstacle
    from solkit.pipeline.target import NO_GPU, target_device

    target = target_device(_project.device_setting(device))
    key = tuned.device if NO_GPU in target.notes else target.key  # no GPU is named, nor is one here
    whys = [obstacle(entry, tuned, key, triton) for entry in tuned.entries]
    if prints:
        console = _base.rich_console()
        for line in _lines_of_check(tuned, whys, key, triton):
            console.print(line, soft_wrap=True)
    return {
        "schema": "solkit.apply/1",
        "device": key,
        "triton": triton,
        "entries": [
            {**_entry_json(entry), "applied": not why, "why": why}
            for entry, why in zip(tuned.entries, whys, strict=True)
        ],
    }


def _lines_of_check(tuned: TunedFolder, whys: list[str], device: str, triton: str) -> Iterator[str]:
    from solkit.report.units import format_settings

    applied = whys.count("")
    yield f"{applied} of {len(whys)} entries would be applied on {device} with Triton {triton}"
    for entry, why in zip(tuned.entries, whys, strict=True):
        sizes = {**entry.bucket.constants, **entry.bucket.scalars}
        place = f"{entry.kernel} ({entry.launcher}) at {format_settings(sizes) or 'any size'}"
        if why:
            yield f"- {place}: {why}"
            continue
        gain = "" if entry.speedup is None else f", {entry.speedup.value:.3f} times as fast"
        yield f"+ {place}: {format_settings(entry.changes) or 'as in use'}{gain}"


def _entry_json(entry: TunedEntry) -> dict[str, Any]:
    from solkit.core.codec import to_json

    return to_json(entry, complete=True)


# ------------------------------------------------------------------------------ --verify, --emit


def _verify(
    folder: Path, tuned: TunedFolder, program: Any, rounds: int
) -> tuple[VerifiedKernels, ...]:
    from solkit.datasets.tuned_folder import write_tuned_folder
    from solkit.integrations.verifying import remove_what_gains_nothing

    kept, groups = remove_what_gains_nothing(
        tuned, program.time, rounds, lambda group: _base.print_complaint(_group_words(group))
    )
    removed = len(tuned.entries) - len(kept.entries)
    if removed:
        write_tuned_folder(folder, kept)
    _base.print_complaint(f"{len(kept.entries)} entries kept, {removed} removed from {folder}")
    return groups


def _group_words(group: VerifiedKernels) -> str:
    names = ", ".join(group.kernels)
    if group.ratio is None:
        return f"{names}: the program fails with it: {group.why}"
    ratio = group.ratio
    times = f"{ratio.value:.4f} of the time ({ratio.low:.4f} to {ratio.high:.4f})"
    return f"{names}: {times}: {'kept' if group.kept else 'no gain'}"


def _verified_json(groups: tuple[VerifiedKernels, ...]) -> dict[str, Any]:
    from solkit.core.codec import to_json

    tried = [to_json(group, complete=True) for group in groups]
    return {"schema": "solkit.apply_verify/1", "groups": tried}


def _emit(folder: Path, text: str) -> None:
    from solkit.tuner import emitters
    from solkit.tuner.emitters.logged_results import read_results

    target = emitters.parse_target(text)
    written = emitters.emit(read_results(folder), target.form, target.path)
    for note in written.notes:
        _base.print_complaint(note)
    for path in written.paths:
        _base.print_complaint(f"wrote {path}")
