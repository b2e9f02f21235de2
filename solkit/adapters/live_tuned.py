"""Tuned configurations for launches of a live process, before anything is timed or compiled.

Three places choose a launch's configuration: `Autotuner.run`, which looks its key up or times a
list; `CachingAutotuner.precompile` of Inductor, which compiles what it has (see `live_inductor`);
and the caller of `JITFunction.run`. `serve` asks a `Chooser` there first. Whatever fails, the
launch runs as before: also where a choice that ran once is refused later, at arguments that compile
apart.

Nothing is imported here: modules are patched as the program imports them.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from types import ModuleType
from typing import Any, Protocol

from solkit.adapters.argument_overlaps import argument_buffers
from solkit.adapters.tilings import TileProof, retiled_grid
from solkit.core.tuned import LaunchBucket, Launcher, complete_params
from solkit.core.values import Value
from solkit.processes.startup import call_after_imports

Params = Mapping[str, Value]

AUTOTUNER, JIT = "triton.runtime.autotuner", "triton.runtime.jit"
INDUCTOR = "torch._inductor.runtime.triton_heuristics"
_LAUNCH = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Options of a configuration that no kernel's text reads."""
_PLAIN = (bool, int, float, str, type(None))
_SIMPLE = frozenset(_PLAIN)
PROGRAM, _PLAN = "_solkit_program", "_solkit_plan"


@dataclass(frozen=True)
class ChoiceRequest:
    """A launch whose configuration is about to be chosen.

    Attributes:
        kernel: the function's name.
        launcher: what would choose it.
        function: the `JITFunction`.
        device_index: CUDA's number of its GPU.
        bucket: every argument: numbers as constants and, if whole, as scalars; tensors by shape and
            dtype. Of Inductor's kernels, compiled before they have arguments, only axes' lengths
            as they are rounded to a power of two.
        in_use: the configuration, if the caller chose it; else the first that may be chosen.
        offers: the configurations that the launcher would choose from.
        free: parameters that may have other values than those of `offers`.
        digest: the program's digest, if it is known; it takes the function to find out.
        passed: functions among the arguments, in the order of the parameters.
    """

    kernel: str
    launcher: Launcher
    function: Any
    device_index: int
    bucket: LaunchBucket
    in_use: Params
    offers: tuple[Params, ...] = ()
    free: frozenset[str] = frozenset()
    digest: str = ""
    passed: tuple[Any, ...] = ()


class Chooser(Protocol):
    """Knows tuned configurations."""

    def names(self, kernel: str, launcher: Launcher) -> bool:
        """Tell whether a kernel of that name may have one; asked often, so it must be cheap."""

    def parameters(self, kernel: str, launcher: Launcher) -> frozenset[str]:
        """Return parameters of such a kernel that decide between its configurations."""

    def choose(self, request: ChoiceRequest) -> Params | None:
        """Return the configuration of a launch; ``None`` to let the launcher choose."""

    def failed(
        self, request: ChoiceRequest, params: Params, error: Exception, ran: bool = False
    ) -> None:
        """Note that a configuration that was chosen does not run here; `ran` if it did before."""


def serve(chooser: Chooser) -> None:
    """Ask a chooser before every choice of this process; one that was asked before is not."""
    withdraw()
    SERVED.chooser = chooser
    for module, patch in _PATCHES.items():
        if module not in SERVED.patched:
            SERVED.patched.add(module)
            task = f"applying tuned configurations to launches of {module}"
            call_after_imports([module], partial(_patch, module, patch), task)


def _patch(name: str, patch: Callable[[ModuleType], None]) -> None:
    patch(sys.modules[name])


def withdraw() -> None:
    """Let every launcher choose for itself again; what Triton and Inductor keep stays."""
    SERVED.chooser = None
    while SERVED.planned:
        function = SERVED.planned.pop()()
        if function is not None:
            vars(function).pop(_PLAN, None)
    for entry in reversed(SERVED.replaced.copy()):
        module, form, name, wrapper = entry
        if vars(form).get(name) is wrapper:  # else others wrapped it since, and it passes calls on
            setattr(form, name, wrapper.__wrapped__)
            SERVED.replaced.remove(entry)
            if all(module != other for other, *_ in SERVED.replaced):
                SERVED.patched.discard(module)


@dataclass
class _Served:
    """The chooser, modules that ask it or will, their replaced methods, functions with answers.

    `tuners` are those of Inductor's kernels that were compiled meanwhile.
    """

    chooser: Chooser | None = None
    tuners: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    patched: set[str] = field(default_factory=set)
    replaced: list[tuple[str, Any, str, Any]] = field(default_factory=list)
    planned: list[weakref.ref[Any]] = field(default_factory=list)


