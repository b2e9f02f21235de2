"""The best algorithm of a problem: traced, derived, run for real and costed, in a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from solkit import kernelfiles
from solkit.adapters import fake_cuda
from solkit.analysis.dependencies import Reads, Stamp
from solkit.analysis.problem import _problem_alone, _program_and_work
from solkit.analysis.worker import fake_device
from solkit.core import Device, PlanStudy, Value
from solkit.kernelfiles import LoadedKernel, Workload
from solkit.roofline.best.checking import compiled, equal_sizes
from solkit.roofline.best.graph import NoPlanError
from solkit.roofline.best.search import Derivation, derive
from solkit.roofline.best.tracing import trace_graph

Shape = Mapping[str, Value]


def best_study(
    path: str, reference: str | None, device: Device, shape: Shape
) -> tuple[PlanStudy, dict[str, Stamp]]:
    """Return the plan of a kernel file's problem at a shape, with its work, and the files read.

    Args:
        path: the kernel file.
        reference: the file with the reference, if `path` lacks one.
        device: the target.
        shape: sizes to override.

    Raises:
        InputError: the file or the shape is at fault.
    """
    reads = Reads()
    fake_device(device)
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path, reference)
    return study_plan_of(loaded, shape), reads.new()


def study_plan_of(loaded: LoadedKernel, shape: Shape) -> PlanStudy:
    """Return the plan of a loaded file: see `best_study`. Call it outside of fake tensors."""
    if loaded.description.problem.reference is None:
        return PlanStudy(reason="the file has no reference")
    try:
        derivation = _derived(loaded, shape)
        shapes = equal_sizes(derivation)
        work = _work_of(derivation, loaded, shape)
    except NoPlanError as error:
        return PlanStudy(reason=str(error))
    except RecursionError:
        return PlanStudy(reason="its program is too deep")
    graph = derivation.graph
    return PlanStudy(
        steps=derivation.steps,
        code=_written(derivation.code(), graph.names, graph.places),
        places=graph.places,
        checked=shapes,
        work=work,
    )


def _derived(loaded: LoadedKernel, shape: Shape) -> Derivation:
    with fake_cuda.fake_tensors():
        workload, _ = _problem_alone(loaded, shape, {})
        if workload.outputs:
            raise NoPlanError("it writes its results to arguments")
        with fake_cuda.watching_guesses() as guesses, fake_cuda.attention_taken_apart():
            graph = trace_graph(workload.run_reference, _inputs_of(workload))
    if guesses:
        raise NoPlanError("its path depends on data")
    return derive(graph)


def _inputs_of(workload: Workload) -> dict[str, torch.Tensor]:
    """Return the tensors of a call by where it finds them: arguments, then a module's weights."""
    inputs = dict(zip(workload.names(), workload.tensors(), strict=True))
    model: Any = getattr(workload.reference, "model", None)
    if isinstance(model, torch.nn.Module):
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            inputs[f"self.{name}"] = tensor
        for owner, module in model.named_modules():
            for name, tensor in vars(module).items():
                if isinstance(tensor, torch.Tensor):
                    inputs[f"self.{owner}.{name}".replace("..", ".")] = tensor
    return inputs


def _work_of(derivation: Derivation, loaded: LoadedKernel, shape: Shape) -> Any:
    """Cost the plan as any reference is costed, on inputs made in the same way."""
    plan = compiled(derivation.code(), "plan")
    with fake_cuda.fake_tensors(), fake_cuda.watching_guesses():
        workload, arguments = _problem_alone(loaded, shape, {})
        inputs = _inputs_of(workload)
        tensors = [inputs[place] for place in derivation.graph.places]

        def call(*_: Any, **__: Any) -> list[torch.Tensor]:
            with torch.no_grad():
                return plan(*tensors)

        call.model = getattr(workload.reference, "model", None)  # type: ignore[attr-defined]
        planned = replace(workload, reference=call, again=None)
        _, work, outputs = _program_and_work(planned, loaded, arguments)
    shapes = [tuple(t.shape) for t in outputs]
    values = [derivation.graph.values[v] for v in derivation.graph.results]
    if shapes != [v.shape for v in values]:
        raise NoPlanError("the plan returned another shape")
    return work


def _written(code: str, names: tuple[str, ...], places: tuple[str, ...]) -> str:
    """Return a plan's code as a file, with where a call finds its arguments."""
    head = ["import torch"]
    if "F." in code:
        head.append("import torch.nn.functional as F")
    if "aten." in code:
        head += ["", "aten = torch.ops.aten"]
    notes = [f"# {name}: {place}" for name, place in zip(names, places) if name != place]
    return "\n".join([*head, "", "", *notes, code, ""])
