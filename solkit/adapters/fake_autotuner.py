"""Run autotuned kernels without timing them; see `fake_triton`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from triton.runtime.autotuner import Autotuner

from solkit.adapters import fake_cuda, launch_recording
from solkit.adapters.launch_recording import AutotuneSpace, Choice, Recording
from solkit.adapters.recipes import Steps
from solkit.core import Value
from solkit.core.quantities import settings_text
from solkit.errors import ParamsError


def run_autotuned(self: Autotuner, *args: Any, **kwargs: Any) -> Any:
    """`Autotuner.run` that chooses without a benchmark."""
    self.nargs = dict(zip(self.arg_names, args, strict=False))
    pruned = _prune_configs(self, kwargs)
    seen, key = launch_recording.current_recording(), _tuning_key(self, kwargs)
    if seen is not None and seen.every_choice:
        return _run_every_choice(self, pruned, seen, args, kwargs)
    config = self.best_config = _choose_config(self, pruned, seen.params if seen else {}, key)
    tuned, steps = config.all_kwargs(), launch_recording.current_steps()
    if steps is not None:
        tuned = steps.mapping(lambda params: _choose_config(self, pruned, params, key).all_kwargs())
        steps.pin_result(lambda params: id(_choose_config(self, pruned, params, key).pre_hook))
        self.best_config = _Unread(steps)
        steps.later(lambda: setattr(self, "best_config", config))
    if config.pre_hook is not None:
        config.pre_hook({**self.nargs, **kwargs, **tuned})
    with _noting_choice(_config_choice(self, key, config)):
        result = self.fn.run(*args, **kwargs, **tuned)
    self.nargs = None
    return result


def _run_every_choice(
    self: Autotuner,
    pruned: Sequence[Any],
    seen: Recording,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Launch each configuration as `Autotuner.run` would to time it, with its hooks."""
    configs = _matching_configs(self.base_fn.__name__, pruned, _params_of_tuner(self, seen.params))
    if is_timed := len(configs) > 1:
        seen.autotuning.setdefault(_autotuning_text(self, seen))
    result = None
    for config in configs:
        tuned = config.all_kwargs()
        values = {**self.nargs, **kwargs, **tuned}
        self.best_config = _Watched(config, seen) if is_timed else config
        if config.pre_hook is not None:
            config.pre_hook(values)
        if is_timed:
            self.pre_hook(values)
        result = self.fn.run(*args, **kwargs, **tuned)
        if is_timed:
            self.post_hook(values, exception=None)
    self.nargs = None
    return result


def _autotuning_text(self: Autotuner, seen: Recording) -> str:
    """Return what decides when an autotuner times again, and how; remark what no text shows."""
    own, name = vars(self), self.base_fn.__name__
    settings = [own.get(setting) for setting in _TIMING]
    if own.get("_do_bench") is not None and not any(settings):
        seen.remarks.setdefault(f"the autotuner of {name} times by a function of its own")
    if type(self) is not Autotuner:
        seen.remarks.setdefault(f"{name} has an autotuner of its own, {type(self).__name__}")
    names = self.keys, self.reset_to_zero, self.restore_value
    return repr((*map(list, names), settings, own.get("cache_results")))


_TIMING = ("num_warmups", "num_reps", "use_cuda_graph")


class _Watched:
    """One of several configurations as an autotuner's choice; reading it is remarked."""

    def __init__(self, config: Any, seen: Recording) -> None:
        self._config, self._seen = config, seen

    def __getattr__(self, name: str) -> Any:
        self._seen.remarks.setdefault("the launcher reads an autotuner's choice")
        return getattr(self._config, name)


@contextlib.contextmanager
def _noting_choice(choice: Choice) -> Iterator[None]:
    """Note in the recording which choice its launches come from."""
    seen = launch_recording.current_recording()
    if seen is None:
        yield
        return
    before, seen.choice = seen.choice, choice
    try:
        yield
    finally:
        seen.choice = before


