"""Base of all formats of kernel files: a description and, per shape, a workload to run.

It runs in a child process on fake tensors (`solkit.processes.jobs`), or in the measuring process on
real ones.
"""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path, tree_leaves

from solkit.core import Deployment, KernelFile, Space, Tolerance, Value
from solkit.core.values import check_sizes, is_number
from solkit.errors import UnsupportedError

Function = Callable[..., Any]


@dataclass(frozen=True)
class Workload:
    """A problem at one shape with its inputs made, ready to be called.

    Attributes:
        args, kwargs: the inputs.
        reference: what must be computed; ``None`` if the file has no reference.
        kernel: the candidate with its parameters bound; ``None`` if the file has no candidate.
        outputs: names of arguments that are written (destination passing).
        check: the file's own comparison ``check(got, want)``, if any.
        tolerance: of this shape, if it differs from the problem's.
        assumptions: about the inputs, each a sentence.
        destinations: makes the tensors that the candidate writes, its arguments after the inputs.
        again: makes the same workload on other inputs; ``None`` if that is not known.
        check_of: makes `check` for inputs, where a problem's own comparison looks at them.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    reference: Function | None
    kernel: Function | None
    outputs: tuple[str, ...] = ()
    check: Function | None = None
    tolerance: Tolerance | None = None
    assumptions: tuple[str, ...] = ()
    destinations: Callable[[], tuple[torch.Tensor, ...]] | None = None
    again: Callable[[], Workload] | None = None
    check_of: Callable[[tuple[Any, ...]], Function] | None = None

    def run_reference(self) -> list[torch.Tensor]:
        """Call the reference; its returned tensors, then its written arguments."""
        assert self.reference is not None
        return self._run_on_inputs(self.reference)

    def run_kernel(self) -> list[torch.Tensor]:
        """Call the candidate; its output tensors in the order of `run_reference`."""
        assert self.kernel is not None
        if self.destinations is None:
            return self._run_on_inputs(self.kernel)
        written = self.destinations()
        self.kernel(*self.args, *written, **self.kwargs)
        return list(written)

    def with_destinations(self) -> Workload:
        """Return the same workload with its destinations made, outside of the candidate's time."""
        if self.destinations is None:
            return self
        destinations = self.destinations()
        return replace(self, destinations=lambda: destinations)

    def candidate_call(self) -> Callable[[], Any]:
        """Return a call of the candidate alone: its destinations are made before."""
        assert self.kernel is not None
        written = () if self.destinations is None else self.destinations()
        return partial(self.kernel, *self.args, *written, **self.kwargs)

    def with_inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Workload:
        """Return the same workload on other inputs."""
        check = self.check
        if self.check_of is not None:
            check = self.check_of(args) if args else None
        return replace(self, args=args, kwargs=kwargs, check=check)

    def tensors(self) -> list[torch.Tensor]:
        """Return all tensors among the inputs, in their order."""
        leaves = tree_leaves((self.args, dict(self.kwargs)))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def names(self) -> list[str]:
        """Return names that the reference, or else the candidate, gives to `tensors`."""
        function = self.reference or self.kernel
        assert function is not None
        places = _first_argument_names(function, len(self.args))
        named = [*zip(places, self.args), *self.kwargs.items()]
        return [
            f"{name}{keystr(path)}"
            for name, arg in named
            for path, leaf in tree_flatten_with_path(arg)[0]
            if isinstance(leaf, torch.Tensor)
        ]

    def written_arguments(self) -> list[torch.Tensor]:
        """Return the tensors of the arguments named in `outputs`, in that order."""
        if not self.outputs:
            return []
        function = self.reference or self.kernel
        assert function is not None
        bound = inspect.signature(function).bind(*self.args, **self.kwargs).arguments
        leaves = tree_flatten([bound[name] for name in self.outputs])[0]  # lists of tensors, too
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def _run_on_inputs(self, function: Function) -> list[torch.Tensor]:
        returned = function(*self.args, **self.kwargs)
        tensors = [leaf for leaf in tree_flatten(returned)[0] if isinstance(leaf, torch.Tensor)]
        written = self.written_arguments()
        return [t for t in tensors if not any(t is w for w in written)] + written


def _first_argument_names(function: Function, count: int) -> list[str]:
    """Return names of a function's first arguments."""
    owner = getattr(function, "model", function)  # of a function that calls a module
    callee = owner.forward if isinstance(owner, torch.nn.Module) else owner
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = list(inspect.signature(callee).parameters.values())
    except (TypeError, ValueError):  # of C code
        parameters = []
    names = [parameter.name for parameter in parameters if parameter.kind in kinds][:count]
    return [*names, *(f"argument {n}" for n in range(len(names) + 1, count + 1))]


class LoadedKernel(abc.ABC):
    """A kernel file, imported.

    Attributes:
        description: what a process without torch may know.
    """

    description: KernelFile

    @abc.abstractmethod
    def workload(
        self,
        shape: Mapping[str, Value],
        params: Mapping[str, Value] | None = None,
        device: str = "cuda",
    ) -> Workload:
        """Make the inputs for a shape and bind the candidate's parameters.

        Raises:
            KernelFileError: the file's own code failed; names its line.
            ShapeError: `shape` has an unknown size, or a word for a number.
            ParamsError: `params` has an unknown parameter.
        """

    def drawn(
        self,
        workload: Workload,  # noqa: ARG002 - forms with weights need it
        shape: Mapping[str, Value],
        device: str = "cuda",
    ) -> Workload:
        """Return a workload of this problem on inputs drawn anew; the weights of a module stay.

        Raises:
            KernelFileError: as `workload`.
        """
        return self.workload(shape, {}, device)

    def with_params(
        self,
        workload: Workload,  # noqa: ARG002 - forms that can do it need it
        params: Mapping[str, Value],
    ) -> Workload:
        """Return the same workload and inputs with other parameters of the candidate.

        Raises:
            ParamsError: `params` has an unknown parameter.
            UnsupportedError: files of this form bind parameters only together with inputs.
        """
        path, kind = self.description.path, self.description.problem.format
        names = ", ".join(params)
        raise UnsupportedError(f"{path}: {kind} files bind {names} only together with inputs")

    def space(self, shape: Mapping[str, Value]) -> Space:  # noqa: ARG002 - some forms need it
        """Return the candidate's space at a shape: its legal points.

        Raises:
            ShapeError: `shape` has an unknown size, or a word for a number.
        """
        candidate = self.description.candidate
        return candidate.space if candidate is not None else Space()

    def deployment(self, shape: Mapping[str, Value]) -> Deployment | None:  # noqa: ARG002 - as above
        """Return how a program launches the candidate at a shape; ``None`` if that is not known.

        Raises:
            KernelFileError: the file says it in another form.
        """
        return None

    def full_shape(self, shape: Mapping[str, Value]) -> dict[str, Value]:
        """Return every size with its value: all numbers, and others (a dtype) that `shape` has.

        Raises:
            ShapeError: `shape` has an unknown size, or a word for a number.
        """
        problem = self.description.problem
        check_sizes(problem.path, shape, problem.sizes)
        numbers = {name: value for name, value in problem.sizes.items() if is_number(value)}
        return {**numbers, **shape}
