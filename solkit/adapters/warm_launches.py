"""Recorded launches compiled by Triton itself, but never launched: for its cache.

Triton finds a compiled kernel by the function's text and line, what its arguments are specialised
for, options, target, ptxas and some variables of the environment. So nothing here computes a key:
the program's own function is called as the program calls it, with stand-ins for its tensors, on a
fake driver for the GPU. Where its library cannot be imported, the recorded text takes its place, on
the recorded lines.

A function's part of the key also depends on what the process has compiled before: Triton counts
the constants that a called function reads only if it met that function earlier
(`DependenciesFinder._update_hash`, 3.6 to 3.9). So a launch is compiled for each part that it may
have: the recorded one, and those of a kernel that comes first, or after others.

Patches are never undone: call it in a throw-away child process, after `fake_cuda.install`.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import importlib.util
import math
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
import triton.language as tl
from triton import knobs
from triton.compiler.compiler import make_backend
from triton.runtime.autotuner import Autotuner, OutOfResources
from triton.runtime.driver import driver as triton_driver
from triton.runtime.errors import PTXASError
from triton.runtime.jit import JITFunction

from solkit.adapters import fake_triton, live_tuned
from solkit.adapters.launch_records import program_digest
from solkit.adapters.triton_compiler import compiler_environment, gpu_target, warn_if_untested
from solkit.core import Binding, Device, Value
from solkit.core.recordings import PrecompiledKernel, RecordedLaunch
from solkit.core.tuned import complete_params
from solkit.datasets.launch_files import TORCH_DTYPES, kernel_file_text
from solkit.errors import UnsupportedError

_INDUCTOR_HELPERS = "torch._inductor.runtime.triton_helpers"


def install(
    device: Device,
    environment: Mapping[str, str],
    cache: Path,
    scratch: Path,
    *,
    is_same_triton: bool,
) -> None:
    """Compile for a device from now on, as a process with this environment would.

    Args:
        device: the GPU that the program will run on.
        environment: variables that Triton's keys depend on, as the program had them.
        cache: Triton's cache that is filled.
        scratch: a folder for texts; it must stay while launches are compiled.
        is_same_triton: whether this Triton is the program's, so that recorded keys are right.
    """
    warn_if_untested()
    for name in compiler_environment():
        del os.environ[name]  # the program did not have it
    os.environ.update(environment, TRITON_CACHE_DIR=str(cache))
    driver = fake_triton.fake_driver(device)
    driver.launcher_cls = lambda *_: lambda *_: None
    triton_driver._default = triton_driver._active = driver
    Autotuner._bench = _compile_in_place_of_timing
    _STATE.device, _STATE.scratch, _STATE.is_same_triton = device, scratch, is_same_triton


@dataclass
class _State:
    """The GPU, where texts are written, and whether recorded keys count."""

    device: Device | None = None
    scratch: Path = Path()
    is_same_triton: bool = True


_STATE = _State()


@dataclass(frozen=True)
class Launchable:
    """Launcher of a kernel: the program's own function, or its recorded text.

    Attributes:
        outer: an autotuner, or the function.
        functions: of the program, by key.
    """

    outer: Any
    functions: Mapping[str, Any]


# ------------------------------------------------------------------------------------- functions


def find_launchable(record: RecordedLaunch) -> Launchable:
    """Return what launches a kernel here, with the key that the program's own has.

    Raises:
        UnsupportedError: there is none; says why.
    """
    if record.launch.program is None:
        raise UnsupportedError(record.obstacle)
    if record.launcher == "inductor":
        return Launchable(_inductor_tuner(record), {})
    try:
        return _imported(record)
    except (AttributeError, LookupError, UnsupportedError):
        return _recorded_copy(record)


def _imported(record: RecordedLaunch) -> Launchable:
    """Return the library's own kernel, if its text is the one that was recorded."""
    program = record.launch.program
    assert program is not None
    origins = record.origins
    outers = {key: _object_of(origins[key].module, key) for key in program.functions}
    functions = {key: live_tuned.jit_function(outer) for key, outer in outers.items()}
    passed = [b.text for b in record.launch.arguments.values() if b.kind == "function"]
    entry = functions[program.entry]
    if program_digest(entry, tuple(functions[key] for key in passed)) != program.digest:
        raise UnsupportedError("the installed text is another")
    return Launchable(_launcher_in(outers[program.entry], record), functions)


