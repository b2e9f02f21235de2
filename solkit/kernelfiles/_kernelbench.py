"""KernelBench's form, unchanged: `Model`, `get_inputs`, `get_init_inputs`, and `ModelNew`.

https://github.com/ScalingIntelligence/KernelBench. The candidate `ModelNew` is in the same file or
another. Both models make their weights from the same seed. Inputs have no fixed seed, as a
candidate could then know them. Tensors are made on the device. Numbers at the file's top level are
its sizes.

Beyond KernelBench, a candidate may have parameters: a ``SPACE``, a function ``kernel`` that has
them as keyword-only parameters with defaults, and a ``ModelNew.forward`` that takes them by name
and hands them on. ``valid`` is as in SolKit's own form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_map

from solkit.core import Candidate, KernelFile, Problem, Space, Value
from solkit.errors import KernelFileError, ParamsError
from solkit.kernelfiles._base import LoadedKernel, Workload
from solkit.kernelfiles._native import handed_params, space_of_file, tolerance_of
from solkit.kernelfiles._source import (
    autotuned_space,
    blaming_user_code,
    check_call,
    file_of_module,
    restrict_autotuners,
    with_configs_kept,
)

_SEED = 42  # KernelBench src/eval.py, set_seed: any value does, so long as both models share it


def recognises(module: ModuleType, reference: ModuleType | None) -> bool:
    """Tell whether the pair of files is of this form, complete or not.

    A ``kernel`` for a ``reference`` and ``inputs`` only uses a class of such a name.
    """
    problem = reference or module
    native = (module, "kernel"), (problem, "reference"), (problem, "inputs")
    if all(hasattr(*part) for part in native) and not hasattr(problem, "get_inputs"):
        return False
    return any(hasattr(m, name) for m in (module, reference) for name in ("Model", "ModelNew"))


class KernelBenchKernel(LoadedKernel):
    """A KernelBench problem, and its candidate if it has one."""

    def __init__(self, module: ModuleType, problem_module: ModuleType) -> None:
        self._module, self._problem_module = module, problem_module
        path = file_of_module(problem_module)
        for name in ("Model", "get_inputs"):
            if not callable(getattr(problem_module, name, None)):
                hint = "; name the file that has it with --reference" if name == "Model" else ""
                raise KernelFileError(f"has no {name}, as KernelBench files do{hint}", path)
        if module is not problem_module and not hasattr(module, "ModelNew"):
            raise KernelFileError(
                "has no ModelNew, as KernelBench candidates do", file_of_module(module)
            )
        candidate = None
        if hasattr(module, "ModelNew"):
            candidate = _find_candidate(module)
        self.description = KernelFile(
            problem=Problem(
                name=Path(path).stem,
                path=path,
                format="kernelbench",
                reference="Model",
                sizes=_module_numbers(problem_module),
                shapes=({},),
                tolerance=tolerance_of(problem_module),
            ),
            candidate=candidate,
        )

    def workload(
        self,
        shape: Mapping[str, Value],
        params: Mapping[str, Value] | None = None,
        device: str = "cuda",
    ) -> Workload:
        """See `LoadedKernel.workload`. Sizes are set as globals of the problem's file."""
        own = self._restrict_autotuners(dict(params or {}))
        vars(self._problem_module).update(self.full_shape(shape))
        path = self.description.problem.path
        args = self._draw_inputs(device)
        model = self.model(device)
        check_call(model.forward, "Model.forward", args, {}, path, "get_inputs()")
        new = self.candidate_model(device)
        kernel = None if new is None else self._bound(new, own)
        return Workload(args, {}, _without_grad(model, {}), kernel)

    def space(self, shape: Mapping[str, Value]) -> Space:
        """See `LoadedKernel.space`."""
        space, valid = super().space(shape), getattr(self._module, "valid", None)
        if valid is None or self._module is self._problem_module:
            return space
        sizes = self.full_shape(shape)
        text = f"valid() of {file_of_module(self._module)}"
        return space.where(text, lambda params: valid(params, sizes))

    def drawn(
        self, workload: Workload, shape: Mapping[str, Value], device: str = "cuda"
    ) -> Workload:
        """See `LoadedKernel.drawn`."""
        vars(self._problem_module).update(self.full_shape(shape))
        return workload.with_inputs(self._draw_inputs(device), {})

    def with_params(self, workload: Workload, params: Mapping[str, Value]) -> Workload:
        """See `LoadedKernel.with_params`. The candidate's weights stay."""
        own = self._restrict_autotuners(dict(params))
        model = getattr(workload.kernel, "model", None)
        return workload if model is None else replace(workload, kernel=self._bound(model, own))

    def model(self, device: str) -> torch.nn.Module:
        """Build the reference's model.

        Raises:
            KernelFileError: the file's own code failed.
        """
        return self._build_model("Model", self._problem_module, device)

    def candidate_model(self, device: str) -> torch.nn.Module | None:
        """Build the candidate's model; ``None`` if there is none.

        Raises:
            KernelFileError: the file's own code failed.
        """
        if self.description.candidate is None:
            return None
        return self._build_model("ModelNew", self._module, device)

    def _bound(self, model: torch.nn.Module, own: Mapping[str, Value]) -> Any:
        """Return what calls a candidate with the configurations that its autotuners have now."""
        return with_configs_kept(_without_grad(model, own), self._module)

    def _draw_inputs(self, device: str) -> tuple[Any, ...]:
        path = self.description.problem.path
        with torch.device(device), blaming_user_code(path, "calling get_inputs()"):
            args = tuple(self._problem_module.get_inputs())
        moved = tree_map(lambda a: a.to(device) if isinstance(a, torch.Tensor) else a, args)
        return tuple(moved)

    def init_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return what a model is built with.

        Raises:
            KernelFileError: the file's own code failed.
        """
        make: Any = getattr(self._problem_module, "get_init_inputs", list)
        with blaming_user_code(self.description.problem.path, "calling get_init_inputs()"):
            torch.manual_seed(_SEED)
            return _init_arguments(make())

    def _build_model(self, name: str, module: ModuleType, device: str) -> torch.nn.Module:
        path = file_of_module(module)
        with torch.device(device):
            args, kwargs = self.init_arguments()
            with blaming_user_code(path, f"building {name}(*get_init_inputs())"):
                torch.manual_seed(_SEED)
                model = getattr(module, name)(*args, **kwargs)
            if not isinstance(model, torch.nn.Module):
                raise KernelFileError(
                    f"{name} is no torch.nn.Module, as KernelBench's are; a function "
                    "kernel(x, ...) next to reference() and inputs() may call its methods",
                    path,
                )
            with blaming_user_code(path, f"building {name}(*get_init_inputs())"):
                return _move_to_device(model, device)

    def _restrict_autotuners(self, params: dict[str, Value]) -> dict[str, Value]:
        """Restrict the autotuners; returns the parameters that ``forward`` takes."""
        candidate = self.description.candidate
        if candidate is None:
            if params:
                raise ParamsError(
                    f"{file_of_module(self._module)} has no ModelNew to give {params} to"
                )
            return {}
        own = {n: v for n, v in params.items() if n in handed_params(self._module)}
        unknown = set(params) - set(own) - restrict_autotuners(self._module, params, own)
        if unknown:
            raise ParamsError(
                f"{file_of_module(self._module)}: no autotuned kernel has a parameter "
                f"{', '.join(sorted(unknown))}; a KernelBench candidate takes no others, unless "
                "it has a SPACE and a function kernel"
            )
        return own


def _find_candidate(module: ModuleType) -> Candidate:
    own = handed_params(module)
    if not own:
        return Candidate("ModelNew", file_of_module(module), {}, autotuned_space(module))
    return Candidate("ModelNew", file_of_module(module), own, space_of_file(module))


def _move_to_device(model: torch.nn.Module, device: str) -> torch.nn.Module:
    """Move a model that made tensors elsewhere in spite of the default device."""
    tensors = [*model.parameters(), *model.buffers()]
    elsewhere = any(t.device.type != torch.device(device).type for t in tensors)
    return model.to(device) if elsewhere else model


def _init_arguments(init: Any) -> tuple[list[Any], dict[str, Any]]:
    """Level 4 problems return ``[args, kwargs]``, the others a flat list."""
    pair = isinstance(init, (list, tuple)) and len(init) == 2
    if pair and isinstance(init[0], list) and isinstance(init[1], dict):
        return list(init[0]), dict(init[1])
    return list(init), {}


def _without_grad(model: torch.nn.Module, params: Mapping[str, Value]) -> Any:
    def forward(*args: Any) -> Any:
        with torch.no_grad():  # as KernelBench evaluates
            return model(*args, **params)

    forward.model = model  # type: ignore[attr-defined]  # keeps the weights reachable
    return forward


def _module_numbers(module: ModuleType) -> dict[str, Value]:
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and isinstance(value, (int, float)) and value is not True
    }
