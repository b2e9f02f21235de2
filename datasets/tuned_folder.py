"""Tuned folders: what tuning a program's launches gave, for `solkit.apply`.

A folder holds ``tuned.json`` (``solkit.tuned_folder/1``): a GPU, versions, and one `TunedEntry` per
program, launcher and bucket; and the digests of all programs that were looked at. Kernel files that
it was tuned from may lie next to it. The same entries make the same bytes, in whatever order they
come.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from solkit import userdata
from solkit.core.codec import from_json, to_json
from solkit.core.outcomes import canonical
from solkit.core.tuned import TunedEntry, TunedFolder
from solkit.errors import InputError

SCHEMA = "solkit.tuned_folder/1"
FILE = "tuned.json"


def read_tuned_folder(folder: str | os.PathLike[str]) -> TunedFolder:
    """Read a tuned folder.

    Raises:
        InputError: there is none, or its file is damaged or of another kind.
    """
    path = Path(folder) / FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        why = f"{path} cannot be read: {error.strerror}{_next_step(Path(folder))}"
        raise InputError(f"{folder} is no tuned folder: {why}") from error
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise InputError(f"{path} has the schema {schema!r}; expected {SCHEMA!r}")
    try:
        return from_json(TunedFolder, document)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}") from error


def _next_step(folder: Path) -> str:
    """Return what makes a tuned folder of a recording; nothing of other folders."""
    from solkit.datasets.launch_recordings import is_recording

    if not is_recording(folder):
        return ""
    return (
        f"; it is recorded, but neither tuned (`solkit batch {folder} --gpu-minutes 15`) nor "
        f"compiled ahead (`solkit precompile {folder}`)"
    )


def write_tuned_folder(folder: str | os.PathLike[str], tuned: TunedFolder) -> Path:
    """Write a tuned folder, completely or not at all; other files in it stay.

    Returns:
        The path of its ``tuned.json``.

    Raises:
        InputError: it cannot be written.
    """
    path = Path(folder) / FILE
    held = replace(
        tuned, entries=_in_order(tuned.entries), programs=tuple(sorted({*tuned.programs}))
    )
    text = json.dumps({"schema": SCHEMA, **to_json(held)}, indent=1, sort_keys=True)
    try:
        userdata.write_atomically(path, f"{text}\n".encode())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    return path


def _in_order(entries: Iterable[TunedEntry]) -> tuple[TunedEntry, ...]:
    return tuple(sorted(entries, key=lambda entry: (entry.kernel, canonical(to_json(entry)))))
