"""GPU MODE's form, unchanged: `custom_kernel(data)` for a `reference.py` with its `task.yml`.

https://github.com/gpu-mode/reference-kernels. The problem has `generate_input`, which takes sizes
and a seed, `ref_kernel`, and `check_implementation(data, output)`, which returns what is wrong. Its
sizes are those of `task.yml`: benchmarks are the shapes, tests are held out. SolKit draws the seed,
as a candidate could know the published ones.

Tensors of `data` without values are memory for outputs: each call gets its own. An output is no
wider than the widest floating tensor of `data`: references may be more exact than any answer.
"""

# mypy: disable-error-code="no-untyped-call"
# (torch's dispatch modes are untyped)

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from solkit.core import Candidate, KernelFile, Problem, Value
from solkit.core.parsing import syntax_tree
from solkit.core.syntax import names_bound_by
from solkit.errors import KernelFileError, ParamsError
from solkit.kernelfiles._base import LoadedKernel, Workload
from solkit.kernelfiles._source import (
    autotuned_space,
    blaming_user_code,
    file_of_module,
    import_file,
    restrict_autotuners,
    with_configs_kept,
)

_CANDIDATE, _INPUTS, _REFERENCE, _CHECK = (
    "custom_kernel",
    "generate_input",
    "ref_kernel",
    "check_implementation",
)
_SEED = "seed"


def recognises(path: str, reference: str | None) -> bool:
    """Tell whether a file is a submission or a problem of this form; it is not imported."""
    names = _bound_names(reference or path)
    if names & {"reference", "Model", "ModelNew", "LAUNCH"}:
        return False
    return {_INPUTS, _REFERENCE} <= names or (reference is None and _CANDIDATE in names)


def load_submission(path: str, reference: str | None) -> GpuModeKernel:
    """Import a problem, and the submission for it.

    Args:
        path: the submission, or the problem alone.
        reference: the problem's ``reference.py``; by default beside the submission, or above.

    Raises:
        KernelFileError: there is no problem; or a file fails to import.
    """
    is_submission = _CANDIDATE in _bound_names(path)
    problem = reference or (_problem_near(path) if is_submission else path)
    for folder in _folders_of_task(Path(problem)):
        sys.path.append(folder)
    problem_module = import_file(problem)
    own = problem_module if Path(path).samefile(problem) else import_file(path)
    return GpuModeKernel(own, problem_module)


def _bound_names(path: str) -> set[str]:
    try:
        tree = syntax_tree(Path(path).read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):  # importing it says why
        return set()
    return {name for statement in tree.body for name in names_bound_by(statement)}


def _problem_near(path: str) -> str:
    for folder in Path(path).resolve().parents[:2]:
        if {_INPUTS, _REFERENCE} <= _bound_names(str(folder / "reference.py")):
            return str(folder / "reference.py")
    raise KernelFileError(
        f"has {_CANDIDATE}(), as GPU MODE's submissions do, but no problem next to it: "
        "name one with --reference reference.py, which needs its task.py, task.yml and utils.py",
        path,
    )


def _task_text(problem: Path) -> str:
    file = problem.with_name("task.yml")
    return file.read_text("utf-8") if file.is_file() else ""


def _folders_of_task(problem: Path) -> list[str]:
    """Return the folders of the files that are put beside the problem to run it."""
    listed = (entry.get("source") for entry in _entries(_task_text(problem), "files"))
    sources = (problem.parent / source for source in listed if isinstance(source, str))
    return sorted({str(source.resolve().parent) for source in sources if source.is_file()})


def _entries(text: str, key: str) -> Iterator[Mapping[str, Any]]:
    """Return the mappings, one a line, that a key of ``task.yml`` lists."""
    block = re.search(rf"^{key}:[^\n]*\n((?:[ \t#-].*\n?|\n)*)", text, re.MULTILINE)
    for line in block[1].splitlines() if block else ():
        if (match := re.match(r"\s*-\s*(\{.*\})", line)) is not None:
            try:
                entry = ast.literal_eval(match[1])
            except (SyntaxError, ValueError):
                continue
            yield entry


def _shapes_of_task(text: str, key: str) -> tuple[dict[str, Value], ...]:
    """Return the shapes, without seeds and without repetitions; lists are texts."""
    shapes = [
        {name: _plain(value) for name, value in entry.items() if name != _SEED}
        for entry in _entries(text, key)
    ]
    return tuple(shape for place, shape in enumerate(shapes) if shape not in shapes[:place])


def _plain(value: Any) -> Value:
    return value if value is None or isinstance(value, (int, float, str)) else repr(value)


def _sizes_of(
    parameters: Mapping[str, inspect.Parameter], shapes: Sequence[Mapping[str, Value]], path: str
) -> dict[str, Value]:
    """Return the defaults of parameters, or what the first shape with such a size says.

    Raises:
        KernelFileError: a parameter has neither.
    """
    listed = {name: value for shape in reversed(shapes) for name, value in shape.items()}
    defaults = {n: _plain(p.default) for n, p in parameters.items() if p.default is not p.empty}
    lacking = parameters.keys() - listed.keys() - defaults.keys()
    if lacking:
        raise KernelFileError(
            f"{_INPUTS}() has no default for {', '.join(sorted(lacking))}, and no task.yml next to "
            "it lists benchmarks",
            path,
        )
    return {name: defaults[name] if name in defaults else listed[name] for name in parameters}


