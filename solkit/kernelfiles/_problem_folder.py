"""Common parts of problem folders: a definition, its workloads and a solution, each in JSON.

`ProblemFolderKernel` does what both benchmarks do with the records that they share (`_records`). It
makes the inputs of a workload and calls the reference's ``run`` with them. A solution returns its
outputs, or takes them as further arguments and writes them. `_sol_execbench` and
`_flashinfer_bench` hold what differs.

Beyond the benchmarks, a Python solution may have parameters: a ``SPACE``, a function ``kernel``
that has them as keyword-only parameters with defaults, and an entry point that takes them by name
and hands them on (``def run(x, **params)``). The benchmarks call it without.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from keyword import iskeyword
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from solkit.core import Candidate, KernelFile, Problem, Space, Tolerance, Value
from solkit.core.arithmetic import evaluate
from solkit.errors import KernelFileError, ParamsError, ShapeError
from solkit.kernelfiles._base import LoadedKernel, Workload
from solkit.kernelfiles._drawing import (
    draw_tensor,
    is_inexact,
    random_scalar,
    structured_indices,
    to_torch_dtype,
)
from solkit.kernelfiles._native import handed_params, space_of_file
from solkit.kernelfiles._records import (
    CustomInput,
    Definition,
    SafetensorsInput,
    ScalarInput,
    TensorSpec,
    WorkloadRecord,
)
from solkit.kernelfiles._safetensors import is_missing_or_pointer, read_tensor
from solkit.kernelfiles._solution import Solution, is_fake_device
from solkit.kernelfiles._source import (
    autotuned_space,
    blaming_user_code,
    check_call,
    import_text,
    restrict_autotuners,
    with_configs_kept,
)


@dataclass(frozen=True)
class ProblemFiles:
    """A problem folder as read.

    Attributes:
        path: the definition's file.
        definition: its content.
        workloads: in the file's order; may be empty.
        blob_roots: folders that paths of safetensors files are relative to.
        solution: the candidate, if given.
    """

    path: str
    definition: Definition
    workloads: Sequence[WorkloadRecord]
    blob_roots: tuple[Path, ...]
    solution: Solution | None


class ProblemFolderKernel(LoadedKernel):
    """A definition with its workloads, and a solution if one was given.

    A shape is a workload: the sizes of its variable axes, and its ``uuid`` if any two workloads
    have the same sizes. Sizes that no workload has change those of the first workload.
    """

    format: str
    """As `Problem.format` has it."""

    def __init__(self, files: ProblemFiles) -> None:
        self._files, self._definition = files, files.definition
        self._text_name = f"{files.path}[reference]"
        self._module = import_text(files.definition.reference, self._text_name)
        run = getattr(self._module, "run", None)
        if not callable(run):
            raise KernelFileError("reference has no function run(<inputs>)", files.path)
        self._run: Callable[..., Any] = run
        self._loaded: tuple[Callable[..., Any], ModuleType | None] | None = None
        first = files.workloads[0] if files.workloads else None
        self.description = KernelFile(
            problem=Problem(
                name=self._definition.name,
                path=files.path,
                format=self.format,
                reference="run",
                sizes={
                    **dict.fromkeys(self._definition.var_axes),
                    **(first.axes if first else {}),  # maybe more than the definition has
                    **({"uuid": first.uuid} if first and self._has_twins else {}),
                },
                shapes=self._distinct_shapes() or ({},),
            ),
            candidate=None if files.solution is None else self._describe_solution(files.solution),
        )

    # --------------------------------------------------------------------------- what differs

    @abc.abstractmethod
    def _compare(
        self, name: str, got: torch.Tensor, want: torch.Tensor, record: WorkloadRecord
    ) -> None:
        """Raise `AssertionError` if the benchmark rejects an output, both given in fp32."""

    @abc.abstractmethod
    def _tolerance(self, record: WorkloadRecord) -> Tolerance: ...

    def _drawn(self, name: str, shape: tuple[int, ...], device: str) -> torch.Tensor:
        """Random values for an input."""
        return draw_tensor(shape, self._definition.inputs[name].dtype, device)

    def _custom(self, record: WorkloadRecord, axes: Mapping[str, int], device: str) -> Any:
        """Return inputs that a function in the reference's text makes, by name."""
        del record, axes, device
        return {}

    def _empty(self, shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
        """Return an output for a solution to write."""
        return torch.empty(shape, dtype=dtype, device=device)

    # ------------------------------------------------------------------------ what they share

    def _draw_random(self, name: str, shape: tuple[int, ...], device: str) -> torch.Tensor:
        drawn = self._drawn(name, shape, device)
        return torch.softmax(drawn, dim=-1) if self._is_sampled and name == "probs" else drawn

    @property
    def _is_sampled(self) -> bool:
        return self._definition.op_type == "sampling"

    def _check(
        self, record: WorkloadRecord, inputs: Mapping[str, Any]
    ) -> Callable[[Any, Any], None]:
        """Return the benchmark's comparison; raises `AssertionError` if it rejects the outputs."""
        del inputs

        def check(got: Any, want: Any) -> None:
            got, want = outputs_that_agree(got, want)
            for name, mine, theirs in zip(self._definition.outputs, got, want, strict=True):
                self._compare(name, mine.to(torch.float32), theirs.to(torch.float32), record)

        return check

    # -------------------------------------------------------------------------------- the sizes

    @functools.cached_property
    def _has_twins(self) -> bool:
        """True if two workloads have the same sizes."""
        sizes = [tuple(sorted(record.axes.items())) for record in self._files.workloads]
        return len(set(sizes)) < len(sizes)

    def _distinct_shapes(self) -> tuple[Mapping[str, Value], ...]:
        return tuple(
            {**record.axes, **({"uuid": record.uuid} if self._has_twins else {})}
            for record in self._files.workloads
        )

    def full_shape(self, shape: Mapping[str, Value]) -> dict[str, Value]:
        """Return the sizes of the workload that `shape` names, with its ``uuid`` if that is needed.

        Raises:
            ShapeError: an axis is unknown, has no size or an invalid one, or no workload has that
                ``uuid``.
        """
        self._refuse_unknown_sizes(shape)
        record = self._workload_record(shape)
        is_named = "uuid" in shape or self._has_twins
        return {**record.axes, **({"uuid": record.uuid} if is_named else {})}

    def _refuse_unknown_sizes(self, shape: Mapping[str, Value]) -> None:
        """Raise `ShapeError` for a name that is neither an axis nor ``uuid``."""
        super().full_shape({name: size for name, size in shape.items() if name != "uuid"})

    def _workload_record(self, shape: Mapping[str, Value]) -> WorkloadRecord:
        uuid = shape.get("uuid")
        listed = [r for r in self._files.workloads if uuid is None or r.uuid == uuid]
        if uuid is not None and not listed:
            raise ShapeError(f"{self._files.path}: no workload has the uuid {uuid!r}")
        sizes = {
            name: self._checked_size(name, value) for name, value in shape.items() if name != "uuid"
        }
        for record in listed:
            if all(record.axes.get(name) == size for name, size in sizes.items()):
                return record
        base = listed[0] if listed else WorkloadRecord(uuid="none", axes={}, inputs={})
        return base.model_copy(update={"axes": self._all_axes(base.axes, sizes)})

    def _checked_size(self, name: str, value: Value) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ShapeError(f"{self._files.path}: {name}={value} is not a valid size of an axis")
        return value

    def _all_axes(self, others: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
        """Given sizes, those that follow from them, and the rest from a workload."""
        axes = self._with_derived({**others, **self._with_derived(sizes)})
        missing = self._axes_without_size(axes)
        if missing:
            raise ShapeError(
                f"{self._files.path}: no workload gives {', '.join(missing)} a size; "
                f"give it with --shape {','.join(f'{name}=<size>' for name in missing)}"
            )
        names = dict.fromkeys((*self._definition.var_axes, *others))
        return {name: axes[name] for name in names}

    def _axes_without_size(self, axes: Mapping[str, int]) -> list[str]:
        """Return axes without a size, except those whose size follows from earlier ones."""
        missing: list[str] = []
        for name in self._definition.var_axes:
            if name not in axes:
                missing.append(name)
                axes = self._with_derived({**axes, name: 1})
        return missing

    def _with_derived(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return sizes with those of constant axes, expressions and constraints (`a == b + 1`)."""
        axes = self._definition.axes.items()
        values = {**{name: axis.value for name, axis in axes if axis.type == "const"}, **sizes}
        for name, expression in self._axis_formulas():
            with contextlib.suppress(ValueError):  # a size is missing, or it is not arithmetic
                values.setdefault(name, int(evaluate(expression, values)))
        return values

    def _axis_formulas(self) -> list[tuple[str, str]]:
        axes = self._definition.axes
        formulas = [(name, axis.expression) for name, axis in axes.items() if axis.type == "expr"]
        for constraint in self._definition.constraints:
            name, equals, expression = (part.strip() for part in constraint.partition("=="))
            if equals and name in axes:
                formulas.append((name, expression))
        return formulas

    def _sizes_of_axes(self, record: WorkloadRecord) -> dict[str, int]:
        """Return every axis with its size.

        Raises:
            KernelFileError: the expression of one cannot be computed.
        """
        axes = self._with_derived(record.axes)
        for name, expression in self._axis_formulas():
            if name not in axes:
                names = ", ".join(axes)
                raise KernelFileError(
                    f"axis {name} is {expression!r}, which cannot be computed from {names}",
                    self._files.path,
                )
        return axes

    # ------------------------------------------------------------------------------ the workload

    def workload(
        self,
        shape: Mapping[str, Value],
        params: Mapping[str, Value] | None = None,
        device: str = "cuda",
    ) -> Workload:
        """See `LoadedKernel.workload`."""
        self._refuse_unknown_sizes(shape)
        record = self._workload_record(shape)
        kernel = self._load_solution(dict(params or {}), device)
        inputs = _Inputs(self, record, device)
        tensors = inputs.make()
        args = tuple(tensors.values())
        check_call(self._run, "run", args, {}, self._text_name, "the definition")
        solution = self._files.solution
        writes = solution is not None and solution.destination_passing
        return Workload(
            args=args,
            kwargs={},
            reference=self._reference(device),
            kernel=kernel,
            check=self._check(record, tensors),
            tolerance=self._tolerance(record),
            assumptions=tuple(inputs.assumptions),
            destinations=(lambda: self._destinations(record, device)) if writes else None,
        )

    def with_params(self, workload: Workload, params: Mapping[str, Value]) -> Workload:
        """See `LoadedKernel.with_params`."""
        device = next((str(t.device) for t in workload.tensors()), "cuda")
        return replace(workload, kernel=self._load_solution(dict(params), device))

    def _reference(self, device: str) -> Callable[..., list[torch.Tensor]]:
        names = tuple(self._definition.inputs)
        by_name = set(names) == set(inspect.signature(self._run).parameters)

        def reference(*inputs: Any) -> list[torch.Tensor]:
            with blaming_user_code(self._text_name, "calling run()"):
                # some definitions of FlashInfer-Bench list their inputs in another order
                named = dict(zip(names, inputs, strict=True))
                returned = self._run(**named) if by_name else self._run(*inputs)
                return self._outputs_in_order(returned, device)

        if all(name.isidentifier() and not iskeyword(name) for name in names):  # for reports
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters = [inspect.Parameter(name, kind) for name in names]
            reference.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return reference

    def _load_solution(self, params: dict[str, Value], device: str) -> Callable[..., Any] | None:
        solution = self._files.solution
        if solution is None:
            if params:
                raise ParamsError(f"{self._files.path}: there is no solution to give {params} to")
            return None
        if self._loaded is None:
            self._loaded = solution.load(device)
        function, module = self._loaded
        own = {name: params[name] for name in handed_params(module) if name in params}
        tuned = restrict_autotuners(module, params, own) if module is not None else set()
        if unknown := set(params) - tuned - own.keys():
            listed = ", ".join(sorted(unknown))
            raise ParamsError(
                f"{solution.path}: no autotuned kernel has a parameter {listed}; a solution takes "
                "no others, unless it has a SPACE and a function kernel"
            )
        if own:
            function = functools.partial(function, **own)
        if module is not None:
            function = with_configs_kept(function, module)
        if solution.destination_passing:
            return function

        def outputs(*inputs: Any) -> list[torch.Tensor]:
            return self._outputs_in_order(function(*inputs), device)

        outputs.returned = functools.partial(self._named_in_order, function)  # type: ignore[attr-defined]
        return outputs

    def _named_in_order(self, function: Callable[..., Any], *inputs: Any) -> Any:
        """Return what a solution returns, as it does; names come in the definition's order."""
        returned, names = function(*inputs), self._definition.outputs
        is_named = isinstance(returned, dict) and set(returned) == set(names)
        return {name: returned[name] for name in names} if is_named else returned

    def _describe_solution(self, solution: Solution) -> Candidate:
        """Return the candidate; one that fails to import has no parameters, and fails when run."""
        module = None
        if solution.builder == "python":
            with contextlib.suppress(KernelFileError):
                self._loaded = solution.load("cpu")  # fake or not, as every device is
                module = self._loaded[1]
        if module is None:
            return Candidate(solution.symbol, solution.path, {})
        own = handed_params(module)
        space = space_of_file(module) if own else autotuned_space(module)
        return Candidate(solution.symbol, solution.path, own, space)

    def space(self, shape: Mapping[str, Value]) -> Space:
        """See `LoadedKernel.space`. The solution may have a ``valid(params, sizes)``."""
        space, module = super().space(shape), self._loaded[1] if self._loaded else None
        valid = getattr(module, "valid", None)
        if valid is None or not handed_params(module):
            return space
        sizes = self.full_shape(shape)
        return space.where("valid() of the solution", lambda params: valid(params, sizes))

    def _destinations(self, record: WorkloadRecord, device: str) -> tuple[torch.Tensor, ...]:
        axes = self._sizes_of_axes(record)
        return tuple(
            self._empty(_sizes_of_spec(spec, axes) or (), to_torch_dtype(spec.dtype), device)
            for spec in self._definition.outputs.values()
        )

    def _outputs_in_order(self, returned: Any, device: str) -> list[torch.Tensor]:
        """Return what ``run`` returned, as one tensor per output.

        Raises:
            ValueError: the number of outputs differs from the definition's.
        """
        specs = self._definition.outputs
        if isinstance(returned, dict):
            lacking = [name for name in specs if name not in returned]
            if lacking:
                raise ValueError(f"run() returned no {', '.join(lacking)}")
            values = [returned[name] for name in specs]
        else:
            values = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        if len(values) != len(specs):
            raise ValueError(
                f"run() returned {len(values)} value(s) where the definition has "
                f"{len(specs)} output(s): {', '.join(specs)}"
            )
        return [
            value
            if isinstance(value, torch.Tensor)
            else torch.tensor(value, dtype=to_torch_dtype(spec.dtype), device=device)
            for value, spec in zip(values, specs.values(), strict=True)
        ]


class _Inputs:
    """Makes the inputs of one workload, and collects the assumptions about them."""

    def __init__(self, kernel: ProblemFolderKernel, record: WorkloadRecord, device: str) -> None:
        self._kernel, self._record, self._device = kernel, record, device
        self._axes = kernel._sizes_of_axes(record)
        self._is_fake = is_fake_device(device)
        self.assumptions: list[str] = []

    def make(self) -> dict[str, Any]:
        """Return every input by name, in the order of the definition."""
        specs = self._kernel._definition.inputs
        self._customs = self._kernel._custom(self._record, self._axes, self._device)
        return {name: self._make_input(name, spec) for name, spec in specs.items()}

    def _make_input(self, name: str, spec: TensorSpec) -> Any:
        source = self._record.inputs.get(name)
        if isinstance(source, ScalarInput):
            return source.value
        if isinstance(source, CustomInput):
            return self._call_custom_inputs(name)
        shape = _sizes_of_spec(spec, self._axes)
        if shape is None:
            return self._make_scalar(name, spec, source)
        if isinstance(source, SafetensorsInput):
            return self._read_tensor_file(name, spec, shape, source)
        if source is None and not is_inexact(spec.dtype):
            return self._make_stand_in(name, shape, spec, "no workload says what it holds")
        return self._kernel._draw_random(name, shape, self._device)

    def _make_scalar(self, name: str, spec: TensorSpec, source: Any) -> bool | int | float:
        if source is None and name in self._axes:
            return self._axes[name]
        if source is None and spec.dtype.startswith("int"):
            self.assumptions.append(f"Input {name} is 0: no workload says what it is.")
            return 0
        return random_scalar(spec.dtype)

    def _call_custom_inputs(self, name: str) -> Any:
        if name not in self._customs:
            path = self._kernel._text_name
            valid = ", ".join(self._customs) or "nothing"
            raise KernelFileError(f"the inputs' function makes no {name!r}; it makes {valid}", path)
        value = self._customs[name]
        return value.to(self._device) if isinstance(value, torch.Tensor) else value

    def _read_tensor_file(
        self, name: str, spec: TensorSpec, shape: tuple[int, ...], source: SafetensorsInput
    ) -> torch.Tensor:
        path = _resolve_below_roots(source.path, self._kernel._files.blob_roots)
        if is_missing_or_pointer(path):
            if not self._is_fake:
                raise KernelFileError(f"is not here, and holds input {name}", str(path))
            return self._make_stand_in(name, shape, spec, f"{path.name} is not here")
        tensor = read_tensor(path, source.tensor_key)
        if tuple(tensor.shape) == shape and tensor.dtype == to_torch_dtype(spec.dtype):
            return tensor.to(self._device)
        problem = (
            f"{source.tensor_key} is {tensor.dtype} {tuple(tensor.shape)}, where input {name} is "
            f"{spec.dtype} {shape}"
        )
        if not self._is_fake:
            raise KernelFileError(problem, str(path))
        return self._make_stand_in(name, shape, spec, problem)

    def _make_stand_in(
        self, name: str, shape: tuple[int, ...], spec: TensorSpec, why: str
    ) -> torch.Tensor:
        """Well-formed data in place of missing data."""
        stand_in = structured_indices(name, shape, self._axes)
        if stand_in is None:
            words = "is drawn at random"
            tensor = self._kernel._draw_random(name, shape, self._device)
        else:
            words, values = stand_in
            tensor = values.to(to_torch_dtype(spec.dtype)).to(self._device)
        self.assumptions.append(f"Input {name} {words}: {why}.")
        return tensor


def _resolve_below_roots(path: str, roots: Sequence[Path]) -> Path:
    """Return a path below one of the roots; the path may repeat the root's last folders."""
    parts = Path(path).parts
    tails = [Path(*parts[start:]) for start in range(len(parts))]
    files = (root / tail for root in roots for tail in tails if (root / tail).is_file())
    return next(files, roots[0] / path)


def _sizes_of_spec(spec: TensorSpec, axes: Mapping[str, int]) -> tuple[int, ...] | None:
    if spec.shape is None:
        return None
    return tuple((axes[axis] if axis in axes else int(evaluate(axis, axes))) for axis in spec.shape)


def outputs_that_agree(*outputs: Any) -> list[Sequence[torch.Tensor]]:
    """Return outputs as lists; raise `AssertionError` if number, shape or dtype differ."""
    listed = [[output] if isinstance(output, torch.Tensor) else output for output in outputs]
    actual, expected = ([(tuple(t.shape), t.dtype) for t in tensors] for tensors in listed)
    assert actual == expected, f"outputs are {actual} where the reference has {expected}"
    return listed