SERVED = _Served()
_THREAD = threading.local()


def params_of(config: Any) -> dict[str, Value]:
    """Return a configuration's parameters that are numbers, booleans or texts."""
    params = {**config.kwargs, **{name: getattr(config, name, None) for name in _LAUNCH}}
    return complete_params({n: v for n, v in params.items() if isinstance(v, _PLAIN)})


def _bucket(arguments: Mapping[str, Any]) -> LaunchBucket:
    constants = {n: v for n, v in arguments.items() if isinstance(v, _PLAIN)}
    scalars = {n: v for n, v in constants.items() if type(v) is int}
    tensors = {n: getattr(v, "base", v) for n, v in arguments.items() if n not in constants}
    shaped = {n: t for n, t in tensors.items() if hasattr(t, "shape") and hasattr(t, "dtype")}
    return LaunchBucket(
        constants,
        scalars,
        {n: tuple(map(int, t.shape)) for n, t in shaped.items()},
        {n: _triton_dtype(t.dtype) for n, t in shaped.items()},
    )


def _triton_dtype(dtype: Any) -> str:
    from triton.runtime.jit import type_canonicalisation_dict

    name = str(dtype).rpartition(".")[2]
    return "i1" if name == "bool" else str(type_canonicalisation_dict.get(name, name))


def replace_method(module: ModuleType, owner: str, name: str, around: Callable[[Any], Any]) -> None:
    """Put a function around a method of a module's class."""
    form = getattr(module, owner)
    original = getattr(form, name)
    wrapper = wraps(original, updated=())(around(original))  # marks of others are theirs
    setattr(form, name, wrapper)
    SERVED.replaced.append((module.__name__, form, name, wrapper))


# ------------------------------------------------------------------------------ choices by launch


@dataclass(frozen=True)
class _Choice:
    """Choice for a kind of launch.

    Attributes:
        applied: changed options, or an autotuner's configuration.
        request, params: as the chooser was asked, and what it answered.
    """

    applied: Any
    request: ChoiceRequest
    params: Params


@dataclass(frozen=True)
class _Plan:
    """Plan of looking a launch up.

    Attributes:
        places: positions and names of the arguments that decide.
        choices: what was chosen for their values.
    """

    places: tuple[tuple[int, str], ...]
    choices: dict[Any, _Choice | None] = field(default_factory=dict)


_UNPLANNED = object()
_MOST_CHOICES = 1024
"""Kinds of launches of one kernel that are looked up: a step's number or a seed makes new ones."""


def _keep_plan(owner: Any, plan: _Plan | None) -> _Plan | None:
    SERVED.planned.append(weakref.ref(owner))
    vars(owner)[_PLAN] = plan
    return plan


def _choice_of(
    plan: _Plan,
    choose: Callable[..., _Choice | None],
    original: Any,
    owner: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, _Choice | None]:
    """Return the kind of a launch and what is chosen for it, asked for once."""
    decisive = (args[n] if n < len(args) else kwargs.get(name) for n, name in plan.places)
    key = (_current_device(), *map(_short, decisive), *map(kwargs.get, _LAUNCH))
    try:
        return key, plan.choices[key]
    except KeyError:
        if len(plan.choices) >= _MOST_CHOICES:
            return key, None
        plan.choices[key] = None  # launches of other threads go on meanwhile
        plan.choices[key] = choose(original, owner, args, kwargs)
        return key, plan.choices[key]
    except TypeError:  # an argument that is no key: such launches are left alone
        return key, None


def _short(argument: Any) -> Any:
    """Return what tells an argument apart: 1, 1.0 and True are equal, but compile apart."""
    kind = type(argument)
    if kind in _SIMPLE:  # most arguments are these or tensors
        return kind, argument
    shape = getattr(argument, "shape", None)
    if shape is None:
        return kind, argument
    address = getattr(argument, "data_ptr", None)  # as Triton specialises it
    is_aligned = address is not None and address() % 16 == 0
    return tuple(shape), getattr(argument, "dtype", None), is_aligned


def ask_chooser(
    chooser: Chooser, request_of: Callable[[], ChoiceRequest]
) -> tuple[ChoiceRequest, Params] | None:
    """Return what is asked of a chooser and its answer; ``None`` to let the launcher choose."""
    try:
        request = request_of()
        params = chooser.choose(request)
    except Exception:  # nothing is worth the user's launch
        return None
    return None if params is None else (request, params)