def _object_of(module_name: str, key: str) -> Any:
    """Return the module's object that a function is behind: the function, or a decorator's."""
    module = _import_library(module_name)
    qualname = key.partition("#")[0]
    with contextlib.suppress(AttributeError):
        named = reduce(getattr, qualname.split("."), module)
        live_tuned.jit_function(named)
        return named
    for value in list(vars(module).values()):
        with contextlib.suppress(AttributeError):
            if live_tuned.jit_function(value).__qualname__ == qualname:
                return value
    raise LookupError(f"{module_name} has no {qualname}")


def _import_library(name: str) -> ModuleType:
    """Import a library's module, never a script.

    Raises:
        LookupError: it cannot be imported here, whatever the reason.
    """
    if name in ("", "__main__"):
        raise LookupError(f"{name} is a script")
    try:
        return importlib.import_module(name)
    except Exception as error:  # a library may need its GPU's runtime
        raise LookupError(f"{name} cannot be imported: {error}") from error


def _launcher_in(outer: Any, record: RecordedLaunch) -> Any:
    """Return the autotuner if one chose the configuration; else the function."""
    inner = outer
    while record.launcher == "autotuner" and not isinstance(inner, Autotuner):
        inner = inner.fn
    return inner if record.launcher == "autotuner" else live_tuned.jit_function(outer)


def _recorded_copy(record: RecordedLaunch) -> Launchable:
    """Return functions of the recorded texts, on the lines of the library's files."""
    program = record.launch.program
    assert program is not None
    if not record.origins:
        raise UnsupportedError("the recording is older than this command: record it again")
    module = _module_of_text(kernel_file_text([record], "recorded"))
    here = [value for value in vars(module).values() if isinstance(value, JITFunction)]
    by_text = {value.src: value for value in here}
    functions = {
        key: by_text[function.source]
        for key, function in program.functions.items()
        if function.source in by_text
    }
    for key, function in functions.items():
        function.starting_line_number = record.origins[key].line
    entry = functions.get(program.entry) or _renamed_entry(record, here)
    vars(entry)[live_tuned.PROGRAM] = program.digest
    functions[program.entry] = entry
    if record.launcher != "autotuner":
        return Launchable(entry, functions)
    configs = [_config_of(dict(zip(record.space, point))) for point in _points(record)]
    return Launchable(triton.autotune(configs, key=[])(entry), functions)


def _renamed_entry(record: RecordedLaunch, here: Sequence[Any]) -> Any:
    """Return a copy of the kernel in which names had to change; its key is only in the recording.

    Raises:
        UnsupportedError: that is not of this Triton.
    """
    same = [value for value in here if value.__name__ == record.launch.name]
    if not same or not _recorded_keys(record):
        raise _no_key_error(record)
    return same[0]


def _points(record: RecordedLaunch) -> Sequence[Sequence[Value]]:
    return record.configs or [[values[0] for values in record.space.values()]]


def _config_of(params: dict[str, Any]) -> Any:
    options = {name: params.pop(name) for name in ("num_warps", "num_stages") if name in params}
    return triton.Config(params, **options)


def _module_of_text(text: str) -> ModuleType:
    """Import a text from a file of its own: Triton reads functions from their files."""
    name = f"solkit_text_{secrets.token_hex(8)}"
    file = _STATE.scratch / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _inductor_tuner(record: RecordedLaunch) -> Any:
    """Return the tuner of the file that Inductor wrote, which compiles as its workers do."""
    if not record.inductor_source:
        raise UnsupportedError("the file that Inductor wrote is not in the recording")
    helpers: Any = importlib.import_module(_INDUCTOR_HELPERS)
    helpers.set_driver_to_gpu = lambda: None  # it is a fake one already
    tuner = getattr(_module_of_text(record.inductor_source), record.launch.name)
    assert _STATE.device is not None
    arch, own = gpu_target(_STATE.device).arch, tuner.device_props.cc
    if own != arch:
        raise UnsupportedError(f"Inductor wrote it for the architecture {own}, and this is {arch}")
    return tuner


# ------------------------------------------------------------------------------------- compiling

_SKIPPED = (OutOfResources, PTXASError, triton.CompilationError)
"""Errors for which an autotuner leaves a configuration out."""


