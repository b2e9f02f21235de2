"""Places of the models of `transformers`: folders, GGUF files, or ids of a hub."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from solkit.errors import InputError


def check_path(path: str) -> None:
    """Refuse what looks like a file, but is none.

    Raises:
        InputError: it does.
    """
    if not Path(path).exists() and (path.endswith(".gguf") or path.startswith((".", "/", "~"))):
        raise InputError(f"{path}: no such model; expected a folder, a GGUF file or a hub id")


def source_of(path: str, *, local_files_only: bool = True) -> tuple[str, dict[str, Any]]:
    """Return name and options for `from_pretrained`; code of a model never runs."""
    options = {"local_files_only": local_files_only, "trust_remote_code": False}
    if not is_gguf_file(path):
        return path, options
    return str(Path(path).parent), {**options, "gguf_file": Path(path).name}


def is_gguf_file(path: str) -> bool:
    """Tell whether it is a GGUF file."""
    return Path(path).suffix == ".gguf" and Path(path).is_file()


@contextlib.contextmanager
def read_once(path: str) -> Iterator[None]:
    """Within it a GGUF file is read once; of other paths nothing changes.

    `transformers` reads all words of a file for the configuration, for the tokenizer and for the
    weights, and makes the table of the names of weights anew for each module: many seconds.

    Raises:
        ImportError: the package gguf is missing.
    """
    if not is_gguf_file(path):
        yield
        return
    gguf = importlib.import_module("gguf")
    slow = {name: getattr(gguf, name) for name in ("GGUFReader", "get_tensor_name_map")}
    for name, function in slow.items():
        setattr(gguf, name, functools.cache(function))
    try:
        yield
    finally:  # what was read is forgotten, since the file may be another the next time
        for name, function in slow.items():
            setattr(gguf, name, function)
