"""Tuned configurations for Inductor's kernels: when compiled, or in place of those in use."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from solkit.adapters.live_tuned import (
    PROGRAM,
    SERVED,
    ChoiceRequest,
    Params,
    ask_chooser,
    params_of,
    replace_method,
    set_params,
)
from solkit.core.tuned import LaunchBucket


def patch(module: ModuleType) -> None:
    """Let kernels be compiled as the chooser says.

    Args:
        module: Inductor's heuristics, as they were imported.
    """
    replace_method(module, "CachingAutotuner", "precompile", _compile_choice)


def _compile_choice(original: Any) -> Any:
    def precompile(self: Any, *args: Any, **kwargs: Any) -> Any:
        SERVED.tuners.add(self)
        chooser = SERVED.chooser
        name = getattr(self.fn, "__name__", "")
        if self.launchers or chooser is None or not chooser.names(name, "inductor"):
            return original(self, *args, **kwargs)
        reload_kernel = kwargs.get("reload_kernel")
        answer = ask_chooser(chooser, partial(_request_of_inductor, self, reload_kernel))
        if answer is None:
            return original(self, *args, **kwargs)
        request, params = answer
        before = {name: vars(self).get(name) for name in _STATE}
        try:
            _replace_configs(self, params)
            return original(self, *args, **_unbundled(kwargs))
        except Exception as error:
            vars(self).update(before, launchers=[])
            vars(self).pop("_could_rblock_scale", None)  # it was computed from what is undone
            chooser.failed(request, params, error)
            return original(self, *args, **kwargs)

    return precompile


@dataclass(frozen=True)
class Trials:
    """Trials of tuned kernels in the program whose kernels they replace.

    Attributes:
        judge: looks at times, see `solkit.adapters.live_trials.Judge`.
        settled: gets what was asked for a kernel, and whether the tuned one stays.
    """

    judge: Callable[[Sequence[float], Sequence[float]], bool | None]
    settled: Callable[[ChoiceRequest, bool], None]


def replace_compiled(trials: Trials | None = None) -> int:
    """Give Inductor's kernels that were compiled while this served their tuned configurations.

    A kernel is compiled beside the one in use, which it replaces when it is there. CUDA graphs that
    were captured keep what they have.

    Args:
        trials: has both timed in the program; the one in use comes back unless the tuned one is
            faster. Without it tuned kernels stay.

    Returns:
        How many kernels changed, or are on trial.
    """
    return sum(_replace_in_place(tuner, trials) for tuner in list(SERVED.tuners))


def _replace_in_place(tuner: Any, trials: Trials | None) -> bool:
    chooser, name = SERVED.chooser, getattr(tuner.fn, "__name__", "")
    if not tuner.launchers or chooser is None or not chooser.names(name, "inductor"):
        return False
    fresh = object.__new__(type(tuner))
    vars(fresh).update(vars(tuner), launchers=[])
    vars(fresh).pop("_could_rblock_scale", None)
    answer = ask_chooser(chooser, partial(_request_of_inductor, fresh, None))
    if answer is None or _is_in_use(tuner, answer[1]):
        return False
    request, params = answer
    try:
        _replace_configs(fresh, params)
        fresh.precompile()
    except Exception as error:
        chooser.failed(request, params, error)
        return False
    if trials is None or len(tuner.launchers) != 1 or len(fresh.launchers) != 1:
        _take_state(tuner, _state_of(fresh))
    else:
        _begin_trial(tuner, fresh, trials, request)
    return True


def _begin_trial(tuner: Any, fresh: Any, trials: Trials, request: ChoiceRequest) -> None:
    """Let a kernel be launched by both launchers; what is in use comes back as it was."""
    from solkit.adapters.live_trials import LaunchTrial

    before, after = _state_of(tuner), _state_of(fresh)

    def settle(is_faster: bool) -> None:
        _take_state(tuner, after if is_faster else before)
        trials.settled(request, is_faster)

    def forget() -> None:  # what Inductor kept after the launch in which the trial ended
        if vars(tuner).get("_cached_launcher") is not None:
            tuner._cached_launcher = None

    launchers = tuner.launchers[0], fresh.launchers[0]
    is_pointwise = tuner.heuristic_type.name == "POINTWISE"  # else lanes may be joined
    trial = LaunchTrial(*launchers, trials.judge, settle, forget, alternates=is_pointwise)
    _take_state(tuner, {**before, "launchers": [trial.launcher()]})


def _state_of(tuner: Any) -> dict[str, Any]:
    return {name: vars(tuner).get(name) for name in (*_STATE, "launchers", "fn")}


def _take_state(tuner: Any, state: Mapping[str, Any]) -> None:
    vars(tuner).update(state)
    if "_cached_launcher" in vars(tuner):
        tuner._cached_launcher = None


def _is_in_use(tuner: Any, params: Params) -> bool:
    if len(tuner.launchers) != 1:
        return False
    return params.items() <= params_of(tuner.launchers[0].config).items()


_STATE = ("configs", "compile_results", "inductor_meta")


def _unbundled(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Leave the kernel out of what Inductor caches: a run without SolKit must not find it there."""
    return {name: value for name, value in kwargs.items() if name != "static_triton_bundle_key"}