def _try_choice(
    request_of: Callable[[], ChoiceRequest], prepare: Callable[[ChoiceRequest, Params], Any]
) -> _Choice | None:
    """Return what the chooser says, prepared; ``None`` to let the launcher choose."""
    chooser = SERVED.chooser
    answer = None if chooser is None else ask_chooser(chooser, request_of)
    if chooser is None or answer is None:
        return None
    try:
        return _Choice(prepare(*answer), *answer)
    except Exception as error:
        chooser.failed(*answer, error)
        return None


def _is_refused(error: Exception, compiles: Callable[[], None]) -> bool:
    """Tell whether a launch failed because of its configuration, so that nothing was launched.

    Triton's own errors say so, as does the driver's refusal; what else is raised may come from the
    program's hooks, unless the configuration does not compile.
    """
    if type(error).__module__.partition(".")[0] == "triton" or "Triton Error" in str(error):
        return True
    try:
        compiles()
    except Exception:
        return True
    return False


def _give_up_choice(plan: _Plan, key: Any, choice: _Choice, error: Exception) -> None:
    """Let the launcher choose at launches of this kind from now on."""
    plan.choices[key] = None
    chooser = SERVED.chooser
    if chooser is not None:
        chooser.failed(choice.request, choice.params, error, ran=True)


# ------------------------------------------------------------------------------ Triton's autotuner


def _patch_autotuner(module: ModuleType) -> None:
    replace_method(module, "Autotuner", "run", _run_tuner_with_choice)
    replace_method(module, "Autotuner", "prune_configs", _note_own_ways)


class _ChoiceCache(dict[Any, Any]):
    """Choices of an autotuner by its keys, which may be coarser than what was tuned.

    While a launch with a tuned configuration is made, it stands for every key. It is never kept, so
    other launches of the same key get what the autotuner times for them.
    """

    def _choice(self) -> Any:
        owner, config = getattr(_THREAD, "choice", (None, None))
        return config if owner is self else None

    def __contains__(self, key: object) -> bool:
        return self._choice() is not None or super().__contains__(key)

    def __getitem__(self, key: Any) -> Any:
        config = self._choice()
        return super().__getitem__(key) if config is None else config

    def get(self, key: Any, default: Any = None) -> Any:
        """As for a dict."""
        config = self._choice()
        return super().get(key, default) if config is None else config


def _run_tuner_with_choice(original: Any) -> Any:
    def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        plan = vars(self).get(_PLAN, _UNPLANNED)
        if plan is _UNPLANNED:
            plan = _plan_of_tuner(self)
        if plan is None:
            return original(self, *args, **kwargs)
        key, choice = _choice_of(plan, _choose_config, original, self, args, kwargs)
        if choice is None:
            return original(self, *args, **kwargs)
        before = getattr(_THREAD, "choice", (None, None))
        _THREAD.choice = self.cache, choice.applied
        try:
            return original(self, *args, **kwargs)
        except Exception as error:
            if not _is_refused(error, partial(compile_config, self, args, kwargs, choice.applied)):
                raise
            _give_up_choice(plan, key, choice, error)
        finally:
            _THREAD.choice = before
        return original(self, *args, **kwargs)

    return run


def _plan_of_tuner(tuner: Any) -> _Plan | None:
    """Return how to look a tuner's launches up; ``None`` if nothing applies to them."""
    chooser, name = SERVED.chooser, tuner.base_fn.__name__
    plan = None
    if chooser is not None and len(tuner.configs) > 1 and chooser.names(name, "autotuner"):
        decide = {*chooser.parameters(name, "autotuner"), *tuner.keys}
        plan = _Plan(tuple((n, name) for n, name in enumerate(tuner.arg_names) if name in decide))
        if type(tuner.cache) is dict:
            tuner.cache = _ChoiceCache(tuner.cache)
    return _keep_plan(tuner, plan)


