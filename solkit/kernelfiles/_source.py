"""Importing a user's file, and finding its line to blame when its code fails."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.machinery
import importlib.util
import inspect
import itertools
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from solkit.adapters.cutile_configs import restrict_cutile
from solkit.adapters.helion_configs import restrict_helion
from solkit.adapters.tilelang_configs import restrict_tilelang
from solkit.core import Params, Space, Value
from solkit.core.syntax import advice_on_launching, package_of, why_not_python
from solkit.errors import KernelFileError, ParamsError, SolkitError
from solkit.kernelfiles._loaded_modules import (
    TUNER_TYPES,
    holders_of_autotuners,
    modules_in_folder,
)

_PLAIN = (int, float, str, type(None))
_MOST_COMBINED = 10_000  # pairs of configurations of two autotuners

_paths: dict[str, str] = {}  # module name -> path as the user gave it


def file_of_module(module: ModuleType) -> str:
    """Return the path that a module was imported from, as the user gave it."""
    return _paths[module.__name__]


def import_file(path: str, name: str | None = None) -> ModuleType:
    """Import a Python file; its folder becomes importable, as for a script.

    Args:
        path: the file.
        name: ``package.module``, if modules beside it import each other by it; by default a unique
            name.

    Raises:
        KernelFileError: the file is missing, or its top level fails; names the line.
    """
    file = Path(path)
    if not file.is_file():
        raise KernelFileError("no such file", path)
    unique = _module_name_for(str(file.resolve()))
    name = name or ".".join([*_enter_package(file.resolve(), path), unique])  # relative imports
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise KernelFileError(why_not_python(file), path)
    module = importlib.util.module_from_spec(spec)
    _paths[name] = path
    sys.modules[name] = module  # dataclasses and pickle look a module up by its name
    sys.path.insert(0, str(file.resolve().parent))
    with blaming_user_code(path, "importing it"):
        spec.loader.exec_module(module)
    return module


def _enter_package(file: Path, path: str) -> list[str]:
    """Make the package that a file lies in importable, and return its names; none without one.

    A folder that is called as an installed module, such as ``triton``, gets another name.
    """
    names, above = package_of(file)
    if not names:
        return []
    sys.path.append(str(above))  # behind what is installed
    top = above / names[0]
    spec = importlib.util.find_spec(names[0]) if names[0].isidentifier() else None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if top in (Path(place).resolve() for place in places):
        return names
    alias = _module_name_for(str(top))
    own = importlib.machinery.ModuleSpec(alias, None, is_package=True)
    if (top / "__init__.py").is_file():
        own = importlib.util.spec_from_file_location(alias, top / "__init__.py") or own
    own.submodule_search_locations = [str(top)]
    sys.modules[alias] = importlib.util.module_from_spec(own)
    if own.loader is not None:
        with blaming_user_code(path, f"importing {top.name}/__init__.py"):
            own.loader.exec_module(sys.modules[alias])
    return [alias, *names[1:]]


def import_text(text: str, path: str) -> ModuleType:
    """Run Python source that is not a file, e.g. a string in a JSON file.

    Args:
        text: the source. `inspect` finds it, so it may hold ``@triton.jit`` functions.
        path: its name in tracebacks and messages.

    Raises:
        KernelFileError: its top level fails; names the line.
    """
    module = ModuleType(_module_name_for(path))
    module.__file__ = path
    _paths[module.__name__] = path
    sys.modules[module.__name__] = module
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    with blaming_user_code(path, "importing it"):
        exec(compile(text, path, "exec"), vars(module))
    return module


def _module_name_for(path: str) -> str:
    return f"solkit_kernel_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"


@contextlib.contextmanager
def blaming_user_code(path: str, doing: str) -> Iterator[None]:
    """Turn any exception of the user's code into a `KernelFileError` with the line to blame.

    Args:
        path: the user's file.
        doing: the action, e.g. "calling reference(x)".
    """
    try:
        yield
    except SolkitError:
        raise
    except BaseException as error:  # SystemExit etc. end the user's code, not SolKit
        kind, text = type(error).__name__, str(error).strip()
        text += advice_to_install(error)
        message = f"{doing} raised {kind}: {text}" if text else f"{doing} raised {kind}"
        message += _place_in_library(error, path)
        raise KernelFileError(message, path, _line_to_blame(error, path)) from error


_LANGUAGES = {"helion": "helion", "cuda.tile": "cutile", "cutlass": "cute", "tilelang": "tilelang"}
"""Modules of languages of kernels, and the extras that bring them."""


def advice_to_install(error: BaseException) -> str:
    """Return, in parentheses, what brings what a file lacks to import; empty if unknown."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    name = error.name or ""
    frames = traceback.extract_tb(error.__traceback__)
    if frames and re.match(r"\s*from\s+\.", frames[-1].line or ""):
        return " (keep the file among the modules of its package)"
    if name == "cuda":  # the namespace of cuda.tile and others
        name = "cuda.tile" if frames and re.search(r"\btile\b", frames[-1].line or "") else name
    extras = (extra for module, extra in _LANGUAGES.items() if f"{name}.".startswith(f"{module}."))
    advice = next((f"pip install 'solkit[{extra}]'" for extra in extras), "")
    advice = advice or advice_on_launching([name] if name != "cuda" else [])  # streams, as well
    return f" ({advice})" if advice else ""


