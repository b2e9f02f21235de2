"""FlashInfer-Bench: a data set of problems, read unchanged.

https://github.com/flashinfer-ai/flashinfer-bench::

    definitions/<op type>/<name>.json     axes, inputs, outputs, the reference as a string
    workloads/<op type>/<name>.jsonl      one workload per line, wrapped in an unfinished trace
    solutions/.../*.json                  candidates, in any place
    blob/...                              safetensors files, named relative to the data set

A problem is given by its definition. The data set is enough if it has one definition, or if a
solution names one. Differences from SOL-ExecBench: constraints between axes, one tolerance for all
problems, no gradients, outputs that are not zeroed, and C++ bound by tvm-ffi by default. Names and
defaults are those of ``flashinfer_bench/data``. Inputs are drawn as in ``bench/utils.py`` and
outputs compared as in ``bench/evaluators``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import torch
from pydantic import Field, model_validator

from solkit.core import Tolerance
from solkit.core.syntax import is_given_outputs
from solkit.errors import KernelFileError
from solkit.kernelfiles._problem_folder import ProblemFiles, ProblemFolderKernel, outputs_that_agree
from solkit.kernelfiles._records import (
    ConstAxis,
    Definition,
    ForeignLanguage,
    Name,
    Record,
    SolutionRecord,
    VarAxis,
    WorkloadRecord,
    parse_lines,
    read_json,
    split_entry,
)
from solkit.kernelfiles._solution import BuildFlags, Solution, is_python_file, of_python_file

_TOLERANCE = Tolerance(rtol=1e-2, atol=1e-2)
"""bench/config.py, ResolvedEvalConfig."""

_MATCHED = {"moe": 0.95}
"""By op type, the share of elements that must be close if not all: bench/eval_config.yaml."""

_NUCLEUS_SLACK = 5e-2
"""Share beyond top-p that a sample may reach: bench/evaluators/sampling.py."""

_LISTED = 8

# ------------------------------------------------------------------------------------ records


class _Definition(Definition):
    op_type: Name
    axes: Mapping[Name, Annotated[Union[ConstAxis, VarAxis], Field(discriminator="type")]]

    @model_validator(mode="before")
    @classmethod
    def _renames_type(cls, members: Any) -> Any:
        """Return the first definitions of FlashInfer-Trace said ``type``."""
        is_early = isinstance(members, dict) and "op_type" not in members and "type" in members
        return {**members, "op_type": members["type"]} if is_early else members


class _Trace(Record):
    """A workload trace: a trace that lacks its solution and evaluation."""

    definition: Name
    workload: WorkloadRecord


class _Spec(Record):
    language: Literal["python", "triton", "cpp", "cuda", ForeignLanguage]
    entry_point: Name
    destination_passing_style: bool | None = None
    binding: Literal["tvm-ffi", "torch"] | None = None


class _Solution(SolutionRecord):
    spec: _Spec


# ------------------------------------------------------------------------------------ reading


def recognises(path: Path) -> bool:
    """Tell whether the path is a data set of this form, or a definition in one."""
    return (path / "definitions").is_dir() or (
        path.suffix == ".json" and "definitions" in path.absolute().parent.parts
    )


def load_definition(path: str, solution: str | None) -> FlashInferBenchKernel:
    """Read a problem.

    Args:
        path: a definition, or the data set's folder.
        solution: the candidate: a solution's JSON, or a Python file with ``run``.

    Raises:
        KernelFileError: a file is missing or invalid, or `path` holds several definitions and
            nothing names one.
    """
    record = None
    if solution is not None and not is_python_file(solution):
        record = read_json(_Solution, solution)
    file = _definition_file(Path(path), record.definition if record else None)
    definition = read_json(_Definition, str(file))
    if record is not None and record.definition != definition.name:
        raise KernelFileError(
            f"is a solution for {record.definition!r}, not for {definition.name!r}", str(solution)
        )
    root = _data_set_of(file)
    candidate = None
    if solution is not None:
        arguments = len(definition.inputs)
        candidate = (
            of_python_file(solution, arguments)
            if record is None
            else _solution_of_record(record, solution, definition)
        )
    return FlashInferBenchKernel(
        ProblemFiles(
            str(file), definition, _read_workloads(root, definition.name), (root,), candidate
        )
    )


def _definition_file(path: Path, name: str | None) -> Path:
    if path.suffix == ".json":
        return path
    files = sorted((path / "definitions").rglob("*.json"))
    if name is not None:
        named = [file for file in files if file.stem == name or _definition_name(file) == name]
        if not named:
            raise KernelFileError(f"has no definition {name!r}", str(path))
        return named[0]
    if len(files) == 1:
        return files[0]
    shown = ", ".join(str(file.relative_to(path)) for file in files[:_LISTED])
    more = f" and {len(files) - _LISTED} more" if len(files) > _LISTED else ""
    raise KernelFileError(
        f"holds {len(files)} definitions: name one of them instead, or a solution: "
        f"{shown or 'none'}{more}",
        str(path),
    )


def _definition_name(file: Path) -> Any:
    """Return the name of a definition, or of the one that a solution is for."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return record.get("definition", record.get("name")) if isinstance(record, dict) else None


