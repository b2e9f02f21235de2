"""Defaults of a project: ``[tool.solkit]`` in the nearest pyproject.toml, and the environment.

The command line goes before the environment, that before the project, and that before what is
detected::

    [tool.solkit]
    device = "h200"
    shapes = ["M=4096,N=1000", { M = 8192, N = 8192 }]

    [tool.solkit.shapes]                  # or for some files alone, by their path below this file
    "kernels/softmax*.py" = ["M=4096,N=1000"]
"""

from __future__ import annotations

import fnmatch
import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solkit.cli import _base, _options
from solkit.core.toml import tomllib
from solkit.errors import InputError, UnknownDeviceError

if TYPE_CHECKING:
    from solkit.core import Value

_DEVICE, _SHAPES = "SOLKIT_DEVICE", "SOLKIT_SHAPES"
_KEYS = ("device", "shapes")
_Shape = Mapping[str, "Value"]


@dataclass(frozen=True)
class _Project:
    """Settings of a project.

    Attributes:
        file: its pyproject.toml.
        device: the target.
        shapes: by pattern of a file's path below the project, its workloads; ``*`` for all.
    """

    file: Path
    device: str | None = None
    shapes: Mapping[str, Sequence[_Shape]] = field(default_factory=dict)


def device_setting(
    option: str | None, near: str | None = None, on: str | None = None
) -> str | None:
    """Name the target: by the option, the environment or the project; else ``None``.

    Args:
        option: the value of ``--device``.
        near: the kernel file; by default the current folder.
        on: the value of ``--on``, whose GPU is the target unless the command line names one.

    Raises:
        InputError: the environment or the project names an unknown GPU, or is invalid.
        UnknownDeviceError: the option names an unknown GPU.
    """
    if option is not None:
        from solkit.roofline.devices import find

        find(option)
    if option is not None or on is not None:
        return option
    if chosen := os.environ.get(_DEVICE):
        _check_device(chosen, _DEVICE)
        return chosen
    project = _nearest_project(near)
    return None if project is None else project.device


def shape_settings(option: Sequence[str] | None, near: str) -> list[dict[str, Value]] | None:
    """Return the workloads named by the option, the environment or the project.

    Raises:
        ShapeError: a value cannot be read.
        InputError: the project is invalid.
    """
    if option:
        return _options.parse_shapes(option)
    if chosen := os.environ.get(_SHAPES):
        return [_options.parse_settings(text, "--shape") for text in chosen.split(";")]
    project = (
        _nearest_project(near) if Path(near).exists() else None
    )  # a recorded kernel has a name alone
    if project is None:
        return None
    path = Path(os.path.relpath(Path(near).resolve(), project.file.parent)).as_posix()
    for pattern, listed in project.shapes.items():
        if fnmatch.fnmatchcase(path, pattern):
            _print_once(f"shapes are those of {project.file}")
            return [dict(sizes) for sizes in listed]
    return None


def one_shape_setting(option: str | None, near: str) -> dict[str, Value] | None:
    """Return the one workload of a command that takes one: the first that is named."""
    listed = shape_settings(None if option is None else [option], near)
    return None if listed is None else listed[0]


def announce_device(device: str | None) -> None:
    """Say on stderr for which GPU bounds are, if this machine has none and none is named."""
    from solkit.pipeline.target import NO_GPU, target_device

    if device is None and NO_GPU in target_device(None).notes:
        _base.print_complaint(NO_GPU)


@functools.cache
def _print_once(text: str) -> None:
    _base.print_complaint(text)


def _nearest_project(near: str | None) -> _Project | None:
    """Return the nearest project, upwards from the kernel file, else from the current folder."""
    starts = [] if near is None else [Path(near).resolve()]
    for start in (*starts, Path.cwd() / "_"):
        for folder in start.parents:
            file = folder / "pyproject.toml"
            if file.is_file() and (project := _read_settings(file)) is not None:
                return project
    return None


def _read_settings(file: Path) -> _Project | None:
    """Read a file's settings; ``None`` if it has none."""
    try:
        held: Any = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None  # it is another's
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file}: is not valid TOML: {error}") from error
    tools = held.get("tool")
    table = tools.get("solkit") if isinstance(tools, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise InputError(f"{file}: tool.solkit is {table!r}; expected a table")
    if unknown := sorted(set(table) - set(_KEYS)):
        raise InputError(
            f"{file}: [tool.solkit] has no key {', '.join(unknown)}; its keys are: "
            f"{', '.join(_KEYS)}"
        )
    return _Project(file, _device_in_table(file, table), _shapes_in_table(file, table))


def _device_in_table(file: Path, table: Mapping[str, Any]) -> str | None:
    value = table.get("device")
    if value is None:
        return None
    where = f"{file}: [tool.solkit] device"
    if not isinstance(value, str):
        raise InputError(f'{where} is {value!r}; expected a name of `solkit devices`, as "h200"')
    _check_device(value, where)
    return value


def _check_device(name: str, where: str) -> None:
    from solkit.roofline.devices import find

    try:
        find(name)
    except UnknownDeviceError as error:
        raise InputError(f"{where}: {error}") from error


def _shapes_in_table(file: Path, table: Mapping[str, Any]) -> dict[str, list[_Shape]]:
    value = table.get("shapes")
    if value is None:
        return {}
    if not isinstance(value, dict):
        return {"*": _require_list(f"{file}: [tool.solkit] shapes", value)}
    return {
        pattern: _require_list(f"{file}: [tool.solkit.shapes] {pattern!r}", listed)
        for pattern, listed in value.items()
    }


def _require_list(where: str, value: Any) -> list[_Shape]:
    if not isinstance(value, list) or not value:
        raise InputError(f'{where} is {value!r}; expected a list, as ["M=4096,N=1000"]')
    parsed: list[_Shape] = []
    for entry in value:
        if isinstance(entry, str):
            try:
                parsed.append(_options.parse_settings(entry, "--shape"))
            except InputError as error:
                raise InputError(f"{where}: {str(error).removeprefix('--shape: ')}") from error
        elif isinstance(entry, dict) and entry and all(map(_is_plain_value, entry.values())):
            parsed.append(entry)
        else:
            raise InputError(
                f'{where} has {entry!r}; expected "M=4096,N=1000" or {{ M = 4096, N = 1000 }}'
            )
    return parsed


def _is_plain_value(value: Any) -> bool:
    return isinstance(value, (int, float, str))
