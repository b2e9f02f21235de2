"""SolKit's own form: `reference`, `inputs`, `kernel` and a few optional names in plain Python.

::

    def reference(x): ...                                # what must be computed, in PyTorch
    def inputs(M=4096, N=4096, dtype=torch.bfloat16, device="cuda"): ...  # args or (args, kwargs)
    def kernel(x, *, BLOCK=1024, num_warps=4): ...       # the candidate
    SPACE, SHAPES, HELD_OUT_SHAPES, TOLERANCE, OUTPUTS   # optional
    def valid(params, shape): ...                        # optional
    def check(got, want): ...                            # optional
    def deployed(shape): ...                             # optional: how a program launches it
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from solkit.core import Candidate, Deployment, KernelFile, Problem, Space, Tolerance, Value
from solkit.core.codec import from_json
from solkit.core.values import is_number
from solkit.errors import KernelFileError, ParamsError, ShapeError
from solkit.kernelfiles._base import LoadedKernel, Workload
from solkit.kernelfiles._source import (
    autotuned_space,
    blaming_user_code,
    check_call,
    definition_line,
    file_of_module,
    restrict_autotuners,
    with_configs_kept,
)


def recognises(module: ModuleType, reference: ModuleType | None) -> bool:
    """Tell whether the pair of files is of this form, complete or not."""
    names = ("reference", "inputs")
    return any(callable(getattr(m, name, None)) for m in (module, reference) for name in names)


class NativeKernel(LoadedKernel):
    """A native kernel file."""

    def __init__(self, module: ModuleType, problem_module: ModuleType) -> None:
        self._module, self._problem_module = module, problem_module
        path = file_of_module(problem_module)
        self._reference = _require_function(problem_module, "reference", "def reference(x): ...")
        self._inputs = _require_function(
            problem_module, "inputs", 'def inputs(M=4096, device="cuda"): ...'
        )
        self._kernel = getattr(module, "kernel", None)
        if self._kernel is not None and not callable(self._kernel):
            raise KernelFileError("kernel is not a function", file_of_module(module))
        if self._kernel is None and module is not problem_module:
            raise KernelFileError(
                "has no kernel(); expected def kernel(x): ...", file_of_module(module)
            )
        sizes = _default_sizes(self._inputs, path)
        self.description = KernelFile(
            problem=Problem(
                name=Path(path).stem,
                path=path,
                format="native",
                reference="reference",
                sizes=sizes,
                shapes=_shapes_of_file(problem_module, "SHAPES", sizes) or ({},),
                held_out_shapes=_shapes_of_file(problem_module, "HELD_OUT_SHAPES", sizes),
                tolerance=tolerance_of(problem_module),
                outputs=_output_order(problem_module, self._reference),
            ),
            candidate=self._describe_candidate(),
        )

    def _describe_candidate(self) -> Candidate | None:
        if self._kernel is None:
            return None
        space = space_of_file(self._module)
        own, path = keyword_defaults(self._kernel), file_of_module(self._module)
        is_deployed = hasattr(self._module, "deployed")
        if not space.values:
            return Candidate("kernel", path, own, autotuned_space(self._module), is_deployed)
        unknown = set(space.values) - _accepted_keywords(self._kernel, space.values)
        if unknown:
            raise KernelFileError(
                f"SPACE names {', '.join(sorted(unknown))}, which kernel"
                f"{inspect.signature(self._kernel)} does not take",
                path,
                definition_line(self._kernel),
            )
        params = {**{name: listed[0] for name, listed in space.values.items()}, **own}
        return Candidate("kernel", path, params, space, is_deployed)

    def space(self, shape: Mapping[str, Value]) -> Space:
        """See `LoadedKernel.space`."""
        space, valid = super().space(shape), getattr(self._module, "valid", None)
        if valid is None:
            return space
        sizes = {**self.description.problem.sizes, **self.full_shape(shape)}
        text = f"valid() of {file_of_module(self._module)}"
        return space.where(text, lambda params: valid(params, sizes))

    def deployment(self, shape: Mapping[str, Value]) -> Deployment | None:
        """See `LoadedKernel.deployment`."""
        deployed = getattr(self._module, "deployed", None)
        if deployed is None:
            return None
        path = file_of_module(self._module)
        with blaming_user_code(path, "calling deployed()"):
            said = deployed({**self.description.problem.sizes, **self.full_shape(shape)})
        try:
            if isinstance(said, dict) and (unknown := set(said) - {"graph", "reuse_bytes"}):
                raise ValueError(f"{', '.join(sorted(map(str, unknown)))} is none of its keys")
            deployment = from_json(Deployment, said)
            _check_reuse(deployment, self._reference)
        except ValueError as error:
            raise KernelFileError(
                f'deployed() returns {said!r}; expected e.g. {{"graph": True, "reuse_bytes": '
                f'{{"x": 1048576, "y": None}}}}: {error}',
                path,
            ) from error
        return deployment

    def workload(
        self,
        shape: Mapping[str, Value],
        params: Mapping[str, Value] | None = None,
        device: str = "cuda",
    ) -> Workload:
        """See `LoadedKernel.workload`."""
        problem = self.description.problem
        args, kwargs = self._make_inputs(self.full_shape(shape), device)
        check_call(self._reference, "reference", args, kwargs, problem.path)
        kernel = self._bind_parameters(dict(params or {}))
        if kernel is not None:
            check_call(kernel, "kernel", args, kwargs, file_of_module(self._module))
        return Workload(
            args=args,
            kwargs=kwargs,
            reference=self._reference,
            kernel=kernel,
            outputs=problem.outputs,
            check=getattr(self._problem_module, "check", None),
        )

    def drawn(
        self, workload: Workload, shape: Mapping[str, Value], device: str = "cuda"
    ) -> Workload:
        """See `LoadedKernel.drawn`."""
        return workload.with_inputs(*self._make_inputs(self.full_shape(shape), device))

    def with_params(self, workload: Workload, params: Mapping[str, Value]) -> Workload:
        """See `LoadedKernel.with_params`."""
        return replace(workload, kernel=self._bind_parameters(dict(params)))

    def _make_inputs(
        self, shape: Mapping[str, Value], device: str
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        path = self.description.problem.path
        arguments: dict[str, Any] = {
            name: _size_as_torch(name, value, path) for name, value in shape.items()
        }
        if "device" in inspect.signature(self._inputs).parameters:
            arguments["device"] = device
        with blaming_user_code(path, "calling inputs()"):
            inputs = self._inputs(**arguments)
        return _split_arguments(inputs)

    def _bind_parameters(self, params: dict[str, Value]) -> Callable[..., Any] | None:
        if self._kernel is None or self.description.candidate is None:
            if params:
                raise ParamsError(
                    f"{file_of_module(self._module)} has no kernel to give {params} to"
                )
            return None
        named = inspect.signature(self._kernel).parameters
        tuned = restrict_autotuners(self._module, params, named)
        own = _accepted_keywords(self._kernel, params)
        for name in params:
            if name not in own and name not in tuned:
                valid = ", ".join(self.description.candidate.params) or "none"
                raise ParamsError(
                    f"{file_of_module(self._module)}: kernel() takes no parameter {name!r} "
                    f"(given as {name}={params[name]}); its parameters are: {valid}"
                )
        defaults = inspect.signature(self._kernel).parameters
        bound: dict[str, Any] = {
            name: self.description.candidate.params[name]
            for name in space_of_file(self._module).values
            if name not in keyword_defaults(self._kernel)
        }
        for name in own:
            kind = defaults[name].default if name in defaults else None
            value = params[name]
            listed = space_of_file(self._module).values.get(name, ())
            if isinstance(value, str) and is_number(kind) and value not in listed:
                raise ParamsError(
                    f"{file_of_module(self._module)}: parameter {name!r} is a number, as in "
                    f"{name}={kind}; given is {name}={value}"
                )
            as_dtype = isinstance(kind, torch.dtype) and isinstance(value, str)
            bound[name] = to_dtype(str(value), file_of_module(self._module)) if as_dtype else value
        return with_configs_kept(functools.partial(self._kernel, **bound), self._module)


def _check_reuse(deployment: Deployment, reference: Callable[..., Any]) -> None:
    """Check what is said of tensors; raises ValueError."""
    parameters = inspect.signature(reference).parameters
    is_open = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values())
    for name, size in deployment.reuse_bytes.items():
        if not is_open and name.partition("[")[0] not in parameters:
            listed = ", ".join(parameters)
            raise ValueError(f"the reference has no argument {name!r}; it has {listed}")
        if size is not None and size < 0:
            raise ValueError(f"{name} has {size} bytes; expected 0 or more, or None")


def _require_function(module: ModuleType, name: str, expected: str) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if not callable(function):
        raise KernelFileError(f"has no {name}(); expected {expected}", file_of_module(module))
    return function  # type: ignore[no-any-return]  # callable() narrows Any no further


def _default_sizes(inputs: Callable[..., Any], path: str) -> dict[str, Value]:
    """Return the sizes of a problem: the parameters of `inputs` except `device`."""
    sizes: dict[str, Value] = {}
    for name, parameter in inspect.signature(inputs).parameters.items():
        if name == "device":
            continue
        if parameter.default is parameter.empty:
            raise KernelFileError(
                f"inputs() gives no default for {name!r}; expected {name}=<size>",
                path,
                definition_line(inputs),
            )
        if _is_plain_value(parameter.default):  # others cannot be overridden
            sizes[name] = _plain_value(parameter.default)
    return sizes


def _is_plain_value(value: Any) -> bool:
    return value is None or isinstance(value, (int, float, bool, str, torch.dtype))


def _plain_value(value: Any) -> Value:
    """Return a value for other processes and JSON: dtypes by name."""
    return str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else value


def _size_as_torch(name: str, value: Value, path: str) -> Any:
    return to_dtype(value, path) if name.endswith("dtype") and isinstance(value, str) else value


def to_dtype(name: str, path: str) -> torch.dtype:
    """Return the torch dtype of that name, or short name (bf16, fp16, fp32, fp64, fp8).

    Raises:
        ShapeError: no dtype has that name.
    """
    short = {
        "bf16": "bfloat16",
        "fp16": "float16",
        "fp32": "float32",
        "fp64": "float64",
        "fp8": "float8_e4m3fn",
    }
    dtype = getattr(torch, short.get(name, name), None)
    if not isinstance(dtype, torch.dtype):
        raise ShapeError(
            f"{path}: {name!r} is not a dtype; expected e.g. bfloat16, float16, float32"
        )
    return dtype


def _split_arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what ``inputs`` returned, as (args, kwargs)."""
    pair = isinstance(inputs, (tuple, list)) and len(inputs) == 2
    if pair and isinstance(inputs[0], (tuple, list)) and isinstance(inputs[1], dict):
        return tuple(inputs[0]), dict(inputs[1])
    if isinstance(inputs, dict):
        return (), dict(inputs)
    return (tuple(inputs), {}) if isinstance(inputs, (tuple, list)) else ((inputs,), {})


