"""NVIDIA's SOL-ExecBench: one folder per problem, read unchanged.

https://github.com/NVIDIA/SOL-ExecBench::

    definition.json     axes, inputs, outputs, the reference as a string
    workload.jsonl      one workload per line: sizes, the origin of each input, tolerance
    solution.json       a candidate; any name, given separately

Differences from FlashInfer-Bench: axes by expression, inputs that a function in the reference's
text makes, inputs whose distribution follows from their name, one tolerance per workload, outputs
that are zeroed before they are written, and C++ bound by PyTorch only. Names and defaults are those
of ``src/sol_execbench/core/data``. Inputs are drawn as in ``core/bench/io.py`` and outputs compared
as in ``core/bench/correctness.py``.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import torch
from pydantic import AliasChoices, Field, model_validator

from solkit.core import Tolerance
from solkit.core.syntax import is_given_outputs
from solkit.errors import KernelFileError
from solkit.kernelfiles._drawing import to_torch_dtype
from solkit.kernelfiles._problem_folder import ProblemFiles, ProblemFolderKernel
from solkit.kernelfiles._records import (
    ConstAxis,
    Definition,
    ExprAxis,
    ForeignLanguage,
    Name,
    Record,
    SolutionRecord,
    TensorSpec,
    VarAxis,
    WorkloadRecord,
    parse_lines,
    read_json,
    split_entry,
)
from solkit.kernelfiles._solution import BuildFlags, Solution, is_python_file, of_python_file
from solkit.kernelfiles._source import blaming_user_code

_DEFINITION, _WORKLOADS = "definition.json", "workload.jsonl"
_BLOBS = "FLASHINFER_TRACE_DIR"
"""The environment variable that names a further folder of safetensors files."""

# ------------------------------------------------------------------------------------ records

_Axis = Annotated[Union[ConstAxis, VarAxis, ExprAxis], Field(discriminator="type")]


class _Definition(Definition):
    axes: Mapping[Name, _Axis]
    custom_inputs_entrypoint: str | None = None


class _Tolerance(Record):
    max_atol: float = 1e-2
    max_rtol: float = 1e-2
    # some of the benchmark's own workloads say `required_match_ratio`
    required_matched_ratio: float = Field(
        default=0.99,
        validation_alias=AliasChoices("required_matched_ratio", "required_match_ratio"),
    )
    max_error_cap: float | None = None
    allow_negative_inf: bool = False


class _Workload(WorkloadRecord):
    tolerance: _Tolerance = _Tolerance()


_PythonLanguage = Literal["pytorch", "triton", "tlx", "cudnn_frontend", ForeignLanguage]
_CompiledLanguage = Literal["cutlass", "cudnn", "cublas", "cuda_cpp"]
_COMPILED = frozenset(_CompiledLanguage.__args__)  # type: ignore[attr-defined]


class _CompileOptions(Record):
    cflags: tuple[str, ...] = ()
    cuda_cflags: tuple[str, ...] = ("-O3", "--use_fast_math")
    ld_flags: tuple[str, ...] = ("-lcuda",)


class _Spec(Record):
    languages: Annotated[tuple[Union[_PythonLanguage, _CompiledLanguage], ...], Field(min_length=1)]
    entry_point: Name
    destination_passing_style: bool | None = None
    compile_options: _CompileOptions | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_before_languages(cls, data: Any) -> Any:
        """Accept `language` instead of `languages`: some of the benchmark's own files have it."""
        if isinstance(data, dict) and "languages" not in data and "language" in data:
            language = data["language"]
            return {**data, "languages": ["pytorch" if language == "python" else language]}
        return data

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> _Spec:
        if 0 < len(_COMPILED.intersection(self.languages)) < len(set(self.languages)):
            raise ValueError(f"C++ and Python cannot be mixed: {', '.join(self.languages)}")
        return self


class _Solution(SolutionRecord):
    spec: _Spec


# ------------------------------------------------------------------------------------ reading


def recognises(path: Path) -> bool:
    """Tell whether the path is a problem folder of this form, or its definition."""
    return path.name == _DEFINITION or (path / _DEFINITION).is_file()


