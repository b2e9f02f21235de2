"""Libraries that come with an extra of SolKit, and what is said where one is missing.

Whatever imports such a library may do so plainly: `exit_codes` of the command line and the lazy
names of the package translate the `ImportError`. Elsewhere `needed` does.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator
from types import ModuleType

from solkit.errors import MissingLibraryError

EXTRAS: dict[str, tuple[str, ...]] = {
    "data": ("polars", "pyarrow"),
    "surrogate": ("scipy", "xgboost"),
    "train": ("solkit[data]", "solkit[surrogate]"),
    "optuna": ("solkit[surrogate]", "optuna", "sqlalchemy"),
    "tune": ("solkit[optuna]",),
    "evolve": ("solkit[surrogate]", "libcst"),
    "llm": ("solkit[evolve]", "openai"),
    "local-llm": ("solkit[evolve]", "transformers", "accelerate", "gguf", "safetensors"),
    "language": ("solkit[surrogate]", "transformers", "peft", "safetensors"),
    "mcp": ("solkit[surrogate]", "mcp", "anyio"),
    "serve": ("solkit[surrogate]", "fastapi", "starlette", "uvicorn"),
    "postgres": ("solkit[optuna]", "psycopg"),
    "cutile": ("cuda.tile",),
    "helion": ("helion",),
    "cute": ("cutlass",),
    "tilelang": ("tilelang",),
    "ray": ("ray",),
    "report": ("jinja2", "matplotlib", "plotly"),
}
"""Modules of each extra in pyproject.toml, and the extras that it brings. A module's own extra is
the first that names it."""

_SPOKEN = {
    "optuna": "Optuna",
    "mcp": "the MCP SDK, version 2",
    "fastapi": "FastAPI",
    "ray": "Ray",
    "helion": "Helion",
    "cuda.tile": "cuTile",
    "cutlass": "CuTe DSL",
    "tilelang": "TileLang",
}


@functools.cache
def modules_of(extra: str) -> frozenset[str]:
    """Return the modules that an extra brings, by other extras as well."""
    modules: set[str] = set()
    for requirement in EXTRAS[extra]:
        other = requirement.removeprefix("solkit[").removesuffix("]")
        modules |= {requirement} if other == requirement else modules_of(other)
    return frozenset(modules)


def missing(module: str, extra: str | None = None) -> MissingLibraryError:
    """Return the error for a missing module.

    Args:
        module: its name.
        extra: of the command that needs it; the module's own if that does not bring it.
    """
    own = _listed_module(module) or module
    if extra is None or own not in modules_of(extra):
        extra = next(name for name, modules in EXTRAS.items() if own in modules)
    spoken = _SPOKEN.get(own, own)
    return MissingLibraryError(f"this needs {spoken}: pip install 'solkit[{extra}]'", own)


def _listed_module(name: str) -> str:
    """Return the module of an extra that a name is of; empty if it is of none."""
    parts = name.split(".")
    names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((n for n in names if any(n in modules for modules in EXTRAS.values())), "")


def translated(error: BaseException, extra: str | None = None) -> MissingLibraryError | None:
    """Return the error to raise instead; ``None`` unless a library of an extra is missing."""
    if isinstance(error, MissingLibraryError):
        return error if extra is None else missing(error.module, extra)
    module = _listed_module(getattr(error, "name", None) or "")
    if isinstance(error, ModuleNotFoundError) and module:
        return missing(module, extra)
    return None


@contextlib.contextmanager
def needed(extra: str | None = None) -> Iterator[None]:
    """Import libraries of an extra within it.

    Raises:
        MissingLibraryError: one is not installed.
    """
    try:
        yield
    except (ImportError, MissingLibraryError) as error:
        replacement = translated(error, extra)
        if replacement is None:
            raise
        raise replacement from error


def library(module: str, extra: str | None = None) -> ModuleType:
    """Import a module of an extra.

    Raises:
        MissingLibraryError: it is not installed.
    """
    with needed(extra):
        return importlib.import_module(module)


def check(module: str, extra: str | None = None) -> None:
    """Raise if a module is not installed, without importing it.

    Raises:
        MissingLibraryError: it is not.
    """
    if importlib.util.find_spec(module) is None:
        raise missing(module, extra)


def check_all(extra: str) -> None:
    """Raise if a module of an extra is not installed, before a command looks for anything else.

    Raises:
        MissingLibraryError: one is not.
    """
    for module in sorted(modules_of(extra)):
        check(module, extra)


def installed_version(package: str) -> str | None:
    """Return the version of an installed distribution; ``None`` if it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
