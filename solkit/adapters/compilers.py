"""The Triton that compiles: this environment's, a folder's, or another interpreter's.

A folder is what ``pip install --no-deps --target FOLDER triton==VERSION`` makes. Its Triton is put
in front of this environment's modules; an interpreter brings all of its own libraries. Either runs
in processes of its own (`solkit.processes.host.Python`). Nothing is imported or installed here.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from solkit.errors import InputError
from solkit.processes.host import OWN_PYTHON, Python

_VERSION = re.compile(r"\d+\.\d+[\w.+]*")
_ASKED_S = 60.0
_NEEDED = ("torch", "triton", "numpy")
_QUESTION = (
    "import importlib.metadata as m, json, sys\n"
    "def version(name):\n"
    "    try: return m.version(name)\n"
    "    except m.PackageNotFoundError: return None\n"
    f"print(json.dumps([sys.version_info[:2], {{n: version(n) for n in {_NEEDED!r}}}]))"
)
_OLDEST_PYTHON = (3, 10)


@dataclass(frozen=True)
class Compiler:
    """A Triton.

    Attributes:
        version: of Triton, e.g. ``"3.9.0"``.
        python: what its processes run in.
        identity: all that its results depend on: versions, places, and sizes and times of files.
    """

    version: str
    python: Python = OWN_PYTHON
    identity: tuple[object, ...] = ()


def installed_compiler() -> Compiler:
    """Return this environment's Triton.

    Raises:
        InputError: there is none.
    """
    version = _installed_version()
    if version is None:
        raise InputError(
            "Triton is not installed here: name an interpreter or a folder that has it"
        )
    return Compiler(version)


def find_compiler(text: str) -> Compiler:
    """Return the Triton that a user names.

    Args:
        text: a folder of ``pip install --target``, a virtual environment, an interpreter, or the
            version of this environment's Triton.

    Raises:
        InputError: there is no such Triton; says what to do.
    """
    place = Path(text).expanduser()
    if place.is_dir():
        return _in_folder(place.absolute())
    if place.is_file():
        return _of_interpreter(place.absolute())
    version = _installed_version()
    if text == version:
        return Compiler(version)
    if not _VERSION.fullmatch(text):
        raise InputError(
            f"no Triton {text!r}: expected a version, a folder of `pip install --target`, a "
            "virtual environment or an interpreter"
        )
    raise InputError(
        f"Triton {text} is not in this environment, which has {version or 'none'}. Make a folder "
        f"with it, and name that: pip install --no-deps --target triton-{text} triton=={text}"
    )


def _installed_version() -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("triton")
    return None


def _in_folder(folder: Path) -> Compiler:
    """Return a folder's Triton, or that of the virtual environment which the folder is."""
    interpreter = folder / "bin" / "python"
    if interpreter.is_file():
        return _of_interpreter(interpreter)
    listed = importlib.metadata.distributions(name="triton", path=[str(folder)])
    version = next((package.version for package in listed), None)
    if version is None or not (folder / "triton").is_dir():
        raise InputError(
            f"{folder} holds no Triton: make it with `pip install --no-deps --target {folder} "
            "triton==VERSION`, or name a virtual environment or an interpreter"
        )
    identity = (version, str(folder), *_states(folder.glob("triton/_C/*.so")))
    return Compiler(version, Python(folders=(str(folder),)), identity)


def _of_interpreter(interpreter: Path) -> Compiler:
    """Return an interpreter's Triton; a link stays one, as a virtual environment's must."""
    command = [str(interpreter), "-c", _QUESTION]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASKED_S, env=env)
        python, versions = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{interpreter} is no Python interpreter that answers: {error}") from error
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        raise InputError(
            f"{interpreter} lacks {' and '.join(missing)}, which the analysis needs: install them "
            "for it, or name another"
        )
    if tuple(python) < _OLDEST_PYTHON:
        raise InputError(
            f"{interpreter} is Python {python[0]}.{python[1]}; 3.10 or later is needed"
        )
    identity = (str(interpreter), *python, *sorted(versions.items()), *_states([interpreter]))
    return Compiler(versions["triton"], Python(str(interpreter)), identity)


def _states(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Return names, sizes and times of files, which tell builds of one version apart."""
    states = ((str(file), file.stat()) for file in sorted(files))
    return [(name, state.st_size, state.st_mtime_ns) for name, state in states]
