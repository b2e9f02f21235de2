"""A plain module with a `@triton.jit` kernel, and a small description of how to launch it.

The description is a dict `LAUNCH` in the module, or, for a module that must stay as it is, the
same keys in ``<stem>.launch.toml`` beside it::

    sizes = { N = 1048576 }                 # what --shape may override
    args = { x_ptr = "fp32[N]", idx_ptr = "int64[N] < 1000", out_ptr = "fp32[N]", n = "N" }
    outputs = ["out_ptr"]                   # written; allocated afresh for each call
    constants = { BLOCK = 1024, HEAD = "N" }        # what --params may override; sizes by name
    grid = ["cdiv(N, BLOCK)"]
    kernel = "add_kernel"                   # where the module has several
    shapes = [{ N = 4096 }]                 # optional workloads

A ``reference`` in the module, if any, takes the arguments that are not outputs and returns the
outputs. Without one the bound counts the arguments' bytes and no operations.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from solkit.core import Candidate, KernelFile, Problem, Value
from solkit.core.arithmetic import FUNCTIONS, evaluate, names_in
from solkit.core.toml import tomllib
from solkit.errors import KernelFileError, ParamsError, ShapeError
from solkit.kernelfiles._base import LoadedKernel, Workload
from solkit.kernelfiles._native import to_dtype, tolerance_of
from solkit.kernelfiles._source import (
    autotuned_space,
    autotuner_of,
    blaming_user_code,
    check_call,
    file_of_module,
    restrict_autotuners,
)

LAUNCH_KEYS = {"kernel", "args", "sizes", "constants", "grid", "outputs", "shapes"}
_TENSOR = re.compile(r"^(?P<dtype>\w+)\[(?P<dims>[^\]]*)\](\s*<\s*(?P<below>.+))?$")


def recognises(module: ModuleType, reference: ModuleType | None) -> bool:
    """Tell whether the module holds a Triton kernel and a launch description."""
    del reference
    return bool(_triton_kernels(module)) and (
        hasattr(module, "LAUNCH") or _launch_description_path(module).is_file()
    )


def _triton_kernels(module: ModuleType) -> dict[str, Any]:
    launchable = ("JITFunction", "Autotuner", "Heuristics")
    return {k: v for k, v in vars(module).items() if type(v).__name__ in launchable}


def _launch_description_path(module: ModuleType) -> Path:
    return Path(file_of_module(module)).with_suffix(".launch.toml")


def _places_left_open(place: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the places of a launch description that `solkit init` left open."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _places_left_open(f"{place}[{key!r}]", inner)
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            yield from _places_left_open(f"{place}[{i}]", inner)
    elif isinstance(value, str) and value.startswith("TODO"):
        yield place, value


class TritonKernel(LoadedKernel):
    """One Triton kernel with its launch description.

    Attributes:
        keys: that a description may have.
        form: of the file.
    """

    keys = LAUNCH_KEYS
    form = "triton"

    def __init__(self, module: ModuleType, problem_module: ModuleType) -> None:
        self._module = module
        self._path = file_of_module(module)
        self._launch = self._description()
        self._name, self._jit = self._find_kernel()
        self._reference = getattr(problem_module, "reference", None)
        self._outputs = tuple(self._launch.get("outputs", ()))
        self._check_names()
        self.description = KernelFile(
            problem=Problem(
                name=Path(self._path).stem,
                path=file_of_module(problem_module) if self._reference is not None else self._path,
                format=self.form,
                reference="reference" if self._reference is not None else None,
                sizes=dict(self._launch.get("sizes", {})),
                shapes=tuple(self._launch.get("shapes", ())) or ({},),
                tolerance=tolerance_of(problem_module),
            ),
            candidate=Candidate(
                self._name,
                self._path,
                dict(self._launch.get("constants", {})),
                autotuned_space(self._module),
            ),
        )

    def _description(self) -> dict[str, Any]:
        if hasattr(self._module, "LAUNCH"):
            launch, path = self._module.LAUNCH, self._path
        else:
            path = str(self._description_path())
            with blaming_user_code(path, "reading it as TOML"):
                launch = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(launch, dict):
            raise KernelFileError(f"LAUNCH is {launch!r}; expected a dict", path)
        unknown = set(launch) - self.keys
        missing = {"args", "grid", "outputs"} - set(launch)
        if unknown or missing:
            raise KernelFileError(
                f"the launch description lacks {sorted(missing)} and has unknown "
                f"{sorted(unknown)}; its keys are: {', '.join(sorted(self.keys))}",
                path,
            )
        if todos := [f"{place}: {text}" for place, text in _places_left_open("LAUNCH", launch)]:
            raise KernelFileError(
                f"the launch description has {len(todos)} TODO left: {'; '.join(todos)}", path
            )
        return dict(launch)

    def _description_path(self) -> Path:
        return _launch_description_path(self._module)

    def _find_kernel(self) -> tuple[str, Any]:
        kernels = _triton_kernels(self._module)
        name = self._launch.get("kernel", next(iter(kernels)) if len(kernels) == 1 else None)
        if name not in kernels:
            raise KernelFileError(
                f"the launch description's kernel is {name!r}; "
                f"expected one of: {', '.join(kernels)}",
                self._path,
            )
        return name, kernels[name]

    def _check_names(self) -> None:
        names = set(inspect.signature(_innermost_function(self._jit)).parameters)
        for name in [*self._launch["args"], *self._outputs]:
            if name not in names:
                raise KernelFileError(
                    f"the launch description names {name!r}; {self._name} takes: "
                    f"{', '.join(inspect.signature(_innermost_function(self._jit)).parameters)}",
                    self._path,
                )

    def workload(
        self,
        shape: Mapping[str, Value],
        params: Mapping[str, Value] | None = None,
        device: str = "cuda",
    ) -> Workload:
        """See `LoadedKernel.workload`."""
        sizes = self.full_shape(shape)
        constants = self._launch_constants(dict(params or {}), sizes)
        specs = {k: v for k, v in self._launch["args"].items() if k not in self._outputs}
        tensors = {
            name: self._make_argument(name, spec, sizes, device) for name, spec in specs.items()
        }
        if self._reference is not None:
            args = tuple(tensors.values())
            path = self.description.problem.path
            check_call(self._reference, "reference", args, {}, path, "the launch description")
        return Workload(
            args=tuple(tensors.values()),
            kwargs={},
            reference=self._reference,
            kernel=self._make_launcher(tuple(tensors), sizes, constants, device),
        )

    def _launch_constants(
        self, params: dict[str, Value], sizes: Mapping[str, Value]
    ) -> dict[str, Value]:
        constants = dict(self._launch.get("constants", {}))
        options = {"num_warps", "num_stages", "num_ctas", "maxnreg"}
        tuned = restrict_autotuners(self._module, params)
        for name in params:
            if name not in constants and name not in options and name not in tuned:
                raise ParamsError(
                    f"{self._path}: the launch description has no constant {name!r}; "
                    f"it has: {', '.join(constants) or 'none'}"
                )
        passed = {k: v for k, v in params.items() if k not in tuned}  # the tuner passes the others
        listed = {**constants, **passed}
        return {
            name: self._evaluate_constant(value, sizes, listed) for name, value in listed.items()
        }

    def _evaluate_constant(
        self, value: Value, sizes: Mapping[str, Value], constants: Mapping[str, Value]
    ) -> Value:
        """Return a constant: text that names sizes or constants is evaluated, other text stays."""
        scope = {**{k: v for k, v in constants.items() if not isinstance(v, str)}, **sizes}
        if not isinstance(value, str) or not names_in(value) & scope.keys():
            return value
        constant: Value = _evaluate_arithmetic(value, scope, self._path)
        return constant

    def _make_launcher(
        self,
        names: tuple[str, ...],
        sizes: Mapping[str, Value],
        constants: dict[str, Value],
        device: str,
    ) -> Callable[..., Any]:
        axes = self._launch["grid"]
        listed = [axes] if isinstance(axes, (str, int)) else list(axes)

        def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
            scope = {**meta, **sizes, **constants}
            return tuple(int(_evaluate_arithmetic(axis, scope, self._path)) for axis in listed)

        start = self._launcher(grid, constants)

        def kernel(*args: Any) -> list[torch.Tensor]:
            outs = {
                name: self._make_argument(
                    name, self._launch["args"][name], sizes, device, empty=True
                )
                for name in self._outputs
            }
            start({**dict(zip(names, args)), **outs})
            return list(outs.values())

        return kernel

    def _launcher(
        self, grid: Callable[[Mapping[str, Any]], tuple[int, ...]], constants: Mapping[str, Value]
    ) -> Callable[[Mapping[str, Any]], None]:
        """Return a function that launches the kernel with arguments by name."""
        if autotuner_of(self._jit) is None:
            grid({})  # fails now if it names an unknown constant

        def start(arguments: Mapping[str, Any]) -> None:
            self._jit[grid](**arguments, **constants)

        return start

    def _evaluate(self, expression: Any, scope: Mapping[str, Value]) -> Any:
        return _evaluate_arithmetic(expression, scope, self._path)

    def _make_argument(
        self, name: str, spec: Any, sizes: Mapping[str, Value], device: str, empty: bool = False
    ) -> Any:
        match = _TENSOR.match(str(spec))
        if match is None:
            return _evaluate_arithmetic(spec, sizes, self._path)
        dims = [d for d in match["dims"].split(",") if d.strip()]
        shape = [int(_evaluate_arithmetic(d, sizes, self._path)) for d in dims]
        try:
            dtype = to_dtype(match["dtype"], self._path)
        except ShapeError as error:
            raise KernelFileError(f"argument {name} is {spec!r}: {error}", self._path) from error
        if empty:
            return torch.empty(shape, dtype=dtype, device=device)
        if dtype.is_floating_point or dtype.is_complex:
            return torch.randn(shape, device=device).to(dtype)
        below = int(_evaluate_arithmetic(match["below"] or 1, sizes, self._path))
        return torch.randint(0, below, shape, device=device).to(dtype)


def _innermost_function(jit: Any) -> Any:
    """Return the Python function under autotuners, heuristics and the JIT decorator."""
    while hasattr(jit, "fn"):
        jit = jit.fn
    return jit


def _evaluate_arithmetic(expression: Any, scope: Mapping[str, Value], path: str) -> Any:
    """Arithmetic over sizes and constants: numbers, names, + - * / // %, cdiv, min, max."""
    if not isinstance(expression, str):
        return expression
    try:
        return evaluate(expression, scope)
    except ValueError as error:
        raise KernelFileError(
            f"cannot evaluate {expression!r} in the launch description ({error}); it may use "
            f"{', '.join([*scope, *FUNCTIONS])} and + - * / // %",
            path,
        ) from error