def _place_in_library(error: BaseException, path: str) -> str:
    """Name the line of another file of the user's that raised; empty if this file's own did."""
    from solkit.adapters.fake_cuda.guesses import user_line  # with Triton

    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    place, _, line = user_line(frames[-1]).rpartition(":") if frames else ("", "", "")
    is_elsewhere = place and _line_to_blame(error, path) and not _values_are_same(place, path)
    return f" (in {place}:{line})" if is_elsewhere else ""


def _line_to_blame(error: BaseException, path: str) -> int | None:
    if isinstance(error, SyntaxError) and error.filename and _values_are_same(error.filename, path):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if _values_are_same(frame.filename, path)]
    return lines[-1] if lines else None


def _values_are_same(left: str, right: str) -> bool:
    return Path(left).resolve() == Path(right).resolve()


def definition_line(function: Callable[..., Any]) -> int | None:
    """Return the line of a function's or class's definition, if known."""
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
    """Check that `function` takes the file's inputs.

    Raises:
        KernelFileError: it does not; names inputs and parameters.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin: the call itself will show
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


def restrict_autotuners(
    module: ModuleType, params: Mapping[str, Value], own_names: Collection[str] = ()
) -> set[str]:
    """Keep, in each `triton.autotune` of a file, only the configurations that match `params`.

    Modules beside the file count too, and those of packages, whatever it imports. An autotuner with
    a single configuration launches it without timing. ``every_config`` keeps them all.

    Args:
        module: of the file.
        params: the requested values.
        own_names: parameters that the launcher takes itself. They select no configuration: an
            autotuner beside it may have others of the same names. `taken_elsewhere` tells a
            capture.

    Returns:
        The parameters that some autotuner knows.

    Raises:
        ParamsError: autotuners know the parameters, but none has a matching configuration.
    """
    _last_bound.clear()
    others = {name: value for name, value in params.items() if name not in own_names}
    restricted = restrict_helion(_modules_of_file(module), others)
    restricted |= restrict_tilelang(_modules_of_file(module), others)
    restricted |= restrict_cutile(_modules_of_file(module), others)
    lacking: list[str] = []
    matched = False
    own = _autotuners(module)
    for tuner in autotuners_elsewhere(
        own.values()
    ):  # a launch says which of these are used, and what is odd
        restricted |= set(_restrict_tuner(tuner, others, own_names)[0])
    for name, tuner in own.items():
        selected, fits = _restrict_tuner(tuner, others, own_names)
        restricted |= set(selected)
        matched |= bool(selected and fits)
        if not fits:
            listed = "; ".join(str(config.all_kwargs()) for config in tuner.configs[:8])
            lacking.append(
                f"{file_of_module(module)}: autotuned kernel {name} has no configuration with "
                f"{selected}; it has: {listed}{' …' if len(tuner.configs) > 8 else ''}"
            )
    if lacking and not matched:
        raise ParamsError(lacking[0])
    return restricted


def _restrict_tuner(
    tuner: Any, params: Mapping[str, Value], own_names: Collection[str]
) -> tuple[dict[str, Value], bool]:
    """Leave an autotuner the configurations that fit parameters; all of them if none does.

    Returns:
        Its own among the parameters, and whether a configuration fits them.
    """
    tuner.configs = vars(tuner).setdefault("every_config", tuner.configs)
    vars(tuner)["taken_elsewhere"] = frozenset(own_names)
    configs = [(config, config.all_kwargs()) for config in tuner.configs]
    selected = {key: params[key] for key in params if any(key in kw for _, kw in configs)}
    kept = [c for c, kw in configs if all(kw.get(k) == v for k, v in selected.items())]
    tuner.configs = kept or tuner.configs
    return selected, bool(kept)


_last_bound: list[object] = []
"""The function of `with_configs_kept` that set the configurations last, if nothing did since."""


def with_configs_kept(function: Callable[..., Any], module: ModuleType) -> Callable[..., Any]:
    """Return a function that is called with the configurations that autotuners have now.

    Calls of one file with several configurations take turns when these are timed together, and all
    share the file's autotuners. A call after another function's sets the lists again, in
    microseconds. The same function is returned where there is no `triton.autotune`.
    """
    if "triton" not in sys.modules:
        return function
    own = list(_autotuners(module).values())
    others = [t for t in autotuners_elsewhere(own) if "every_config" in vars(t)]
    kept = [(tuner, tuner.configs) for tuner in (*own, *others)]
    if not kept:
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        if not _last_bound or _last_bound[0] is not call:
            for tuner, configs in kept:
                tuner.configs = configs
            _last_bound[:] = [call]
        return function(*args, **kwargs)

    return functools.update_wrapper(call, function)


def autotuned_space(module: ModuleType) -> Space:
    """Return the configurations of a file's autotuners, as points for `restrict_autotuners`.

    A point holds a configuration's numbers, bools and strings, without its ``pre_hook``. Several
    autotuners are combined: each combination that gives shared names the same value is a point. If
    there is none, or there are over 10,000, nothing is tuned.
    """
    return space_of_tuners(_autotuners(module).values()) if "triton" in sys.modules else Space()


def space_of_tuners(tuners: Iterable[Any]) -> Space:
    """Return the combined configurations of autotuners, as `autotuned_space` describes."""
    points: list[Params] = [{}]
    for tuner in tuners:
        listed = _points_of_autotuner(tuner)
        if len(points) * len(listed) > _MOST_COMBINED:
            return Space()
        pairs = ((point, right) for point in points for right in listed)
        points = [{**a, **b} for a, b in pairs if all(a[key] == b[key] for key in a.keys() & b)]
    return Space.of_points(points) if points != [{}] else Space()


def _points_of_autotuner(tuner: Any) -> list[Params]:
    """Return the configurations of an autotuner; names that one leaves out are ``None``."""
    every = [c.all_kwargs() for c in vars(tuner).get("every_config", tuner.configs)]
    names = dict.fromkeys(itertools.chain(*every))
    plain = [n for n in names if all(isinstance(kwargs.get(n), _PLAIN) for kwargs in every)]
    return [{name: kwargs.get(name) for name in plain} for kwargs in every]


def _autotuners(module: ModuleType) -> dict[str, Any]:
    """Return, by name, the autotuners of a module and of modules imported from its folder."""
    if "triton" not in sys.modules:
        return {}
    from triton.runtime.jit import KernelInterface

    modules = _modules_of_file(module)
    named = [item for owner in modules for item in list(vars(owner).items())]
    kernels = [(name, value) for name, value in named if isinstance(value, KernelInterface)]
    tuners = {id(tuner): (name, tuner) for name, value in kernels if (tuner := autotuner_of(value))}
    return dict(tuners.values())


def _modules_of_file(module: ModuleType) -> list[ModuleType]:
    """Return a file's module and those imported from its folder."""
    names = modules_in_folder(str(Path(file_of_module(module)).resolve().parent))
    return [module, *(sys.modules[name] for name in names if name in sys.modules)]


def autotuners_elsewhere(own: Iterable[Any]) -> list[Any]:
    """Return the autotuners of all packages, without some."""
    if "triton" not in sys.modules:
        return []
    apart = {id(tuner) for tuner in own}
    values = [value for module in holders_of_autotuners() for value in list(vars(module).values())]
    tuners = [autotuner_of(value) for value in values if type(value).__name__ in TUNER_TYPES]
    every = {id(tuner): tuner for tuner in tuners if tuner is not None}
    return [tuner for place, tuner in every.items() if place not in apart]


def autotuner_of(kernel: Any) -> Any:
    """Return the `triton.autotune` among a kernel's decorators, or ``None``."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import KernelInterface

    while isinstance(kernel, KernelInterface) and not isinstance(kernel, Autotuner):
        kernel = getattr(kernel, "fn", None)
    return kernel if isinstance(kernel, Autotuner) else None
