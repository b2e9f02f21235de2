"""Begin with a program that is not edited, and with every Python process that it starts.

::

    shim_environment(SOLKIT_RECORD=folder) ─► PYTHONPATH ─► startup_shim/sitecustomize.py
      ─► start_with_program ─► torch and triton are imported ─► the starter of each variable

Nothing is imported before the program imports it itself. A variable that is ``0``, ``off`` or
``no`` asks for nothing. What fails once a module is imported leaves the program as it is, with one
line on standard error: a later release may lack what is expected of it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from solkit.errors import InputError

STARTERS: Mapping[str, str] = {
    "SOLKIT_APPLY": "solkit.integrations.applying:apply_from_environment",
    "SOLKIT_RECORD": "solkit.integrations.recorder:start_from_environment",
}
"""By variable of the environment, which names a folder, a function ``module:name`` that is called
without arguments once torch and triton are there."""

_SHIM = Path(__file__).with_name("startup_shim")
_AWAITED = ("torch", "triton")
_OFF = ("0", "off", "no")


def is_off(variable: str) -> bool:
    """Tell whether the user turned a variable of `STARTERS` off."""
    return os.environ.get(variable, "").lower() in _OFF


def _asks(variable: str) -> bool:
    return bool(os.environ.get(variable)) and not is_off(variable)


def shim_environment(**variables: str) -> dict[str, str]:
    """Return this process's environment for a program that SolKit begins with.

    Args:
        variables: those of `STARTERS`, and whatever their functions read.
    """
    before = os.environ.get("PYTHONPATH")
    folders = [str(_SHIM), *([before] if before else [])]
    return {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(folders)}


def program_environment() -> dict[str, str]:
    """Return the environment of a program that SolKit runs, with the shim if a variable asks."""
    if any(map(_asks, STARTERS)):
        return shim_environment()
    from solkit.processes.host import python_path  # not where every Python process starts

    return {**os.environ, "PYTHONPATH": python_path()}


@contextlib.contextmanager
def asking_programs(**variables: str) -> Iterator[None]:
    """Set variables for the programs that are run within the ``with`` block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def run_with_shim(command: Sequence[str], **variables: str) -> int:
    """Run a program in this terminal with the shim; Ctrl-C is the program's to answer.

    Args:
        command: a Python script with its arguments, or a program on the path.
        variables: as for `shim_environment`.

    Returns:
        Its exit code; that of a shell if a signal ended it.

    Raises:
        InputError: there is no such program.
    """
    words = command_words(command)
    try:
        process = subprocess.Popen(words, env=shim_environment(**variables))
    except OSError as error:
        raise InputError(f"cannot run {command[0]}: {error.strerror}") from error
    with _passing_on_termination(process):
        while True:
            try:
                code = process.wait()
            except KeyboardInterrupt:  # it has the signal too
                continue
            return code if code >= 0 else 128 - code


def command_words(command: Sequence[str]) -> list[str]:
    """Return the words of a command; a Python script gets this process's interpreter.

    Raises:
        InputError: there is no such script.
    """
    if not command[0].endswith(".py"):
        return list(command)
    if not Path(command[0]).is_file():
        raise InputError(f"{command[0]}: no such file")
    return [sys.executable, *command]


@contextlib.contextmanager
def _passing_on_termination(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let a program answer SIGTERM, which a supervisor sends to this process alone."""
    before = signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def start_with_program() -> None:
    """Call the starters whose variables are set, once the program has imported torch and triton."""
    for variable, place in STARTERS.items():
        if _asks(variable):
            # absolute: the program may change its folder before that, or starts others
            with contextlib.suppress(OSError):  # its own may be deleted
                os.environ[variable] = str(Path(os.environ[variable]).absolute())
            call_after_imports(_AWAITED, functools.partial(_call_starter, place), place)


def _call_starter(place: str) -> None:
    module, _, name = place.partition(":")
    getattr(importlib.import_module(module), name)()


def call_after_imports(
    names: Sequence[str], function: Callable[[], Any], task: str | None = None
) -> None:
    """Call a function once all of some modules are imported: at once if they are.

    An error of it is said in a line, and is none of the import's.

    Args:
        names: of the modules.
        function: called without arguments.
        task: what fails with it, for that line; by default the modules' names.
    """
    guarded = functools.partial(_call_guarded, function, task or ", ".join(names))
    missing = {name for name in names if not _is_loaded(name)}
    if not missing:
        guarded()
        return
    sys.meta_path.insert(0, _Waiting(missing, guarded))


def _call_guarded(function: Callable[[], Any], task: str) -> None:
    try:
        function()
    except Exception as error:  # the program goes on as without SolKit
        with contextlib.suppress(Exception):
            print(f"solkit: {task} failed: {type(error).__name__}: {error}", file=sys.stderr)


def _is_loaded(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


class _Waiting(importlib.abc.MetaPathFinder):
    """Finds nothing itself, but notes when modules are loaded."""

    def __init__(self, missing: set[str], function: Callable[[], Any]) -> None:
        self._missing, self._function = missing, function

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that others find, whose loader says when the module is loaded."""
        if name not in self._missing:
            return None
        place = next(n for n, finder in enumerate(sys.meta_path) if finder is self)
        later = sys.meta_path[place + 1 :]  # others that wait are asked by each other but once
        for finder in [finder for finder in later if hasattr(finder, "find_spec")]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._watch_loader(name, spec)
                return spec
        return None

    def _watch_loader(self, name: str, spec: ModuleSpec) -> None:
        loader: Any = spec.loader
        original = getattr(loader, "exec_module", None)
        if original is None:
            return

        def exec_module(module: ModuleType) -> None:
            original(module)
            if module.__name__ == name:  # a loader may load several
                self._note_loaded(name)

        loader.exec_module = exec_module

    def _note_loaded(self, name: str) -> None:
        self._missing.discard(name)
        if not self._missing and self in sys.meta_path:
            sys.meta_path.remove(self)
            self._function()