def _tuning_key(self: Autotuner, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the key that tells calls apart, as in `Autotuner.run`."""
    arguments = {**self.nargs, **kwargs}
    named = [str(arguments[name]) for name in self.keys if name in arguments]
    return (*named, *(str(arg.dtype) for arg in arguments.values() if hasattr(arg, "dtype")))


def _config_choice(self: Autotuner, key: tuple[str, ...], config: Any) -> Choice:
    return Choice(self.base_fn.__name__, key, str(config))


class _Unread:
    """An autotuner's choice during a recorded run; reading it spoils the recording."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        self._steps.mark_unrepeatable("the launcher reads an autotuner's choice")
        raise AttributeError(name)


def _prune_configs(self: Autotuner, kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the configurations that its own pruning keeps."""
    matching = self.configs
    self.configs = getattr(self, "every_config", matching)  # see `restrict_autotuners`
    pruned = self.prune_configs(kwargs) if len(self.configs) > 1 else self.configs
    self.configs = matching
    return list(pruned)


def _choose_config(
    self: Autotuner, pruned: Sequence[Any], params: Mapping[str, Value], key: tuple[str, ...]
) -> Any:
    """Return the configuration that runs; the recording keeps all."""
    seen, name = launch_recording.current_recording(), self.base_fn.__name__
    params = _params_of_tuner(self, params)
    every = getattr(self, "every_config", self.configs)
    names = {name for config in every for name in config.all_kwargs()} & params.keys()
    matching = [c for c in every if all(c.all_kwargs().get(k) == params[k] for k in names)]
    if len(matching) == 1 and matching[0] not in pruned:
        pruned = [*pruned, *matching]  # a single match runs on a GPU without pruning
    if seen is None:
        return pruned[0]
    fitting = _matching_configs(name, pruned, params)
    runnable = [c for c in fitting if _config_choice(self, key, c) not in seen.skipped]
    config = (runnable or fitting)[0]
    listed = tuple(config.all_kwargs() for config in pruned)
    skipped = fitting.index(config)
    seen.tuners[name] = self
    seen.kept.setdefault(name, {}).update({id(config): config for config in pruned})
    seen.spaces[name] = AutotuneSpace(name, listed, config.all_kwargs(), skipped)
    return config


def _params_of_tuner(self: Autotuner, params: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return parameters without those that the launcher takes itself: see `restrict_autotuners`."""
    taken = vars(self).get("taken_elsewhere", ())
    return {name: value for name, value in params.items() if name not in taken}


def _matching_configs(name: str, configs: Sequence[Any], params: Mapping[str, Value]) -> list[Any]:
    """Return the configurations with the requested values of the parameters that they tune.

    Raises:
        ParamsError: there is none, and the request names the kernel's own parameters. Warps and
            stages may be meant for another kernel.
    """
    matches = [
        config
        for config in configs
        if all(params[key] == value for key, value in config.all_kwargs().items() if key in params)
    ]
    if matches:
        return matches
    if not params.keys() & configs[0].kwargs.keys():
        return list(configs)
    requested, *listed = (
        settings_text(values) for values in (params, *(config.all_kwargs() for config in configs))
    )
    raise ParamsError(
        f"no configuration of the autotuned {name} has {requested}; it has: {'; '.join(listed)}"
    )


def do_bench(
    fn: Any,  # noqa: ARG001 - Triton's signature
    *_: Any,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **__: Any,
) -> Any:
    """`triton.testing.do_bench`: returns 1 ms and runs nothing."""
    sentence = "times measured on the way (do_bench) were all taken as equal"
    launch_recording.add_remark(f"{fake_cuda.user_line()}: {sentence}")
    if quantiles is not None:
        return [1.0] * len(quantiles) if len(quantiles) > 1 else 1.0
    return [1.0] if return_mode == "all" else 1.0
