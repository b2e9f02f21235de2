"""Capture the Triton kernels that Helion generates, without a GPU and without its autotuner.

The only module that touches Helion's insides. Helion traces a function on fake tensors of its own
and writes Triton code for a configuration. Under SolKit's modes its tracing would count as the
candidate's, so it runs apart from them: on fake CUDA tensors of the same sizes, strides and dtypes.
The generated code then runs like any launcher's, and its launches are Triton's.

A configuration is chosen, never timed: the requested values over the kernel's first configuration,
or over Helion's default where it has none.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from solkit.adapters import helion_configs, launch_recording, versions
from solkit.adapters.fake_cuda import placing_line, user_line
from solkit.adapters.listed_configs import ListedTuner
from solkit.core import Value

SAMPLED = 64
"""Configurations that stand for a kernel's space; Helion's own search starts from 100."""
_SEED = 0


def install(module: Any) -> None:
    """Fake the calls of Helion's kernels; `module` is ``helion.runtime.kernel``."""
    versions.warn_if_untested("helion", importlib.metadata.version("helion"))
    module.Kernel.__call__ = _call_kernel


def _call_kernel(kernel: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``helion.Kernel.__call__`` that chooses without a benchmark and runs the generated code."""
    steps = launch_recording.current_steps()
    if steps is not None:
        steps.mark_unrepeatable("Helion generates the kernel for the values that it gets")
        args, kwargs = steps.pin_values((args, kwargs))
    args = kernel.normalize_args(*args, **kwargs)
    with _apart_from_modes():
        bound = kernel.bind(_stand_ins(args))
        config = _choose_config(kernel, bound)
        run = bound.compile_config(config, allow_print=False)
    with placing_line(user_line()):  # its host code lies in a cache
        return run(*args)


@contextlib.contextmanager
def _apart_from_modes() -> Iterator[None]:
    """Let Helion trace as it does without SolKit."""
    with _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
        yield


def _stand_ins(args: Sequence[Any]) -> tuple[Any, ...]:
    """Return arguments with fake tensors of another mode in place of tensors."""
    mode = FakeTensorMode()
    return tuple(_stand_in(arg, mode) for arg in args)


def _stand_in(arg: Any, mode: FakeTensorMode) -> Any:
    if isinstance(arg, torch.Tensor):
        with mode:
            return torch.empty_strided(arg.shape, arg.stride(), dtype=arg.dtype, device=arg.device)
    if type(arg) in (list, tuple):
        return type(arg)(_stand_in(part, mode) for part in arg)
    if type(arg) is dict:
        return {name: _stand_in(part, mode) for name, part in arg.items()}
    return arg


def _choose_config(kernel: Any, bound: Any) -> Any:
    """Return the configuration that runs; the recording keeps all."""
    seen = launch_recording.current_recording()
    listed = list(vars(kernel).get("every_config", kernel.configs))
    first = [*kernel.configs, bound.config_spec.default_config()][0]
    config = helion_configs.with_params(first, seen.params if seen else {}, bound.config_spec)
    if seen is not None:
        name = kernel.name
        if name not in seen.tuners:
            configs = listed if len(listed) > 1 else [*listed, *_sampled_configs(bound)]
            seen.tuners[name] = ListedTuner.of(_distinct_params(bound, configs))
        if len(listed) != 1:
            which = f"{len(listed)} configurations" if listed else "none given"
            sentence = f"helion.kernel {name}: {which}, showing {_described(config)}"
            launch_recording.add_remark(f"{user_line()}: {sentence}")
    return config


def _sampled_configs(bound: Any) -> Iterator[Any]:
    """Yield Helion's default and random configurations of its space, by a fixed seed."""
    yield bound.config_spec.default_config()
    state = random.getstate()
    random.seed(_SEED)
    try:
        generation = bound.config_spec.create_config_generation()
        for _ in range(SAMPLED):
            yield generation.random_config()
    finally:
        random.setstate(state)


def _distinct_params(bound: Any, configs: Iterable[Any]) -> Iterable[Mapping[str, Value]]:
    """Return configurations as parameters, each once, all with the same names."""
    normal = [dict(bound._normalized_config_copy(bound._normalize_config(c))) for c in configs]
    names = list(dict.fromkeys(name for config in normal for name in config))
    params = [helion_configs.params_of_config(config, names) for config in normal]
    unique = {tuple(point.items()): point for point in params}
    return unique.values()


def _described(config: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(dict(config).items()))
