"""Comparison of what two files ask the GPU for, whatever their functions are called.

::

    call ─ each configuration that an autotuner would time ─► launches, operators ─► text

The text has all that a compiler, a launch and an autotuner get: code, constants, options,
properties of arguments, grids, tensors by their place among inputs and outputs, and the operators
of PyTorch in between. It also has the functions of others that the host calls, so one that sleeps
or waits differs. Names of functions and modules of the file itself are not in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.runtime.jit import JITFunction

from solkit.adapters.launch_recording import CapturedLaunch
from solkit.adapters.triton_compiler import Compiled
from solkit.analysis import cuda
from solkit.analysis.host_calls import recording_host_calls
from solkit.analysis.library import LibraryOp
from solkit.analysis.triton.capture import Captured, CaptureError, capture
from solkit.core import KernelProgram, Launch, Value, canonical
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
    order = [program.entry]
    for key in order:  # it grows
        names = program.functions[key].names
        called = [names[name].text for name in sorted(names) if names[name].kind == "function"]
        order += [name for name in dict.fromkeys(called) if name not in order]
    return [_nameless_function(program, key, order) for key in order]


def _nameless_function(
    program: KernelProgram, key: str, order: Sequence[str]
) -> tuple[str, list[tuple[str, str]]]:
    function = program.functions[key]
    code = re.sub(r"\A(\s*def\s+)\w+", rf"\g<1>f{order.index(key)}", function.source)
    others = []
    for name, bound in sorted(function.names.items()):
        if bound.kind == "function":
            code = _with_name(code, name, f"f{order.index(bound.text)}")
        elif bound.kind == "library":  # an import may give any name
            code = _with_name(code, name, bound.text)
            others.append((bound.text, ""))
        else:
            others.append((name, repr(bound)))
    return code, sorted(others)


def _with_name(code: str, name: str, new: str) -> str:
    return re.sub(rf"(?<![\w.]){re.escape(name)}\b", new, code)
