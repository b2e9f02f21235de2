"""Comparison of what two files ask the GPU for, whatever their functions are called.

::

    call ─ each configuration that an autotuner would time ─► launches, operators ─► text

The text has all that a compiler, a launch and an autotuner get: code, constants, options,
properties of arguments, grids, tensors by their place among inputs and outputs, and the operators
of PyTorch in between. It also has the functions of others that the host calls, so one that sleeps
or waits differs. Names of functions and modules of the file itself are not in it.
"""

from __future__ import annotations

import ast
import hashlib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.runtime.jit import JITFunction

from solkit.adapters.launch_recording import CapturedLaunch
from solkit.adapters.triton_compiler import Compiled
from solkit.analysis import cuda
from solkit.analysis.host_calls import recording_host_calls
from solkit.analysis.library import LibraryOp
from solkit.analysis.triton.capture import Captured, CaptureError, capture
from solkit.core import KernelFunction, KernelProgram, Launch, Value, canonical
from solkit.core.parsing import syntax_tree
from solkit.kernelfiles import Workload


def launch_identity(workload: Workload, params: Mapping[str, Value]) -> str:
    """Return what tells the launches of a call apart; empty if some are not seen.

    Args:
        workload: with inputs that are fake tensors.
        params: of the candidate.

    Raises:
        ParamsError: no configuration of an autotuned kernel matches `params`.
    """
    if workload.kernel is None:
        return ""
    with cuda.recording() as extensions, recording_host_calls() as calls:
        try:
            captured = capture(workload, params, None, extensions, every_choice=True)
        except CaptureError:
            return ""
    if extensions.launches or extensions.unseen or extensions.remarks:
        return ""
    return captured_identity(captured, calls)


def captured_identity(captured: Captured, host_calls: Mapping[str, int]) -> str:
    """Return the text of a call in which autotuners launched each of their configurations.

    Any note makes it unknown: something was guessed, or is chosen by what only a GPU tells.
    """
    launches = [_identity_of_launch(launch) for launch in captured.launches]
    if captured.notes or not captured.is_whole or not launches or not all(launches):
        return ""
    operators = _identity_of_operators(captured)
    settings = sorted(get_cache_invalidating_env_vars().items())  # the compiler's, of no options
    host = sorted(host_calls.items()), settings
    text = repr((launches, operators, captured.outputs, captured.autotuning, host))
    return hashlib.sha256(text.encode()).hexdigest()


def compiled_identity(captured: Captured, compiled: Mapping[int, Compiled]) -> str:
    """Return what tells apart what a GPU runs of a call; empty if some of it is not seen.

    Parameters may change nothing that is compiled, such as a number of stages for a kernel without
    a loop.

    Args:
        captured: the call, with the configuration that it launches.
        compiled: the results of compiling, by the id of the captured kernel.
    """
    launches = [_identity_of_code(one, compiled[id(one.kernel)]) for one in captured.launches]
    if captured.notes or not captured.is_whole or not launches or not all(launches):
        return ""
    text = repr((launches, _identity_of_operators(captured), captured.outputs))
    return hashlib.sha256(text.encode()).hexdigest()


def _identity_of_code(captured: CapturedLaunch, binary: Compiled) -> str:
    """Return assembly, options of the launch, grid and arguments; empty if it is unknown."""
    if binary.error is not None or not binary.ptx:
        return ""
    grid, count, _, arguments = _run_with(captured.launch)  # constants are in the assembly
    options = {name: repr(value) for name, value in captured.kernel.options.items()}
    options.pop("num_stages", None)  # for the compiler alone
    return repr((binary.ptx, binary.shared_bytes, sorted(options.items()), grid, count, arguments))


def _identity_of_operators(captured: Captured) -> list[tuple[object, ...]]:
    return [
        (_without_lines(operator.op), operator.after, operator.count)
        for operator in captured.library
    ]


def _without_lines(op: LibraryOp) -> LibraryOp:
    accesses = tuple(replace(access, line="") for access in op.accesses)
    return replace(op, line="", accesses=accesses)


def _identity_of_launch(captured: CapturedLaunch) -> str:
    """Return all that a launch asks for, without names of functions; empty if it is unknown."""
    kernel, launch = captured.kernel, captured.launch
    if launch.program is None or not isinstance(kernel.function, JITFunction):
        return ""
    compiled = (
        list(map(str, kernel.signature.values())),
        sorted(map(repr, kernel.attrs.items())),
        sorted((name, repr(value)) for name, value in kernel.options.items()),
    )
    return repr((_nameless_code(launch.program), *_run_with(launch), compiled))


def _run_with(launch: Launch) -> tuple[object, ...]:
    """Return what a launch gives its program: grid, constants and arguments, and how often."""
    arguments = sorted((name, repr(bound)) for name, bound in launch.arguments.items())
    return launch.grid, launch.count, canonical(launch.constants), arguments


def _nameless_code(program: KernelProgram) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return functions from the launched one on, with numbers for names, and what else is named."""
    order, trees = [program.entry], list[ast.FunctionDef]()
    for key in order:  # it grows
        tree = _function_tree(program.functions[key].source)
        names = program.functions[key].names
        bounds = (names.get(name) for node in ast.walk(tree) for name in _dotted_name(node))
        called = [bound.text for bound in bounds if bound and bound.kind == "function"]
        order += [name for name in dict.fromkeys(called) if name not in order]
        trees.append(tree)
    pairs = zip(order, trees, strict=True)
    return [_nameless_function(program.functions[key], tree, order) for key, tree in pairs]


def _function_tree(source: str) -> ast.FunctionDef:
    (tree,) = syntax_tree(textwrap.dedent(source)).body
    assert isinstance(tree, ast.FunctionDef)
    return tree


def _dotted_name(node: ast.AST) -> tuple[str, ...]:
    """Return a name as it is written, with dots, as a tuple; an empty one for any other node."""
    return (ast.unparse(node),) if isinstance(node, (ast.Name, ast.Attribute)) else ()


def _nameless_function(
    function: KernelFunction, tree: ast.FunctionDef, order: Sequence[str]
) -> tuple[str, list[tuple[str, str]]]:
    new: dict[str, str] = {}
    others: list[tuple[str, str]] = []
    for name, bound in function.names.items():
        if bound.kind == "function":
            new[name] = f"f{order.index(bound.text)}"
        elif bound.kind in ("library", "type"):  # an import may give any name
            new[name] = bound.text
            others.append((bound.text, bound.kind))
        else:
            others.append((name, repr(bound)))
    tree.name = ""
    return ast.unparse(_Renaming(new).visit(tree)), sorted(others)


@dataclass
class _Renaming(ast.NodeTransformer):
    """Gives what code names other names; comments and texts are none of it."""

    new: Mapping[str, str]

    def visit(self, node: ast.AST) -> ast.AST:
        (name,) = _dotted_name(node) or ("",)
        return ast.Name(self.new[name]) if name in self.new else self.generic_visit(node)
