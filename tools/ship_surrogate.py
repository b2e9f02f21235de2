"""Puts a model that `solkit train` wrote where SolKit ships it.

From the root of a checkout: ``python -m tools.ship_surrogate FILE``.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

from solkit.errors import InputError
from solkit.surrogate.shipped import CARD, LANGUAGE_FILE, MODEL_FILE, write_part

_LANGUAGE = ("language/", "stacked")  # parts of a depth


def write_shipped_files(trained: Path, trees_file: Path, language_file: Path) -> None:
    """Write the two files of a model that `solkit train` wrote.

    A model without a language regressor takes over the shipped one, at the depths whose trees are
    the same, byte for byte: it is stacked on them. If there is none, the language file goes.

    Raises:
        InputError: the file holds no surrogate.
    """
    try:
        parts = _read_parts(trained)
        card = json.loads(parts.pop(CARD))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{trained} holds no surrogate: {error}") from error
    language = {name: data for name, data in parts.items() if _is_language(name)}
    trees = {name: data for name, data in parts.items() if name not in language}
    if not language and trees_file.exists() and language_file.exists():
        language = _unchanged_language(_read_parts(language_file), _read_parts(trees_file), trees)
        depths = {_depth_of_part(name) for name in language}
        if depths:
            card["language"] = [depth for depth in card["depths"] if depth in depths]
    card_text = json.dumps(card, indent=1, sort_keys=True).encode()
    _write_parts(trees_file, {CARD: card_text, **trees})
    if language:
        _write_parts(language_file, {CARD: card_text, **language})
    else:
        language_file.unlink(missing_ok=True)


def _unchanged_language(
    language: dict[str, bytes], before: dict[str, bytes], after: dict[str, bytes]
) -> dict[str, bytes]:
    """Return the parts of a language regressor at depths whose trees did not change."""

    def parts_of_depth(parts: dict[str, bytes], depth: str) -> dict[str, bytes]:
        return {name: data for name, data in parts.items() if _depth_of_part(name) == depth}

    return {
        name: data
        for name, data in language.items()
        if _is_language(name)
        and parts_of_depth(before, _depth_of_part(name))
        == parts_of_depth(after, _depth_of_part(name))
    }


def _depth_of_part(name: str) -> str:
    return name.partition("/")[0]


def _is_language(name: str) -> bool:
    return name.partition("/")[2].startswith(_LANGUAGE)


def _read_parts(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def _write_parts(path: Path, parts: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in parts.items():
            write_part(file, name, data)


if __name__ == "__main__":
    files = Path("surrogate") / MODEL_FILE, Path("datasets/data") / LANGUAGE_FILE
    write_shipped_files(Path(sys.argv[1]), *files)
    for each in files:
        size = f"{each.stat().st_size / 1e6:.1f} MB" if each.exists() else "none"
        print(f"{each}: {size}")
