"""Importing a user's file and blaming the right line of it when its code fails."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from solkit.core import Value
from solkit.errors import KernelFileError, ParamsError, SolkitError

__all__ = [
    "blaming",
    "check_call",
    "definition_line",
    "file_of",
    "import_file",
    "restrict_autotuners",
]


_paths: dict[str, str] = {}  # module name -> path as the user gave it


def file_of(module: ModuleType) -> str:
    """The path that a module was imported from, as the user gave it."""
    return _paths[module.__name__]


def import_file(path: str) -> ModuleType:
    """Import a Python file under a name of its own, its folder importable as for a script.

    Raises:
        KernelFileError: no such file, or its top level fails; names the line.
    """
    file = Path(path)
    if not file.is_file():
        raise KernelFileError("no such file", path)
    resolved = str(file.resolve())
    name = f"solkit_kernel_{hashlib.sha256(resolved.encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise KernelFileError("not a Python file: expected a name that ends in .py", path)
    module = importlib.util.module_from_spec(spec)
    _paths[name] = path
    sys.modules[name] = module  # dataclasses and pickle look a module up by its name
    sys.path.insert(0, str(file.resolve().parent))
    with blaming(path, "importing it"):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def blaming(path: str, doing: str) -> Iterator[None]:
    """Turn any exception of the user's code into a `KernelFileError` at the line to blame.

    Args:
        path: the user's file.
        doing: what was being done, as in "calling reference(x)".
    """
    try:
        yield
    except SolkitError:
        raise
    except (Exception, SystemExit) as error:
        kind, text = type(error).__name__, str(error).strip()
        message = f"{doing} raised {kind}: {text}" if text else f"{doing} raised {kind}"
        raise KernelFileError(message, path, _line_to_blame(error, path)) from error


def _line_to_blame(error: BaseException, path: str) -> int | None:
    if isinstance(error, SyntaxError) and error.filename and _same(error.filename, path):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if _same(frame.filename, path)]
    return lines[-1] if lines else None


def _same(left: str, right: str) -> bool:
    return Path(left).resolve() == Path(right).resolve()


def definition_line(function: Callable[..., Any]) -> int | None:
    """The line of a function's or class's definition, where it has one."""
    try:
        return inspect.getsourcelines(function)[1]
    except (OSError, TypeError):
        return None


def check_call(
    function: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    path: str,
    maker: str = "inputs()",
) -> None:
    """Check that `function` takes the inputs that the file makes.

    Raises:
        KernelFileError: it does not; says what is made and what is taken.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin: the call itself will tell
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        named = "".join(f", {key}=" for key in kwargs)
        raise KernelFileError(
            f"{maker} makes {len(args)} positional argument(s){named}, "
            f"but the file has {name}{signature}: {error}",
            path,
            definition_line(function),
        ) from error


def restrict_autotuners(module: ModuleType, params: Mapping[str, Value]) -> set[str]:
    """Keep, in each `triton.autotune` of a module, only the configurations that match `params`.

    An autotuner with one configuration left launches it without timing anything.

    Returns:
        the parameters that some autotuner knows.

    Raises:
        ParamsError: an autotuner knows the parameters, but has no such configuration.
    """
    known: set[str] = set()
    for name, tuner in vars(module).items():
        if type(tuner).__name__ != "Autotuner" or not hasattr(tuner, "configs"):
            continue
        configs = [(config, config.all_kwargs()) for config in tuner.configs]
        wanted = {key: params[key] for key in params if any(key in kw for _, kw in configs)}
        known |= set(wanted)
        kept = [c for c, kw in configs if all(kw.get(k) == v for k, v in wanted.items())]
        if not kept:
            listed = "; ".join(str(kw) for _, kw in configs[:8])
            raise ParamsError(
                f"{file_of(module)}: autotuned kernel {name} has no configuration with "
                f"{wanted}; it has: {listed}{' …' if len(configs) > 8 else ''}"
            )
        tuner.configs = kept
    return known
