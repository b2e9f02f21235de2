"""Store of calibrations: one JSON file each, never overwritten."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from solkit import userdata
from solkit.core.codec import from_json, to_json
from solkit.errors import InputError
from solkit.roofline.calibration.record import Calibration

VARIABLE = "SOLKIT_CALIBRATIONS"
"""The environment variable that names another folder for the user's own calibrations."""

_SHIPPED = Path(__file__).with_name("shipped")


def folder() -> Path:
    """Return the folder of the user's own calibrations: see `solkit.userdata.folder`."""
    return userdata.folder("calibrations", VARIABLE)


def check_room(path: Path | None = None) -> None:
    """Raise before a calibration is measured, not after it, if it could not be saved.

    Args:
        path: as for `save`.

    Raises:
        InputError: the file exists already, or its folder takes no files.
    """
    where = folder() if path is None else path.parent
    if path is not None and path.exists():
        raise InputError(f"{path} exists: a calibration is never overwritten")
    try:
        where.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=where, suffix=".part"):
            pass
    except OSError as error:
        raise InputError(
            f"cannot write to {where}: {error.strerror} ({VARIABLE} names another folder)"
        ) from error


def save(calibration: Calibration, path: Path | None = None) -> Path:
    """Write a calibration; the file is written whole or not at all.

    Args:
        calibration: what was measured.
        path: the file; by default one in `folder`, named after GPU, time and driver.

    Raises:
        InputError: the file exists already, or cannot be written.
    """
    target = folder() / _name(calibration) if path is None else path
    text = json.dumps(to_json(calibration, complete=True), indent=1) + "\n"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_once(target, text)
    except OSError as error:
        if target.exists():
            raise InputError(f"{target} exists: a calibration is never overwritten") from error
        raise InputError(f"cannot write {target}: {error.strerror}") from error
    return target


def read(path: Path) -> Calibration:
    """Return the calibration in a file.

    Raises:
        InputError: it cannot be read, or is not a calibration.
    """
    try:
        return from_json(Calibration, json.loads(path.read_bytes()))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not a calibration: {error}") from error


def own() -> tuple[tuple[Calibration, ...], tuple[str, ...]]:
    """Return the user's own calibrations, newest first, and a fault for each other file."""
    return _all(folder())


def shipped() -> tuple[Calibration, ...]:
    """Return the calibrations that ship with SolKit, newest first.

    Raises:
        InputError: one of them is broken.
    """
    calibrations, faults = _all(_SHIPPED)
    if faults:
        raise InputError("; ".join(faults))
    return calibrations


def _all(where: Path) -> tuple[tuple[Calibration, ...], tuple[str, ...]]:
    faults: list[str] = []

    def readable() -> Iterator[Calibration]:
        for path in sorted(where.glob("*.json")):
            try:
                yield read(path)
            except InputError as error:
                faults.append(str(error))

    calibrations = sorted(readable(), key=lambda calibration: calibration.created, reverse=True)
    return tuple(calibrations), tuple(faults)


def _name(calibration: Calibration) -> str:
    unit = (calibration.gpu.uuid or "").removeprefix("GPU-")[:8]
    parts = (
        calibration.gpu.key,
        unit,
        f"{calibration.created:%Y%m%dT%H%M%S.%f}",
        f"driver-{calibration.software.driver}",
    )
    return "_".join(part for part in parts if part) + ".json"


def _write_once(target: Path, text: str) -> None:
    """Write beside the target, then link, which fails if the name is taken.

    Raises:
        FileExistsError: the target exists.
    """
    with tempfile.NamedTemporaryFile("w", dir=target.parent, suffix=".part") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        Path(file.name).chmod(0o644)
        os.link(file.name, target)
