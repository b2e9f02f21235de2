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
from solkit.errors import InputError, UnsupportedError

__all__ = ["CARD", "LANGUAGE_FILE", "MODEL_FILE", "language_of", "ship", "trees"]

MODEL_FILE = "surrogate.solkit"
LANGUAGE_FILE = "language.solkit"
CARD = "card.json"
_HERE = Path(__file__).parent
_LANGUAGE = ("language/", "stacked")  # parts of a depth


def trees() -> Path:
    """The file of the trees.

    Raises:
        UnsupportedError: this SolKit has none.
    """
    path = _HERE / MODEL_FILE
    if not path.exists():
        raise UnsupportedError(f"no trained surrogate is installed: {path} is missing")
    return path


def language_of(model: Path) -> Path | None:
    """The file of the language regressor that was trained with a model; ``None`` without one."""
    if model != _HERE / MODEL_FILE:
        return model  # a file of `solkit train` holds both
    try:
        path = sets.folder("no language regressor is installed") / LANGUAGE_FILE
    except UnsupportedError:
        return None
    return path if path.exists() and _card(path) == _card(model) else None


def ship(trained: Path, trees_file: Path, language_file: Path) -> None:
    """Write the two files of a model that `solkit train` wrote.

    Raises:
        InputError: the file holds no surrogate.
    """
    try:
        with zipfile.ZipFile(trained) as file:
            names = file.namelist()
            spoken = [name for name in names if _is_language(name)]
            _copy(file, [name for name in names if name not in spoken], trees_file)
            if spoken:
                _copy(file, [CARD, *spoken], language_file)
            else:
                language_file.unlink(missing_ok=True)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{trained} holds no surrogate: {error}") from error


def _is_language(name: str) -> bool:
    return name.partition("/")[2].startswith(_LANGUAGE)


def _copy(file: zipfile.ZipFile, names: list[str], path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as written:
        for name in names:
            entry = zipfile.ZipInfo(name)  # without the time of day: equal models, equal files
            entry.compress_type = zipfile.ZIP_LZMA
            written.writestr(entry, file.read(name))


def _card(path: Path) -> object:
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read(CARD))