def load_problem_folder(path: str, solution: str | None) -> SolExecBenchKernel:
    """Read a problem folder.

    Args:
        path: the folder, or the definition in it.
        solution: the candidate: a solution's JSON, or a Python file with ``run``.

    Raises:
        KernelFileError: a file is missing or invalid.
    """
    file = Path(path) if Path(path).name == _DEFINITION else Path(path, _DEFINITION)
    definition = read_json(_Definition, str(file))
    workloads = parse_lines(_Workload, str(file.with_name(_WORKLOADS)))
    blobs = os.environ.get(_BLOBS)
    return SolExecBenchKernel(
        ProblemFiles(
            path=str(file),
            definition=definition,
            workloads=workloads,
            blob_roots=(file.parent, *([Path(blobs)] if blobs else [])),
            solution=None if solution is None else _read_solution(solution, definition),
        )
    )


def _read_solution(path: str, definition: Definition) -> Solution:
    if is_python_file(path):
        return of_python_file(path, len(definition.inputs))
    record = read_json(_Solution, path)
    if record.definition != definition.name:
        raise KernelFileError(
            f"is a solution for {record.definition!r}, not for {definition.name!r}", path
        )
    sources, spec = record.texts(path), record.spec
    file, symbol = split_entry(spec.entry_point, sources, path)
    stated, sizes = (
        spec.destination_passing_style,
        (len(definition.inputs), len(definition.outputs)),
    )
    return Solution(
        path=path,
        entry_file=file,
        symbol=symbol,
        sources=sources,
        builder="torch" if _COMPILED.intersection(spec.languages) else "python",
        destination_passing=is_given_outputs(stated, sources[file], symbol, *sizes),
        flags=_compiler_flags(spec.compile_options),
    )


def _compiler_flags(options: _CompileOptions | None) -> BuildFlags:
    """PyTorch's own flags by default; CUTLASS is expected where the benchmark's image has it."""
    cutlass = os.environ.get("CUTLASS_DIR", "/usr/local/cutlass")
    include_paths = (f"{cutlass}/include", f"{cutlass}/tools/util/include")
    if options is None:
        return BuildFlags(include_paths=include_paths)
    return BuildFlags(options.cflags, options.cuda_cflags, options.ld_flags, include_paths)


# --------------------------------------------------------------------------------- the kernel