def _choose_config(
    original: Any, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _Choice | None:
    """Return the tuned configuration of an autotuner's launch, compiled and loaded."""
    del original

    def prepare(_: ChoiceRequest, params: Params) -> Any:
        if not isinstance(tuner.cache, _ChoiceCache):
            raise ValueError(f"{type(tuner).__name__} keeps its choices in a way of its own")
        config = _config_of_tuner(tuner, args, kwargs, params)
        compile_config(tuner, args, kwargs, config)
        return config

    return _try_choice(partial(_request_of_tuner, tuner, args, kwargs), prepare)


def _note_own_ways(original: Any) -> Any:
    def prune_configs(self: Any, kwargs: dict[str, Any]) -> Any:
        with contextlib.suppress(Exception):  # nothing is worth the user's launch
            _note_own_run(self, kwargs)
        return original(self, kwargs)

    return prune_configs


def _note_own_run(tuner: Any, kwargs: Mapping[str, Any]) -> None:
    """Note that a tuned configuration is not applied where a subclass times by itself.

    It may keep the choice, and the time that nothing was measured for, in a file for later runs.
    """
    chooser = SERVED.chooser
    if chooser is None or not chooser.names(tuner.base_fn.__name__, "autotuner"):
        return
    if vars(tuner).get(_PLAN, _UNPLANNED) is not _UNPLANNED:  # it came by `Autotuner.run`
        return
    request = _request_of_tuner(tuner, tuple(tuner.nargs.values()), kwargs)
    params = chooser.choose(request)
    if params is not None:
        why = f"its autotuner, {type(tuner).__name__}, keeps results of its own"
        chooser.failed(request, params, ValueError(why))


def _request_of_tuner(
    tuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> ChoiceRequest:
    offers = tuple(map(params_of, tuner.configs))
    function = jit_function(tuner)
    named = _named_arguments(function, args, kwargs)
    return ChoiceRequest(
        *(str(tuner.base_fn.__name__), "autotuner", function, _current_device(), _bucket(named)),
        *(offers[0], offers, frozenset(offers[0])),
        passed=_functions_in(named),
    )


def jit_function(kernel: Any) -> Any:
    """Return the function under decorators; raises AttributeError if there is none."""
    from triton.runtime.jit import JITFunction

    while not isinstance(kernel, JITFunction):
        kernel = kernel.fn
    return kernel


def _named_arguments(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments at hand by parameter, in the order declared, with defaults."""
    names = [param.name for param in function.params]
    passed = {**dict(zip(names, args, strict=False)), **kwargs}
    defaults = {p.name: p.default for p in function.params if p.has_default}
    named = {**defaults, **passed}
    return {name: named[name] for name in names if name in named}


def _functions_in(named: Mapping[str, Any]) -> tuple[Any, ...]:
    from triton.runtime.jit import JITFunction

    return tuple(value for value in named.values() if isinstance(value, JITFunction))


def _current_device() -> int:
    return int(_driver().active.get_current_device())


@functools.cache
def _driver() -> Any:
    from triton.runtime.driver import driver

    return driver


def _config_of_tuner(
    tuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], params: Params
) -> Any:
    """Return the configuration with these parameters, which the kernel's own pruning must keep.

    Raises:
        ValueError: that refuses it for this launch, or hooks of the list's configurations differ.
    """
    config = next((c for c in tuner.configs if params.items() <= params_of(c).items()), None)
    candidates = list(tuner.configs)
    if config is None:
        config = _new_config(tuner.configs, params)
        candidates = [config]
    keep = tuner.early_config_prune
    nargs = dict(zip(tuner.arg_names, args, strict=False))
    if keep is not None and config not in list(keep(candidates, nargs, **kwargs)):
        raise ValueError("the kernel's early_config_prune leaves it out at this launch")
    return config


def _new_config(configs: Sequence[Any], params: Params) -> Any:
    """Return a configuration that is not on the list, with the list's one hook."""
    first = configs[0]
    if any(config.pre_hook is not first.pre_hook for config in configs):
        raise ValueError("it is not on the autotuner's list, whose configurations differ in hooks")
    if not all(isinstance(value, _PLAIN) for value in first.kwargs.values()):
        raise ValueError("it is not on the autotuner's list, which has values that are no numbers")
    config = copy.copy(first)
    config.kwargs = dict(first.kwargs)
    set_params(config, params)
    return config


def set_params(config: Any, params: Params) -> None:
    """Set parameters of a configuration: Triton's own options, or the kernel's constants."""
    for name, value in params.items():
        if name in _LAUNCH:
            setattr(config, name, value)
        else:
            config.kwargs[name] = value


def compile_config(
    tuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], config: Any
) -> None:
    """Compile and load a launch as `Autotuner.run` asks for it: the launch itself follows."""
    if config.pre_hook is not None:
        nargs = dict(zip(tuner.arg_names, args, strict=False))
        config.pre_hook({**nargs, **kwargs, **config.all_kwargs()})
    options = {**kwargs, **config.all_kwargs(), "warmup": True}
    _load(tuner.fn.run(*args, **options))


def _load(kernel: Any) -> None:
    """Load a compiled kernel, which is when a GPU lacks resources for it."""
    load = getattr(kernel, "_init_handles", None)
    if load is not None:
        from solkit.adapters.graph_captures import beside_captures

        with beside_captures():
            load()


# ------------------------------------------------------------------------------ plain launches


def _patch_jit(module: ModuleType) -> None:
    replace_method(module, "JITFunction", "run", _run_with_choice)


def _run_with_choice(original: Any) -> Any:
    def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            plan = self._solkit_plan
        except AttributeError:
            plan = _plan_of(self)
        if plan is None:
            return original(self, *args, **kwargs)
        key, choice = _choice_of(plan, _choose_options, original, self, args, kwargs)
        changed = None if choice is None else choice.applied.launch(self, args, kwargs)
        if choice is None or changed is None:
            return original(self, *args, **kwargs)
        try:
            return choice.applied.answer(original(self, *changed.args, **changed.kwargs))
        except Exception as error:
            if not _is_refused(error, partial(_load_launch, original, self, changed)):
                raise
            _give_up_choice(plan, key, choice, error)
        return original(self, *args, **kwargs)

    return run


@dataclass(frozen=True)
class _Launch:
    """Arguments of `JITFunction.run`."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class _Tile:
    """Another value of a constant that only says which program computes an element.

    Attributes:
        name, place: the parameter's name and position.
        own, value: as the program launches it, and the tuned one.
        writes: of each parameter, whether the kernel may write to what it points to.
        axis: of the grid that follows.
        proof: that nothing else does.
    """

    name: str
    place: int
    own: int
    value: int
    writes: Mapping[str, bool] = field(default_factory=dict)
    axis: int = 0
    proof: TileProof | None = None

    def axis_for(self, arguments: Sequence[Any], grid: Any) -> int | None:
        """Return the axis that follows for arguments, by position; ``None`` if more does, or may.

        Args:
            arguments: of all parameters, or others, which may all be written.
            grid: as the program has it; ``None`` if it is unknown.
        """
        complete = len(arguments) == len(self.writes)
        named = dict(zip(self.writes, arguments)) if complete else {}
        writes = self.writes.values() if complete else (True,) * len(arguments)
        try:
            buffers = argument_buffers(zip(arguments, writes))
        except Exception:  # a tensor without memory, as while a program is traced
            return None
        whole = None if grid is None else _whole_grid(grid)
        return None if self.proof is None else self.proof.axis_for(buffers, whole, named)

    def retiled(self, grid: Any, arguments: Sequence[Any]) -> tuple[int, ...] | None:
        """Return the grid that does the same with the tuned value; ``None`` if there is none."""
        if self.axis_for(arguments, grid) != self.axis:
            return None
        return retiled_grid(_whole_grid(grid), self.axis, self.own, self.value)

    def put(self, launch: _Launch) -> _Launch:
        """Return a launch with the tuned value."""
        if self.place >= len(launch.args):
            return _Launch(launch.args, {**launch.kwargs, self.name: self.value})
        before, after = launch.args[: self.place], launch.args[self.place + 1 :]
        return _Launch((*before, self.value, *after), launch.kwargs)


def _whole_grid(grid: Any) -> tuple[int, ...]:
    return tuple(map(int, (grid,) if isinstance(grid, int) else grid))


@dataclass(frozen=True)
class _Changes:
    """Changes of plain launches.

    Attributes:
        options: the compiler's.
        tile: a constant whose change the grid follows.
        plain: the kernel that the program asked for, if a constant changes.
    """

    options: Mapping[str, Any]
    tile: _Tile | None = None
    plain: Any = None

    def launch(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> _Launch | None:
        """Return a launch as it is made; ``None`` if it stays, as its grid cannot follow."""
        changed = {**kwargs, **self.options}
        if self.tile is None:
            return _Launch(args, changed)
        grid = kwargs.get("grid")
        named = _named_arguments(function, args, kwargs)
        if function.pre_run_hooks or kwargs.get("warmup"):
            return None  # hooks are host code that gets the constant; who warms up launches itself
        if callable(grid):
            grid = grid({**named, **kwargs})
        if grid is None:
            return None
        retiled = self.tile.retiled(grid, list(named.values()))
        if retiled is None:
            return None
        return self.tile.put(_Launch(args, {**changed, "grid": retiled}))

    def answer(self, kernel: Any) -> Any:
        """Return what the program gets for its launch."""
        if self.tile is None or kernel is None:
            return kernel
        return _RetiledKernel(kernel, self.tile, self.plain)


class _RetiledKernel:
    """A compiled kernel for programs that launch it again with grids of their own.

    Whatever else they want of it, they get of the kernel that they asked for.
    """

    def __init__(self, kernel: Any, tile: _Tile, plain: Any) -> None:
        self._kernel, self._tile, self._plain = kernel, tile, plain

    def __getitem__(self, grid: Any) -> Any:
        def launch(*args: Any, **kwargs: Any) -> Any:
            retiled = self._tile.retiled(grid, args)
            kernel = self._plain[grid] if retiled is None else self._kernel[retiled]
            return kernel(*args, **kwargs)

        return launch

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_plain"), name)  # a copy has none at first


def _load_launch(original: Any, function: Any, launch: _Launch) -> Any:
    """Return a launch's kernel, compiled and loaded."""
    kernel = original(function, *launch.args, **{**launch.kwargs, "warmup": True})
    _load(kernel)
    return kernel


def _plan_of(function: Any) -> _Plan | None:
    """Return how to look a function's launches up, which it keeps; ``None`` if nothing applies."""
    chooser, name = SERVED.chooser, function.__name__
    plan = None
    if chooser is not None and chooser.names(name, "jit"):
        decide = chooser.parameters(name, "jit")
        plan = _Plan(tuple((p.num, p.name) for p in function.params if p.name in decide))
    return _keep_plan(function, plan)


def _choose_options(
    original: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _Choice | None:
    """Return changed options of a launch that was tried to compile and load."""

    def prepare(request: ChoiceRequest, params: Params) -> _Changes:
        changed = {n: v for n, v in params.items() if request.in_use.get(n) != v}
        return _prepare_changes(original, function, _Launch(args, kwargs), changed)

    return _try_choice(partial(_request_of_launch, function, args, kwargs), prepare)


def _prepare_changes(
    original: Any, function: Any, launch: _Launch, changed: Mapping[str, Any]
) -> _Changes:
    """Compile and load a launch with its changes.

    Raises:
        ValueError: the compiled kernels do not show that a constant may change.
        Exception: it does not compile, or not load.
    """
    options = {name: value for name, value in changed.items() if name in _LAUNCH}
    tuned = _Launch(launch.args, {**launch.kwargs, **options})
    constants = [param for param in function.params if param.name in set(changed) - set(options)]
    if not constants:
        _load_launch(original, function, tuned)
        return _Changes(options)
    if len(constants) > 1:
        raise ValueError(f"{', '.join(c.name for c in constants)}: one may change, not several")
    (constant,) = constants
    from solkit.adapters.triton_writes import may_write

    named = _named_arguments(function, launch.args, launch.kwargs)
    own, value = named[constant.name], changed[constant.name]
    writes = {name: may_write(function, name) for name in named}
    tile = _Tile(constant.name, constant.num, own, value, writes)
    plain = _load_launch(original, function, launch)
    kernel = _load_launch(original, function, tile.put(tuned))
    proof = TileProof(plain.asm["ttgir"], kernel.asm["ttgir"], (own, value))
    tile = replace(tile, proof=proof)
    grid = launch.kwargs.get("grid")
    grid = grid({**named, **launch.kwargs}) if callable(grid) else grid
    axis = tile.axis_for(list(named.values()), grid)
    if axis is None:
        raise ValueError(f"its code does not show that only the grid follows from {tile.name}")
    return _Changes(options, replace(tile, axis=axis), plain)


def _request_of_launch(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> ChoiceRequest:
    named = _named_arguments(function, args, kwargs)
    constants = {p.name: named[p.name] for p in function.params if p.is_constexpr}
    options = {name: kwargs[name] for name in _LAUNCH if kwargs.get(name) is not None}
    constants = {n: v for n, v in constants.items() if isinstance(v, _PLAIN)}
    return ChoiceRequest(
        *(function.__name__, "jit", function, _current_device()),
        *(_bucket(named), complete_params({**constants, **options}), ()),
        frozenset(_LAUNCH) - set(named),
        passed=_functions_in(named),
    )


# ------------------------------------------------------------------------------ Inductor


def _patch_inductor(module: ModuleType) -> None:
    from solkit.adapters.live_inductor import patch

    patch(module)


_PATCHES: Mapping[str, Callable[[ModuleType], None]] = {
    AUTOTUNER: _patch_autotuner,
    JIT: _patch_jit,
    INDUCTOR: _patch_inductor,
}
