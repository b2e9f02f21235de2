"""Candidates that ask the GPU for the same, and so take the same time."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as NotYetError
from dataclasses import replace
from itertools import product
from pathlib import Path

from solkit.analysis.analyser import Analyser
from solkit.core import Configuration, Launch, Value, canonical
from solkit.core.parsing import syntax_tree
from solkit.errors import SolkitError

_RECORDED = ("num_warps", "num_stages", "num_ctas")


def are_same_launches(
    analyser: Analyser,
    one: Configuration,
    other: Configuration,
    limit_s: float | None = None,
    clock_s: Callable[[], float] = time.monotonic,
) -> bool:
    """Tell whether two candidates are seen to ask the GPU for the same, whatever it chooses.

    False where not all of their launches is seen (see `solkit.analysis.launch_identity`), where
    one cannot run, and beyond `limit_s` seconds for both, by `clock_s`.
    """
    begun = [analyser.launch_identity(configuration) for configuration in (one, other)]
    until_s = None if limit_s is None else clock_s() + limit_s
    try:
        first, second = (
            future.result(None if until_s is None else max(until_s - clock_s(), 0.0))
            for future in begun
        )
    except (SolkitError, NotYetError):  # comparing them says what is wrong
        return False
    return bool(first) and first == second


def look_at_launches(
    analyser: Analyser,
    configurations: Iterable[Configuration],
    shapes: Iterable[Mapping[str, Value]],
) -> None:
    """Begin to see what candidates launch at shapes: the analyser keeps it."""
    for configuration, shape in product(configurations, shapes):
        analyser.launch_identity(replace(configuration, shape=shape))


def key_of_candidate(analyser: Analyser, configuration: Configuration) -> str:
    """Return `key_of_launches` of a candidate; empty if not all of its launches are seen."""
    (captured,) = analyser.captured([configuration])
    analysis = captured.analysis
    if analysis is None or not analysis.is_whole:
        return ""
    text = Path(configuration.path).read_text(encoding="utf-8")
    launches = [kernel.launch for kernel in analysis.kernels]
    return key_of_launches(launches, text, configuration.params)


def key_of_launches(launches: Sequence[Launch], source: str, params: Mapping[str, Value]) -> str:
    """Return a key of launches, with their code; empty if it is unknown.

    Records of launches lack options that a compiler knows, such as ``maxnreg``: the keywords of the
    source's launches that no record has, and the parameters that may be their values, count too.

    Args:
        launches: of a candidate, all of them.
        source: its file.
        params: its parameters.
    """
    keys = [_key_of_launch(launch) for launch in launches]
    tree = syntax_tree(source)
    seen = _seen_names(launches, tree)
    options = list(_options(tree, seen))
    if not all(keys) or "**" in options:
        return ""
    hidden = {name: value for name, value in params.items() if name not in seen}
    return repr((keys, sorted(options), canonical(hidden)))


def _key_of_launch(launch: Launch) -> str:
    """Return what a launch runs; empty if unknown.

    It has each tensor's layout, not which tensor it is.
    """
    if launch.library:
        return f"{launch.count} of {launch.name} at {launch.line}"
    if launch.program is None:
        return ""
    return repr((launch.program.digest, *_run_with(launch)))


def _run_with(launch: Launch) -> tuple[object, ...]:
    """Return what a launch gives its program: grid, options, constants and arguments."""
    options = launch.num_warps, launch.num_stages, launch.num_ctas, launch.count
    arguments = sorted((name, repr(bound)) for name, bound in launch.arguments.items())
    return launch.grid, options, canonical(launch.constants), arguments


def _seen_names(launches: Sequence[Launch], tree: ast.Module) -> set[str]:
    """Return names of what records of launches hold."""
    names = {name for launch in launches for name in (*launch.constants, *launch.arguments)}
    return names | {*_RECORDED, *_parameters_of_kernels(tree)}


def _parameters_of_kernels(tree: ast.Module) -> Iterator[str]:
    """Yield the parameters of decorated functions, also of kernels that are not launched here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            listed = node.args
            yield from (e.arg for e in (*listed.posonlyargs, *listed.args, *listed.kwonlyargs))


def _options(tree: ast.Module, seen: set[str]) -> Iterator[str]:
    """Yield keywords of launches and of `triton.Config` that are not seen; ``**`` for unknown."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _may_launch(call.func):
            for keyword in call.keywords:
                if keyword.arg is None:
                    yield "**"
                elif keyword.arg not in seen:
                    yield f"{keyword.arg}={ast.unparse(keyword.value)}"


def _may_launch(function: ast.expr) -> bool:
    name = getattr(function, "attr", getattr(function, "id", ""))
    return isinstance(function, ast.Subscript) or name in ("Config", "run")