def _data_set_of(definition: Path) -> Path:
    """Return the data set that a definition belongs to."""
    folders = definition.absolute().parents
    return next(folder.parent for folder in folders if folder.name == "definitions")


def _read_workloads(root: Path, name: str) -> list[WorkloadRecord]:
    """Return a definition's workloads: a file with one a line, or files with one each."""
    lines = sorted((root / "workloads").rglob(f"{name}.jsonl"))
    traces = [trace for file in lines for trace in parse_lines(_Trace, str(file))]
    singles = sorted((root / "workloads").rglob(f"{name}_*.json"))
    traces += [read_json(_Trace, str(file)) for file in singles]
    return [trace.workload for trace in traces if trace.definition == name]


def data_set_of_solution(path: str) -> str:
    """Return the data set, or the problem folder, above a solution that has its definition.

    Raises:
        KernelFileError: there is none; names the definition.
    """
    name = _definition_name(Path(path))
    for folder in Path(path).absolute().parents:
        files = [*(folder / "definitions").rglob("*.json"), *folder.glob("definition.json")]
        if any(file.stem == name or _definition_name(file) == name for file in files):
            return str(folder)
    raise KernelFileError(
        f"is a solution for {name!r}, which lies in no folder above: give its problem first, and "
        "this file with --solution",
        path,
    )


def is_solution(path: str) -> bool:
    """Tell whether a file is a solution, which names its definition."""
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and {"definition", "sources"} <= record.keys()


def _solution_of_record(record: _Solution, path: str, definition: Definition) -> Solution:
    sources, spec = record.texts(path), record.spec
    file, symbol = split_entry(spec.entry_point, sources, path)
    stated, sizes = (
        spec.destination_passing_style,
        (len(definition.inputs), len(definition.outputs)),
    )
    is_compiled = spec.language in ("cpp", "cuda")
    libraries = ("-lcuda", "-lcublas") if any(name.endswith(".cu") for name in sources) else ()
    return Solution(
        path=path,
        entry_file=file,
        symbol=symbol,
        sources=sources,
        builder=(spec.binding or "tvm-ffi") if is_compiled else "python",
        destination_passing=is_given_outputs(stated, sources[file], symbol, *sizes),
        flags=BuildFlags(ldflags=libraries if spec.binding != "torch" else ()),
    )


# --------------------------------------------------------------------------------- the kernel


class FlashInferBenchKernel(ProblemFolderKernel):
    """A problem of FlashInfer-Bench, and its solution if given."""

    format = "flashinfer-bench"

    def _reference(self, device: str) -> Callable[..., list[torch.Tensor]]:
        return torch.no_grad()(super()._reference(device))

    def _tolerance(self, record: WorkloadRecord) -> Tolerance:
        del record
        return replace(_TOLERANCE, matched=self._matched)

    def _check(
        self, record: WorkloadRecord, inputs: Mapping[str, Any]
    ) -> Callable[[Any, Any], None]:
        if not (self._is_sampled and "probs" in inputs):
            return super()._check(record, inputs)
        return lambda got, want: _check_samples(outputs_that_agree(got, want)[0][0], inputs)

    def _compare(
        self, name: str, got: torch.Tensor, want: torch.Tensor, record: WorkloadRecord
    ) -> None:
        del record
        _check_output(name, got, want, self._matched)

    @property
    def _matched(self) -> float:
        """Share of an output's elements that must be close."""
        return _MATCHED.get(self._definition.op_type or "", 1.0)


def _check_output(name: str, got: torch.Tensor, want: torch.Tensor, share: float) -> None:
    """``compute_error_stats``: an element is wrong if it is off absolutely and relatively."""
    assert bool(got.isfinite().all()), f"{name} has infinities or NaN"
    if not want.numel():
        return
    error = (got - want).abs()
    close = (error <= _TOLERANCE.atol) | (error <= _TOLERANCE.rtol * (want.abs() + 1e-8))
    matching = int(close.sum()) / close.numel()
    assert matching >= share, (
        f"{100 * matching:.4g} % of {name} is within {_TOLERANCE.atol:g} or {_TOLERANCE.rtol:g} "
        f"relative, of which {100 * share:g} % must be; the largest error is "
        f"{float(error.max()):.4g}"
    )


def _check_samples(samples: torch.Tensor, inputs: Mapping[str, Any]) -> None:
    """Check that each random sample is among the top k and top p, not how frequent it is."""
    probs = inputs["probs"].reshape(-1, inputs["probs"].shape[-1])
    chosen = samples.reshape(-1, 1).to(torch.int64)
    vocabulary = probs.shape[-1]
    inside = (chosen >= 0) & (chosen < vocabulary)
    assert bool(inside.all()), f"samples lie outside of 0 to {vocabulary - 1}"
    likelier = probs > probs.gather(-1, chosen)
    if "top_k" in inputs:
        ranked = likelier.sum(-1) < inputs["top_k"]
        assert bool((ranked | (inputs["top_k"] <= 0)).all()), "samples lie outside of the top k"
    if "top_p" in inputs:
        mass = (probs * likelier).sum(-1)
        assert bool((mass < inputs["top_p"] + _NUCLEUS_SLACK).all()), "samples lie outside top p"