def warm_launch(record: RecordedLaunch, launchable: Launchable) -> PrecompiledKernel:
    """Compile what the program compiles before this launch: of an autotuner, all that it times.

    Tuned configurations that this process applies are chosen as in the program.
    """
    name, launcher = record.launch.name, record.launcher
    with _noted_compiles() as events:
        try:
            _warm(record, launchable)
        except OSError as error:  # as of a full disk; one sentence for all launches
            why = f"the cache cannot be written: {error.strerror or error}"
            return PrecompiledKernel(name, launcher, *_keys(events), why)
        except Exception as error:  # libraries, compilers and pruning functions raise anything
            why = f"{type(error).__name__}: {error}".partition("\n")[0]
            return PrecompiledKernel(name, launcher, *_keys(events), why)
    return PrecompiledKernel(name, launcher, *_keys(events))


def _keys(events: Mapping[str, bool]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return keys that were compiled, and those that were there already."""
    is_new = {key: not is_hit for key, is_hit in events.items()}
    return tuple(k for k, new in is_new.items() if new), tuple(k for k in events if not is_new[k])


@contextlib.contextmanager
def _noted_compiles() -> Iterator[dict[str, bool]]:
    """Yield a dict of keys in Triton's cache: whether the first to ask found them there."""
    events: dict[str, bool] = {}
    before = knobs.compilation.listener

    def note(*, metadata: Mapping[str, Any], cache_hit: bool, **_: Any) -> None:
        key = base64.b32encode(bytes.fromhex(metadata["hash"])).decode().rstrip("=")
        events.setdefault(key, cache_hit)  # as the cache's folders are called

    knobs.compilation.listener = note
    try:
        yield events
    finally:
        knobs.compilation.listener = before


def _warm(record: RecordedLaunch, launchable: Launchable) -> None:
    if record.launcher == "inductor":
        _warm_inductor(record, launchable.outer)
        return
    for keys in _possible_keys(record, launchable):
        for name, function in launchable.functions.items():
            function.hash = keys.get(name, function.hash)
            function.device_caches.clear()
        _warm_once(record, launchable)


def _warm_inductor(record: RecordedLaunch, tuner: Any) -> None:
    """Compile a kernel of Inductor's as the first that reads its helpers, and as a later one."""
    keys = set()
    for other in (tuner, _inductor_tuner(record)):
        if other.fn.cache_key not in keys:
            keys.add(other.fn.cache_key)
            other.precompile(warm_cache_only=True)


def _possible_keys(record: RecordedLaunch, launchable: Launchable) -> list[dict[str, str]]:
    """Return the functions' keys in processes that compiled other things before, each once.

    Raises:
        UnsupportedError: none is known: the texts are not the program's, nor is Triton.
    """
    program = record.launch.program
    assert program is not None
    states = [_recorded_keys(record)]
    texts = {name: function.source for name, function in program.functions.items()}
    if {name: function.src for name, function in launchable.functions.items()} == texts:
        states += _keys_by_order(launchable.functions, program.entry)
    passed = [b.text for b in record.launch.arguments.values() if b.kind == "function"]
    decisive = (program.entry, *passed)
    distinct = {tuple(keys[name] for name in decisive): keys for keys in states if keys}
    if not distinct:
        raise _no_key_error(record)
    return list(distinct.values())


def _no_key_error(record: RecordedLaunch) -> UnsupportedError:
    assert record.launch.program is not None
    module = record.origins[record.launch.program.entry].module
    return UnsupportedError(
        f"{module} cannot be imported here, and the recording has no key for it that holds"
    )


def _recorded_keys(record: RecordedLaunch) -> dict[str, str]:
    """Return the keys of the recorded process; none if another Triton made them."""
    if not _STATE.is_same_triton or not all(origin.key for origin in record.origins.values()):
        return {}
    return {name: origin.key for name, origin in record.origins.items()}


def _keys_by_order(functions: Mapping[str, Any], entry: str) -> list[dict[str, str]]:
    """Return keys where the kernel is met first, after its like, and after all that it calls."""
    states = []
    for order in ([entry], [entry, entry], [*functions][::-1]):
        for function in functions.values():
            function.hash, function.used_global_vals = None, {}
        for name in order:
            functions[name].hash = None
            functions[name].cache_key  # noqa: B018 - computes it, and those of what it calls
        states.append({name: function.cache_key for name, function in functions.items()})
    return states


def _warm_once(record: RecordedLaunch, launchable: Launchable) -> None:
    outer = launchable.outer
    named = {
        name: _value_of(binding, launchable.functions)
        for name, binding in record.launch.arguments.items()
    }
    if isinstance(outer, Autotuner):
        _warm_tuner(outer, record, named)
        return
    options = {n: v for n, v in record.options.items() if n not in named and v is not None}
    for choice in _possible_options(options):
        outer.run(grid=(1, 1, 1), warmup=True, **named, **choice)


def _possible_options(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return options as the program may pass them; twice where the target has other defaults.

    A recording has those that `complete_params` adds, whether the program passed them or not.
    """
    assert _STATE.device is not None
    own = make_backend(gpu_target(_STATE.device)).parse_options({})
    added = complete_params({})
    others = {n for n, v in added.items() if options.get(n) == v != getattr(own, n, v)}
    fewer = {name: value for name, value in options.items() if name not in others}
    return [dict(options), fewer] if others else [dict(options)]


def _warm_tuner(tuner: Any, record: RecordedLaunch, named: Mapping[str, Any]) -> None:
    """Compile each configuration that the autotuner would time.

    One that decides itself what becomes of its times is not run, but asked what it would time.
    """
    chosen = {name for config in tuner.configs for name in config.all_kwargs()}
    options = {n: v for n, v in record.options.items() if v is not None}
    rest = {n: v for n, v in {**named, **options}.items() if n not in chosen}
    args = _leading(tuner.arg_names, rest)
    kwargs = {name: value for name, value in rest.items() if name not in args}
    kwargs |= {"grid": (1, 1, 1), "warmup": True}
    if type(tuner).run is Autotuner.run:
        tuner.cache_results = False  # no file of Triton's may keep what was not timed
        tuner.cache.clear()
        tuner.run(*args.values(), **kwargs)
        return
    tuner.nargs = args
    for config in tuner.prune_configs(kwargs):
        _compile_in_place_of_timing(tuner, *args.values(), config=config, **kwargs)


def _compile_in_place_of_timing(tuner: Any, *_: Any, config: Any, **kwargs: Any) -> list[float]:
    """Stand for `Autotuner._bench`, which passes over configurations that do not compile."""
    try:
        live_tuned.compile_config(tuner, tuple(tuner.nargs.values()), kwargs, config)
    except _SKIPPED:
        return [math.inf] * 3
    return [1.0] * 3


def _leading(names: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first arguments, up to one that a configuration sets: those go by position."""
    leading: dict[str, Any] = {}
    for name in names:
        if name not in values:
            break
        leading[name] = values[name]
    return leading


# ------------------------------------------------------------------------------------- arguments


def _value_of(binding: Binding, functions: Mapping[str, Any]) -> Any:
    """Return an argument that Triton specialises as it did the recorded one.

    Raises:
        UnsupportedError: the recording does not say what it was.
    """
    if binding.kind in ("constant", "scalar"):
        return binding.value
    if binding.kind == "tensor":
        return _stand_in(binding)
    if binding.kind == "function":
        return functions[binding.text]
    if binding.kind == "type":
        return tl.dtype(binding.text)
    if binding.kind == "items":
        return tuple(_value_of(item, functions) for item in binding.items)
    if binding.kind == "library":
        return _library_object(binding.text)
    raise UnsupportedError("an argument is of a type that no recording keeps")


def _library_object(text: str) -> Any:
    parts = text.split(".")
    for place in range(len(parts) - 1, 0, -1):
        with contextlib.suppress(ImportError, AttributeError):
            module = importlib.import_module(".".join(parts[:place]))
            return reduce(getattr, parts[place:], module)
    raise UnsupportedError(f"{text} cannot be imported")


def _stand_in(binding: Binding) -> Any:
    """Return a tensor without memory, whose address is aligned as the recorded one's was."""
    layout = binding.tensor
    assert layout is not None
    if layout.dtype not in TORCH_DTYPES:
        raise UnsupportedError(f"a tensor has the dtype {layout.dtype}, which torch does not have")
    dtype = getattr(torch, TORCH_DTYPES[layout.dtype])
    aligned = layout.alignment_bytes >= _SPECIALISED_BYTES
    offset = 0 if aligned else max(layout.alignment_bytes // layout.element_bytes, 1)
    size = max(layout.storage_bytes // layout.element_bytes, 1) + offset
    base = torch.empty(size, dtype=dtype, device="meta")
    if not layout.block:
        return base.as_strided(layout.shape, layout.strides, offset)
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor(base, list(layout.shape), list(layout.strides), list(layout.block))


_SPECIALISED_BYTES = 16
"""Triton compiles another kernel for pointers that are no multiples of it."""
