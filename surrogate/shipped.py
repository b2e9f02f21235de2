"""The surrogate that SolKit ships, in two files.

``surrogate/surrogate.solkit`` holds trees and costs, and is in SolKit's own wheel. The language
regressor, twice as large, is in ``language.solkit`` beside the measured sets (``solkit-data``). It
counts if it was trained with these trees: the two files have one card. ``python -m
tools.ship_surrogate FILE`` makes both of what `solkit train` wrote (docs/decisions/0039).
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from solkit.datasets import shipped as sets
from solkit.errors import UnsupportedError

MODEL_FILE = "surrogate.solkit"
LANGUAGE_FILE = "language.solkit"
CARD = "card.json"
_HERE = Path(__file__).parent


def shipped_trees_file() -> Path:
    """Return the file of the trees.

    Raises:
        UnsupportedError: this SolKit has none.
    """
    path = _HERE / MODEL_FILE
    if not path.exists():
        raise UnsupportedError(f"no trained surrogate is installed: {path} is missing")
    return path


def language_file_of(model: Path) -> Path | None:
    """Return the language regressor's file that was trained with a model; ``None`` without one."""
    if model != _HERE / MODEL_FILE:
        return model  # a file of `solkit train` holds both
    try:
        path = sets.folder("no language regressor is installed") / LANGUAGE_FILE
    except UnsupportedError:
        return None
    return path if path.exists() and _read_card(path) == _read_card(model) else None


def write_part(file: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Write a part without the time of day, so that equal models are equal files."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_LZMA
    file.writestr(entry, data)


def _read_card(path: Path) -> object:
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read(CARD))