class SolExecBenchKernel(ProblemFolderKernel):
    """A problem of SOL-ExecBench, and its solution if given."""

    format = "sol-execbench"

    def _drawn(self, name: str, shape: tuple[int, ...], device: str) -> torch.Tensor:
        drawn = _draw_by_name(name, shape, self._definition.inputs[name], device)
        return super()._drawn(name, shape, device) if drawn is None else drawn

    def _custom(self, record: WorkloadRecord, axes: Mapping[str, int], device: str) -> Any:
        assert isinstance(self._definition, _Definition)
        name = self._definition.custom_inputs_entrypoint
        if name is None or not any(i.type == "custom" for i in record.inputs.values()):
            return {}
        make = getattr(self._module, name, None)
        if not callable(make):
            raise KernelFileError(
                f"custom_inputs_entrypoint {name!r} is not a function of the reference",
                self._files.path,
            )
        scalars = {n: i.value for n, i in record.inputs.items() if i.type == "scalar"}
        with blaming_user_code(self._text_name, f"calling {name}()"):
            return make({**axes, **scalars}, torch.device(device))

    def _empty(self, shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    def _tolerance(self, record: WorkloadRecord) -> Tolerance:
        allowed = _tolerance_of(record)
        return Tolerance(allowed.max_rtol, allowed.max_atol, allowed.required_matched_ratio)

    def _compare(
        self, name: str, got: torch.Tensor, want: torch.Tensor, record: WorkloadRecord
    ) -> None:
        _check_output(name, got, want, _tolerance_of(record))


def _tolerance_of(record: WorkloadRecord) -> _Tolerance:
    return record.tolerance if isinstance(record, _Workload) else _Tolerance()


def _check_output(name: str, got: torch.Tensor, want: torch.Tensor, allowed: _Tolerance) -> None:
    """``compute_error_stats``: only equal -inf may be infinite, and most values must be close."""
    if allowed.allow_negative_inf:
        finite = ~((got == -math.inf) & (want == -math.inf))
        got, want = got[finite], want[finite]
    assert bool(got.isfinite().all()), f"{name} has infinities or NaN"
    assert bool(want.isfinite().all()), f"the reference's {name} has infinities or NaN"
    assert bool(got.any()) or not bool(want.any()), f"{name} is all zero"
    if not want.numel():
        return
    error = (got - want).abs()
    close = error <= allowed.max_atol + allowed.max_rtol * want.abs()
    share = int(close.sum()) / close.numel()
    assert share >= allowed.required_matched_ratio, (
        f"{100 * share:.4g} % of {name} is within {allowed.max_atol:g} + "
        f"{allowed.max_rtol:g}*|want|, of which {100 * allowed.required_matched_ratio:g} % must be"
    )
    worst = float(error.max())
    cap = allowed.max_error_cap
    assert cap is None or worst <= cap, f"{name} is off by {worst:.4g}, over the cap of {cap:g}"


# --------------------------------------------------------------------------- inputs by name

_CAUSAL = ("attention_mask", "causal_mask")
_BINARY = ("x_mask", "text_mask", "aspect_ratio_mask", "drop_mask", "attention_mask")
_BINARY_WORDS = ("binary", "{0, 1}", "0 or 1", "1.0 for valid", "0.0 for masked")
_ANGLE = re.compile(r"^(cos|cos_cached|rope_cos|sin|sin_cached|rope_sin)$")
_POSITIVE = re.compile(r"(^|_)(rstd|std|variance|var)\d*$")
_WEIGHT = re.compile(r"(^weight|_weights?|_projs?|_weight_matrix)\d*$")
_SOFTMAXED = ("attn_weights", "attention_weights", "routing_weights")
_DECAYS: dict[str, tuple[float, float]] = {
    "A": (-1.0, -0.001),
    "A_log": (-5.0, -1.0),
    "A_cumsum": (-0.1, 0.0),
    "g": (-5.0, 0.0),
}
"""Uniform ranges; ``A_cumsum`` is then summed up."""


def _draw_by_name(
    name: str, shape: tuple[int, ...], spec: TensorSpec, device: str
) -> torch.Tensor | None:
    """Return the benchmark's values for a floating input of that name, if they are special."""
    words, dtype = (spec.description or "").lower(), to_torch_dtype(spec.dtype)
    if spec.dtype not in ("float64", "float32", "float16", "bfloat16"):
        return None
    if re.search(r"norm\d*_weight$", name):
        return torch.ones(shape, dtype=dtype, device=device)
    if re.search(r"norm\d*_bias$", name):
        return torch.zeros(shape, dtype=dtype, device=device)
    is_causal = name in _CAUSAL or ("attention mask" in words and "causal" in words)
    if is_causal and len(shape) >= 2 and shape[-1] == shape[-2]:
        lowest = torch.full(shape, torch.finfo(dtype).min, dtype=dtype, device=device)
        return torch.triu(lowest, diagonal=1)
    if name in _BINARY or (name.endswith("_mask") and any(w in words for w in _BINARY_WORDS)):
        return torch.randint(0, 2, shape, device=device).to(dtype)
    normal = torch.randn(shape, device=device)
    if _ANGLE.match(name):
        angle = normal.clamp(-math.pi, math.pi)
        return (torch.cos(angle) if "cos" in name else torch.sin(angle)).to(dtype)
    if _POSITIVE.search(name):
        return (normal.abs() + 0.1).to(dtype)
    if name in _DECAYS:
        uniform = torch.empty(shape, device=device).uniform_(*_DECAYS[name])
        return (uniform.cumsum(-1) if name == "A_cumsum" else uniform).to(dtype)
    if name in _SOFTMAXED or ("softmax" in words and "output" in words):
        return torch.softmax(normal, dim=-1).to(dtype)
    if _WEIGHT.search(name) and len(shape) >= 2:
        return (normal / math.sqrt(shape[-1])).to(dtype)
    return None