def _request_of_inductor(tuner: Any, reload_kernel: Any) -> ChoiceRequest:
    from solkit.adapters.launch_records import program_digest

    digest = vars(tuner).get(PROGRAM, "")  # a worker process that has it may have compiled this
    if not digest:
        if tuner.fn.fn is None:
            tuner.fn = (reload_kernel or tuner._reload_kernel)().fn
        digest = vars(tuner)[PROGRAM] = program_digest(tuner.fn)
    configs = inductor_configs(tuner)
    offers = tuple(map(params_of, configs))
    return ChoiceRequest(
        *(tuner.fn.__name__, "inductor", tuner.fn, int(tuner.triton_meta.get("device") or 0)),
        LaunchBucket(scalars={f"{axis}numel": n for axis, n in (tuner.size_hints or {}).items()}),
        *(offers[0], offers, _free_of_inductor(tuner), digest),
    )


def inductor_configs(tuner: Any) -> list[Any]:
    """Return what Inductor's autotuner chooses from; once compiled it has no list of its own."""
    return list(tuner.configs or [result.config for result in tuner.compile_results])


def _free_of_inductor(tuner: Any) -> frozenset[str]:
    """Return what Inductor's own tuner would vary for any values, and options of the launch.

    Blocks of templates and of the user's kernels decide a grid that is computed already.
    """
    options = frozenset(("num_warps", "num_stages"))
    is_fixed = tuner.heuristic_type.name in ("TEMPLATE", "USER_AUTOTUNE", "FIXED")
    is_reduction = "REDUCTION" in tuner.heuristic_type.name or "SCAN" in tuner.heuristic_type.name
    if getattr(tuner, "deterministic_mode", False) and is_reduction:
        return frozenset()
    return options if is_fixed else options | frozenset(tuner.coordesc_tuner.tunable_fields)


def least_blocks(tuner: Any) -> dict[str, int]:
    """Return the smallest blocks for which Inductor wrote a kernel, where they are not 1.

    With smaller ones a workspace of a scan, which is for so many blocks, is too short, and a
    reduction within a block lacks elements. Source: torch/_inductor/runtime/triton_heuristics.py,
    split_scan and _enforce_reduction_config_block_minimums.
    """
    meta = tuner.inductor_meta
    is_split_scan = tuner.heuristic_type.name == "SPLIT_SCAN"
    of_scan = meta.get("min_split_scan_rblock", 256) if is_split_scan else None
    least = {
        "XBLOCK": meta.get("min_xblock"),
        "R0_BLOCK": of_scan or meta.get("min_rblock"),
        "R1_BLOCK": of_scan,
    }
    return {name: size for name, size in least.items() if size is not None}


def _replace_configs(tuner: Any, params: Params) -> None:
    """Let an autotuner have one configuration, after which no tuner of Inductor's looks for more.

    Raises:
        ValueError: Inductor does not take it for this kernel.
    """
    config = copy.deepcopy(inductor_configs(tuner)[0])
    set_params(config, params)
    limits, least = tuner.coordesc_tuner, least_blocks(tuner)
    for name, value in config.kwargs.items():
        if not isinstance(value, int) or name not in params:
            continue
        if limits.value_too_large(name, value):
            raise ValueError(f"{name}={value} is more than Inductor allows")
        if value < least.get(name, 1):
            raise ValueError(f"{name}={value} is less than Inductor allows: {least[name]}")
    config.found_by_coordesc = config.found_by_combo_autotune = True
    compiled = [r for r in tuner.compile_results if params_of(r.config) == params_of(config)]
    for result in compiled:
        result.config.found_by_coordesc = result.config.found_by_combo_autotune = True
    tuner.configs, tuner.compile_results = [config], compiled
    tuner.inductor_meta = {**tuner.inductor_meta, "dynamic_scale_rblock": False}