class GpuModeKernel(LoadedKernel):
    """A problem of GPU MODE, and a submission for it if it has one."""

    def __init__(self, module: ModuleType, problem_module: ModuleType) -> None:
        self._module, self._problem_module = module, problem_module
        path = file_of_module(problem_module)
        task = _task_text(Path(path))
        shapes = _shapes_of_task(task, "benchmarks") or _shapes_of_task(task, "tests")
        parameters = dict(inspect.signature(problem_module.generate_input).parameters)
        self._takes_seed = parameters.pop(_SEED, None) is not None
        candidate = None
        if hasattr(module, _CANDIDATE):
            own = file_of_module(module)
            candidate = Candidate(_CANDIDATE, own, {}, autotuned_space(module))
        self.description = KernelFile(
            problem=Problem(
                name=Path(path).resolve().parent.name,
                path=path,
                format="gpu-mode",
                reference=_REFERENCE,
                sizes=_sizes_of(parameters, shapes, path),
                shapes=shapes or ({},),
                held_out_shapes=_shapes_of_task(task, "tests"),
            ),
            candidate=candidate,
        )

    def workload(
        self,
        shape: Mapping[str, Value],
        params: Mapping[str, Value] | None = None,
        device: str = "cuda",
    ) -> Workload:
        """See `LoadedKernel.workload`."""
        args = self._make_inputs(shape, device)
        workload = Workload(args, {}, self._run_reference, None, check_of=self._check_of)
        return self.with_params(workload.with_inputs(args, {}), params or {})

    def drawn(
        self, workload: Workload, shape: Mapping[str, Value], device: str = "cuda"
    ) -> Workload:
        """See `LoadedKernel.drawn`."""
        return workload.with_inputs(self._make_inputs(shape, device), {})

    def with_params(self, workload: Workload, params: Mapping[str, Value]) -> Workload:
        """See `LoadedKernel.with_params`."""
        unknown = set(params) - restrict_autotuners(self._module, params)
        if unknown:
            raise ParamsError(
                f"{file_of_module(self._module)}: no autotuned kernel has a parameter "
                f"{', '.join(sorted(unknown))}; {_CANDIDATE}() takes no others"
            )
        submission = getattr(self._module, _CANDIDATE, None)
        if submission is None:
            return workload

        def kernel(data: Any) -> Any:
            return submission(_with_outputs(data))

        return replace(workload, kernel=with_configs_kept(kernel, self._module))

    def _make_inputs(self, shape: Mapping[str, Value], device: str) -> tuple[Any, ...]:
        sizes = {**self.description.problem.sizes, **self.full_shape(shape)}
        arguments = {name: _of_text(value) for name, value in sizes.items()}
        if self._takes_seed:
            arguments[_SEED] = torch.initial_seed() % 2**31  # which `seed_everything` sets
        empties = _Empties()
        path = self.description.problem.path
        with empties, torch.device(device), blaming_user_code(path, f"calling {_INPUTS}()"):
            data = self._problem_module.generate_input(**arguments)
        return (tree_map(partial(_as_input, empties, device), data),)

    def _run_reference(self, data: Any) -> Any:
        arguments = _with_outputs(data)
        dtypes = [t.dtype for t in tree_leaves(arguments) if isinstance(t, torch.Tensor)]
        floats = [dtype for dtype in dtypes if dtype.is_floating_point]
        widest = max(floats, key=attrgetter("itemsize"), default=torch.float64)
        returned = self._problem_module.ref_kernel(arguments)
        self._form = tree_flatten(returned)[1]
        return tree_map(partial(_no_wider, widest), returned)

    def _check_of(self, args: tuple[Any, ...]) -> Callable[[Any, Any], Any]:
        """Return the problem's own check on these inputs."""

        def check(got: Any, _want: Any) -> None:
            leaves = got if isinstance(got, list) else [got]
            output = tree_unflatten(leaves, self._form)
            said = getattr(self._problem_module, _CHECK)(_with_outputs(args[0]), output)
            accepted, why = said if isinstance(said, tuple) else (not said, said)
            assert accepted, why

        return check


def _of_text(value: Value) -> Any:
    is_list = isinstance(value, str) and value.startswith(("[", "("))
    return ast.literal_eval(value) if is_list else value  # type: ignore[arg-type]  # a text


def _no_wider(widest: torch.dtype, value: Any) -> Any:
    is_wider = (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype.itemsize > widest.itemsize
    )
    return value.to(widest) if is_wider else value


@dataclass(frozen=True)
class _Output:
    """Form of a tensor among the inputs that holds no values: memory to write an output to."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: str


def _with_outputs(data: Any) -> Any:
    """Return inputs with new memory for each output."""
    return tree_map(
        lambda leaf: (
            torch.empty_strided(leaf.shape, leaf.strides, dtype=leaf.dtype, device=leaf.device)
            if isinstance(leaf, _Output)
            else leaf
        ),
        data,
    )


class _Empties(TorchDispatchMode):
    """Watch for tensors that are made without values, and for those that get some."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[torch.Tensor] = []
        self._empty: set[int] = set()

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return _storage(tensor) in self._empty and tensor.numel() > 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and note what it does."""
        returned = func(*args, **(kwargs or {}))
        if func._schema.is_mutable:
            leaves = tree_leaves((args, kwargs))
            self._empty -= {_storage(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)}
        elif "empty" in func._schema.name:
            self._kept.append(returned)  # no other tensor gets its address meanwhile
            self._empty.add(_storage(returned))
        return returned


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _as_input(empties: _Empties, device: str, leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf in empties:
        return _Output(tuple(leaf.shape), leaf.stride(), leaf.dtype, device)
    return leaf.to(device)