def _shapes_of_file(
    module: ModuleType, name: str, sizes: Mapping[str, Value]
) -> tuple[Mapping[str, Value], ...]:
    listed = getattr(module, name, ())
    if not isinstance(listed, (list, tuple)):
        raise KernelFileError(
            f"{name} is {listed!r}; expected a list of dicts", file_of_module(module)
        )
    for shape in listed:
        is_valid = isinstance(shape, dict) and set(shape) <= set(sizes)
        if not is_valid or not all(map(_is_plain_value, shape.values())):
            raise KernelFileError(
                f"{name} has {shape!r}; expected a dict over the sizes of inputs(): "
                f"{', '.join(sizes) or 'none'}, with numbers, words and dtypes for values",
                file_of_module(module),
            )
    return tuple({k: _plain_value(v) for k, v in shape.items()} for shape in listed)


_MOST_VALUES = 100_000  # listed for a parameter: each is kept and sent to workers, unlike a range


def space_of_file(module: ModuleType) -> Space:
    """Return a file's ``SPACE``.

    Raises:
        KernelFileError: it is not a dict of lists.
    """
    space = getattr(module, "SPACE", {})
    usable = isinstance(space, dict) and all(
        isinstance(v, (list, tuple, range)) and v for v in space.values()
    )
    if not usable:
        raise KernelFileError(
            f'SPACE is {space!r}; expected a dict of lists, as {{"BLOCK": [512, 1024]}}',
            file_of_module(module),
        )
    for name, values in space.items():
        if not isinstance(values, range) and len(values) > _MOST_VALUES:
            raise KernelFileError(
                f"SPACE[{name!r}] has {len(values):,} values, more than {_MOST_VALUES:,}: list "
                "fewer, or give a range",
                file_of_module(module),
            )
    plain = {n: v if isinstance(v, range) else list(map(_plain_value, v)) for n, v in space.items()}
    try:
        return Space(plain)
    except ParamsError as error:
        raise KernelFileError(f"SPACE: {error}", file_of_module(module)) from error


def _output_order(module: ModuleType, reference: Callable[..., Any]) -> tuple[str, ...]:
    listed = getattr(module, "OUTPUTS", ())
    named = (listed,) if isinstance(listed, str) else tuple(listed)
    names = inspect.signature(reference).parameters
    for name in named:
        if name not in names:
            raise KernelFileError(
                f"OUTPUTS names {name!r}; expected an argument of reference(): {', '.join(names)}",
                file_of_module(module),
                definition_line(reference),
            )
    return named


def tolerance_of(module: ModuleType) -> Tolerance | None:
    """Return a file's ``TOLERANCE``; ``None`` if it has none.

    Raises:
        KernelFileError: it is not a dict of `rtol` and `atol`, finite and not negative.
    """
    value = getattr(module, "TOLERANCE", None)
    if value is None:
        return None
    usable = isinstance(value, dict) and value and set(value) <= {"rtol", "atol"}
    numbers = usable and all(isinstance(v, (int, float)) for v in value.values())
    if not numbers or not all(0 <= v < math.inf for v in value.values()):
        raise KernelFileError(
            f'TOLERANCE is {value!r}; expected {{"rtol": 1e-2, "atol": 1e-2}}, neither negative '
            "nor NaN nor infinite",
            file_of_module(module),
        )
    only = next(iter(value.values()))
    return Tolerance(rtol=float(value.get("rtol", only)), atol=float(value.get("atol", only)))


def keyword_defaults(kernel: Callable[..., Any]) -> dict[str, Value]:
    """Return a kernel's keyword-only parameters with defaults: these may be tuned."""
    return {
        name: _plain_value(p.default)
        for name, p in inspect.signature(kernel).parameters.items()
        if p.kind is p.KEYWORD_ONLY and _is_plain_value(p.default)
    }


def handed_params(module: ModuleType | None) -> dict[str, Value]:
    """Return the parameters that a candidate hands on to ``kernel``, and their defaults.

    A file of another form than SolKit's has them if it has a ``SPACE`` and a function ``kernel``.
    """
    kernel = getattr(module, "kernel", None)
    if not getattr(module, "SPACE", None) or not callable(kernel):
        return {}
    return keyword_defaults(kernel)


def _accepted_keywords(kernel: Callable[..., Any], params: Iterable[str]) -> set[str]:
    """Return the names among `params` that `kernel` takes as keywords."""
    parameters = inspect.signature(kernel).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return set(params)
    return {name for name in params if name in parameters}
